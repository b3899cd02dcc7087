"""Approximates a rule by formulas over the order of tools, which need no data.

A rule may depend on arguments, outputs, facts and state, and on actions, decisions and tags that a host sets at run
time. Two formulas over tools alone bound it: a necessary condition, which the rule implies, and a sufficient condition,
which implies the rule. They are equal if the rule depends only on tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from guardagent.policy.evaluation.tool_sets import ANY
from guardagent.policy.language import ast
from guardagent.policy.language.formula import (
    FALSE,
    TRUE,
    Conjunction,
    Disjunction,
    Formula,
    Literal,
    Next,
    Previous,
    Release,
    Since,
    TriggerFormula,
    Until,
    Within,
    all_of,
    any_of,
    finally_,
    globally,
    implies,
    negation,
    once,
)


@dataclass(frozen=True, slots=True)
class ToolOrder:
    """The tool order of a rule.

    Attributes:
        necessary: implied by the rule; a path that violates it violates the rule.
        sufficient: implies the rule.
    """

    necessary: Formula
    sufficient: Formula


def order_of(rule: ast.Rule, *, negated: bool = False) -> ToolOrder:
    """Returns the tool order of a rule or of its negation, for runs whose calls all succeed."""
    match rule:
        case ast.Not(body):
            return order_of(body, negated=not negated)
        case ast.AllOf(parts) | ast.AnyOf(parts):
            combined = _conjunction if isinstance(rule, ast.AllOf) is not negated else _disjunction
            return combined([order_of(part, negated=negated) for part in parts])
        case ast.Temporal(formula):
            wanted = negation(formula) if negated else formula
            return ToolOrder(_without_labels(wanted, TRUE), _without_labels(wanted, FALSE))
    return _order_of_negated_data(rule) if negated else _order_of_data(rule)


def _conjunction(orders: Sequence[ToolOrder]) -> ToolOrder:
    return ToolOrder(all_of(one.necessary for one in orders), all_of(one.sufficient for one in orders))


def _disjunction(orders: Sequence[ToolOrder]) -> ToolOrder:
    return ToolOrder(any_of(one.necessary for one in orders), any_of(one.sufficient for one in orders))


def _without_labels(formula: Formula, value: Formula) -> Formula:
    """Replaces the atoms about actions, decisions and tags in a formula by `value`."""
    match formula:
        case Literal(name):
            return formula if name.startswith(("tool:", "@")) else value
        case Conjunction(parts):
            return all_of(_without_labels(part, value) for part in parts)
        case Disjunction(parts):
            return any_of(_without_labels(part, value) for part in parts)
        case Next(body) | Previous(body) | Within(_, body):
            return replace(formula, body=_without_labels(body, value))
        case Until(left, right) | Release(left, right) | Since(left, right) | TriggerFormula(left, right):
            first, second = _without_labels(left, value), _without_labels(right, value)
            always = second == TRUE and isinstance(formula, Release | TriggerFormula)
            return TRUE if always else replace(formula, left=first, right=second)
    return formula


@dataclass(frozen=True, slots=True)
class _MatchingCalls:
    """The calls that match a pattern, by their tools alone.

    Attributes:
        certain: calls that match with any arguments, outputs and facts.
        possible: calls that can match; no others do.
    """

    certain: Formula
    possible: Formula


def _proposed(pattern: ast.Pattern, condition: ast.Term, *, value: bool = True) -> _MatchingCalls:
    """Proposed calls that match and whose condition has `value`; a call that lacks arguments can match."""
    return _calls(pattern, condition, value=value, always=_is_any(pattern))


def _past(pattern: ast.Pattern, condition: ast.Term, *, value: bool = True) -> _MatchingCalls:
    """Past calls that match and whose condition has `value`; a call that lacks an argument does not match."""
    return _calls(pattern, condition, value=value, always=not pattern.arguments)


def _calls(pattern: ast.Pattern, condition: ast.Term, *, value: bool, always: bool) -> _MatchingCalls:
    names = [Literal(tool if tool.startswith("@") else f"tool:{tool}") for tool in pattern.tools]
    tools = TRUE if ANY in pattern.tools else any_of(names)
    if not (isinstance(condition, ast.Constant) and isinstance(condition.value, bool)):
        return _MatchingCalls(FALSE, tools)
    if condition.value is not value:
        return _MatchingCalls(FALSE, FALSE)
    return _MatchingCalls(tools if always else FALSE, tools)


def _order_of_data(rule: ast.Rule) -> ToolOrder:
    match rule:
        case ast.Forall(pattern, condition):
            wrong = _proposed(pattern, condition, value=False)
            return ToolOrder(_never(wrong.certain), _never(wrong.possible))
        case ast.Exists(pattern, condition):
            wanted = _past(pattern, condition)
            return ToolOrder(finally_(wanted.possible), finally_(wanted.certain))
        case ast.Before(pattern, condition, partner, partner_condition):
            call, wanted = _proposed(pattern, condition), _past(partner, partner_condition)
            return ToolOrder(_preceded(call.certain, wanted.possible), _preceded(call.possible, wanted.certain))
        case ast.After(pattern, condition, partner, partner_condition):
            call, wanted = _proposed(pattern, condition), _past(partner, partner_condition)
            enough = _followed(call.certain, wanted.certain) if call.certain == call.possible else _never(call.possible)
            return ToolOrder(_followed(call.certain, wanted.possible), enough)
        case ast.SolverRule(tools):
            return ToolOrder(TRUE, _never(any_of(Literal(f"tool:{tool}") for tool in tools)))
    raise AssertionError(rule)


def _order_of_negated_data(rule: ast.Rule) -> ToolOrder:
    match rule:
        case ast.Forall(pattern, condition):
            wrong = _past(pattern, condition, value=False)
            return ToolOrder(finally_(wrong.possible), finally_(wrong.certain))
        case ast.Exists(pattern, condition):
            wanted = _proposed(pattern, condition)
            return ToolOrder(_never(wanted.certain), _never(wanted.possible))
        case ast.Before(pattern, condition, partner, partner_condition):
            call, wanted = _past(pattern, condition), _past(partner, partner_condition)
            return ToolOrder(
                negation(_preceded(call.possible, wanted.certain)), negation(_preceded(call.certain, wanted.possible))
            )
        case ast.After(pattern, condition, partner, partner_condition):
            call, wanted = _proposed(pattern, condition), _past(partner, partner_condition)
            return ToolOrder(
                negation(_followed(call.possible, wanted.certain)), negation(_followed(call.certain, wanted.possible))
            )
    raise AssertionError(rule)


def _never(call: Formula) -> Formula:
    return _always(negation(call))


def _preceded(call: Formula, wanted: Formula) -> Formula:
    return _always(implies(call, Previous(once(wanted))))


def _followed(call: Formula, wanted: Formula) -> Formula:
    return _always(implies(call, Next(finally_(wanted))))


def _always(body: Formula) -> Formula:
    return TRUE if body == TRUE else globally(body)


def _is_any(pattern: ast.Pattern) -> bool:
    """Whether a pattern matches every proposed call of its tools."""
    values = [argument.value for argument in pattern.arguments]
    names = [value.name for value in values if isinstance(value, ast.Variable)]
    return all(isinstance(value, ast.Variable | ast.AnyValue) for value in values) and len(set(names)) == len(names)
