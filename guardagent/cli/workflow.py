"""The commands on workflow graphs: `verify` and `graph`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from guardagent.errors import UnknownNameError

Target = Annotated[
    str, typer.Argument(help="file.py (source only), file.py:attribute, module:attribute, or graph.json.")
]
PolicyFile = Annotated[Path | None, typer.Option("--policies", help="A policy file whose rules are proved too.")]
Out = Annotated[Path | None, typer.Option("--out", help="Write there instead of to standard output.")]


def register(app: typer.Typer) -> None:
    """Adds the commands to an app."""
    app.command()(verify)
    app.command()(graph)


def verify(
    target: Target,
    *,
    policies: PolicyFile = None,
    require_human: Annotated[bool, typer.Option("--require-human", help="A person has to take part.")] = False,
    sensitive: Annotated[
        list[str] | None, typer.Option("--sensitive", help="A tool that no path may reach without a person.")
    ] = None,
    output: Annotated[str, typer.Option("--format", help="text, json, sarif, github or html.")] = "text",
    out: Out = None,
) -> None:
    """Prove a workflow graph against the structural checks and the rules of a policy, before it runs."""
    from guardagent.policy.load import read_policies
    from guardagent.workflow.analysis.paths import without_collections
    from guardagent.workflow.model.targets import graph_of_target
    from guardagent.workflow.reports import FORMATS, render, show
    from guardagent.workflow.verify import verify as verified

    if output not in FORMATS:
        raise UnknownNameError("format", output, FORMATS)
    rules = read_policies(policies) if policies else None
    with without_collections():
        found = graph_of_target(target)
        report = verified(found, rules, require_human=require_human, sensitive_tools=sensitive or (), name=target)
        if out is None:
            show(report, output, sys.stdout)
        else:
            _write(render(report, output), out)
    raise typer.Exit(0 if report.passed else 1)


def graph(
    target: Target,
    *,
    output: Annotated[str, typer.Option("--format", help="json, mermaid, dot or svg.")] = "json",
    out: Out = None,
) -> None:
    """The graph of a workflow."""
    from guardagent.workflow.drawing import FORMATS, draw
    from guardagent.workflow.model.targets import graph_of_target

    if output not in FORMATS:
        raise UnknownNameError("format", output, FORMATS)
    found = graph_of_target(target)
    _write(draw(found, output), out)
    for note in found.notes:
        sys.stderr.write(f"note: {note}\n")


def _write(text: str, out: Path | None) -> None:
    text = text if text.endswith("\n") else f"{text}\n"
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")
