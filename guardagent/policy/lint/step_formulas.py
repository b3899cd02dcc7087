"""Derives formulas about the order of steps that data rules imply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from guardagent.policy.evaluation.terms import is_true
from guardagent.policy.evaluation.tool_sets import ANY
from guardagent.policy.language import ast
from guardagent.policy.language.formula import (
    FALSE,
    TRUE,
    Conjunction,
    Formula,
    Literal,
    Next,
    Previous,
    Release,
    all_of,
    any_of,
    finally_,
    globally,
    historically,
    implies,
    negation,
    once,
)


@dataclass(frozen=True, slots=True)
class StepFormula:
    """A formula that a rule implies.

    Attributes:
        exact: whether the formula is equivalent to the rule.
        sound: whether the rule implies it even if calls fail.
    """

    formula: Formula
    exact: bool = False
    sound: bool = True


_OPEN = StepFormula(TRUE)


def step_formula(rule: ast.Rule, *, negated: bool) -> StepFormula:
    """Returns the formula about steps that an atomic rule implies."""
    match rule, negated:
        case ast.Temporal(formula), _:
            return StepFormula(negation(formula) if negated else formula, exact=True)
        case ast.Forall(pattern, condition), False:
            return _required(pattern, condition)
        case ast.Before(pattern, condition, partner, wanted), False if is_true(condition) and _any_call(pattern):
            implied = globally(implies(_calls(pattern), _earlier(partner)))
            return StepFormula(implied, exact=not pattern.arguments and _is_bare(partner, wanted))
        case ast.Exists(pattern, condition), False:
            return StepFormula(finally_(_calls(pattern)), exact=_is_bare(pattern, condition))
        case ast.Exists(pattern, condition), True:
            return _required(pattern, ast.Constant(value=False) if is_true(condition) else ast.Negation(condition))
        case ast.After(pattern, condition, partner, wanted), False if is_true(condition) and _any_call(pattern):
            implied = globally(implies(_calls(pattern), Next(finally_(_calls(partner)))))
            return StepFormula(implied, exact=not pattern.arguments and _is_bare(partner, wanted))
    return _OPEN


def bans(rule: ast.Rule, tags: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Returns the tools that a rule forbids outright, on purpose."""
    match rule:
        case ast.AllOf(parts):
            return frozenset(tool for part in parts for tool in bans(part, tags))
        case ast.Temporal(formula):
            return frozenset(tool for part in _conjuncts(formula) for tool in _banned(part, tags))
        case ast.Forall(pattern, ast.Constant(False)) | ast.Not(ast.Exists(pattern, ast.Constant(True))):
            if ANY in pattern.tools:
                return frozenset()
            return _tools([f"@{name[1:]}" if name[0] == "@" else f"tool:{name}" for name in pattern.tools], tags)
    return frozenset()


def _conjuncts(formula: Formula) -> Iterable[Formula]:
    return formula.parts if isinstance(formula, Conjunction) else (formula,)


def _banned(formula: Formula, tags: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Returns the tools that `G !p` or `G !(p || q)` forbids."""
    if not isinstance(formula, Release) or formula.left != FALSE:
        return frozenset()
    literals = [part for part in _conjuncts(formula.right) if isinstance(part, Literal) and not part.positive]
    return _tools([literal.atom for literal in literals], tags)


def _tools(atoms: Iterable[str], tags: Mapping[str, frozenset[str]]) -> frozenset[str]:
    found: set[str] = set()
    for atom in atoms:
        found |= tags[atom[1:]] if atom[0] == "@" else {atom.removeprefix("tool:")} if atom[:5] == "tool:" else set()
    return frozenset(found)


def _calls(pattern: ast.Pattern) -> Formula:
    if ANY in pattern.tools:
        return TRUE
    return any_of(Literal(name if name[0] == "@" else f"tool:{name}") for name in pattern.tools)


def _earlier(pattern: ast.Pattern) -> Formula:
    return Previous(once(_calls(pattern)))


def _any_call(pattern: ast.Pattern) -> bool:
    """Whether a pattern matches every proposed call of its tools, including calls that lack an argument."""
    names = [one.value.name for one in pattern.arguments if isinstance(one.value, ast.Variable)]
    free = all(isinstance(one.value, ast.Variable | ast.AnyValue) for one in pattern.arguments)
    return free and len(set(names)) == len(names)


def _is_bare(pattern: ast.Pattern, condition: ast.Term) -> bool:
    return not pattern.arguments and is_true(condition)


def _required(pattern: ast.Pattern, condition: ast.Term) -> StepFormula:
    if not _any_call(pattern):
        return _OPEN
    if condition == ast.Constant(value=False):
        return StepFormula(globally(negation(_calls(pattern))), exact=not pattern.arguments)
    return StepFormula(globally(implies(_calls(pattern), _needed_for_truth(condition))), sound=False)


# --- earlier calls that a condition requires, all of them successful


def _needed_for_truth(condition: ast.Term) -> Formula:
    """Returns the formula that a true condition implies; `true` if it is not about steps."""
    match condition:
        case ast.And(parts):
            return all_of(map(_needed_for_truth, parts))
        case ast.Or(parts):
            return any_of(map(_needed_for_truth, parts))
        case ast.SomeCall(pattern):
            return _earlier(pattern)
        case ast.Compare(ast.CountCalls(pattern), operator, ast.Constant(int() as number)):
            return _count_formula(pattern, condition.left, operator, number)
        case ast.Compare(left, _, right):
            return all_of([_needed_for_value(left), _needed_for_value(right)])
        case ast.Matches(body):
            return _needed_for_value(body)
    return TRUE


def _count_formula(pattern: ast.Pattern, count: ast.Term, operator: str, number: int) -> Formula:
    some = (operator in (">", "!=") and number == 0) or (operator in (">=", "==") and number > 0)
    if some or (operator == ">" and number > 0):
        return _earlier(pattern)
    none = (operator in ("==", "<=") and number == 0) or (operator == "<" and number == 1)
    assert isinstance(count, ast.CountCalls)
    if none and count.within is None and not pattern.arguments and _counts_all(count.condition, pattern):
        return Previous(historically(negation(_calls(pattern))), strong=False)
    return TRUE


def _counts_all(condition: ast.Term, pattern: ast.Pattern) -> bool:
    """Whether every successful call is counted."""
    succeeded = ast.Negation(ast.OfCall("failed", ast.Label(pattern.label or "")))
    return is_true(condition) or condition == succeeded


def _needed_for_value(term: ast.Term) -> Formula:
    """Returns the formula that a known term implies."""
    match term:
        case ast.OfCall(_, ast.Selected(_, pattern)) | ast.TimeOf(ast.Selected(_, pattern)):
            return _earlier(pattern)
        case ast.Field(body) | ast.Item(body, _) | ast.Length(body) | ast.Negative(body):
            return _needed_for_value(body)
        case ast.Arithmetic(left, _, right):
            return all_of([_needed_for_value(left), _needed_for_value(right)])
    return TRUE
