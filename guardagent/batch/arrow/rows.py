"""Reads a split as record batches in the schema `EVENTS`, and their rows as tuples, collected by trace.

Traces of other systems become event rows in files before an engine splits the work, since their records are read
twice. A line of JSON Lines is a whole trace, or one event with the id of its trace. Only the id is decoded here, to
find the partition of the line. Whoever judges the trace reads the line itself.

The columns of a Parquet file are those of `EVENTS`, in the same or a similar type. A value of a nested type becomes
JSON. In a struct a null stands for an absent key: the columns of a struct are all keys that any of its values has.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import chain, groupby, islice, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent._support.json_values import unique_keys
from guardagent.batch.arrow.readers import READERS, TraceIndex, documents, load_reader, read_spans, to_rows
from guardagent.batch.arrow.schema import EVENTS, VERDICTS
from guardagent.batch.arrow.source_files import SourceFile, Split, open_parquet, opened
from guardagent.batch.json_object import near_miss
from guardagent.batch.records import MAX_LINE
from guardagent.errors import InputError
from guardagent.policy.language.values import moment_of, parsed_instant

# --- traces of other systems

FORMAT = "rows"  # of the files that are written here: Arrow IPC in the schema `EVENTS`
_BATCH_ROWS = 4096
_CHUNK_ROWS, _CHUNK_BYTES = 2**18, 64 * 2**20


def is_foreign(file: SourceFile) -> bool:
    """Whether a file has the traces of another system."""
    return file.format.replace("-", "_") in READERS


def staged(files: Sequence[SourceFile], folder: Path) -> Iterator[Split]:
    """Writes the rows of files with traces of other systems into a folder, and yields their splits.

    A trace may be spread over the files of one format. Memory grows with the ids of spans.

    Raises:
        InputError: a file cannot be read.
    """
    for name in sorted({file.format for file in files}):
        reader, group = load_reader(name), [file for file in files if file.format == name]
        index = TraceIndex()
        for file in group:
            for document in _documents(file):
                index.update(TraceIndex.of(read_spans(reader, document)))
        rows = [_rows_of(file, reader, index) for file in group]
        for number, row in enumerate([*rows, map(dict, index.missing())]):
            path = folder / f"{name}-{number}.arrow"
            _write(path, row)
            yield Split(str(path), FORMAT, 0, -1)


def stream_rows(path: str) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a stream of Arrow IPC, such as a file that `staged` wrote."""
    with pa.memory_map(path) as source, pa.ipc.open_stream(source) as reader:
        yield from reader


def _documents(file: SourceFile) -> Iterator[str]:
    with (
        opened(file.path) as data,
        io.TextIOWrapper(data, encoding="utf-8", errors="surrogateescape", newline="\n") as text,
    ):
        yield from documents(text)


def _rows_of(file: SourceFile, reader: Any, index: TraceIndex) -> Iterator[dict[str, Any]]:
    rows = (row for document in _documents(file) for row in to_rows(reader, document, index))
    return ({**row, "source": file.path, "row": number} for number, row in enumerate(rows))


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("wb") as sink, pa.ipc.new_stream(sink, EVENTS) as writer:
        waiting = iter(rows)
        while batch := list(islice(waiting, _BATCH_ROWS)):
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=EVENTS))


def rows_of(split: Split) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a split. A line that cannot be read becomes a row with an `error`.

    Raises:
        InputError: the file cannot be read, or its columns are not those of `EVENTS`.
    """
    if split.format == "parquet":
        return parquet_rows(split)
    if split.format == FORMAT:
        return stream_rows(split.path)
    return line_rows(split)


def chunks_of(split: Split, *, only_traces: bool = False) -> Iterator[pa.Table]:
    """Yields the rows of a split in chunks of a limited size, which are the same every time.

    Args:
        split: the split.
        only_traces: the other columns may be missing.

    Raises:
        InputError: the file cannot be read, or its columns are not those of `EVENTS`.
    """
    if only_traces and split.format == "parquet":
        yield from _parquet_traces(split)
    elif split.format == FORMAT:
        yield from _of_size(stream_rows(split.path), _CHUNK_ROWS)
    elif split.format == "parquet":
        yield from (pa.Table.from_batches([batch]) for batch in parquet_rows(split))
    else:
        yield from (pa.Table.from_batches([batch]) for batch in line_rows(split, only_traces=only_traces))


def filtered(rows: pa.Table, wanted: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Table:
    """Some of the rows, in a third of the time of `Table.filter` where most columns are null."""
    mask, count = pa.array(wanted), int(np.count_nonzero(wanted))
    columns = [
        pa.nulls(count, column.type) if column.null_count == len(column) else column.filter(mask)
        for column in rows.columns
    ]
    return pa.table(columns, schema=rows.schema)


# --- JSON Lines

_BATCH_BYTES = 8 * 2**20
_BOM = b"\xef\xbb\xbf"


def line_rows(split: Split, *, only_traces: bool = False) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the lines that begin in a split, or only their traces.

    Raises:
        InputError: the file cannot be read.
    """
    builder = _LineBatch(split.path, only_traces=only_traces)
    for offset, line in lines_of(split):
        builder.add(offset, line)
        if builder.size >= _BATCH_BYTES:
            yield builder.batch()
    if builder.size:
        yield builder.batch()


