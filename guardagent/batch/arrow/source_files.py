"""The files of an audit, and their splits, which are the parts that one worker reads at a time."""

from __future__ import annotations

import contextlib
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from guardagent.batch.arrow.readers import load_reader
from guardagent.batch.arrow.schema import EVENTS
from guardagent.errors import InputError, name_hint

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
            InputError: it is not a condition of this form.
        """
        for sign in _COMPARISONS:
            column, separator, value = text.partition(sign)
            if separator and column.strip().isidentifier():
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
        column: Any = columns[self.column]
        wanted: Any = self.value
        if column.isdecimal() and wanted.isdecimal():
            column, wanted = int(column), int(wanted)
        return bool(_COMPARISONS[self.comparison](column, wanted))


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
    files = {file.path: file for path in paths for file in _files(path, file_format, filters)}
    if not files:
        raise InputError(f"no file to read in {', '.join(paths)}; expected JSON Lines or Parquet files")
    return [files[path] for path in sorted(files)]


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
        if all(partition_filter.keeps(name) for partition_filter in filters):
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
    wanted = [
        (partition_filter.column, partition_filter.comparison, partition_filter.value)
        for partition_filter in filters
        if partition_filter.column in columns
    ]
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


@contextlib.contextmanager
def open_parquet(path: str, read_dictionary: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """Opens a Parquet file. The columns `read_dictionary` are read as dictionaries, if they are strings.

    Raises:
        InputError: it cannot be read, now or in the body of the `with` statement.
    """
    import fsspec

    try:
        with fsspec.open(path, "rb") as file:
            yield pq.ParquetFile(file, read_dictionary=list(read_dictionary), coerce_int96_timestamp_unit="us")
    except (OSError, pa.ArrowException, EOFError) as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}; expected a complete, unchanged file") from None
