"""Writes the report of a verification: one file per format.

A format is a module of this package whose name is the format's, with

    SUFFIX: str                     of a file in this format
    render(report: Report) -> str

and, where a terminal can be served better than a file, `show(report: Report, stream: TextIO) -> None`; so that adding
one is adding a file. Modules with a leading underscore are what several of them share.
"""

from __future__ import annotations

from typing import TextIO

from guardagent._support.plugins import Plugins
from guardagent.workflow.analysis.report import Report

FORMATS = Plugins("report format", __name__, ("SUFFIX", "render"), group="guardagent.reports")


def render(report: Report, format: str) -> str:  # noqa: A002 - as the option is called
    """The report in one of `FORMATS`.

    Raises:
        UnknownNameError: there is no such format.
    """
    text: str = FORMATS.load(format).render(report)
    return text


def show(report: Report, format: str, stream: TextIO) -> None:  # noqa: A002
    """Writes the report to a stream, in colour where that is a terminal and the format has any.

    Raises:
        UnknownNameError: there is no such format.
    """
    module = FORMATS.load(format)
    if hasattr(module, "show"):
        module.show(report, stream)
    else:
        stream.write(f"{module.render(report).rstrip()}\n")
