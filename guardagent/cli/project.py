"""The commands `init`, `doctor` and `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from guardagent.cli.options import Json
from guardagent.cli.output import print_json, print_line, screen


def init(folder: Annotated[Path, typer.Argument(help="The folder to create.")], *, as_json: Json = False) -> None:
    """Create a starter project: one toolbox function, one agent, a policy file, and runs to try."""
    from guardagent.cli.starter import create

    advice = create(folder)
    if as_json:
        files = sorted(str(path) for path in folder.rglob("*") if path.is_file())
        print_json({"folder": str(folder), "files": files})
    else:
        print_line(advice)


def doctor(*, as_json: Json = False) -> None:
    """Check which sandbox protections work on this machine.

    Says how to add missing ones, and exits with 1 if one is missing.
    """
    from guardagent.sandbox.doctor import examine, to_dict

    findings = examine()
    missing = any(finding.problem for finding in findings)
    if as_json:
        print_json(to_dict(findings))
    else:
        from guardagent.cli.render import show_findings

        show_findings(findings, screen())
    raise typer.Exit(1 if missing else 0)


def demo() -> None:
    """Show a two-minute tour, offline: guards of a health-records, a web and a Q&A agent."""
    from guardagent.cli.demo import tour

    tour(screen())
