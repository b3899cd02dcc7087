"""Rows of events from Parquet files.

The columns of a Parquet file are those of `EVENTS`, in the same or a similar type. A value of a nested type becomes
JSON. In a struct a null stands for an absent key: the columns of a struct are all keys that any of its values has.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from guardagent.batch.arrow.schema import EVENTS, VERDICTS
from guardagent.batch.arrow.source_files import Split, open_parquet
from guardagent.batch.json_object import near_miss
from guardagent.errors import InputError
from guardagent.policy.language.values import moment_of, parsed_instant

_BATCH_ROWS = 16_384
_JSON_COLUMNS = frozenset(("args", "output", "facts", "state", "trace_state", "trace_facts", "principal", "record"))
_KINDS = ("tool", "action", "decision", "tags", "record")
_OURS = frozenset(("error", "source", "row"))  # columns that only this package writes


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
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=list(groups), columns=names):
            yield event_rows(batch, split.path, row)
            row += batch.num_rows


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
            return pa.array(range(first_row, first_row + count), pa.int64())
        if field.name in _OURS or field.name not in batch.schema.names:
            return pa.nulls(count, field.type)
        column = batch.column(field.name)
        try:
            if field.name == "time" and _is_text(column.type):
                return _parsed_times(column, errors)
            return _converted(field, column)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise InputError(
                f"{path}: the column {field.name!r} is of the type {column.type}; expected {field.type}: {error}"
            ) from None

    columns = {field.name: column(field) for field in EVENTS}
    if errors:
        columns["error"] = pa.array([errors.get(at) for at in range(count)], pa.string())
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=EVENTS)


def _parsed_times(column: pa.Array, errors: dict[int, str]) -> pa.Array:
    """Seconds since the epoch of a column of strings; adds an error for each row with another string."""
    times: list[float | None] = []
    for at, text in enumerate(column.to_pylist()):
        try:
            times.append(None if text is None else moment_of(parsed_instant(text)) / 1e6)
        except ValueError as error:
            errors[at] = f"time: {error}"
            times.append(None)
    return pa.array(times, pa.float64())


def _converted(field: pa.Field, column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if field.name == "time":
        return _seconds(column)
    if field.name in _JSON_COLUMNS and not _is_text(kind):
        return pa.array((_json(value, kind) for value in column), pa.string(), size=len(column))
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


def _json(value: pa.Scalar, kind: pa.DataType) -> str | None:
    plain = value.as_py()
    return (
        None if plain is None else json.dumps(_present(plain, kind), ensure_ascii=False, allow_nan=False, default=_iso)
    )


def _iso(value: object) -> str:
    if isinstance(value, dt.date):
        return value.isoformat()
    raise TypeError(f"a value of type {type(value).__name__!r} is not JSON")


def _present(value: Any, kind: pa.DataType) -> Any:
    """A value without the null fields of its structs, and with maps as objects."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        fields = {field.name: field.type for field in kind}
        return {name: _present(part, fields[name]) for name, part in value.items() if part is not None}
    if pa.types.is_map(kind):
        return {name: _present(part, kind.item_type) for name, part in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_present(part, kind.value_type) for part in value]
    return value
