"""Sections as Markdown. Strings of others are code spans, in which nothing is a link, an image, HTML or a mention."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from guardagent._support.sections_pieces.section import Quoted, ReportSection, ReportTable
from guardagent._version import __version__


def markdown(title: str, warning: str, sections: Iterable[ReportSection]) -> str:
    """Returns a report; the warning, if there is one, comes first."""
    lines = [f"# {title}", ""]
    if warning:
        lines += [f"> **{warning}**", ""]
    for one in sections:
        lines += _section(one)
    return "\n".join([*lines, f"Made by GuardAgent {__version__}.", ""])


def _section(section: ReportSection) -> Iterator[str]:
    yield from (f"{'#' * section.level} {_text(section.title)}", "")
    for note in section.notes:
        yield from ("".join(map(_text, note)), "")
    if section.table is not None and section.table.rows:
        yield from (*_table(section.table), "")


def _table(table: ReportTable) -> Iterator[str]:
    yield f"| {' | '.join(table.head)} |"
    yield f"|{'|'.join('---' if at < table.texts else '---:' for at in range(len(table.head)))}|"
    for row in table.rows:
        # A table ends a cell at a bar even within a code span, unless it is escaped.
        yield f"| {' | '.join(_text(cell).replace('|', chr(92) + '|') for cell in row)} |"


def _text(text: str) -> str:
    """The string as it is or, if others wrote it, as a code span with a longer fence than any within."""
    if not isinstance(text, Quoted):
        return text
    if not text:
        return "-"
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"
