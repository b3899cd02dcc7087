"""Extracts the workflow graph of the objects of a framework.

The extractor of a framework is its module `extractor`, with

    recognises(target: object) -> bool             whether the object has a graph; imports nothing of the framework
    extract(target: object, name: str) -> Graph    the graph

It is loaded for objects whose classes are from the modules that `package.py` names.
"""

from __future__ import annotations

from guardagent.errors import InputError
from guardagent.workflow.extraction.registry import FRAMEWORKS, extractors_of
from guardagent.workflow.model.graph import Graph


def extract(target: object, name: str = "") -> Graph:
    """Returns the workflow graph of an object of a framework; returns a Graph unchanged.

    Raises:
        InputError: the object is not from a known framework.
    """
    if isinstance(target, Graph):
        return target
    for extractor in extractors_of(target):
        if extractor.recognises(target):
            return extractor.extract(target, name or type(target).__name__)  # type: ignore[no-any-return]
    kind = type(target)
    known = ", ".join(one.FRAMEWORK for _, one in FRAMEWORKS.load_all() if one.OBJECTS)
    raise InputError(
        f"'{kind.__module__}.{kind.__qualname__}' is not a workflow; expected an object of {known}, or a 'Graph'"
    )


def from_module(target: object, *packages: str) -> bool:
    """Whether the class of an object, or one of its base classes, is defined in one of the packages."""
    return any(kind.__module__.partition(".")[0] in packages for kind in type(target).__mro__)
