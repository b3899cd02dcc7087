"""The commands `verify` and `graph`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from guardagent._support.plugins import Plugins
from guardagent.cli.options import Json, OptionalPolicyFiles
from guardagent.cli.output import note
from guardagent.errors import InputError, UnknownNameError

Target = Annotated[
    str, typer.Argument(help="file.py (parsed, not run), file.py:attribute, module:attribute, or graph.json.")
]
Out = Annotated[Path | None, typer.Option("--out", help="The file to write instead of standard output.")]


def verify(
    target: Target,
    *,
    policies: OptionalPolicyFiles = None,
    require_human: Annotated[bool, typer.Option("--require-human", help="Require a human node.")] = False,
    sensitive: Annotated[
        list[str] | None,
        typer.Option("--sensitive", help="A tool that no path may reach without a human check; repeatable."),
    ] = None,
    output: Annotated[str, typer.Option("--format", help="text (the default), json, sarif, github or html.")] = "",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Verify a workflow graph against the structural checks and the rules of a policy before it runs."""
    from guardagent.policy.load import read_policies
    from guardagent.workflow.analysis.paths import without_garbage_collection
    from guardagent.workflow.model.targets import graph_of_target
    from guardagent.workflow.reports import FORMATS, render, show
    from guardagent.workflow.verify import verify as verified

    form = _format(output, "text", FORMATS, as_json=as_json)
    rules = read_policies(policies) if policies else None
    with without_garbage_collection():
        found = graph_of_target(target)
        report = verified(found, rules, require_human=require_human, sensitive_tools=sensitive or (), name=target)
        if out is None:
            show(report, form, sys.stdout)
        else:
            _write(render(report, form), out)
    raise typer.Exit(0 if report.passed else 1)


def graph(
    target: Target,
    *,
    output: Annotated[str, typer.Option("--format", help="json (the default), mermaid, dot or svg.")] = "",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Extract and draw the graph of a workflow."""
    from guardagent.workflow.drawing import FORMATS, draw
    from guardagent.workflow.model.targets import graph_of_target

    form = _format(output, "json", FORMATS, as_json=as_json)
    found = graph_of_target(target)
    _write(draw(found, form), out)
    for one in found.notes:
        note(f"note: {one}")


def _format(named: str, usual: str, known: Plugins, *, as_json: bool) -> str:
    if as_json and named not in ("", "json"):
        raise InputError(f"'--json' and '--format {named}' exclude each other; expected one of them")
    form = named or ("json" if as_json else usual)
    if form not in known:
        raise UnknownNameError("format", form, known)
    return form


def _write(text: str, out: Path | None) -> None:
    text = text if text.endswith("\n") else f"{text}\n"
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")
