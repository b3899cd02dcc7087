"""Draws a workflow graph: one file per format.

A format is a module of this package whose name is the format's, with

    SUFFIX: str                   of a file in this format
    render(graph: Graph) -> str

so that adding one is adding a file. Modules with a leading underscore are what several of them share.
"""

from __future__ import annotations

from guardagent._support.plugins import Plugins
from guardagent.workflow.model.graph import Graph

FORMATS = Plugins("graph format", __name__, ("SUFFIX", "render"))


def draw(graph: Graph, format: str) -> str:  # noqa: A002 - as the option is called
    """The graph in one of `FORMATS`.

    Raises:
        UnknownNameError: there is no such format.
        InputError: the graph is too large for a picture that anyone could read.
    """
    text: str = FORMATS.load(format).render(graph)
    return text
