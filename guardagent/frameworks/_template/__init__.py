"""The layout of a framework package, for an imaginary framework, Acme Flows: copy this folder and adapt it.

    package.py     facts, read without importing the framework
    adapter/       guards the tool calls of running agents; optional
    extractor/     extracts the workflow graph of a live object; optional
    source/        extracts it from a program's source alone; optional

Users import the names of the adapter from here; the framework itself is imported on first use.
"""

from typing import TYPE_CHECKING

from guardagent._support.plugins import lazy_getattr

__all__ = ["guarded"]

if TYPE_CHECKING:
    from guardagent.frameworks._template.adapter import *
else:
    __getattr__ = lazy_getattr(__name__, "adapter", __all__)
