"""What a rule says of the order of tools, and of that alone: what is known of it without any data.

A rule may also depend on arguments, outputs, facts and state, and on actions, decisions and tags, which a host says
while the agent runs. So two formulas are made of it that speak of tools only: one that follows from the rule, and one
that the rule follows from. Where it depends on nothing else, they are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    """What a rule says of the order of tools.

    Attributes:
        needed: follows from the rule: a path that breaks it breaks the rule.
        enough: the rule follows from it.
    """

    necessary: Formula
    sufficient: Formula


def order_of(rule: ast.Rule, *, negated: bool = False) -> ToolOrder:
    """What a rule says of the order of tools, every call being one that goes well; or what its negation says."""
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
    """A formula in which something stands for whatever it says of actions, decisions and tags."""
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
    """Which calls a rule means, as far as their tools tell.

    Attributes:
        surely: these, whatever their arguments, outputs and facts are.
        perhaps: these, depending on such things, and no others.
    """

    certain: Formula
    possible: Formula


def _proposed(pattern: ast.Pattern, condition: ast.Term, *, value: bool = True) -> _MatchingCalls:
    """Calls that are proposed and match, and whose condition has a value; one may lack arguments, and match."""
    return _calls(pattern, condition, value=value, always=_is_any(pattern))


def _past(pattern: ast.Pattern, condition: ast.Term, *, value: bool = True) -> _MatchingCalls:
    """The same of calls that have been; one that lacks an argument of the pattern does not match."""
    return _calls(pattern, condition, value=value, always=not pattern.arguments)


def _calls(pattern: ast.Pattern, condition: ast.Term, *, value: bool, always: bool) -> _MatchingCalls:
    tools = any_of(Literal(tool if tool.startswith("@") else f"tool:{tool}") for tool in pattern.tools)
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
    """Whether a pattern means every call of its tools that is proposed."""
    values = [argument.value for argument in pattern.arguments]
    names = [value.name for value in values if isinstance(value, ast.Variable)]
    return all(isinstance(value, ast.Variable | ast.AnyValue) for value in values) and len(set(names)) == len(names)
