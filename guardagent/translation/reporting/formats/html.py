"""The report as one HTML page, which loads nothing and runs nothing."""

from __future__ import annotations

from guardagent._support.sections.html import html
from guardagent.translation.report import TranslationSummary
from guardagent.translation.report_formats import TITLE, sections, warning

NAME = "HTML"
SUFFIX = ".html"


def render(summary: TranslationSummary) -> str:
    return html(TITLE, warning(summary), sections(summary))
