"""The command `ci`: all checks of a project, in one run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from guardagent.cli.options import Json, print_line
from guardagent.errors import UnknownNameError


def ci(
    *,
    fail_on: Annotated[
        str | None,
        typer.Option("--fail-on", help="The least severity that fails: error (the default), warning or note."),
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", help="The last policy: a Git revision, or a policy file.")
    ] = None,
    sarif: Annotated[Path | None, typer.Option("--sarif", help="Also write a SARIF file, for code scanning.")] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write a JUnit file, for test reports.")] = None,
    output: Annotated[
        str, typer.Option("--format", help="text, or github for annotations of a pull request.")
    ] = "text",
    as_json: Json = False,
) -> None:
    """Lint, test, replay and verify what pyproject.toml names under [tool.guardagent].

    The policies are linted, their cases judged and the coverage of their rules found; logs are replayed against the
    last policy, and workflows verified. Exits with 1 if a finding fails, and with 2 if something could not be read.
    """
    from guardagent._support.files import save_text
    from guardagent.testing import ci_reports
    from guardagent.testing.ci import read_settings, run_checks

    if output not in ("text", "github"):
        raise UnknownNameError("format", output, ("text", "github"))
    changed: dict[str, Any] = {"against": against, "fail_on": fail_on}
    options = {name: value for name, value in changed.items() if value is not None}
    report = run_checks(replace(read_settings(Path("pyproject.toml")), **options))
    for path, render in ((sarif, ci_reports.sarif), (junit, ci_reports.junit)):
        if path is not None:
            save_text(path, render(report))
    if as_json:
        print_line(ci_reports.as_json(report))
    else:
        annotations = [ci_reports.github(report)] if output == "github" and report.findings else []
        for line in (*annotations, *ci_reports.text(report)):
            print_line(line)
    raise typer.Exit(report.status)
