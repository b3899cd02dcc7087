"""Extracts the workflow graph of a framework's own objects: one file per framework.

An extractor is a module of this package with

    FRAMEWORK: str                                 its name in reports
    recognises(target: object) -> bool             by the module of the target's class; imports nothing
    extract(target: object, name: str) -> Graph    the graph

so that adding one is adding a file.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

from guardagent.errors import InputError
from guardagent.workflow.extraction.listed import framework_modules
from guardagent.workflow.model.graph import Graph


def extract(target: object, name: str = "") -> Graph:
    """The workflow graph of a framework's object, or a Graph as it is.

    Raises:
        InputError: no framework that is known makes such objects.
    """
    if isinstance(target, Graph):
        return target
    for extractor in _extractors():
        if extractor.recognises(target):
            return extractor.extract(target, name or type(target).__name__)  # type: ignore[no-any-return]
    kind = type(target)
    known = ", ".join(extractor.FRAMEWORK for extractor in _extractors())
    raise InputError(
        f"a {kind.__module__}.{kind.__qualname__} is no workflow; expected an object of {known}, or a Graph"
    )


@cache
def _extractors() -> tuple[ModuleType, ...]:
    return framework_modules("extractor")


def from_module(target: object, *packages: str) -> bool:
    """Whether an object's class, or one that it comes from, is of one of some packages."""
    return any(kind.__module__.partition(".")[0] in packages for kind in type(target).__mro__)
