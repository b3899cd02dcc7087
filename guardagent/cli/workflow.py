"""The commands `verify` and `graph`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from guardagent._support.plugins import Plugins
from guardagent.cli.options import Json, OptionalPolicyFiles, note
from guardagent.errors import InputError, UnknownNameError
from guardagent.workflow import drawing, reports

Target = Annotated[
    str,
    typer.Argument(
        help="file.py or a folder (parsed, not run), file.py:attribute or module:attribute (imported), or graph.json."
    ),
]
SourceOnly = Annotated[
    bool, typer.Option("--source-only", help="Read file.py:attribute from its source too; import nothing.")
]
Out = Annotated[Path | None, typer.Option("--out", help="The file to write instead of standard output.")]


def _format_option(known: Plugins, usual: str) -> Any:
    return typer.Option("--format", help=f"{', '.join(known.shipped())} (default: {usual}).")


def verify(
    target: Target,
    *,
    policies: OptionalPolicyFiles = None,
    require_human: Annotated[bool, typer.Option("--require-human", help="Require a human node.")] = False,
    sensitive: Annotated[
        list[str] | None,
        typer.Option("--sensitive", help="A tool or node that no path may reach without a human check; repeatable."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if a part of the graph is unknown.")] = False,
    source_only: SourceOnly = False,
    output: Annotated[str, _format_option(reports.FORMATS, "text")] = "",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Verify workflow graphs against the structural checks and the rules of a policy before they run."""
    from guardagent._support.execution import without_garbage_collection
    from guardagent.policy.load import read_policies
    from guardagent.workflow.verify import verify_all

    form = _format(output, "text", reports.FORMATS, as_json=as_json)
    rules = read_policies(policies) if policies else None
    with without_garbage_collection():
        report_listing = verify_all(
            target,
            rules,
            require_human=require_human,
            sensitive_tools=sensitive or (),
            strict=strict,
            source_only=source_only,
        )
        if out is None:
            reports.show_all(report_listing, form, sys.stdout)
        else:
            _write(reports.render_all(report_listing, form), out, target)
    for part in (part for report in report_listing.reports if strict for part in report.unknown):
        note(f"unknown: {part}")
    raise typer.Exit(report_listing.status)


def graph(
    target: Target,
    *,
    source_only: SourceOnly = False,
    output: Annotated[str, _format_option(drawing.FORMATS, "json")] = "",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Extract and draw the graphs of workflows."""
    from guardagent.workflow.model.targets import graphs_of

    form = _format(output, "json", drawing.FORMATS, as_json=as_json)
    graphs = graphs_of(target, source_only=source_only)
    _write(drawing.draw_all(graphs, form), out, target)
    for graph_note in graphs.notes:
        note(f"note: {graph_note}")


def _format(named: str, usual: str, known: Plugins, *, as_json: bool) -> str:
    if as_json and named not in ("", "json"):
        raise InputError(f"'--json' and '--format {named}' exclude each other; expected one of them")
    form = named or ("json" if as_json else usual)
    if form not in known:
        raise UnknownNameError("format", form, known)
    return form


def _write(text: str, out: Path | None, target: str) -> None:
    text = text if text.endswith("\n") else f"{text}\n"
    if out is None:
        sys.stdout.write(text)
    elif out.exists() and out.resolve() in (Path(target).resolve(), Path(target.rpartition(":")[0]).resolve()):
        raise InputError(f"{out}: it is the file that is read; expected another one for '--out'")
    else:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{out}: cannot be written: {error.strerror}; expected a writable file") from None
