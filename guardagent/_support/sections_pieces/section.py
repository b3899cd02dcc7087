"""The content of a report for people: sections with notes and tables, which each format lays out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from guardagent._terminal import printable


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