def lines_of(split: Split) -> Iterator[tuple[int, bytes]]:
    """Yields the lines that begin in a split with their offsets, without line ends and blank lines.

    A line that is too long is cut off after its limit.

    Raises:
        InputError: the file cannot be read.
    """
    with opened(split.path) as file:
        offset = split.start
        if offset:
            file.seek(offset - 1)
            offset += _skipped_line(file) - 1
        while split.stop == -1 or offset < split.stop:
            line = file.readline(MAX_LINE + 1)
            if not line:
                return
            length = len(line)
            if length > MAX_LINE and not line.endswith(b"\n"):
                length += _skipped_line(file)
            text = line.removeprefix(b"" if offset else _BOM).rstrip(b"\r\n")
            if text.strip():
                yield offset, text
            offset += length


def _skipped_line(file: Any) -> int:
    """Skips the rest of a line, and returns its length in bytes."""
    length = 0
    while part := file.readline(2**20):
        length += len(part)
        if part.endswith(b"\n"):
            break
    return length


class _LineBatch:
    """The columns of a batch that have values."""

    def __init__(self, path: str, *, only_traces: bool) -> None:
        self._path, self._only_traces = path, only_traces
        self._clear()

    def _clear(self) -> None:
        self.size = 0
        self._columns: dict[str, list[Any]] = {name: [] for name in ("trace", "record", "error", "row")}

    def add(self, offset: int, line: bytes) -> None:
        trace, record, error = _identified(line, self._path, offset)
        values = {"trace": trace, "record": None if self._only_traces else record, "error": error, "row": offset}
        for name, column in self._columns.items():
            column.append(values[name])
        self.size += len(line) + 64

    def batch(self) -> pa.RecordBatch:
        columns, count = self._columns, len(self._columns["row"])
        self._clear()
        source = pa.repeat(pa.scalar(self._path), count)
        return pa.RecordBatch.from_arrays(
            [
                source
                if field.name == "source"
                else pa.array(columns[field.name], field.type)
                if field.name in columns
                else pa.nulls(count, field.type)
                for field in EVENTS
            ],
            schema=EVENTS,
        )


def _identified(line: bytes, path: str, offset: int) -> tuple[str | None, str | None, str | None]:
    """(the id of the trace, the line, why it cannot be read)."""
    try:
        text = _text(line)
        trace = _quick_id(line)
        if trace is None:
            trace = _careful_id(text)
        trace.encode()
    except UnicodeEncodeError:
        return None, None, f"{path}: the line at byte {offset:,}: the id of its trace is not valid Unicode"
    except (ValueError, RecursionError, InputError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        return _first_id(line), None, f"{path}: the line at byte {offset:,}: {reason}"
    return trace, text, None


_FIRST_ID = re.compile(rb'\s*\{\s*"trace"\s*:\s*("(?:[^"\\]|\\.)*+"|[0-9]++)\s*,')


def _first_id(line: bytes) -> str | None:
    """The id of the trace with which a broken line begins; None if it begins otherwise."""
    match = _FIRST_ID.match(line)
    with contextlib.suppress(ValueError):  # of JSON, and of an id that is not valid Unicode
        return None if match is None else str(json.loads(match[1])).encode().decode()
    return None


def _text(line: bytes) -> str:
    if len(line) > MAX_LINE:
        raise InputError(f"the line is too long; expected at most {MAX_LINE:,} bytes")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"byte {error.start} of the line is not UTF-8; expected UTF-8 text") from None


@lru_cache(1)
def _decoder() -> Any:
    import msgspec

    identity = str | int | None
    fields = [("id", identity, None), ("trace", identity, None), ("events", msgspec.Raw, msgspec.Raw(b"null"))]
    return msgspec.json.Decoder(msgspec.defstruct("_Identified", fields))


def _quick_id(line: bytes) -> str | None:
    """The id of the trace, without reading the rest; None if the line needs a closer look."""
    import msgspec

    with contextlib.suppress(msgspec.MsgspecError, RecursionError):
        document = _decoder().decode(line)
        value = document.trace if bytes(document.events) == b"null" else document.id
        return None if value is None else str(value)
    return None


