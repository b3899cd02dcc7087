"""The command on policy files themselves: `lint`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from guardagent.policy.lint import LintFinding

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object in a line and nothing else.")]


def register(app: typer.Typer) -> None:
    """Adds the command to an app."""
    app.command()(lint)


def lint(
    policies: Annotated[str, typer.Argument(help="The policy file. Nothing that it names is run.")],
    *,
    as_json: Json = False,
) -> None:
    """Find what is wrong with rules themselves: contradictory, vacuous, shadowed, under-constrained, and more."""
    from guardagent.policy.lint import examine

    found = examine(policies)
    for finding in found.findings:
        sys.stdout.write(f"{json.dumps(asdict(finding), ensure_ascii=False) if as_json else _words(finding)}\n")
    for note in found.undecided:
        sys.stderr.write(f"note: {note}\n")
    if not found.findings and not found.undecided:
        sys.stderr.write(f"{policies}: nothing found\n")
    raise typer.Exit(1 if found.findings else 3 if found.undecided else 0)


def _words(finding: LintFinding) -> str:
    where = " ".join(filter(None, (finding.policy, finding.tool and f"({finding.tool})"))) or "the file"
    return f"{finding.kind}: {where}: {finding.message}\n    for example: {finding.example}"
