"""Writes the report of a verification: one file per format.

A format is a module of this package with the name of the format, and with

    SUFFIX: str                     the suffix of files in this format
    render(report: Report) -> str

A format with special output for terminals also has `show(report: Report, stream: TextIO) -> None`. To add a format, add
a file. The formats share the modules with a leading underscore.
"""

from __future__ import annotations

from typing import TextIO

from guardagent._support.plugins import Plugins
from guardagent.workflow.analysis.report import Report

FORMATS = Plugins("report format", __name__, ("SUFFIX", "render"), group="guardagent.reports")


def render(report: Report, format: str) -> str:  # noqa: A002 - as the option is called
    """Returns the report in one of `FORMATS`.

    Raises:
        UnknownNameError: the format does not exist.
    """
    text: str = FORMATS.load(format).render(report)
    return text


def show(report: Report, format: str, stream: TextIO) -> None:  # noqa: A002
    """Writes the report to a stream, in colour if it is a terminal and the format has colours.

    Raises:
        UnknownNameError: the format does not exist.
    """
    module = FORMATS.load(format)
    if hasattr(module, "show"):
        module.show(report, stream)
    else:
        stream.write(f"{module.render(report).rstrip()}\n")
