"""The report as Markdown."""

from __future__ import annotations

from guardagent._support.sections.markdown import markdown
from guardagent.batch.report.figures import AuditReport
from guardagent.batch.report.formats import sections, warning

SUFFIX = ".md"


def render(report: AuditReport) -> bytes:
    return markdown("Audit report", warning(report), sections(report)).encode("utf-8", "replace")
