"""The index of a file's traces: the conversation of each, and the spans that are missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from guardagent.batch.arrow.readers._spans import Row, TraceSpan, error_row


def _sets() -> defaultdict[str, set[str]]:
    return defaultdict(set)


@dataclass(slots=True)
class TraceIndex:
    """The conversations and the span ids of the traces of a file, in any order; that of several files is their union.

    Memory grows with the number of spans, by about the length of their ids.
    """

    conversations: defaultdict[str, set[str]] = field(default_factory=_sets)
    spans: defaultdict[str, set[str]] = field(default_factory=_sets)
    parents: defaultdict[str, set[str]] = field(default_factory=_sets)
    with_rows: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, spans: Iterable[TraceSpan]) -> TraceIndex:
        """Returns the index of spans."""
        index = cls()
        for span in spans:
            index._add(span)
        return index

    def _add(self, span: TraceSpan) -> None:
        if span.trace is None:
            return
        for found, value in (
            (self.conversations, span.conversation),
            (self.spans, span.id),
            (self.parents, span.parent),
        ):
            if value is not None:
                found[span.trace].add(value)
        if span.rows or span.conversation is not None:
            self.with_rows.add(span.trace)

    def update(self, other: TraceIndex) -> None:
        """Adds the index of another file."""
        for mine, theirs in (
            (self.conversations, other.conversations),
            (self.spans, other.spans),
            (self.parents, other.parents),
        ):
            for trace, values in theirs.items():
                mine[trace] |= values
        self.with_rows |= other.with_rows

    def keys(self, trace: str | None, own: str | None = None) -> tuple[str | None, ...]:
        """Returns the conversations of a trace, or its own id if it is in none; more than one is a contradiction."""
        found = {*self.conversations.get(trace or "", ()), *([own] if own is not None else [])}
        return tuple(sorted(found)) or (trace,)

    def missing(self) -> Iterator[Row]:
        """Yields an error row for each trace with calls in which spans have a parent that was not exported."""
        for trace in sorted(self.with_rows):
            absent = self.parents.get(trace, set()) - self.spans.get(trace, set())
            if absent:
                message = (
                    f"the trace {trace!r} is incomplete: {len(absent)} of its spans are missing, for example "
                    f"{min(absent)!r}, which others have as parent; export whole traces, without sampling or a filter"
                )
                yield from ({"trace": key} | dict(error_row(message)) for key in self.keys(trace))
