"""From JSON documents to event rows: parsing, the conversation of each row, and record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from guardagent._support import json_values
from guardagent.batch.arrow.readers._spans import Row, TraceSpan, error_row
from guardagent.batch.arrow.readers._trace_index import TraceIndex
from guardagent.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 1024


def to_events(
    reader: Any, lines: Iterable[str], *, source: str | None = None, partial: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yields the event rows of a file in the schema `EVENTS`.

    Args:
        reader: the reader of its format.
        lines: its JSON documents. They are read twice, so an iterator is an error.
        source: the name of the file, for the column of this name.
        partial: also accept a trace in which the parent of a span is missing, because others were filtered out.

    Raises:
        InputError: `lines` can be iterated only once.
    """
    import pyarrow as pa

    from guardagent.batch.arrow.schema import EVENTS

    if iter(lines) is lines:
        raise InputError("the lines can be read only once; expected a list, or an object that can be iterated twice")
    index = TraceIndex.of(chain.from_iterable(read_spans(reader, line) for line in lines))
    numbered = (row | {"row": at} for at, line in enumerate(lines, 1) for row in to_rows(reader, line, index))
    rows = (row | {"source": source} for row in chain(numbered, () if partial else map(dict, index.missing())))
    while batch := list(islice(rows, _BATCH)):
        yield pa.RecordBatch.from_pylist(batch, schema=EVENTS)


def read_spans(reader: Any, line: str) -> Iterator[TraceSpan]:
    """Yields the spans of a JSON document; one with an error if it is not acceptable JSON."""
    try:
        document = json_values.loads(line)
    except ValueError as error:
        yield TraceSpan(rows=(error_row(f"not acceptable JSON: {error}"),))
    else:
        yield from reader.spans(document)


def to_rows(reader: Any, line: str, index: TraceIndex) -> Iterator[dict[str, Any]]:
    """Yields the event rows of a JSON document. Their `trace` is the conversation, or the trace if that is unknown.

    Args:
        reader: the reader of its format.
        line: the document.
        index: the index of all files, which knows the conversations of traces.
    """
    for span in read_spans(reader, line):
        keys = index.keys(span.trace, span.conversation)
        rows = span.rows if len(keys) == 1 else _contradiction(span, keys)
        yield from ({"trace": key, **row} for row in rows for key in keys)


def _contradiction(span: TraceSpan, keys: Iterable[str | None]) -> Iterator[Row]:
    if span.rows:
        names = " and ".join(map(repr, keys))
        yield error_row(f"the trace {span.trace!r} names several conversations, {names}; expected one")
