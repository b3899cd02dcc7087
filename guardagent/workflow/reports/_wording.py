"""What each structural check is about: the words that reports have for it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from guardagent.workflow.analysis.check_context import CheckDescription
from guardagent.workflow.analysis.checks import descriptions
from guardagent.workflow.analysis.report import EveryRunResult, Mechanism, RuleStatus

_SUPPRESSIONS = CheckDescription(
    "Every suppression has a reason and matches a finding",
    "A suppression that says nothing, or that excuses nothing, hides what comes later.",
    "Write the reason behind `--`, or take the suppression out.",
)


@cache
def check_descriptions() -> Mapping[str, CheckDescription]:
    """The words for each check, and for what is wrong with a suppression."""
    return {**descriptions(), "suppressions": _SUPPRESSIONS}


MECHANISMS: dict[Mechanism, str] = {
    "bad_prefix": "broken on the way",
    "unmet_at_end": "still owed at the end",
    "postponed_by_cycle": "put off for ever by a cycle",
}

STATUSES: dict[RuleStatus, str] = {
    "proved": "holds on every path",
    "violated": "is violated on the path shown",
    "undecidable": "cannot be decided before the agent runs",
}

_EVERY_RUN: dict[RuleStatus, str] = {"proved": "proved", "violated": "no proof", "undecidable": "not known"}


def every_run_line(found: EveryRunResult) -> str:
    """What is known for every run, beside what holds as the graph is drawn; empty where nothing is said of it."""
    return f"for every run: {_EVERY_RUN[found.status]}: {found.message}" if found.message else ""
