"""The report as JSON, for programs."""

from __future__ import annotations

from guardagent.workflow.analysis.report import Report
from guardagent.workflow.drawing._lines import in_lines

SUFFIX = ".json"


def render(report: Report) -> str:
    """One JSON object, in the public key order, with a line for each finding and each rule."""
    return in_lines(report.to_dict())
