"""The files of an audit with their splits, which are the parts that one worker reads at a time, and rows from Parquet.

The columns of a Parquet file are those of `EVENTS`, in the same or a similar type. A value of a nested type becomes
JSON. In a struct a null stands for an absent key: the columns of a struct are all keys that any of its values has.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from guardagent.batch.arrow.readers import load_reader
from guardagent.batch.arrow.schema import EVENTS, VERDICTS
from guardagent.batch.json_object import near_miss
from guardagent.errors import InputError, name_hint
from guardagent.policy.language.values import moment_of, parsed_instant

# --- files and splits

SPLIT_BYTES = 32 * 2**20
_COMPRESSION = 8  # about: the ratio of the rows of a compressed file to its size
_LINES = (".jsonl", ".ndjson", ".json")
_COMPRESSED = (".gz", ".zst", ".bz2", ".xz")
_PARQUET = (".parquet", ".pq")
_COMPARISONS = {"<=": le, ">=": ge, "!=": ne, "=": eq, "<": lt, ">": gt}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read. `version` changes with its content."""

    path: str
    format: str
    size: int
    version: str

    @property
    def size_of_rows(self) -> int:
        """The approximate size of its rows in bytes."""
        return self.size * (_COMPRESSION if self.format == "parquet" or self.path.endswith(_COMPRESSED) else 1)


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a file: the lines that begin at the bytes `start` to `stop`, or these row groups of a Parquet file.

    `stop` is exclusive; -1 stands for the end of the file.
    """

    path: str
    format: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """A condition on a partition column, such as `date>=2026-11-01`. Whole files are left out, never single events.

    A partition column is a folder name of the form `date=2026-11-01`.
    """

    column: str
    comparison: str
    value: str

    @classmethod
    def parse(cls, text: str) -> PartitionFilter:
        """Reads `COLUMN=VALUE`, or another comparison.

        Raises:
            InputError: it is no such condition.
        """
        for sign in _COMPARISONS:
            column, found, value = text.partition(sign)
            if found and column.strip().isidentifier():
                return cls(column.strip(), sign, value.strip())
        raise InputError(f"the filter {text!r} is not a comparison; expected COLUMN=VALUE, or one of != < <= > >=")

    def keeps(self, path: str) -> bool:
        """Whether a file is to be read.

        Raises:
            InputError: its path has no such partition column.
        """
        columns = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
        if self.column not in columns:
            raise InputError(f"{path}: has no partition column {self.column!r}{name_hint(self.column, columns)}")
        found: Any = columns[self.column]
        wanted: Any = self.value
        if found.isdecimal() and wanted.isdecimal():
            found, wanted = int(found), int(wanted)
        return bool(_COMPARISONS[self.comparison](found, wanted))


def find_files(
    paths: Sequence[str], *, file_format: str | None = None, filters: Sequence[PartitionFilter] = ()
) -> list[SourceFile]:
    """Finds the files of an audit, in the order of their names.

    Args:
        paths: files, folders, glob patterns, URLs or Delta tables.
        file_format: the format of all files; by default the names of files tell Parquet from JSON Lines.
        filters: all of them hold for the partition columns of each file.

    Raises:
        InputError: there is no such file, or it has an unknown format.
    """
    if file_format not in (None, "jsonl", "parquet"):
        load_reader(str(file_format))
    found = {file.path: file for path in paths for file in _files(path, file_format, filters)}
    if not found:
        raise InputError(f"no file to read in {', '.join(paths)}; expected JSON Lines or Parquet files")
    return [found[path] for path in sorted(found)]


def _files(path: str, file_format: str | None, filters: Sequence[PartitionFilter]) -> Iterator[SourceFile]:
    from fsspec.core import url_to_fs

    try:
        system, plain = url_to_fs(path)
        names = _delta_files(path, filters) if system.exists(f"{plain}/_delta_log") else _names(system, plain)
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    for name in names:
        _refuse_hidden_columns(name)
        if not name.isascii() and name != name.encode("utf-8", "replace").decode():
            raise InputError(f"{name!r}: the name of the file is not UTF-8; expected another name")
        if all(one.keeps(name) for one in filters):
            info = system.info(name)
            version = str(info.get("ETag") or info.get("etag") or info.get("mtime") or info.get("LastModified") or "")
            yield SourceFile(system.unstrip_protocol(name), file_format or _format_of(name), int(info["size"]), version)


def _refuse_hidden_columns(path: str) -> None:
    """Refuses a column of an event that is a partition column, and so is not in the file."""
    columns = [part.partition("=")[0] for part in path.split("/")[:-1] if "=" in part]
    hidden = next((name for name in columns if name in EVENTS.names), None)
    if hidden is not None:
        raise InputError(f"{path}: {hidden!r} is a partition column; expected it as a column of the file")


def _names(system: Any, path: str) -> Iterable[str]:
    if system.isfile(path):
        return [path]
    if not system.isdir(path):
        return [name for name in system.glob(path) if system.isfile(name)]
    return [name for name in system.find(path) if not _is_hidden(name.removeprefix(path))]


def _is_hidden(name: str) -> bool:
    """Whether a file is one of those that engines write beside the data, such as `_SUCCESS`."""
    return any(part.startswith(("_", ".")) for part in name.split("/") if "=" not in part)


def _delta_files(path: str, filters: Sequence[PartitionFilter]) -> list[str]:
    from fsspec.core import url_to_fs

    try:
        from deltalake import DeltaTable
    except ImportError:
        raise InputError(f"{path}: is a Delta table; expected the package 'deltalake': pip install deltalake") from None
    table = DeltaTable(path)
    if table.protocol().min_reader_version > 1:
        raise InputError(
            f"{path}: is a Delta table of reader version {table.protocol().min_reader_version}, in which rows may be "
            "deleted and columns renamed apart from the files; expected version 1"
        )
    columns = table.metadata().partition_columns
    wanted = [(one.column, one.comparison, one.value) for one in filters if one.column in columns]
    return [url_to_fs(uri)[1] for uri in table.file_uris(wanted or None)]


def _format_of(name: str) -> str:
    plain = next((name.removesuffix(suffix) for suffix in _COMPRESSED if name.endswith(suffix)), name)
    if plain.endswith(_LINES):
        return "jsonl"
    if name.endswith(_PARQUET):
        return "parquet"
    raise InputError(f"{name}: has an unknown format; expected .jsonl or .parquet, or '--format'")


def splits_of(files: Iterable[SourceFile], size: int = SPLIT_BYTES) -> list[Split]:
    """Splits files into parts of about a number of bytes.

    Raises:
        InputError: a Parquet file cannot be read.
    """
    return [split for file in files for split in _splits(file, size)]


def _splits(file: SourceFile, size: int) -> Iterator[Split]:
    if file.format == "parquet":
        yield from _row_groups(file, size)
    elif file.path.endswith((".json", *_COMPRESSED)):  # perhaps one document, or not readable from the middle
        yield Split(file.path, file.format, 0, -1)
    else:
        for start in range(0, file.size, size):
            yield Split(file.path, file.format, start, min(start + size, file.size))


def _row_groups(file: SourceFile, size: int) -> Iterator[Split]:

    with open_parquet(file.path) as opened:
        metadata = opened.metadata
        start = held = 0
        for group in range(metadata.num_row_groups):
            held += metadata.row_group(group).total_byte_size
            if held >= size or group == metadata.num_row_groups - 1:
                yield Split(file.path, file.format, start, group + 1)
                start, held = group + 1, 0


@contextlib.contextmanager
def opened(path: str) -> Iterator[Any]:
    """Opens a file of lines or documents, decompressed.

    Raises:
        InputError: it cannot be read, now or in the body of the `with` statement.
    """
    import fsspec
    from fsspec.utils import infer_compression

    if path.endswith(_COMPRESSED) and infer_compression(path) is None:
        raise InputError(f"{path}: cannot be decompressed; expected the package 'zstandard': pip install zstandard")
    try:
        with fsspec.open(path, "rb", compression="infer") as file:
            yield file
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{path}: cannot be read: {error}; expected the unchanged file") from None


# --- rows from Parquet

_BATCH_ROWS = 16_384
_JSON_COLUMNS = frozenset(("args", "output", "facts", "state", "trace_state", "trace_facts", "principal", "record"))
_KINDS = ("tool", "action", "decision", "tags", "record")
_OURS = frozenset(("error", "source", "row"))  # columns that only this package writes


@contextlib.contextmanager
def open_parquet(path: str) -> Iterator[pq.ParquetFile]:
    """Opens a Parquet file.

    Raises:
        InputError: it cannot be read, now or in the body of the `with` statement.
    """
    import fsspec

    try:
        with fsspec.open(path, "rb") as file:
            yield pq.ParquetFile(file)
    except (OSError, pa.ArrowException, EOFError) as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}; expected a complete, unchanged file") from None


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
        found = batch.column(field.name)
        try:
            if field.name == "time" and _is_text(found.type):
                return _parsed_times(found, errors)
            return _converted(field, found)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise InputError(
                f"{path}: the column {field.name!r} is of the type {found.type}; expected {field.type}: {error}"
            ) from None

    columns = {field.name: column(field) for field in EVENTS}
    if errors:
        columns["error"] = pa.array([errors.get(at) for at in range(count)], pa.string())
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=EVENTS)


def _parsed_times(column: pa.Array, errors: dict[int, str]) -> pa.Array:
    """Seconds since the epoch of a column of strings; adds an error for each row with another string."""
    found: list[float | None] = []
    for at, text in enumerate(column.to_pylist()):
        try:
            found.append(None if text is None else moment_of(parsed_instant(text)) / 1e6)
        except ValueError as error:
            errors[at] = f"time: {error}"
            found.append(None)
    return pa.array(found, pa.float64())


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
        return {name: _present(one, fields[name]) for name, one in value.items() if one is not None}
    if pa.types.is_map(kind):
        return {name: _present(one, kind.item_type) for name, one in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_present(one, kind.value_type) for one in value]
    return value
