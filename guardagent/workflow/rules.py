"""What is known of a policy's rules before the agent runs.

A propositional rule is proved or violated on the graph. Of a rule over data, the order of tools that follows from it
is: where a path breaks that order, it breaks the rule; where none does, a session has to tell about the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from guardagent.policy import ast
from guardagent.policy.formula import (
    TRUE,
    Before,
    Formula,
    Literal,
    Next,
    all_of,
    any_of,
    atoms,
    finally_,
    globally,
    implies,
    negation,
    once,
)
from guardagent.policy.policies import Policies
from guardagent.policy.propositional import Propositional
from guardagent.policy.rule import Rule
from guardagent.workflow.graph import Graph
from guardagent.workflow.product import NumberedGraph, Product, Violation
from guardagent.workflow.report import RuleResult

Sets = Mapping[str, frozenset[str]]
_SAID = {
    "bad_prefix": "it is broken on this path",
    "unmet_at_end": "the path ends while something is owed",
    "postponed_by_cycle": "a cycle can postpone for ever what is owed",
}


@dataclass(frozen=True, slots=True)
class Order:
    """What a rule says of the order of tools.

    Attributes:
        needed: follows from the rule: a path that breaks it breaks the rule.
        enough: the rule follows from it.
    """

    needed: Formula
    enough: Formula


def rule_results(graph: Graph, policies: Policies) -> Iterator[RuleResult]:
    """A result for each rule of a policy."""
    numbered = NumberedGraph(graph)
    for rule in policies.rules:
        yield _result(numbered, rule, policies.tags)
    for source, _ in policies.requests:
        yield RuleResult(source.id, "undecidable", message="a rule in words is judged while the agent runs")


def _result(graph: NumberedGraph, rule: Rule, sets: Sets) -> RuleResult:
    if rule.labels:
        names = ", ".join(sorted(rule.labels))
        message = f"it speaks of {names}, which a host says while the agent runs"
        return RuleResult(rule.id, "undecidable", message=message)
    order = _both([order_of(one) for one in rule.rules])
    violation = violation_of(graph, order.needed, sets)
    if violation is not None:
        return _violated(rule.id, violation)
    if violation_of(graph, order.enough, sets) is None:
        return RuleResult(rule.id, "proved", message="it holds on every path")
    known = (
        "the order of tools that follows from it holds on every path" if order.needed != TRUE else "it is about data"
    )
    return RuleResult(rule.id, "undecidable", message=f"{known}; the rest is judged while the agent runs")


def _violated(rule_id: str, violation: Violation) -> RuleResult:
    return RuleResult(
        rule_id,
        "violated",
        violation.mechanism,
        violation.witness,
        violation.cycle,
        _SAID[violation.mechanism],
        violation.emitted,
    )


def violation_of(graph: NumberedGraph, formula: Formula, sets: Sets) -> Violation | None:
    """The shortest path that violates a formula."""
    named = {atom[1:]: sets[atom[1:]] for atom in atoms(formula) if atom.startswith("@")}
    return Product(graph, Propositional(formula, named)).violation() if formula != TRUE else None


def order_of(rule: ast.Rule) -> Order:
    """What a rule says of the order of tools, every call being one that goes well."""
    match rule:
        case ast.Temporal(formula):
            return Order(formula, formula)
        case ast.AllOf(parts):
            return _both([order_of(part) for part in parts])
        case ast.AnyOf(parts):
            orders = [order_of(part) for part in parts]
            return Order(any_of(one.needed for one in orders), any_of(one.enough for one in orders))
        case ast.Not(body):
            order = order_of(body)
            return Order(negation(order.enough), negation(order.needed))
    return _order_of_data(rule)


def _both(orders: list[Order]) -> Order:
    return Order(all_of(one.needed for one in orders), all_of(one.enough for one in orders))


def _order_of_data(rule: ast.Rule) -> Order:
    match rule:
        case ast.Forall(pattern, condition):
            never = globally(negation(_call(pattern)))
            if _is(condition, value=True):
                return Order(TRUE, TRUE)
            return Order(never if _is(condition, value=False) and _is_any(pattern) else TRUE, never)
        case ast.Exists(pattern, condition):
            wanted = finally_(_call(pattern))
            return Order(wanted, wanted if _is(condition, value=True) and _is_any(pattern) else negation(TRUE))
        case ast.Before(pattern, condition, partner, wanted_of):
            earlier = globally(implies(_call(pattern), Before(once(_call(partner)))))
            return _conditional(pattern, condition, partner, wanted_of, earlier)
        case ast.After(pattern, condition, partner, wanted_of):
            later = globally(implies(_call(pattern), Next(finally_(_call(partner)))))
            return _conditional(pattern, condition, partner, wanted_of, later)
    raise AssertionError(rule)


def _conditional(
    pattern: ast.Pattern, condition: ast.Term, partner: ast.Pattern, wanted_of: ast.Term, order: Formula
) -> Order:
    """Of a rule by which one call needs another."""
    always = _is(condition, value=True) and _is_any(pattern)
    free = _is(wanted_of, value=True) and not partner.arguments
    return Order(order if always else TRUE, order if free else globally(negation(_call(pattern))))


def _call(pattern: ast.Pattern) -> Formula:
    return any_of(Literal(tool if tool.startswith("@") else f"tool:{tool}") for tool in pattern.tools)


def _is(term: ast.Term, *, value: bool) -> bool:
    return isinstance(term, ast.Constant) and term.value is value


def _is_any(pattern: ast.Pattern) -> bool:
    """Whether a pattern means every call of its tools."""
    values = [argument.value for argument in pattern.arguments]
    names = [value.name for value in values if isinstance(value, ast.Variable)]
    return all(isinstance(value, ast.Variable | ast.Anything) for value in values) and len(set(names)) == len(names)
