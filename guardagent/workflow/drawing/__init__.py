"""Draws a workflow graph: one file per format.

A format is a module of this package with the name of the format, and with

    SUFFIX: str                   the suffix of files in this format
    render(graph: Graph) -> str

To add a format, add a file. The formats share the modules with a leading underscore.
"""

from __future__ import annotations

from guardagent._support.plugins import Plugins
from guardagent.workflow.model.graph import Graph

FORMATS = Plugins("graph format", __name__, ("SUFFIX", "render"))


def draw(graph: Graph, format: str) -> str:  # noqa: A002 - as the option is called
    """Returns the graph in one of `FORMATS`.

    Raises:
        UnknownNameError: the format does not exist.
        InputError: the graph is too large for a readable picture.
    """
    text: str = FORMATS.load(format).render(graph)
    return text
