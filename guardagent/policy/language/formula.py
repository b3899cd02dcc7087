"""Propositional temporal formulas over finite traces: LTLf with past operators, in negation normal form.

A *literal* is an atom or its negation. The two are not complementary when a step failed or is in flight: an atom needs
a successful step, its negation needs that no such step ran at all. So a step that helps to satisfy a rule must have
succeeded, and a step that helps to violate it counts from its start.

Build formulas with the functions below: they simplify and normalise. Equal formulas are equal values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Literal:
    """An atom, or its negation with `positive=False`."""

    atom: str
    positive: bool = True


@dataclass(frozen=True, slots=True)
class TruthConstant:
    value: bool


@dataclass(frozen=True, slots=True)
class Conjunction:
    parts: frozenset[Formula]


@dataclass(frozen=True, slots=True)
class Disjunction:
    parts: frozenset[Formula]


@dataclass(frozen=True, slots=True)
class Next:
    """`body` holds at the next step. `strong`: a next step must exist; otherwise it also holds at the last step."""

    body: Formula
    strong: bool = True


@dataclass(frozen=True, slots=True)
class Until:
    """`right` holds eventually, and `left` at every step before."""

    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class Release:
    """`right` holds up to and including the first step with `left`, or to the end."""

    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class Within:
    """`body` holds at this step or at one of the `steps` after it."""

    steps: int
    body: Formula


@dataclass(frozen=True, slots=True)
class Previous:
    """`body` holds at the previous step. `strong`: one must exist; otherwise it also holds at the first step."""

    body: Formula
    strong: bool = True


@dataclass(frozen=True, slots=True)
class Since:
    """`right` held at some step, and `left` at every step after it, up to and including this one."""

    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class TriggerFormula:
    """`right` holds at every step from the last one with `left`, or from the beginning, up to this one."""

    left: Formula
    right: Formula


Formula = (
    Literal
    | TruthConstant
    | Conjunction
    | Disjunction
    | Next
    | Until
    | Release
    | Within
    | Previous
    | Since
    | TriggerFormula
)

TRUE = TruthConstant(value=True)
FALSE = TruthConstant(value=False)


def atom(name: str) -> Formula:
    return Literal(name)


def all_of(parts: Iterable[Formula]) -> Formula:
    """The conjunction of formulas."""
    flat = _flat(parts, Conjunction)
    if FALSE in flat:
        return FALSE
    flat.discard(TRUE)
    kept = frozenset(part for part in flat if not (isinstance(part, Disjunction) and part.parts & flat))
    return next(iter(kept)) if len(kept) == 1 else Conjunction(kept) if kept else TRUE


def any_of(parts: Iterable[Formula]) -> Formula:
    """The disjunction of formulas."""
    flat = _flat(parts, Disjunction)
    if TRUE in flat:
        return TRUE
    flat.discard(FALSE)
    kept = frozenset(part for part in flat if not (isinstance(part, Conjunction) and part.parts & flat))
    return next(iter(kept)) if len(kept) == 1 else Disjunction(kept) if kept else FALSE


def negation(formula: Formula) -> Formula:  # noqa: C901 - a case for each kind
    """The negation, pushed down to the literals."""
    match formula:
        case TruthConstant(value):
            return TruthConstant(not value)
        case Literal(name, positive):
            return Literal(name, not positive)
        case Conjunction(parts):
            return any_of(map(negation, parts))
        case Disjunction(parts):
            return all_of(map(negation, parts))
        case Next(body, strong):
            return Next(negation(body), not strong)
        case Previous(body, strong):
            return Previous(negation(body), not strong)
        case Until(left, right):
            return Release(negation(left), negation(right))
        case Release(left, right):
            return Until(negation(left), negation(right))
        case Since(left, right):
            return TriggerFormula(negation(left), negation(right))
        case TriggerFormula(left, right):
            return Since(negation(left), negation(right))
        case Within(steps, body):
            return _throughout(steps, negation(body))
    raise AssertionError(formula)


def implies(first: Formula, second: Formula) -> Formula:
    return any_of([negation(first), second])


def globally(body: Formula) -> Formula:
    return Release(FALSE, body)


def finally_(body: Formula) -> Formula:
    return Until(TRUE, body)


def weak_until(left: Formula, right: Formula) -> Formula:
    return Release(right, any_of([left, right]))


def once(body: Formula) -> Formula:
    return Since(TRUE, body)


def historically(body: Formula) -> Formula:
    return TriggerFormula(FALSE, body)


def _throughout(steps: int, body: Formula) -> Formula:
    """`body` at this step and at each of the next `steps` that exist."""
    result = body
    for _ in range(steps):
        result = all_of([body, Next(result, strong=False)])
    return result


def _flat(parts: Iterable[Formula], kind: type[Conjunction | Disjunction]) -> set[Formula]:
    flat: set[Formula] = set()
    for part in parts:
        flat |= part.parts if isinstance(part, kind) else {part}
    return flat


def subformulas(formula: Formula) -> list[Formula]:
    """The distinct subformulas, children before parents."""
    found: dict[Formula, None] = {}
    stack: list[tuple[Formula, bool]] = [(formula, False)]
    while stack:
        current, opened = stack.pop()
        if current in found:
            continue
        if opened:
            found[current] = None
        else:
            stack.append((current, True))
            stack += [(child, False) for child in children(current)]
    return list(found)


def children(formula: Formula) -> list[Formula]:
    match formula:
        case Conjunction(parts) | Disjunction(parts):
            return list(parts)
        case Next(body) | Previous(body) | Within(_, body):
            return [body]
        case Until(left, right) | Release(left, right) | Since(left, right) | TriggerFormula(left, right):
            return [left, right]
    return []


def atoms(formula: Formula) -> list[str]:
    """The atoms of a formula, sorted."""
    return sorted({part.atom for part in subformulas(formula) if isinstance(part, Literal)})
