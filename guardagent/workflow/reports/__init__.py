"""Writes the report of a verification, in several formats.

Another package registers a format as the entry point `guardagent.reports`: a module with

    SUFFIX: str                     the suffix of files in this format
    render(report: Report) -> str

and, if it likes, with the other functions of a `ReportFormat`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError
from guardagent.workflow.analysis.report import Report, ReportListing


@dataclass(frozen=True, slots=True)
class ReportFormat:
    """A format of reports.

    Attributes:
        suffix: the suffix of files in this format.
        render: returns a report as a string.
        render_all: the same for all workflows of a target; None if the format shows only one.
        show: writes a report to a terminal; None if it looks there as in a file.
        show_all: the same for all workflows of a target.
    """

    suffix: str
    render: Callable[[Report], str]
    render_all: Callable[[ReportListing], str] | None = None
    show: Callable[[Report, TextIO], None] | None = None
    show_all: Callable[[ReportListing, TextIO], None] | None = None


def _format_of(module: Any) -> ReportFormat:
    optional = (getattr(module, name, None) for name in ("render_all", "show", "show_all"))
    return ReportFormat(module.SUFFIX, module.render, *optional)


def _json(content: Report | ReportListing) -> str:
    """One JSON object in the public key order, with a line for each finding, rule, report and unread place."""
    from guardagent.workflow.drawing.text import pretty_json

    return pretty_json(content.to_dict())


FORMATS = Plugins(
    "report format",
    "",
    ("SUFFIX", "render"),
    group="guardagent.reports",
    members={
        "github": f"{__name__}.text:GITHUB",
        "html": f"{__name__}.html:HTML",
        "json": ReportFormat(".json", _json, _json),
        "sarif": f"{__name__}.sarif:SARIF",
        "text": f"{__name__}.text:TEXT",
    },
    adapt=_format_of,
)


def render_all(listing: ReportListing, format: str) -> str:  # noqa: A002 - as the option is called
    """Returns the reports of a target in one of `FORMATS`.

    Raises:
        UnknownNameError: the format does not exist.
        InputError: the format can show only one report.
    """
    writer: ReportFormat = FORMATS.load(format)
    if listing.is_single:
        return writer.render(listing.reports[0])
    if writer.render_all is None:
        names = ", ".join(repr(report.target) for report in listing.reports) or "none"
        raise InputError(f"{listing.target}: the format {format!r} shows one workflow; expected one of {names}")
    return writer.render_all(listing)


def show_all(listing: ReportListing, format: str, stream: TextIO) -> None:  # noqa: A002
    """Writes the reports of a target to a stream, in colour if it is a terminal and the format has colours.

    Raises:
        UnknownNameError: the format does not exist.
        InputError: the format can show only one report.
    """
    writer: ReportFormat = FORMATS.load(format)
    if listing.is_single and writer.show is not None:
        writer.show(listing.reports[0], stream)
    elif not listing.is_single and writer.show_all is not None:
        writer.show_all(listing, stream)
    else:
        stream.write(f"{render_all(listing, format).rstrip()}\n")
