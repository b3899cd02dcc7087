"""Verifies one graph: the structural checks and the rules of a policy."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from guardagent.policy.policies import Policies
from guardagent.workflow.analysis.checks import structural_findings
from guardagent.workflow.analysis.report import Report
from guardagent.workflow.analysis.rules import rule_results
from guardagent.workflow.analysis.suppressions import Suppression, apply_suppressions
from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.model.graph_json import read_graph


def verify(
    target: object,
    policies: Policies | None = None,
    *,
    require_human: bool = False,
    sensitive_tools: Iterable[str] = (),
    name: str = "",
) -> Report:
    """Proves a workflow against the structural checks and the rules of a policy, before it runs.

    Args:
        target: a framework's own object, a Graph, or the path of a graph's JSON.
        policies: the rules.
        require_human: a human has to take part somewhere.
        sensitive_tools: tools that no path may reach without human approval.
        name: what the report calls the target.

    Raises:
        InputError: the target is not a known workflow, or it does not have a sensitive tool.
    """
    graph = _graph(target, name)
    found = structural_findings(graph, require_human=require_human, sensitive_tools=sensitive_tools)
    findings = apply_suppressions(graph, found, _suppressions(policies))
    rules = tuple(rule_results(graph, policies, findings)) if policies is not None else ()
    return Report(name or graph.name, graph, tuple(findings), rules, _notes(graph))


def _graph(target: object, name: str) -> Graph:
    return read_graph(target) if isinstance(target, str | Path) else extract(target, name)


def _suppressions(policies: Policies | None) -> list[Suppression]:
    """The suppressions of a policy file."""
    if policies is None:
        return []
    return [Suppression(one.check, one.node, one.reason, one.place) for one in policies.ignored]


def _notes(graph: Graph) -> tuple[str, ...]:
    """The notes of the extraction, with one for each guess and each widened node that has none."""
    notes = list(graph.notes)
    for node in graph.nodes:
        if node.metadata.get("widened") and not any(node.id in note for note in notes):
            notes.append(f"{node.id}: its targets are unknown; edges to every possible target are assumed")
        if node.metadata.get("guess") and not any(node.id in note for note in notes):
            notes.append(f"{node.id}: its kind is a guess from its name")
    return tuple(notes)
