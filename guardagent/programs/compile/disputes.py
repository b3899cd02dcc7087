"""Disputes: the model's objections to a label or a sentence of the request, for the user to decide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from guardagent.errors import AnswerError, InputError, name_hint
from guardagent.programs.compile.clauses import Clause
from guardagent.programs.compile.examinations_base import Failure
from guardagent.programs.compile.examples import Example
from guardagent.programs.generation.answers import objects, prose

KEY = "disputed"

_PLACE = re.compile(r"\s*(example|run|clause)\s+(\d+)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Dispute:
    """One dispute.

    Attributes:
        id: the value for `--accept-dispute`: the id of an example, or `clause-N`.
        about: the disputed label or sentence.
        why: the model's reason.
        test: the test that changed the example; empty for the example itself.
        clause: the number of the sentence; 0 for an example.
    """

    id: str
    about: str
    why: str
    test: str = ""
    clause: int = 0

    @property
    def remedy(self) -> str:
        """The options of the command for accepting the dispute."""
        accept = f"'--accept-dispute {self.id}'"
        if self.clause:
            return f"{accept} excludes the sentence"
        other = f"; '--without {self.test}' excludes the test that changed it" if self.test else ""
        return f"{accept} sets the example aside{other}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_disputes(
    answer: str, examples: Sequence[Example], failures: Sequence[Failure], clauses: Sequence[Clause]
) -> list[Dispute]:
    """Reads the disputes in an answer to a prompt with these examples, failures and clauses.

    Raises:
        AnswerError: a dispute refers to something that was not shown, or has no reason.
    """
    found = []
    for value in objects(prose(answer)):
        if KEY in value:
            match, why = _PLACE.fullmatch(str(value[KEY])), value.get("why")
            if match is None or not isinstance(why, str) or not why.strip():
                raise AnswerError(
                    f'invalid dispute; expected {{"{KEY}": "example 2", "why": the reason}}, or a run or clause instead'
                )
            found.append(_dispute(match[1].lower(), int(match[2]), why.strip(), examples, failures, clauses))
    return found


def resolve_disputes(
    ids: Iterable[str], examples: Sequence[Example], clauses: Sequence[Clause]
) -> tuple[list[Example], list[Example], frozenset[int]]:
    """Returns (remaining examples, examples set aside, excluded sentences) for the ids of accepted disputes.

    Raises:
        InputError: an id belongs to no example and no sentence.
    """
    names, numbers = {one.id for one in examples}, {f"clause-{one.number}": one.number for one in clauses}
    wanted = set(ids)
    for name in sorted(wanted - names - set(numbers)):
        raise InputError(
            f"there is no example {name!r} to set aside{name_hint(name, [*names, *numbers])}; expected the id of a "
            "dispute in the report: the id of an example, or 'clause-N'"
        )
    left_out = frozenset(numbers[name] for name in wanted - names)
    kept, aside = ([one for one in examples if (one.id in wanted) is there] for there in (False, True))
    return kept, aside, left_out


def _dispute(
    kind: str,
    number: int,
    why: str,
    examples: Sequence[Example],
    failures: Sequence[Failure],
    clauses: Sequence[Clause],
) -> Dispute:
    shown: Sequence[Any] = {"example": examples, "run": failures, "clause": clauses}[kind]
    if not 1 <= number <= len(shown):
        raise AnswerError(f"there is no {kind} {number} to dispute; expected a number from 1 to {len(shown)}")
    match shown[number - 1]:
        case Example() as example:
            return Dispute(example.id, f"label {example.label}", why)
        case Failure() as failure:
            about = f"{failure.expected} ({failure.note})" if failure.note else failure.expected
            return Dispute(failure.example.id, about, why, failure.test if failure.note else "")
        case clause:
            return Dispute(f"clause-{number}", clause.text, why, clause=number)
