"""Changes of propositional rules. Each variant is the kind of the change, and the changed formula."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from guardagent.policy.language import formula as f
from guardagent.policy.language.temporal import MAX_BOUND

ChangedFormulas = Iterator[tuple[str, f.Formula]]


def formula_variants(formula: f.Formula) -> ChangedFormulas:
    """Changes one place of a formula at a time."""
    yield from _formula_changes(formula)
    for child, rebuilt in _parts(formula):
        yield from ((kind, rebuilt(changed)) for kind, changed in formula_variants(child))


def _formula_changes(formula: f.Formula) -> ChangedFormulas:
    match formula:
        case f.Literal(atom, positive):
            yield "step negated", f.Literal(atom, not positive)
        case f.Conjunction(parts) | f.Disjunction(parts):
            join, other = (f.all_of, f.any_of) if isinstance(formula, f.Conjunction) else (f.any_of, f.all_of)
            for part in sorted(parts, key=repr):
                yield "condition dropped", join(parts - {part})
            yield ("or in place of and" if join is f.all_of else "and in place of or"), other(parts)
        case f.Within(steps, body):
            near = (one for one in (steps + 1, steps - 1) if 1 <= one <= MAX_BOUND)
            yield from (("limit moved", f.Within(one, body)) for one in near)
        case f.Release(f.TruthConstant(False), body):
            yield "once in place of always", f.finally_(body)
        case f.Until(f.TruthConstant(True), body):
            yield "always in place of once", f.globally(body)
        case f.Since(f.TruthConstant(True), body):
            yield "earlier step dropped", f.TRUE
            yield "the step before in place of any earlier one", f.Previous(body)
        case f.Until(_, right):
            yield "condition dropped", f.finally_(right)
        case f.Since(_, right):
            yield "condition dropped", f.once(right)


Rebuilt = Callable[[f.Formula], f.Formula]


def _parts(formula: f.Formula) -> Iterator[tuple[f.Formula, Rebuilt]]:
    """Each part, and the function that puts another formula in its place."""
    match formula:
        case f.Conjunction(parts) | f.Disjunction(parts):
            join = f.all_of if isinstance(formula, f.Conjunction) else f.any_of
            for part in sorted(parts, key=repr):
                yield part, lambda one, part=part: join([*(parts - {part}), one])  # type: ignore[misc]
        case f.Next(body, strong) | f.Previous(body, strong):
            yield body, lambda one: type(formula)(one, strong)
        case f.Within(steps, body):
            yield body, lambda one: f.Within(steps, one)
        case f.Until(left, right) | f.Release(left, right) | f.Since(left, right) | f.TriggerFormula(left, right):
            if not isinstance(left, f.TruthConstant):
                yield left, lambda one: type(formula)(one, right)
            yield right, lambda one: type(formula)(left, one)