def _careful_id(text: str) -> str:
    """The id of the trace, or an error that says what is wrong with the line."""
    from guardagent._support.json_values import loads

    value = loads(text)
    if not isinstance(value, dict):
        raise InputError("it is not an object; expected a trace, or an event with its 'trace'")
    key = "id" if "events" in value else "trace"
    id_value = value.get(key)
    if not isinstance(id_value, str | int) or isinstance(id_value, bool):
        raise InputError(f"it has no {key!r}; expected the id of a trace: a string")
    return str(id_value)


# --- rows by trace


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
    acquitted: dict[str, Any] | None = None


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


# --- Parquet

_JSON_COLUMNS = frozenset(("args", "output", "facts", "state", "trace_state", "trace_facts", "principal", "record"))
_KINDS = ("tool", "action", "decision", "tags", "record")
_OURS = frozenset(("error", "source", "row", "acquitted"))  # columns that only this package writes


def parquet_rows(split: Split) -> Iterator[pa.RecordBatch]:
    """Yields the rows of these row groups.

    Raises:
        InputError: the file cannot be read, or its columns are not those of `EVENTS`.
    """
    with open_parquet(split.path) as file:
        schema = file.schema_arrow
        check_columns(schema, split.path)
        names = [name for name in schema.names if name in EVENTS.names and name not in _OURS]
        groups = range(split.start, split.stop)
        row = sum(file.metadata.row_group(group).num_rows for group in range(split.start))
        size, leaves = _rows_at_once(file, groups), map(file.schema.column, range(len(file.schema)))
        instants = {
            leaf.path.split(".")[0] for leaf in leaves if leaf.physical_type == "INT96"
        }  # Spark's times, in UTC
        fields = [schema.field(name) for name in names]
        timed = pa.schema(
            [field.with_type(_in_utc(field.type)) if field.name in instants else field for field in fields]
        )
        for chunk in _of_size(file.iter_batches(size, row_groups=list(groups), columns=names), size):
            batches = (chunk.cast(timed) if instants else chunk).combine_chunks().to_batches()
            yield from (event_rows(batch, split.path, row) for batch in batches)
            row += chunk.num_rows


