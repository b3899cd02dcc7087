"""The shape of a framework, made of an imaginary one, Acme Flows: copy this folder, and say in it how yours differs.

    package.py     facts, which cost nothing to read
    adapter/       guards the tool calls of running agents; leave it out where there is none
    extractor/     reads the workflow of a live object; the same
    source/        reads it from a program's source alone; the same

The users of an adapter import its names from here; nothing of the framework is imported before they ask for one.
"""

from typing import TYPE_CHECKING

from guardagent._support.lazy_imports import lazy_getattr

__all__ = ["guarded"]

if TYPE_CHECKING:
    from guardagent.frameworks._template.adapter import guarded
else:
    __getattr__ = lazy_getattr(__name__, "adapter", __all__)
