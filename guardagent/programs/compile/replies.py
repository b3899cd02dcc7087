"""Questions of a compilation to the user: proposals of the model, its disputes, and disagreements of candidates.

A proposal is a function that the model misses in the toolbox and writes with tests, for the user to accept. Compiling
never runs it: it is parsed, and written to a folder that no toolbox is loaded from. A dispute is the model's objection
to a label or a sentence of the request. A disagreement is an input on which passing programs disagree, a case that the
examples leave open.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from guardagent._support import syntax
from guardagent._support.files import read_text, save_text
from guardagent.errors import AnswerError, InputError, name_hint
from guardagent.programs.answers import objects, prose, python_blocks
from guardagent.programs.compile.examinations import variants_of
from guardagent.programs.compile.examples import CompileTarget, Example
from guardagent.programs.compile.request import Clause
from guardagent.programs.compile.suite import Failure, Suite, near_values
from guardagent.programs.compile.trial import RunOutcome, Trial

PROPOSALS_FOLDER = "proposed"
PROPOSAL_KEY = "missing_function"
DISPUTE_KEY = "disputed"
MOST_DISAGREEMENTS = 50

_PROPOSAL_HEAD = """\
# Proposed by a model and never run. Reason: {why}
# Review it, then: guardagent toolbox accept {name}.py --toolbox FOLDER
"""
_DISPUTED_PLACE = re.compile(r"\s*(example|run|clause)\s+(\d+)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FunctionProposal:
    """A function with its tests, and the model's reason for it."""

    name: str
    why: str
    source: str
    tests: str

    def write(self, beside: Path) -> list[Path]:
        """Writes the function and its tests to the folder of proposals beside a file, and returns their paths.

        Never overwrites a file with other content, since the user may have edited it.

        Raises:
            InputError: the folder cannot be created or written.
        """
        folder = _make_folder(beside.absolute().parent / PROPOSALS_FOLDER)
        head = _PROPOSAL_HEAD.format(why=" ".join(self.why.split()), name=self.name)
        tests = f"from {self.name} import {self.name}\n\n\n{self.tests.lstrip()}"
        texts = {f"{self.name}.py": head + self.source.lstrip(), f"test_{self.name}.py": tests}
        places = chain([folder], (folder / str(number) for number in count(2)))
        at = _make_folder(next(place for place in places if _is_free(place, texts)))
        for name, text in texts.items():
            save_text(at / name, text)
        return [at / name for name in texts]


def read_proposal(answer: str, target: CompileTarget) -> FunctionProposal | None:
    """Reads the proposal in an answer; None without one.

    Raises:
        AnswerError: the proposal is incomplete or invalid.
    """
    values = [value for value in objects(answer) if PROPOSAL_KEY in value]
    if not values:
        return None
    name, why = values[0].get(PROPOSAL_KEY), values[0].get("why")
    if len(values) > 1 or not isinstance(name, str) or not isinstance(why, str) or not name.isidentifier():
        raise AnswerError(f'invalid proposal; expected one JSON object {{"{PROPOSAL_KEY}": a name, "why": the reason}}')
    if name in target.toolbox or name.startswith("_"):
        raise AnswerError(
            f"the function {name!r} is in the toolbox or private; expected a public name that the toolbox lacks"
        )
    blocks = [block for block in python_blocks(answer) if not any(PROPOSAL_KEY in value for value in objects(block))]
    sources = [block for block in blocks if name in _functions_in(block)]
    tests = [block for block in blocks if any(test.startswith("test_") for test in _functions_in(block))]
    if len(sources) != 1 or len(tests) != 1 or sources == tests:
        raise AnswerError(f"expected two ```python blocks: one that defines {name!r}, and one with test_… functions")
    if problem := _source_problem(sources[0], name) or _unprintable_problem(sources[0] + tests[0] + why):
        raise AnswerError(problem)
    return FunctionProposal(name, why, sources[0], tests[0])


def _source_problem(source: str, name: str) -> str:
    """Returns the problem that keeps a source from being a toolbox file; empty without one."""
    functions = _functions_in(source)
    others = [other for other in functions if other != name and not other.startswith("_")]
    if others:
        return f"the block also defines {others[0]!r}; expected {name!r} alone, with private helpers (_name)"
    return (
        ""
        if ast.get_docstring(functions[name])
        else f"{name!r} has no docstring; expected one with its parameters and result"
    )


