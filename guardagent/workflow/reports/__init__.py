"""Writes the report of a verification: one file per format.

A format is a module of this package whose name is the format's, with

    render(report: Report) -> str

and, where a terminal can be served better than a file, `show(report: Report, stream: TextIO) -> None`; so that adding
one is adding a file. Modules with a leading underscore are what several of them share.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import TextIO

from guardagent.errors import UnknownNameError
from guardagent.workflow.analysis.report import Report

FORMATS: tuple[str, ...] = tuple(
    sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))
)


def render(report: Report, format: str) -> str:  # noqa: A002 - as the option is called
    """The report in one of `FORMATS`.

    Raises:
        UnknownNameError: there is no such format.
    """
    text: str = _format(format).render(report)
    return text


def show(report: Report, format: str, stream: TextIO) -> None:  # noqa: A002
    """Writes the report to a stream, in colour where that is a terminal and the format has any.

    Raises:
        UnknownNameError: there is no such format.
    """
    module = _format(format)
    if hasattr(module, "show"):
        module.show(report, stream)
    else:
        stream.write(f"{module.render(report).rstrip()}\n")


def _format(name: str) -> ModuleType:
    if name not in FORMATS:
        raise UnknownNameError("report format", name, FORMATS)
    return importlib.import_module(f"{__name__}.{name}")
