"""The command `lint`: checks a policy file."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from guardagent.cli.options import JsonLines
from guardagent.cli.output import note, print_json, print_line

if TYPE_CHECKING:
    from guardagent.policy.lint import LintFinding


def lint(
    policies: Annotated[str, typer.Argument(help="The policy file. No file that it names is run.")],
    *,
    as_json: JsonLines = False,
) -> None:
    """Find contradictory, vacuous, shadowed, under-constrained and otherwise faulty rules."""
    from guardagent.policy.lint import lint_report

    result = lint_report(policies)
    for finding in result.findings:
        print_json(asdict(finding)) if as_json else print_line(_finding_text(finding))
    for undecided in result.undecided:
        note(f"note: {undecided}")
    if not result.findings and not result.undecided:
        note(f"{policies}: no findings in {result.rules} rule{'' if result.rules == 1 else 's'}")
    raise typer.Exit(1 if result.findings else 3 if result.undecided else 0)


def _finding_text(finding: LintFinding) -> str:
    where = " ".join(filter(None, (finding.policy, finding.tool and f"({finding.tool})"))) or "the file"
    return f"{finding.kind}: {where}: {finding.message}\n    for example: {finding.example}"
