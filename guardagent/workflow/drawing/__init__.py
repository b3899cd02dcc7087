"""Draws a workflow graph: one file per format.

A format is a module of this package with the name of the format, and with

    SUFFIX: str                   the suffix of files in this format
    render(graph: Graph) -> str

One that can draw several workflows also has `render_all(listing: GraphListing) -> str`. To add a format, add a file.
The formats share the modules with a leading underscore.
"""

from __future__ import annotations

from guardagent._support.plugins import Plugins
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.model.listing import GraphListing

FORMATS = Plugins("graph format", __name__, ("SUFFIX", "render"))


def draw(graph: Graph, format: str) -> str:  # noqa: A002 - as the option is called
    """Returns the graph in one of `FORMATS`.

    Raises:
        UnknownNameError: the format does not exist.
        InputError: the graph is too large for a readable picture.
    """
    text: str = FORMATS.load(format).render(graph)
    return text


def draw_all(listing: GraphListing, format: str) -> str:  # noqa: A002
    """Returns the graphs of a target in one of `FORMATS`; one graph looks as with `draw`.

    Raises:
        UnknownNameError: the format does not exist.
        InputError: the format can draw only one graph, or a graph is too large for a readable picture.
    """
    module = FORMATS.load(format)
    if listing.is_single or not hasattr(module, "render_all"):
        return draw(listing.single(), format)
    text: str = module.render_all(listing)
    return text
