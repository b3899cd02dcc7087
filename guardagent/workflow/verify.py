"""Verifies graphs: the structural checks and the rules of a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from guardagent.errors import InputError, UnknownNameError
from guardagent.policy.file.file_keys import LEVELS, worst_effect
from guardagent.policy.policies import Policies
from guardagent.workflow.analysis.checks import Suppression, apply_suppressions, can_be_sensitive, structural_findings
from guardagent.workflow.analysis.proofs import rule_results
from guardagent.workflow.analysis.report import Report, ReportListing
from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import TOOLS, Graph, merged, unknown_parts, unknown_tools
from guardagent.workflow.model.graph_json import read_graph
from guardagent.workflow.model.targets import graphs_of


def verify(
    target: object,
    policies: Policies | None = None,
    *,
    require_human: bool = False,
    sensitive_tools: Iterable[str] = (),
    strict: bool = False,
    name: str = "",
) -> Report:
    """Proves a workflow against the structural checks and the rules of a policy, before it runs.

    Args:
        target: a framework's own object, a Graph, or the path of a graph's JSON or of a Python file with one workflow,
            whose source alone is read.
        policies: the rules.
        require_human: a human has to take part somewhere.
        sensitive_tools: tools, or nodes by their ids, that no path may reach without human approval.
        strict: the report fails if a part of the graph is unknown.
        name: what the report calls the target.

    Raises:
        InputError: the target is not a known workflow or has several, or it does not have a sensitive tool.
    """
    graph = _graph(target, name)
    graph_findings = structural_findings(
        graph, require_human=require_human, sensitive_tools=sensitive_tools, policies=policies
    )
    findings = apply_suppressions(graph, graph_findings, _suppressions(policies))
    seen = graph if policies is None else _with_unseen_calls(graph, policies)
    rules = tuple(rule_results(seen, policies, findings)) if policies is not None else ()
    notes = (*_notes(seen), *([] if policies is None else _effect_notes(graph, policies.effects)))
    return Report(name or graph.name, graph, tuple(findings), rules, notes, strict)


def verify_all(
    target: str | Path,
    policies: Policies | None = None,
    *,
    require_human: bool = False,
    sensitive_tools: Iterable[str] = (),
    strict: bool = False,
    source_only: bool = False,
) -> ReportListing:
    """Proves all workflows of a target, such as a Python file or a folder of them.

    Args:
        target: a target as on the command line: a file, a folder, an object of a file or module, or a graph.
        policies: the rules.
        require_human: a human has to take part in each workflow.
        sensitive_tools: tools, or ids of nodes, that no path may reach without human approval; a workflow has each.
        strict: a report fails if a part of its graph is unknown.
        source_only: import nothing, not even for an object of a file.

    Raises:
        InputError: the target cannot be read, or no workflow has a sensitive tool.
    """
    listing = graphs_of(target, source_only=source_only)
    if not listing.workflows and not listing.unread:
        raise InputError(f"{listing.target}: no Python file in it defines a workflow; expected one at least")
    tools = tuple(sensitive_tools)
    known = {name for workflow in listing.workflows for name in can_be_sensitive(workflow.graph)}
    if unknown := [tool for tool in tools if tool not in known and not listing.is_single]:
        raise UnknownNameError("sensitive tool or node", unknown[0], known, listing.target)
    reports = []
    for workflow in listing.workflows:
        name = listing.target if listing.is_single else workflow.graph.name
        there = can_be_sensitive(workflow.graph)
        own = tools if listing.is_single else [tool for tool in tools if tool in there]
        reports.append(
            verify(workflow.graph, policies, require_human=require_human, sensitive_tools=own, strict=strict, name=name)
        )
    return ReportListing(listing.target, tuple(reports), listing.unread, listing.is_single)


def _graph(target: object, name: str) -> Graph:
    if not isinstance(target, str | Path):
        return extract(target, name)
    return graphs_of(target).single() if str(target).endswith(".py") else read_graph(target)


def _with_unseen_calls(graph: Graph, policies: Policies) -> Graph:
    """The graph, in which a node with a tool that calls others may call tools that cannot be seen."""
    marks = {
        node.id: merged(node.metadata.get(TOOLS), *(f"{tool!r} calls other tools" for tool in outer))
        for node in graph.nodes
        if (outer := sorted(policies.dispatch.keys() & {*node.tools}))
    }
    if not marks:
        return graph
    nodes = (
        replace(node, metadata={**node.metadata, TOOLS: marks[node.id]}) if node.id in marks else node
        for node in graph.nodes
    )
    return replace(graph, nodes=tuple(nodes))


def _suppressions(policies: Policies | None) -> list[Suppression]:
    """The suppressions of a policy file."""
    if policies is None:
        return []
    return [Suppression(entry.check, entry.node, entry.reason, entry.place) for entry in policies.ignored]


def _effect_notes(graph: Graph, effects: Mapping[str, str]) -> Iterable[str]:
    """Notes the worst effect of a run, and where it is: a chain is as severe as its worst step.

    Tools without an effect count as irreversible, as does a part of the graph whose tools are unknown.
    """
    if not effects:
        return
    tools = {tool: node.id for node in graph.nodes for tool in node.tools}
    worst = LEVELS[-1] if any(map(unknown_tools, graph.nodes)) else worst_effect(effects, tools)
    if worst is not None:
        places = [f"{tool} ({node})" for tool, node in tools.items() if effects.get(tool, LEVELS[-1]) == worst]
        where = f": {', '.join(places)}" if places else ""
        yield f"the worst effect of a run is {worst}{where}"
    if missing := sorted(tools.keys() - effects.keys()):
        yield f"tools without an effect count as {LEVELS[-1]}: {', '.join(missing)}"


def _notes(graph: Graph) -> tuple[str, ...]:
    """The notes of the extraction, with one for each unknown part, and for each guess that has none."""
    notes = list(dict.fromkeys([*map(str, unknown_parts(graph.nodes)), *graph.notes]))
    for node in graph.nodes:
        if node.metadata.get("guess") and not any(node.id in note for note in notes):
            notes.append(f"{node.id}: its kind is a guess from its name")
    return tuple(notes)
