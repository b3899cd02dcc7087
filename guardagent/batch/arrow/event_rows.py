"""Rows in the schema `EVENTS` as tuples, collected by trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, repeat
from typing import NamedTuple

import pyarrow as pa

from guardagent.errors import InputError


class EventRow(NamedTuple):
    """A row in the schema `EVENTS`."""

    trace: str | None
    time: float | None
    position: int | None
    tool: str | None
    args: str | None
    output: str | None
    failed: bool | None
    action: str | None
    decision: str | None
    tags: list[str] | None
    facts: str | None
    state: str | None
    trace_state: str | None
    trace_facts: str | None
    principal: str | None
    task: str | None
    success: bool | None
    record: str | None
    error: str | None
    source: str | None
    row: int | None


def rows_by_trace(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str | None, list[EventRow]]]:
    """Yields each trace with its rows, which are adjacent. Rows without a trace come one by one.

    Raises:
        InputError: a trace comes again later. Neither verdict would be on the whole of it.
    """
    seen: set[int] = set()
    for key, group in groupby(chain.from_iterable(map(_rows, batches)), _key):
        trace = key if isinstance(key, str) else None
        if trace is not None:
            if (digest := hash(trace)) in seen:
                raise InputError(f"the rows of the trace {trace!r} are not adjacent; expected rows sorted by 'trace'")
            seen.add(digest)
        yield trace, list(group)


def _key(row: EventRow) -> object:
    return object() if row.trace is None else row.trace


def _rows(batch: pa.RecordBatch) -> Iterator[EventRow]:
    count = batch.num_rows
    columns = (batch.column(name) for name in EventRow._fields)
    values = (repeat(None, count) if column.null_count == count else column.to_pylist() for column in columns)
    return map(EventRow._make, zip(*values, strict=True))
