"""The partition of a request into parts: the model proposes it, and the host checks it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guardagent.errors import AnswerError, InputError, ModelError, name_hint
from guardagent.models.prompts import ModelCall
from guardagent.programs.answers import objects
from guardagent.programs.compile.clauses import Clause
from guardagent.programs.compile.context import CompileContext
from guardagent.programs.compile.target import CompileTarget

MODES = ("auto", "always", "never")

DIVIDE_ABOVE = 30
"""The mode `auto` divides requests with more sentences than this."""

_KEYS = ("parts", "context")


@dataclass(frozen=True, slots=True)
class RequestPart:
    """The sentences that one program judges."""

    clauses: tuple[Clause, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(clause.number for clause in self.clauses)

    @property
    def name(self) -> str:
        """The name for reports."""
        return f"clause{'s' * (len(self.clauses) > 1)} {', '.join(map(str, self.numbers))}"


@dataclass(frozen=True, slots=True)
class Division:
    """A request divided into parts.

    Attributes:
        context: the sentences that set no rule, such as definitions.
        undivided: why the request was not divided although the mode asked for it.
    """

    parts: tuple[RequestPart, ...] = ()
    context: tuple[Clause, ...] = ()
    undivided: str = ""


def division_of(target: CompileTarget, context: CompileContext, mode: str, rounds: int) -> Division:
    """Has the model divide a request; returns a division without parts for a request that stays whole.

    Args:
        target: the request with its specification and toolbox.
        context: the model that divides it.
        mode: one of MODES.
        rounds: how often an invalid division goes back to the model.

    Raises:
        InputError: the mode is unknown.
        ModelError: the model did not answer, or gave no valid division in mode `always`.
    """
    if mode not in MODES:
        raise InputError(f"'divide' is {mode!r}; expected one of {', '.join(map(repr, MODES))}{name_hint(mode, MODES)}")
    if mode == "never" or len(target.clauses) < 2 or (mode == "auto" and len(target.clauses) <= DIVIDE_ABOVE):
        return Division()
    problem = before = ""
    for _ in range(1 + rounds):
        try:
            division = read_division(_request_division(target, context, problem), target.clauses)
        except AnswerError as error:
            before, problem = problem, str(error)
            if problem == before:  # the next prompt would be the same
                break
            continue
        if len(division.parts) > 1:
            context.progress(f"the request is divided into {len(division.parts)} parts")
            return division
        return Division(undivided="the model put all its sentences into one part")
    if mode == "always":
        raise ModelError(
            f"the model gave no valid division of the request: {problem}; try again, or use the mode 'auto' or 'never'"
        )
    return Division(undivided=f"the model gave no valid division: {problem}")


def read_division(answer: str, clauses: Sequence[Clause]) -> Division:
    """Reads the division in an answer: each sentence in exactly one part, or in the context.

    Raises:
        AnswerError: the division is missing or invalid, or a sentence is missing or appears twice.
    """
    found = [value for value in objects(answer) if "parts" in value]
    if len(found) != 1 or set(found[0]) - set(_KEYS):
        raise AnswerError(
            "invalid division; expected a JSON object with 'parts' (lists of numbers) and 'context' (numbers)"
        )
    parts, context = found[0]["parts"], found[0].get("context", [])
    if not isinstance(parts, list) or not parts or not all(map(_is_part, parts)) or not _are_numbers(context):
        raise AnswerError(
            "invalid division; expected non-empty lists of numbers in 'parts', and a list of numbers in 'context'"
        )
    by_number = {clause.number: clause for clause in clauses}
    places = Counter(number for numbers in (*parts, context) for number in numbers)
    _refuse_misplaced(places, by_number)
    parts_found = [RequestPart(tuple(by_number[number] for number in sorted(numbers))) for numbers in parts]
    return Division(
        tuple(sorted(parts_found, key=lambda part: part.numbers)),
        tuple(by_number[number] for number in sorted(context)),
    )


def _refuse_misplaced(places: Mapping[int, int], known: Mapping[int, Clause]) -> None:
    wrong = [
        (sorted(set(places) - set(known)), "sentence {} does not exist"),
        (sorted(number for number, count in places.items() if count > 1), "sentence {} appears twice"),
        (sorted(set(known) - set(places)), "sentence {} is missing"),
    ]
    for numbers, message in wrong:
        if numbers:
            raise AnswerError(f"{message.format(numbers[0])}; expected each number from 1 to {len(known)} once")


def _is_part(value: Any) -> bool:
    return _are_numbers(value) and bool(value)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int for item in value)


def _request_division(target: CompileTarget, context: CompileContext, problem: str) -> str:
    request, specification = target.request, target.specification
    prompt = context.prompts.render(
        "compile_divide", {"problem": problem}, request=request, specification=specification, clauses=target.clauses
    )
    return context.ask(ModelCall(prompt, nonce=context.redaction.nonce))
