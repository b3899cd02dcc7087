"""Disputes: what a model holds to be wrong about an example's label or a sentence of the request. A person decides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from guardagent.errors import AnswerError, InputError, name_hint
from guardagent.programs.compile.clauses import Clause
from guardagent.programs.compile.examinations import Failure
from guardagent.programs.compile.examples import Example
from guardagent.programs.generation.answers import objects, prose

KEY = "disputed"

_PLACE = re.compile(r"\s*(example|run|clause)\s+(\d+)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Dispute:
    """One of them.

    Attributes:
        id: what `--accept-dispute` takes: the id of an example, or `clause-N`.
        about: the label, or the sentence.
        why: the model's reason.
        test: what made a changed run of the example; empty where it is the example itself.
        clause: the number of the sentence; 0 where it is an example.
    """

    id: str
    about: str
    why: str
    test: str = ""
    clause: int = 0

    @property
    def remedy(self) -> str:
        """What a person can do who agrees."""
        accept = f"--accept-dispute {self.id}"
        if self.clause:
            return f"{accept} leaves the sentence out"
        other = f"; --without {self.test} leaves out the test that changed it" if self.test else ""
        return f"{accept} sets the example aside{other}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_disputes(
    answer: str, examples: Sequence[Example], failures: Sequence[Failure], clauses: Sequence[Clause]
) -> list[Dispute]:
    """The disputes in an answer, for which the model saw these examples, failing runs and sentences.

    Raises:
        AnswerError: one names nothing that was shown, or gives no reason.
    """
    found = []
    for value in objects(prose(answer)):
        if KEY in value:
            match, why = _PLACE.fullmatch(str(value[KEY])), value.get("why")
            if match is None or not isinstance(why, str) or not why.strip():
                raise AnswerError(f'a dispute is {{"{KEY}": "example 2", "why": the reason}}; or a run, or a clause')
            found.append(_dispute(match[1].lower(), int(match[2]), why.strip(), examples, failures, clauses))
    return found


def resolve_disputes(
    ids: Iterable[str], examples: Sequence[Example], clauses: Sequence[Clause]
) -> tuple[list[Example], list[Example], frozenset[int]]:
    """(examples that stay, those that a person set aside, sentences that a person left out).

    Raises:
        InputError: an id is that of no example and no sentence.
    """
    names, numbers = {one.id for one in examples}, {f"clause-{one.number}": one.number for one in clauses}
    wanted = set(ids)
    for name in sorted(wanted - names - set(numbers)):
        raise InputError(
            f"there is no example {name!r} to set aside{name_hint(name, [*names, *numbers])}; expected the id of a "
            "dispute in the report: that of an example, or clause-N"
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
