"""Reports for people: sections with notes and tables, as Markdown or as one HTML page.

Strings that others chose are shown safely. In Markdown they are code spans, in which nothing is a link, an image, HTML
or a mention. The HTML page loads and runs nothing: its template escapes each of them, and its content security policy
forbids scripts and requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Self

from guardagent._terminal import printable
from guardagent._version import __version__


class Quoted(str):
    """A string that others wrote, on one line: an id, a message, a path. A format must not read marks in it."""

    __slots__ = ()

    def __new__(cls, text: object) -> Self:
        """Replaces control characters and invisible ones."""
        return super().__new__(cls, " ".join(printable(str(text)).split()))


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table. The first `texts` columns are text, the others are numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int = 1


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of a report. A note is a sequence of strings, plain or quoted. `plot` names a plot."""

    title: str
    notes: tuple[tuple[str, ...], ...] = ()
    table: ReportTable | None = None
    plot: str = ""
    level: int = 2


def percent(share: float) -> str:
    """Returns a share from 0 to 1 in percent; a tiny one is not shown as zero."""
    return f"{100 * share:.1f}%" if share >= 0.001 or not share else "<0.1%"


def markdown(title: str, warning: str, sections: Iterable[ReportSection]) -> str:
    """Returns a report; the warning, if there is one, comes first."""
    lines = [f"# {title}", ""]
    if warning:
        lines += [f"> **{warning}**", ""]
    for section in sections:
        lines += _section(section)
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


_NO_PLOTS: Mapping[str, str] = MappingProxyType({})


def html(title: str, warning: str, sections: Iterable[ReportSection], plots: Mapping[str, str] = _NO_PLOTS) -> str:
    """Returns the page.

    Args:
        title: the heading.
        warning: a sentence before everything else; may be empty.
        sections: the content.
        plots: SVG drawings, by the names that the sections use. Their labels are escaped already.
    """
    from markupsafe import Markup

    drawn = {name: Markup(svg) for name, svg in plots.items()}  # noqa: S704 - the drawing escapes labels
    return page("guardagent._support", title=title, warning=warning, sections=list(sections), plots=drawn)


def page(package: str, name: str = "page.html.j2", **values: object) -> str:
    """Returns the page of a template in a package's folder. The template escapes all strings except `Markup`."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    return environment.from_string(text).render(version=__version__, **values)
