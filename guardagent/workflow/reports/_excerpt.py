"""The part of a graph that a page shows: all of it, or the part in the report if the graph is too large."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from guardagent.workflow.analysis.report import Report
from guardagent.workflow.drawing.svg import MOST_ARROWS, MOST_NODES
from guardagent.workflow.model.graph import Graph

_MOST = 120


def excerpt(report: Report) -> Graph:
    """Returns a graph that can be drawn: the nodes of witnesses and findings, and the nodes near the entry."""
    graph = report.graph
    if len(graph.nodes) <= MOST_NODES and len(graph.edges) <= MOST_ARROWS:
        return graph
    chosen = set(islice(dict.fromkeys(_node_ids(report)), _MOST)) | {graph.entry_id, *graph.exit_ids[:1]}
    nodes = tuple(node for node in graph.nodes if node.id in chosen)
    edges = tuple(edge for edge in graph.edges if edge.source in chosen and edge.target in chosen)
    exits = tuple(one for one in graph.exit_ids if one in chosen)
    return replace(graph, nodes=nodes, edges=edges[:MOST_ARROWS], exit_ids=exits)


def _node_ids(report: Report) -> Iterator[str]:
    known = report.graph.by_id
    for rule in report.rules:
        yield from (name for name in rule.witness if name in known)
    for finding in report.findings:
        yield from (name for name in finding.witness if name in known)
    yield from _from_entry(report.graph)


def _from_entry(graph: Graph) -> Iterator[str]:
    following: dict[str, list[str]] = {}
    for edge in graph.edges:
        following.setdefault(edge.source, []).append(edge.target)
    seen, waiting = {graph.entry_id}, [graph.entry_id]
    for name in waiting:
        yield name
        fresh = [target for target in following.get(name, ()) if target not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
