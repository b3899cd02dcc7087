"""Extracts the workflow graph of the objects of a framework.

A framework is a folder of `guardagent.frameworks`, or a package that registers itself. Its `package.py` declares its
parts, which are loaded on demand: an extractor if it names the modules of its objects (`OBJECTS`), a source reader if
it names the packages that programs import (`PACKAGES`). An extractor is the module `extractor`, with

    recognises(target: object) -> bool             whether the object has a graph; imports nothing of the framework
    extract(target: object, name: str) -> Graph    the graph
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError
from guardagent.workflow.model.graph import Graph

_FOLDER = _GROUP = "guardagent.frameworks"
FRAMEWORKS = Plugins(
    "framework", _FOLDER, ("DISTRIBUTIONS", "EXTRA", "FRAMEWORK", "OBJECTS", "PACKAGES"), group=_GROUP, module="package"
)
EXTRACTORS = Plugins("extractor of", _FOLDER, ("extract", "recognises"), group=_GROUP, module="extractor")
SOURCES = Plugins(
    "source reader of",
    _FOLDER,
    ("CONSTANTS", "PACKAGES", "called", "extract", "is_workflow"),
    group=_GROUP,
    module="source",
)


def extractors_of(target: object) -> Iterator[Any]:
    """Yields the extractors of the frameworks that define the class of an object; loads no other."""
    modules = _modules_of(target)
    for name, package in FRAMEWORKS.load_all():
        if any(module == known or module.startswith(f"{known}.") for known in package.OBJECTS for module in modules):
            yield EXTRACTORS.load(name)


def _modules_of(target: object) -> set[str]:
    """Returns the modules of the base classes of an object or a class, and of their metaclasses."""
    kinds = [type(target), type(type(target)), *([target] if isinstance(target, type) else [])]
    return {str(base.__module__) for kind in kinds for base in kind.__mro__}


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
    known = ", ".join(framework.FRAMEWORK for _, framework in FRAMEWORKS.load_all() if framework.OBJECTS)
    raise InputError(
        f"'{kind.__module__}.{kind.__qualname__}' is not a workflow; expected an object of {known}, or a 'Graph'"
    )


def from_module(target: object, *packages: str) -> bool:
    """Whether the class of an object, or one of its base classes, is defined in one of the packages."""
    return any(kind.__module__.partition(".")[0] in packages for kind in type(target).__mro__)
