"""The report as Markdown."""

from __future__ import annotations

from guardagent._support.sections.markdown import markdown
from guardagent.translation.report import TranslationSummary
from guardagent.translation.report_formats import TITLE, sections, warning

NAME = "Markdown"
SUFFIX = ".md"


def render(summary: TranslationSummary) -> str:
    return markdown(TITLE, warning(summary), sections(summary))
