"""Checks the rules of a policy on a graph, before the agent runs.

A propositional rule is proved or violated on the graph. For a rule over data, the check uses the tool order that the
rule implies: a path that violates this order violates the rule, and a session checks the rest at run time. Nothing is
proved about tools if some node may call tools that cannot be seen.

Each rule has a result for the graph as drawn, and one for every run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from guardagent.policy.language import ast
from guardagent.policy.language.answer_step import ANSWER
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.policies import Policies
from guardagent.workflow.analysis.every_run import PossibleCalls, Sets, automaton_of, every_run
from guardagent.workflow.analysis.product import GraphProduct, NumberedGraph, PathViolation
from guardagent.workflow.analysis.report import EveryRunResult, GraphFinding, RuleResult
from guardagent.workflow.analysis.tool_order import order_of
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.model.unknown import unknown_tools

_ANSWERS = "it speaks of the final answer, which is no step of the graph; it is checked at run time"
_MESSAGES = {
    "bad_prefix": "this path violates it",
    "unmet_at_end": "the path ends with a pending obligation",
    "postponed_by_cycle": "a cycle can postpone the obligation forever",
}


def rule_results(graph: Graph, policies: Policies, findings: Iterable[GraphFinding] = ()) -> Iterator[RuleResult]:
    """Yields a result for each rule of a policy; `findings` are the structural findings, with suppressions."""
    drawn, runs = NumberedGraph(graph), PossibleCalls.of(graph, policies, findings)
    unseen = [
        "unknown parts of the graph" if node.kind == "entry" else repr(node.id)
        for node in graph.nodes
        if unknown_tools(node)
    ]
    uncertain = NumberedGraph(graph, unknown_calls=True) if unseen else None
    for rule in policies.rules:
        if ANSWER in rule.mentioned_tools:
            yield RuleResult(rule.id, "undecidable", message=_ANSWERS, every_run=EveryRunResult(message=_ANSWERS))
            continue
        found = _result(drawn, uncertain, rule, policies.tags, unseen)
        yield replace(found, every_run=every_run(runs, rule, policies.tags))
    for source, _ in policies.requests:
        why = "a natural language rule is checked at run time"
        yield RuleResult(source.id, "undecidable", message=why, every_run=EveryRunResult(message=why))


def _result(
    graph: NumberedGraph, uncertain: NumberedGraph | None, rule: Rule, sets: Sets, unseen: list[str]
) -> RuleResult:
    order = order_of(ast.AllOf(rule.rules))
    needed = automaton_of(rule, order.necessary, sets)
    violation = GraphProduct(graph, needed).violation()
    shown = f"{', '.join(unseen[:3])}{' and others' if len(unseen) > 3 else ''}"
    if violation is not None and uncertain is not None:
        violation = GraphProduct(uncertain, needed).violation()
        if violation is None:
            message = f"whether a path violates it depends on {shown}, which may call tools that cannot be seen"
            return RuleResult(rule.id, "undecidable", message=message)
    if violation is not None:
        return _violated(rule.id, violation)
    enough = needed if order.sufficient == order.necessary else automaton_of(rule, order.sufficient, sets)
    if enough is not needed and GraphProduct(graph, enough).violation() is not None:
        says_nothing = needed.automaton.satisfied[0]
        return RuleResult(rule.id, "undecidable", message=_undecidable_message(rule, says_nothing=says_nothing))
    if unseen and not enough.automaton.satisfied[0]:
        message = f"it holds on every visible path, but {shown} may call tools that cannot be seen"
        return RuleResult(rule.id, "undecidable", message=message)
    return RuleResult(rule.id, "proved", message="it holds on every path")


def _undecidable_message(rule: Rule, *, says_nothing: bool) -> str:
    names = ", ".join(sorted(rule.labels))
    subject = f"it depends on {names}, which the host sets at run time" if names else "it depends on data"
    order = "" if says_nothing else "; the tool order that it implies holds on every path"
    return f"{subject}{order}; the rest is checked at run time"


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
