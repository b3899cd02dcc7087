"""The report as JSON, for programs."""

from __future__ import annotations

from guardagent.workflow.drawing._lines import in_lines
from guardagent.workflow.report import Report


def render(report: Report) -> str:
    """One JSON object, in the public key order, with a line for each finding and each rule."""
    return in_lines(report.to_dict())
