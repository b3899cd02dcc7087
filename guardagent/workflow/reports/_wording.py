"""The wording of reports: descriptions of checks, mechanisms and statuses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from guardagent.workflow.analysis.checks import CheckDescription, descriptions
from guardagent.workflow.analysis.report import EveryRunResult, Mechanism, Report, RuleStatus

_SUPPRESSIONS = CheckDescription(
    "Every suppression has a reason and matches a finding",
    "A suppression without a reason or a finding can hide later findings.",
    "Write the reason after '--', or remove the suppression.",
)


def other_notes(report: Report) -> list[str]:
    """Returns the notes of a report without those on unknown parts, which stand at its beginning."""
    shown = set(map(str, report.unknown))
    return [note for note in report.notes if note not in shown]


@cache
def check_descriptions() -> Mapping[str, CheckDescription]:
    """Returns the description of each check, and of wrong suppressions."""
    return {**descriptions(), "suppressions": _SUPPRESSIONS}


MECHANISMS: dict[Mechanism, str] = {
    "bad_prefix": "violated on the path",
    "unmet_at_end": "unmet at the end",
    "postponed_by_cycle": "postponed forever by a cycle",
}

STATUSES: dict[RuleStatus, str] = {
    "proved": "holds on every path",
    "violated": "is violated on the path shown",
    "undecidable": "cannot be decided before run time",
}

_EVERY_RUN: dict[RuleStatus, str] = {"proved": "proved", "violated": "no proof", "undecidable": "unknown"}


def every_run_line(found: EveryRunResult) -> str:
    """Returns the result for every run as a line; empty if it has no message."""
    return f"for every run: {_EVERY_RUN[found.status]}: {found.message}" if found.message else ""
