"""What is known of a policy's rules before the agent runs.

A propositional rule is proved or violated on the graph. Of a rule over data, the order of tools that follows from it
is: where a path breaks that order, it breaks the rule; where none does, a session has to tell about the rest. Nothing
is proved of tools where some node calls what could not be seen.

That is the graph as it is drawn. Of each rule it is also said whether it holds for every run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from guardagent.policy.language import ast
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.policies import Policies
from guardagent.workflow.analysis.every_run import PossibleCalls, Sets, automaton_of, every_run, may_call_hidden_tools
from guardagent.workflow.analysis.product import GraphProduct, NumberedGraph, PathViolation
from guardagent.workflow.analysis.report import EveryRunResult, GraphFinding, RuleResult
from guardagent.workflow.analysis.tool_order import order_of
from guardagent.workflow.model.graph import Graph

_MESSAGES = {
    "bad_prefix": "it is broken on this path",
    "unmet_at_end": "the path ends while something is owed",
    "postponed_by_cycle": "a cycle can postpone for ever what is owed",
}


def rule_results(graph: Graph, policies: Policies, findings: Iterable[GraphFinding] = ()) -> Iterator[RuleResult]:
    """A result for each rule of a policy; `findings` are the graph's structural ones, with suppressions."""
    numbered, runs = NumberedGraph(graph), PossibleCalls.of(graph, policies, findings)
    unseen = [
        "what is not known of it" if node.kind == "entry" else node.id
        for node in graph.nodes
        if may_call_hidden_tools(node)
    ]
    for rule in policies.rules:
        found = _result(numbered, rule, policies.tags, unseen)
        yield replace(found, every_run=every_run(runs, rule, policies.tags))
    for source, _ in policies.requests:
        why = "a rule in words is judged while the agent runs"
        yield RuleResult(source.id, "undecidable", message=why, every_run=EveryRunResult(message=why))


def _result(graph: NumberedGraph, rule: Rule, sets: Sets, unseen: list[str]) -> RuleResult:
    order = order_of(ast.AllOf(rule.rules))
    needed = automaton_of(rule, order.necessary, sets)
    violation = GraphProduct(graph, needed).violation()
    if violation is not None:
        return _violated(rule.id, violation)
    enough = needed if order.sufficient == order.necessary else automaton_of(rule, order.sufficient, sets)
    if enough is not needed and GraphProduct(graph, enough).violation() is not None:
        says_nothing = needed.automaton.satisfied[0]
        return RuleResult(rule.id, "undecidable", message=_undecidable_message(rule, says_nothing=says_nothing))
    if unseen and not enough.automaton.satisfied[0]:
        shown = f"{', '.join(unseen[:3])}{' and others' if len(unseen) > 3 else ''}"
        message = f"it holds on every path that can be seen; {shown} may call tools that cannot"
        return RuleResult(rule.id, "undecidable", message=message)
    return RuleResult(rule.id, "proved", message="it holds on every path")


def _undecidable_message(rule: Rule, *, says_nothing: bool) -> str:
    names = ", ".join(sorted(rule.labels))
    subject = f"it is about {names}, which a host says while the agent runs" if names else "it is about data"
    order = "" if says_nothing else "; the order of tools that follows from it holds on every path"
    return f"{subject}{order}; the rest is judged while the agent runs"


def _violated(rule_id: str, violation: PathViolation) -> RuleResult:
    return RuleResult(
        rule_id,
        "violated",
        violation.mechanism,
        violation.witness,
        violation.cycle,
        _MESSAGES[violation.mechanism],
        violation.emitted,
    )
