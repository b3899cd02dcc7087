"""Draws workflow graphs, in several formats.

A format is a function that returns the graphs of a target as a string. One graph looks the same whatever the target.
"""

from __future__ import annotations

from collections.abc import Callable

from guardagent._support.plugins import Plugins
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.model.listing import GraphListing, WorkflowGraph

FORMATS = Plugins(
    "graph format",
    "",
    (),
    members={
        "dot": f"{__name__}.text:dot",
        "html": f"{__name__}.html:graph_page",
        "json": f"{__name__}.json:graph_json",
        "mermaid": f"{__name__}.mermaid:mermaid",
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
