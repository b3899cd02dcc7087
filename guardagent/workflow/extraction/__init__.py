"""Extracts the workflow graph of a framework's own objects.

The extractor of a framework is its module `extractor`, with

    recognises(target: object) -> bool             whether it is one that has a graph; imports nothing of the framework
    extract(target: object, name: str) -> Graph    the graph

which is loaded for objects whose classes come from the modules that its `package.py` names.
"""

from __future__ import annotations

from guardagent.errors import InputError
from guardagent.workflow.extraction.registry import FRAMEWORKS, extractors_of
from guardagent.workflow.model.graph import Graph


def extract(target: object, name: str = "") -> Graph:
    """The workflow graph of a framework's object, or a Graph as it is.

    Raises:
        InputError: no framework that is known makes such objects.
    """
    if isinstance(target, Graph):
        return target
    for extractor in extractors_of(target):
        if extractor.recognises(target):
            return extractor.extract(target, name or type(target).__name__)  # type: ignore[no-any-return]
    kind = type(target)
    known = ", ".join(one.FRAMEWORK for _, one in FRAMEWORKS.load_all() if one.OBJECTS)
    raise InputError(
        f"a {kind.__module__}.{kind.__qualname__} is no workflow; expected an object of {known}, or a Graph"
    )


def from_module(target: object, *packages: str) -> bool:
    """Whether an object's class, or one that it comes from, is of one of some packages."""
    return any(kind.__module__.partition(".")[0] in packages for kind in type(target).__mro__)
