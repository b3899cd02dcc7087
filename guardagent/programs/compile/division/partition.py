"""Which sentences of a request are judged together: the model divides them, and the host checks the division."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guardagent.errors import AnswerError, InputError, ModelError, name_hint
from guardagent.models.prompts import ModelCall
from guardagent.programs.compile.clauses import Clause
from guardagent.programs.compile.context import CompileContext
from guardagent.programs.compile.target import CompileTarget
from guardagent.programs.generation.answers import objects

MODES = ("auto", "always", "never")

DIVIDE_ABOVE = 30
"""A request of more sentences than these is divided, where the mode is `auto`."""

_KEYS = ("parts", "context")


@dataclass(frozen=True, slots=True)
class RequestPart:
    """Sentences that one program judges."""

    clauses: tuple[Clause, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(clause.number for clause in self.clauses)

    @property
    def name(self) -> str:
        """As a person calls it."""
        return f"clause{'s' * (len(self.clauses) > 1)} {', '.join(map(str, self.numbers))}"


@dataclass(frozen=True, slots=True)
class Division:
    """A request in parts.

    Attributes:
        context: the sentences that set no rule of their own, such as definitions.
        undivided: why it was not divided though it should have been.
    """

    parts: tuple[RequestPart, ...] = ()
    context: tuple[Clause, ...] = ()
    undivided: str = ""


def division_of(target: CompileTarget, context: CompileContext, mode: str, rounds: int) -> Division:
    """The request in parts; without any where it stays whole.

    Args:
        target: the request and what belongs to it.
        context: the model that divides it.
        mode: one of MODES.
        rounds: how often a division that is none goes back to the model.

    Raises:
        InputError: there is no such mode.
        ModelError: the model did not answer; or it gave no division, and the mode is `always`.
    """
    if mode not in MODES:
        raise InputError(f"divide is {mode!r}; expected one of {', '.join(MODES)}{name_hint(mode, MODES)}")
    if mode == "never" or len(target.clauses) < 2 or (mode == "auto" and len(target.clauses) <= DIVIDE_ABOVE):
        return Division()
    problem = before = ""
    for _ in range(1 + rounds):
        try:
            division = read_division(_request_division(target, context, problem), target.clauses)
        except AnswerError as error:
            before, problem = problem, str(error)
            if problem == before:  # the next question would be the same
                break
            continue
        if len(division.parts) > 1:
            context.progress(f"the request is divided into {len(division.parts)} parts")
            return division
        return Division(undivided="the model holds that all its sentences belong together")
    if mode == "always":
        raise ModelError(f"the model gave no division of the request: {problem}")
    return Division(undivided=f"the model gave no division of it: {problem}")


def read_division(answer: str, clauses: Sequence[Clause]) -> Division:
    """The division in an answer: each sentence in exactly one part, or in the context.

    Raises:
        AnswerError: there is none, or a sentence has no place, or two.
    """
    found = [value for value in objects(answer) if "parts" in value]
    if len(found) != 1 or set(found[0]) - set(_KEYS):
        raise AnswerError('expected one JSON object with "parts" (lists of numbers) and "context" (a list of numbers)')
    parts, context = found[0]["parts"], found[0].get("context", [])
    if not isinstance(parts, list) or not parts or not all(map(_is_part, parts)) or not _are_numbers(context):
        raise AnswerError('"parts" is a list of lists of numbers, none of them empty, and "context" a list of numbers')
    by_number = {clause.number: clause for clause in clauses}
    places = Counter(number for numbers in (*parts, context) for number in numbers)
    _refuse_misplaced(places, by_number)
    made = [RequestPart(tuple(by_number[number] for number in sorted(numbers))) for numbers in parts]
    return Division(
        tuple(sorted(made, key=lambda part: part.numbers)), tuple(by_number[number] for number in sorted(context))
    )


def _refuse_misplaced(places: Mapping[int, int], known: Mapping[int, Clause]) -> None:
    wrong = [
        (sorted(set(places) - set(known)), "there is no sentence {}"),
        (sorted(number for number, count in places.items() if count > 1), "sentence {} stands in two places"),
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
