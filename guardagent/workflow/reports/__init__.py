"""Writes the report of a verification: one file per format.

A format is a module of this package with the name of the format, and with

    SUFFIX: str                     the suffix of files in this format
    render(report: Report) -> str

A format with special output for terminals also has `show(report: Report, stream: TextIO) -> None`. One that can show
several workflows has `render_all(listing: ReportListing) -> str`, and `show_all(listing, stream)` for terminals. To add
a format, add a file. The formats share the modules with a leading underscore.
"""

from __future__ import annotations

from typing import TextIO

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError
from guardagent.workflow.analysis.report import Report, ReportListing

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


def render_all(listing: ReportListing, format: str) -> str:  # noqa: A002
    """Returns the reports of a target in one of `FORMATS`; one report looks as with `render`.

    Raises:
        UnknownNameError: the format does not exist.
        InputError: the format can show only one report.
    """
    if listing.is_single:
        return render(listing.reports[0], format)
    module = FORMATS.load(format)
    if not hasattr(module, "render_all"):
        names = ", ".join(repr(report.target) for report in listing.reports) or "none"
        raise InputError(f"{listing.target}: the format {format!r} shows one workflow; expected one of {names}")
    text: str = module.render_all(listing)
    return text


def show_all(listing: ReportListing, format: str, stream: TextIO) -> None:  # noqa: A002
    """Writes the reports of a target to a stream, as `show`.

    Raises:
        UnknownNameError: the format does not exist.
        InputError: the format can show only one report.
    """
    module = FORMATS.load(format)
    if listing.is_single:
        show(listing.reports[0], format, stream)
    elif hasattr(module, "show_all"):
        module.show_all(listing, stream)
    else:
        stream.write(f"{render_all(listing, format).rstrip()}\n")
