"""The command `report`: figures on the results of an audit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from guardagent._support.files import save_bytes
from guardagent.cli.output import note
from guardagent.errors import InputError

Results = Annotated[str, typer.Argument(metavar="RESULTS", help="The folder of 'audit --out', or its URL.")]
Format = Annotated[
    str | None,
    typer.Option("--format", help="markdown, html, parquet or json (default: by the suffix of FILE, else markdown)."),
]
ReportOut = Annotated[
    Path | None, typer.Option("-o", "--out", metavar="FILE", help="The file to write (default: standard output).")
]
Top = Annotated[int, typer.Option("--top", min=0, max=1000, help="The number of telling traces.")]
Since = Annotated[str | None, typer.Option("--since", metavar="DATE", help="The first day of last events (UTC).")]
Until = Annotated[str | None, typer.Option("--until", metavar="DATE", help="The last day of last events (UTC).")]


def report(
    results: Results,
    *,
    format: Format = None,  # noqa: A002 - as the option is called
    out: ReportOut = None,
    top: Top = 10,
    since: Since = None,
    until: Until = None,
) -> None:
    """Report on the results of an audit.

    Has rules by week, near misses, times, the most telling traces, and pass^k over repeated tasks. Exits with 3 if
    parts of the audit are missing; verdicts do not change the status.
    """
    from guardagent.batch.report import make_report, parse_period
    from guardagent.batch.report.formats import FORMATS, format_of, render

    chosen = format or format_of(out)
    FORMATS.load(chosen, "--format")  # before the results are read
    if chosen == "parquet" and out is None and sys.stdout.isatty():
        raise InputError("'--format parquet' is binary; expected '-o FILE', or a pipe")
    figures = make_report(results, parse_period(since, until), top=top)
    _write_report(render(figures, chosen), out)
    if not figures.complete:
        note(f"guardagent: {figures.missing:,} of {figures.partitions:,} parts are missing; resume the audit")
        raise typer.Exit(3)


def _write_report(content: bytes, out: Path | None) -> None:
    if out is not None:
        save_bytes(out, content)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.flush()
