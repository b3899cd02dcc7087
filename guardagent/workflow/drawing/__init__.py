"""Draws workflow graphs, in several formats.

A format is a function that returns the graphs of a target as a string. One graph looks the same whatever the target.

One of them is a self-contained HTML page: a list of workflows, and for each its picture and facts. It shows names that
others chose: the template escapes every string, pictures are images without scripts, and the content security policy of
the page forbids it to load anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from guardagent._support.plugins import Plugins
from guardagent._terminal import single_line
from guardagent.errors import InputError
from guardagent.workflow.drawing import svg
from guardagent.workflow.drawing.svg import card, name_of
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.model.targets import GraphListing, UnreadPlace, WorkflowGraph

FORMATS = Plugins(
    "graph format",
    "",
    (),
    members={
        "dot": f"{__name__}.text:dot",
        "html": f"{__name__}:graph_page",
        "json": f"{__name__}.text:graph_json",
        "mermaid": f"{__name__}.text:mermaid",
        "svg": f"{__name__}.svg:only_picture",
    },
)


def draw(graph: Graph, format: str) -> str:  # noqa: A002 - as the option is called
    """Returns the graph in one of `FORMATS`.

    Raises:
        UnknownNameError: the format does not exist.
        InputError: the graph is too large for a readable picture.
    """
    return draw_all(GraphListing(graph.name, (WorkflowGraph(graph.name, "", 1, graph),)), format)


def draw_all(listing: GraphListing, format: str) -> str:  # noqa: A002
    """Returns the graphs of a target in one of `FORMATS`; one graph looks as with `draw`.

    Raises:
        UnknownNameError: the format does not exist.
        InputError: the format can draw only one graph, or a graph is too large for a readable picture.
    """
    write: Callable[[GraphListing], str] = FORMATS.load(format)
    return write(listing)


def graph_page(listing: GraphListing) -> str:
    """Returns a page with one graph, or with a list of all workflows and of the places that could not be read."""
    if listing.is_single:
        graph = listing.single()
        return listing_page(graph.name, "1 workflow", [_section(graph, "")], ())
    sections = [_section(workflow.graph, f" · {workflow.file}:{workflow.line}") for workflow in listing.workflows]
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


@dataclass(frozen=True)
class PageSection:
    """One workflow on the page.

    Attributes:
        title: its name.
        facts: a line about it.
        graph: its graph.
        status: `passed`, `failed`, or empty for a graph that is only drawn.
        groups: lines below headings.
    """

    title: str
    facts: str
    graph: Graph
    status: str = ""
    groups: Mapping[str, Sequence[str]] | None = None

    @property
    def picture(self) -> str:
        """The picture as a data URL; empty if the graph is too large for one."""
        from base64 import b64encode

        try:
            return f"data:image/svg+xml;base64,{b64encode(svg.render(self.graph).encode('utf-8', 'replace')).decode()}"
        except InputError:
            return ""


def listing_page(title: str, summary: str, sections: Iterable[PageSection], unread: Iterable[UnreadPlace]) -> str:
    """Returns the page."""
    from guardagent._support.sections import page

    places = [single_line(str(place)) for place in unread]
    values = {"title": single_line(title), "summary": summary, "sections": list(sections), "unread": places}
    return page(__name__, "listing.html.j2", **values)


def graph_facts(graph: Graph) -> str:
    """Returns the framework and the size of a graph."""
    return single_line(f"{graph.framework} · {len(graph.nodes):,} nodes, {len(graph.edges):,} edges")
