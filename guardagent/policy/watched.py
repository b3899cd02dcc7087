"""A condition that can say why it was false: it notes the values that it looked at while it is decided.

So the evidence is what the decision was made of, and no state function is asked twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from guardagent.policy import ast
from guardagent.policy.printing import text_of
from guardagent.policy.terms import COMPARISONS, Compiler, Names, all_of_terms, any_of_terms
from guardagent.policy.values import PLAIN, Truth, Unknown, equal, inverse, shown
from guardagent.policy.views import Env, Term
from guardagent.types import freeze

Explain = Callable[[Env, dict[str, Any]], None]  # after the condition was decided: adds text of a term -> its value


def watch(condition: ast.Term, compiler: Compiler, names: Names, *, wanted: bool = True) -> tuple[Term, Explain]:
    """(a condition, what it says of the values for which it was not as wanted)."""

    def inside(part: ast.Term, *, wanted: bool = wanted) -> tuple[Term, Explain]:
        return watch(part, compiler, names, wanted=wanted)

    match condition:
        case ast.And(parts) if parts:
            terms, explanations = zip(*map(inside, parts), strict=True)
            return all_of_terms(terms), _together(explanations)
        case ast.Or(parts):
            terms, explanations = zip(*map(inside, parts), strict=True)
            return any_of_terms(terms), _together(explanations)
        case ast.Inverted(body):
            term, explain = inside(body, wanted=not wanted)
            return (lambda env: inverse(term(env))), explain
        case ast.Implies(first, second):
            return inside(ast.Or((ast.Inverted(first), second)))
        case ast.Compared(left, operator, right):
            return _comparison(left, operator, right, compiler, names, wanted=wanted)
    return _other(condition, compiler, names, wanted=wanted)


def _together(explanations: Iterable[Explain]) -> Explain:
    every = tuple(explanations)

    def explain(env: Env, evidence: dict[str, Any]) -> None:
        for one in every:
            one(env, evidence)

    return explain


def _comparison(
    left: ast.Term, operator: str, right: ast.Term, compiler: Compiler, names: Names, *, wanted: bool
) -> tuple[Term, Explain]:
    result, first, second = compiler.place(), compiler.place(), compiler.place()
    sides = [
        (slot, text_of(side))
        for slot, side in ((first, left), (second, right))
        if not isinstance(side, ast.Constant | ast.ListOf)
    ]
    if operator == "==" and isinstance(right, ast.Constant) and type(right.value) in PLAIN:
        compared = _equal_to(compiler.term(left, names), right.value, result, first)
    else:
        compared = _compared(compiler.term(left, names), operator, compiler.term(right, names), result, first, second)

    def explain(env: Env, evidence: dict[str, Any]) -> None:
        if env[result] is not None and env[result] is not wanted:  # None: it was decided without
            for slot, text in sides:
                evidence[text] = _evident(env[slot])

    return compared, explain


def _equal_to(left: Term, constant: Any, result: int, first: int) -> Term:
    kind = type(constant)

    def equal_to(env: Env) -> Truth:
        env[first] = value = left(env)
        env[result] = found = value == constant if type(value) is kind else equal(value, constant)
        return found

    return equal_to


def _compared(left: Term, operator: str, right: Term, result: int, first: int, second: int) -> Term:
    compare = COMPARISONS[operator]

    def compared(env: Env) -> Truth:
        env[first] = one = left(env)
        env[second] = other = right(env)
        env[result] = found = compare(one, other)
        return found

    return compared


def _other(condition: ast.Term, compiler: Compiler, names: Names, *, wanted: bool) -> tuple[Term, Explain]:
    """A condition that is no comparison: its own value is what there is to say."""
    result, term, text = compiler.place(), compiler.term(condition, names), text_of(condition)

    def noted(env: Env) -> Any:
        env[result] = value = term(env)
        return value

    name = "missing" if isinstance(condition, ast.SomeCall) else text
    said = missing_call(condition) if isinstance(condition, ast.SomeCall) else None

    def explain(env: Env, evidence: dict[str, Any]) -> None:
        if env[result] is not None and env[result] is not wanted:
            evidence[name] = said or _evident(env[result])

    if isinstance(condition, ast.Constant):
        return term, lambda _env, _evidence: None
    return noted, explain


def missing_call(condition: ast.SomeCall) -> str:
    """The earlier call that is asked for, as a person reads it."""
    wanted = condition.condition
    return text_of(condition.pattern) + (f" with {text_of(wanted)}" if wanted != ast.And(()) else "")


def _evident(value: Any) -> Any:
    """As it is now: what it was read from may change."""
    if type(value) in PLAIN:
        return value
    if type(value) is Unknown:
        return "unknown"
    return shown(value) if isinstance(value, Fraction | Decimal) else freeze(value)