def _unprintable_problem(text: str) -> str:
    """Returns the problem of an unprintable character, which could hide code from a reviewer."""
    odd = next((character for character in text if not character.isprintable() and character not in "\n\t"), None)
    return f"the proposal contains the unprintable character {odd!a}; expected printable text" if odd else ""


def _functions_in(source: str) -> Mapping[str, ast.FunctionDef]:
    try:
        tree = syntax.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise AnswerError(f"a block of the proposal is not valid Python: {error}") from None
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _is_free(folder: Path, texts: Mapping[str, str]) -> bool:
    """Whether a folder has none of these files, or has them with the same content."""
    files = {folder / name: text for name, text in texts.items()}
    return all(not file.exists() or read_text(file) == text for file, text in files.items())


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be created: {error.strerror}; expected a writable parent folder") from None
    return folder


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


def read_disputes(
    answer: str, examples: Sequence[Example], failures: Sequence[Failure], clauses: Sequence[Clause]
) -> list[Dispute]:
    """Reads the disputes in an answer to a prompt with these examples, failures and clauses.

    Raises:
        AnswerError: a dispute refers to something that was not shown, or has no reason.
    """
    disputes = []
    for value in objects(prose(answer)):
        if DISPUTE_KEY in value:
            match, why = _DISPUTED_PLACE.fullmatch(str(value[DISPUTE_KEY])), value.get("why")
            if match is None or not isinstance(why, str) or not why.strip():
                raise AnswerError(
                    f'invalid dispute; expected {{"{DISPUTE_KEY}": "example 2", "why": the reason}}, '
                    "or a run or clause instead"
                )
            disputes.append(_dispute(match[1].lower(), int(match[2]), why.strip(), examples, failures, clauses))
    return disputes


def resolve_disputes(
    ids: Iterable[str], examples: Sequence[Example], clauses: Sequence[Clause]
) -> tuple[list[Example], list[Example], frozenset[int]]:
    """Returns (remaining examples, examples set aside, excluded sentences) for the ids of accepted disputes.

    Raises:
        InputError: an id belongs to no example and no sentence.
    """
    names, numbers = (
        {example.id for example in examples},
        {f"clause-{clause.number}": clause.number for clause in clauses},
    )
    wanted = set(ids)
    for name in sorted(wanted - names - set(numbers)):
        raise InputError(
            f"there is no example {name!r} to set aside{name_hint(name, [*names, *numbers])}; expected the id of a "
            "dispute in the report: the id of an example, or 'clause-N'"
        )
    left_out = frozenset(numbers[name] for name in wanted - names)
    kept, aside = ([example for example in examples if (example.id in wanted) is there] for there in (False, True))
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


@dataclass(frozen=True, slots=True)
class CandidateDisagreement:
    """One such input: the change to the example, and the outcome of each candidate."""

    example: Example
    note: str
    outcomes: Mapping[int, RunOutcome]

    def to_dict(self) -> dict[str, Any]:
        return {
            "example": self.example.id,
            "note": self.note,
            "given": {str(number): str(outcome) for number, outcome in self.outcomes.items()},
            **self.example.inputs,
        }


def disagreements(trials: Mapping[int, Trial], suite: Suite) -> list[CandidateDisagreement]:
    """Returns up to `MOST_DISAGREEMENTS` inputs on which the labels of the candidates differ."""
    disputed: list[CandidateDisagreement] = []
    for example, note in _unlabelled_runs(suite) if len(trials) > 1 else ():
        outcomes = {number: trial.outcome(example) for number, trial in trials.items()}
        if len({outcome.label for outcome in outcomes.values()}) > 1:
            disputed.append(CandidateDisagreement(example, note, outcomes))
        if len(disputed) == MOST_DISAGREEMENTS:
            break
    return disputed


def most_cautious(numbers: Sequence[int], disputed: Sequence[CandidateDisagreement]) -> int:
    """Returns the number of the candidate that denies most of these inputs; the first of several."""
    return max(numbers, key=lambda number: (sum(case.outcomes[number].label for case in disputed), -number))


def _unlabelled_runs(suite: Suite) -> Iterator[tuple[Example, str]]:
    for example in suite.examples:
        yield example, ""
        yield from example.with_other_values(lambda _origin, _name, value: near_values(value, ()))
        for name, variant in variants_of(example, suite):
            yield variant.example, f"{name}: {variant.note}"
