"""What is known of a policy's rules before the agent runs.

A propositional rule is proved or violated on the graph. Of a rule over data, the order of tools that follows from it
is: where a path breaks that order, it breaks the rule; where none does, a session has to tell about the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from guardagent.policy import ast
from guardagent.policy.formula import Formula, atoms
from guardagent.policy.policies import Policies
from guardagent.policy.propositional import Propositional
from guardagent.policy.rule import Rule
from guardagent.workflow.graph import Graph
from guardagent.workflow.order import order_of
from guardagent.workflow.product import NumberedGraph, Product, Violation
from guardagent.workflow.report import RuleResult

Sets = Mapping[str, frozenset[str]]
_SAID = {
    "bad_prefix": "it is broken on this path",
    "unmet_at_end": "the path ends while something is owed",
    "postponed_by_cycle": "a cycle can postpone for ever what is owed",
}


def rule_results(graph: Graph, policies: Policies) -> Iterator[RuleResult]:
    """A result for each rule of a policy."""
    numbered = NumberedGraph(graph)
    for rule in policies.rules:
        yield _result(numbered, rule, policies.tags)
    for source, _ in policies.requests:
        yield RuleResult(source.id, "undecidable", message="a rule in words is judged while the agent runs")


def _result(graph: NumberedGraph, rule: Rule, sets: Sets) -> RuleResult:
    order = order_of(ast.AllOf(rule.rules))
    needed = _compiled(rule, order.needed, sets)
    violation = Product(graph, needed).violation()
    if violation is not None:
        return _violated(rule.id, violation)
    if order.enough == order.needed or Product(graph, _compiled(rule, order.enough, sets)).violation() is None:
        return RuleResult(rule.id, "proved", message="it holds on every path")
    says_nothing = needed.automaton.satisfied[0]
    return RuleResult(rule.id, "undecidable", message=_why_undecidable(rule, says_nothing=says_nothing))


def _compiled(rule: Rule, formula: Formula, sets: Sets) -> Propositional:
    """A formula's automaton; where it is all that the rule says, the rule has it already."""
    if rule.rules == (ast.Temporal(formula),) and isinstance(rule.parts[0], Propositional):
        return rule.parts[0]
    return Propositional(formula, {atom[1:]: sets[atom[1:]] for atom in atoms(formula) if atom.startswith("@")})


def _why_undecidable(rule: Rule, *, says_nothing: bool) -> str:
    names = ", ".join(sorted(rule.labels))
    told = f"it is about {names}, which a host says while the agent runs" if names else "it is about data"
    order = "" if says_nothing else "; the order of tools that follows from it holds on every path"
    return f"{told}{order}; the rest is judged while the agent runs"


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
