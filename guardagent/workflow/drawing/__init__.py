"""Draws a workflow graph: one file per format.

A format is a module of this package whose name is the format's, with

    draw(graph: Graph) -> str

so that adding one is adding a file. Modules with a leading underscore are what several of them share.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from guardagent.errors import UnknownNameError
from guardagent.workflow.model.graph import Graph

FORMATS: tuple[str, ...] = tuple(
    sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))
)


def draw(graph: Graph, format: str) -> str:  # noqa: A002 - as the option is called
    """The graph in one of `FORMATS`.

    Raises:
        UnknownNameError: there is no such format.
        InputError: the graph is too large for a picture that anyone could read.
    """
    if format not in FORMATS:
        raise UnknownNameError("graph format", format, FORMATS)
    drawer: Callable[[Graph], str] = importlib.import_module(f"{__name__}.{format}").draw
    return drawer(graph)
