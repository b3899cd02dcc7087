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
class Order:
    """What a rule says of the order of tools.

    Attributes:
        needed: follows from the rule: a path that breaks it breaks the rule.
        enough: the rule follows from it.
    """

    needed: Formula
    enough: Formula


def order_of(rule: ast.Rule, *, negated: bool = False) -> Order:
    """What a rule says of the order of tools, every call being one that goes well; or what its negation says."""
    match rule:
        case ast.Not(body):
            return order_of(body, negated=not negated)
        case ast.AllOf(parts) | ast.AnyOf(parts):
            combined = _both if isinstance(rule, ast.AllOf) is not negated else _either
            return combined([order_of(part, negated=negated) for part in parts])
        case ast.Temporal(formula):
            wanted = negation(formula) if negated else formula
            return Order(_without_labels(wanted, TRUE), _without_labels(wanted, FALSE))
    return _order_of_negated_data(rule) if negated else _order_of_data(rule)


def _both(orders: Sequence[Order]) -> Order:
    return Order(all_of(one.needed for one in orders), all_of(one.enough for one in orders))


def _either(orders: Sequence[Order]) -> Order:
    return Order(any_of(one.needed for one in orders), any_of(one.enough for one in orders))


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
class _Calls:
    """Which calls a rule means, as far as their tools tell.

    Attributes:
        surely: these, whatever their arguments, outputs and facts are.
        perhaps: these, depending on such things, and no others.
    """

    surely: Formula
    perhaps: Formula


def _proposed(pattern: ast.Pattern, condition: ast.Term, *, value: bool = True) -> _Calls:
    """Calls that are proposed and match, and whose condition has a value; one may lack arguments, and match."""
    return _calls(pattern, condition, value=value, always=_is_any(pattern))


def _past(pattern: ast.Pattern, condition: ast.Term, *, value: bool = True) -> _Calls:
    """The same of calls that have been; one that lacks an argument of the pattern does not match."""
    return _calls(pattern, condition, value=value, always=not pattern.arguments)


def _calls(pattern: ast.Pattern, condition: ast.Term, *, value: bool, always: bool) -> _Calls:
    tools = any_of(Literal(tool if tool.startswith("@") else f"tool:{tool}") for tool in pattern.tools)
    if not (isinstance(condition, ast.Constant) and isinstance(condition.value, bool)):
        return _Calls(FALSE, tools)
    if condition.value is not value:
        return _Calls(FALSE, FALSE)
    return _Calls(tools if always else FALSE, tools)


def _order_of_data(rule: ast.Rule) -> Order:
    match rule:
        case ast.Forall(pattern, condition):
            wrong = _proposed(pattern, condition, value=False)
            return Order(_never(wrong.surely), _never(wrong.perhaps))
        case ast.Exists(pattern, condition):
            wanted = _past(pattern, condition)
            return Order(finally_(wanted.perhaps), finally_(wanted.surely))
        case ast.Before(pattern, condition, partner, partner_condition):
            call, wanted = _proposed(pattern, condition), _past(partner, partner_condition)
            return Order(_earlier(call.surely, wanted.perhaps), _earlier(call.perhaps, wanted.surely))
        case ast.After(pattern, condition, partner, partner_condition):
            call, wanted = _proposed(pattern, condition), _past(partner, partner_condition)
            enough = _later(call.surely, wanted.surely) if call.surely == call.perhaps else _never(call.perhaps)
            return Order(_later(call.surely, wanted.perhaps), enough)
        case ast.SolverRule(tools):
            return Order(TRUE, _never(any_of(Literal(f"tool:{tool}") for tool in tools)))
    raise AssertionError(rule)


def _order_of_negated_data(rule: ast.Rule) -> Order:
    match rule:
        case ast.Forall(pattern, condition):
            wrong = _past(pattern, condition, value=False)
            return Order(finally_(wrong.perhaps), finally_(wrong.surely))
        case ast.Exists(pattern, condition):
            wanted = _proposed(pattern, condition)
            return Order(_never(wanted.surely), _never(wanted.perhaps))
        case ast.Before(pattern, condition, partner, partner_condition):
            call, wanted = _past(pattern, condition), _past(partner, partner_condition)
            return Order(
                negation(_earlier(call.perhaps, wanted.surely)), negation(_earlier(call.surely, wanted.perhaps))
            )
        case ast.After(pattern, condition, partner, partner_condition):
            call, wanted = _proposed(pattern, condition), _past(partner, partner_condition)
            return Order(negation(_later(call.perhaps, wanted.surely)), negation(_later(call.surely, wanted.perhaps)))
    raise AssertionError(rule)


def _never(call: Formula) -> Formula:
    return _always(negation(call))


def _earlier(call: Formula, wanted: Formula) -> Formula:
    return _always(implies(call, Previous(once(wanted))))


def _later(call: Formula, wanted: Formula) -> Formula:
    return _always(implies(call, Next(finally_(wanted))))


def _always(body: Formula) -> Formula:
    return TRUE if body == TRUE else globally(body)


def _is_any(pattern: ast.Pattern) -> bool:
    """Whether a pattern means every call of its tools that is proposed."""
    values = [argument.value for argument in pattern.arguments]
    names = [value.name for value in values if isinstance(value, ast.Variable)]
    return all(isinstance(value, ast.Variable | ast.AnyValue) for value in values) and len(set(names)) == len(names)
