"""The report as JSON, for programs."""

from __future__ import annotations

from guardagent.workflow.analysis.report import Report, ReportListing
from guardagent.workflow.drawing.text import pretty_json
from guardagent.workflow.reports import ReportFormat


def render(report: Report) -> str:
    """Returns one JSON object in the public key order, with a line for each finding and each rule."""
    return pretty_json(report.to_dict())


def render_all(listing: ReportListing) -> str:
    """Returns one JSON object with a line for each report and each unread place."""
    return pretty_json(listing.to_dict())


JSON = ReportFormat(".json", render, render_all)
