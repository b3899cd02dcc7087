"""The report as one HTML page with plots."""

from __future__ import annotations

from guardagent._support.requirements import require
from guardagent._support.sections.html import html
from guardagent.batch.report.figures import AuditReport
from guardagent.batch.report.formats import sections, warning

SUFFIX = ".html"


def render(report: AuditReport) -> bytes:
    """Returns the page.

    Raises:
        InputError: matplotlib is missing or too old.
    """
    require({"matplotlib": "3.8"}, "report")
    from guardagent.batch.report.writers._plots import plots

    return html("Audit report", warning(report), sections(report), plots(report)).encode("utf-8", "replace")
