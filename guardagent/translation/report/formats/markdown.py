"""The report as Markdown."""

from __future__ import annotations

from guardagent._support.sections.markdown import markdown
from guardagent.translation.report.formats._sections import TITLE, sections, warning
from guardagent.translation.report.summary import TranslationSummary

NAME = "Markdown"
SUFFIX = ".md"


def render(summary: TranslationSummary) -> str:
    return markdown(TITLE, warning(summary), sections(summary))
