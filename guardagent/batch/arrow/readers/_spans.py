"""Spans: the part of a record that all formats share, and the step from a record to its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from guardagent.errors import InputError

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """A record of another system: its place in its trace, and the event rows that it gives, still without `trace`.

    Attributes:
        trace: the id of the trace; None if it is unknown.
        id: the id of the record within the trace; None if it has none.
        parent: the id of the record that encloses it; None for an outermost one, or if another service recorded it.
        conversation: the id of the conversation, which can consist of several traces; None if the record has none.
        rows: events, and errors in place of events that cannot be read.
    """

    trace: str | None = None
    id: str | None = None
    parent: str | None = None
    conversation: str | None = None
    rows: tuple[Row, ...] = ()


def read_span(
    record: Any, trace_keys: Iterable[str], place: Callable[[Any], TraceSpan], *parts: Callable[[Any], Iterable[Row]]
) -> TraceSpan:
    """Returns the span of a record.

    Args:
        record: any JSON value.
        trace_keys: the keys of the trace's id, so that an error can name the trace.
        place: returns the span without rows.
        parts: each yields some of the rows. An InputError in one of them becomes a row with an error.
    """
    if type(record) is not dict:
        return TraceSpan(rows=(error_row(f"the record is {kind(record)}; expected an object"),))
    try:
        span = place(record)
    except (InputError, RecursionError) as error:
        known = [record[key] for key in trace_keys if is_text(record.get(key))]
        return TraceSpan(known[0] if known else None, rows=(error_row(error),))
    rows = [row for part in parts for row in _rows(part, record)]
    if rows and span.trace is None and span.conversation is None:
        rows.append(error_row("the record has no id of a trace; expected one"))
    return replace(span, rows=tuple(rows))


def _rows(part: Callable[[Any], Iterable[Row]], record: Any) -> Iterator[Row]:
    try:
        yield from tuple(part(record))
    except (InputError, RecursionError) as error:
        yield error_row(error)


def error_row(error: Exception | str) -> Row:
    return {"error": "the record is nested too deep" if isinstance(error, RecursionError) else str(error)}


def is_text(value: Any) -> bool:
    """Whether a value is a non-empty string that UTF-8 can encode, as table columns require."""
    try:
        return type(value) is str and bool(value.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def kind(value: Any) -> str:
    """Returns the JSON type of a value for messages."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "missing"}
    return names.get(type(value), "a number")
