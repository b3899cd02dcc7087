"""The report on a translation: a short document for the person who signs it.

    review file -> summary -> one of `FORMATS`

settlement      the standing of rules and sentences, and the exit status
changes         the changes since the last version of the document
summarization   its computation from a review
formats/        Markdown, HTML and JSON; each file is one
"""

from __future__ import annotations

from guardagent._support.plugins import Plugins
from guardagent.translation.report import TranslationSummary
from guardagent.translation.reporting.changes import DocumentChanges
from guardagent.translation.reporting.settlement import outcome
from guardagent.translation.reporting.summarization import summarize

__all__ = ["FORMATS", "DocumentChanges", "TranslationSummary", "outcome", "render", "summarize"]

FORMATS = Plugins(
    "translation report", f"{__name__}.formats", ("NAME", "SUFFIX", "render"), group="guardagent.translation_reports"
)


def render(summary: TranslationSummary, format: str) -> str:  # noqa: A002 - as the option is called
    """Returns the report in one of `FORMATS`.

    Raises:
        UnknownNameError: the format does not exist.
    """
    text: str = FORMATS.load(format).render(summary)
    return text