def _in_utc(kind: pa.DataType) -> pa.DataType:
    """The type with the zone UTC for times without a zone."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, kind.tz or "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_utc(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _in_utc(kind.item_type))
    return pa.list_(kind.value_field.with_type(_in_utc(kind.value_type))) if pa.types.is_list(kind) else kind


def _parquet_traces(split: Split) -> Iterator[pa.Table]:
    """Yields the traces of the same rows, in tables of the same size."""
    with open_parquet(split.path) as file:
        check_columns(file.schema_arrow, split.path)
        groups = map(file.metadata.row_group, range(split.start, split.stop))
        columns = (group.column(at) for group in groups for at in range(group.num_columns))
        encodings = {name for column in columns if column.path_in_schema == "trace" for name in column.encodings}
    as_dictionary = [] if any(name.startswith("DELTA_") for name in encodings) else ["trace"]  # not yet in pyarrow
    with open_parquet(split.path, read_dictionary=as_dictionary) as file:
        size = _rows_at_once(file, range(split.start, split.stop))
        batches = file.iter_batches(size, row_groups=list(range(split.start, split.stop)), columns=["trace"])
        for chunk in _of_size(batches, size):
            column = chunk.column("trace").combine_chunks()
            is_plain = pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type)
            yield chunk if is_plain else pa.table({"trace": _as_field(EVENTS.field("trace"), column, split.path, {})})


def _of_size(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Yields the rows in tables with a number of rows; the last one may have fewer."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if not waiting and batch.num_rows == size:  # the common case
            yield pa.Table.from_batches([batch])
            continue
        waiting.append(batch)
        while sum(held.num_rows for held in waiting) >= size:
            rows = pa.Table.from_batches(waiting)
            yield rows.slice(0, size)
            waiting = rows.slice(size).to_batches()
    if any(batch.num_rows for batch in waiting):
        yield pa.Table.from_batches(waiting)


def _rows_at_once(file: Any, groups: Sequence[int]) -> int:
    """The number of rows of some row groups that are in memory at a time."""
    metadata = [file.metadata.row_group(group) for group in groups]
    size = sum(group.total_byte_size for group in metadata) // max(1, sum(group.num_rows for group in metadata))
    return int(max(1024, min(_CHUNK_ROWS, _CHUNK_BYTES // max(1, size))))


def check_columns(schema: pa.Schema, path: str) -> None:
    """Raises an InputError if the columns cannot be read as events."""
    if VERDICTS.metadata.keys() & (schema.metadata or {}).keys():
        raise InputError(f"{path}: holds the verdicts of an audit; expected events, and '--out' in another folder")
    known, present = frozenset(EVENTS.names) - _OURS, set(schema.names)
    for name in schema.names:
        meant = None if name in known else near_miss(name, known, present & known)
        if meant:
            raise InputError(f"{path}: has the unknown column {name!r}; did you mean {meant!r}?")
    if "trace" not in present or not present.intersection(_KINDS):
        expected = "'trace', and 'tool' or another of " + ", ".join(map(repr, _KINDS[1:]))
        raise InputError(f"{path}: has the columns {', '.join(map(repr, schema.names))}; expected {expected}")


def event_rows(batch: pa.RecordBatch, path: str, first_row: int) -> pa.RecordBatch:
    """Converts a batch to the schema `EVENTS`.

    Raises:
        InputError: a column has another type.
    """
    count, errors = batch.num_rows, dict[int, str]()

    def column(field: pa.Field) -> pa.Array:
        if field.name == "source":
            return pa.repeat(pa.scalar(path), count)
        if field.name == "row":
            return pa.array(np.arange(first_row, first_row + count))
        if field.name in _OURS or field.name not in batch.schema.names:
            return pa.nulls(count, field.type)
        column = batch.column(field.name)
        if field.name == "time" and _is_text(column.type):
            times = _read_each(column.to_pylist(), lambda text: moment_of(parsed_instant(text)) / 1e6, errors, "time")
            return pa.array(times, pa.float64())
        return _as_field(field, column, path, errors)

    columns = {field.name: column(field) for field in EVENTS}
    if errors:
        columns["error"] = pa.array([errors.get(at) for at in range(count)], pa.string())
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=EVENTS)


def _as_field(field: pa.Field, column: pa.Array, path: str, errors: dict[int, str]) -> pa.Array:
    try:
        return _converted(field, column, errors)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(
            f"{path}: the column {field.name!r} is of the type {column.type}; expected {field.type}: {error}"
        ) from None


def _read_each(values: Iterable[Any], read: Callable[[Any], Any], errors: dict[int, str], name: str) -> list[Any]:
    """Reads the values of a column; adds an error for each row with another value, which becomes null."""
    parts: list[Any] = []
    for at, value in enumerate(values):
        try:
            parts.append(None if value is None else read(value))
        except ValueError as error:
            errors[at] = f"{name}: {error}"
            parts.append(None)
    return parts


def _converted(field: pa.Field, column: pa.Array, errors: dict[int, str]) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if field.name == "time":
        return _seconds(column)
    if field.name in _JSON_COLUMNS and not _is_text(kind):
        return pa.array(_read_each(column, _json_text, errors, field.name), pa.string())
    if field.name == "trace" and pa.types.is_integer(kind):
        return column.cast(pa.string())
    if pa.types.is_string(field.type) and not _is_text(kind) and not pa.types.is_null(kind):
        raise TypeError("a string is needed")
    return column.cast(field.type)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _seconds(column: pa.Array) -> pa.Array:
    """Seconds since the epoch of a column of times."""
    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            raise TypeError("a time with its zone is needed, such as timestamp[us, tz=UTC]")
        micros = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
        return pc.divide(micros.cast(pa.float64()), 1e6)
    return column.cast(pa.float64())


def _json_text(value: pa.Scalar) -> str | None:
    plain = _plain(value.as_py(), value.type)
    return None if plain is None else json.dumps(plain, ensure_ascii=False)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """The JSON value of a value: without the null fields of its structs, with maps as objects and times in UTC.

    Raises:
        ValueError: JSON has no such value.
        TypeError: JSON has no value of such a type.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, dict):
        fields = {field.name: field.type for field in kind}
        return {name: _plain(part, fields[name]) for name, part in value.items() if part is not None}
    if pa.types.is_map(kind):
        return unique_keys([(str(name), _plain(part, kind.item_type)) for name, part in value])
    if isinstance(value, list):
        return [_plain(part, kind.value_type) for part in value]
    if isinstance(value, float | Decimal):
        return _number(value, kind)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).isoformat()
    if isinstance(value, dt.date):
        return value.isoformat()
    raise TypeError(f"a value of type {type(value).__name__!r} is not JSON")


def _number(value: float | Decimal, kind: pa.DataType) -> int | float:
    """The number as the decimal that it prints as."""
    number = float(str(np.float32(value)) if kind == pa.float32() else value)
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a JSON value; expected a finite number")
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if isinstance(value, float) or Decimal(str(number)) == value:
        return number
    raise ValueError(f"{value} has more digits than a JSON number keeps; expected at most 15, or a string")
