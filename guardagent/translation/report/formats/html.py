"""The report as one HTML page, which loads nothing and runs nothing."""

from __future__ import annotations

from guardagent._support.sections.html import html
from guardagent.translation.report.formats._sections import TITLE, sections, warning
from guardagent.translation.report.summary import TranslationSummary

NAME = "HTML"
SUFFIX = ".html"


def render(summary: TranslationSummary) -> str:
    return html(TITLE, warning(summary), sections(summary))
