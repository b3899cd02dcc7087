"""Graphs as one HTML page that loads nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.workflow.drawing._card import card, name_of
from guardagent.workflow.drawing._listing_page import PageSection, graph_facts, listing_page
from guardagent.workflow.drawing._text import single_line
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.model.listing import GraphListing


def graph_page(listing: GraphListing) -> str:
    """Returns a page with one graph, or with a list of all workflows and of the places that could not be read."""
    if listing.is_single:
        graph = listing.single()
        return listing_page(graph.name, "1 workflow", [_section(graph, "")], ())
    sections = [_section(one.graph, f" · {one.file}:{one.line}") for one in listing.workflows]
    summary = f"{len(sections):,} workflows, {len(listing.unread):,} places not read"
    return listing_page(listing.target, summary, sections, listing.unread)


def _section(graph: Graph, place: str) -> PageSection:
    groups = {"Nodes": list(_nodes(graph)), "Notes": [single_line(note) for note in graph.notes]}
    return PageSection(single_line(graph.name), f"{graph_facts(graph)}{single_line(place)}", graph, groups=groups)


def _nodes(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        content = card(node)
        tools = ", ".join(f"{tool.name} (needs approval)" if tool.gated else tool.name for tool in content.tools)
        yield f"{name_of(node)} ({content.kind}){f': {tools}' if tools else ''}"
