"""A run over tables, apart from its engine: its work, its folder and its partitions.

Engines distribute the work on a partition without knowing what it does. The folder of a run has a manifest, and one
Parquet file of results for each partition. A part appears whole or not at all, so an interrupted run resumes with the
parts that are missing. It holds its own summary, and a worker may write it twice.
"""

from __future__ import annotations

import contextlib
import gc
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from guardagent._support.json_values import loads
from guardagent.batch.arrow.source_files import Split
from guardagent.batch.report import MANIFEST_FILE, MANIFEST_VERSION
from guardagent.errors import InputError

# --- work


class Summary(Protocol):
    """Numbers about results. One without arguments is that of no results. It travels as JSON.

    Attributes:
        traces, unreadable: the number of all traces, and of those that could not be read.
    """

    traces: int
    unreadable: int

    def __add__(self, other: Self) -> Self: ...

    def to_dict(self) -> dict[str, Any]: ...

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self: ...


Summarized = TypeVar("Summarized", bound=Summary)
Result_co = TypeVar("Result_co", bound=Summary, covariant=True)


@dataclass(frozen=True, slots=True)
class Work(Generic[Result_co]):
    """The work on a partition; workers get a pickled copy.

    Attributes:
        name: the command that it is for.
        schema: the schema of its results.
        summary: the type of their summaries.
        digest: changes with its policies.
        about: what the manifest says of it.
        results: yields results, each with a summary of them, from rows in the schema `EVENTS`. The rows of a trace are
            adjacent. Raises an InputError if they are not, or if the policies cannot be loaded.
        counters: the names of the counters that need all traces in one partition.
        reduce: replaces the rows of traces that it can work on before the rows are shuffled, one row for each; gets
            rows of whole traces, in any order. None if there is nothing to do.
    """

    name: str
    schema: pa.Schema
    summary: type[Result_co]
    digest: str
    about: Mapping[str, Any]
    results: Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[pa.RecordBatch, Result_co]]]
    counters: tuple[str, ...] = ()
    reduce: Callable[[pa.Table], pa.Table] | None = None


# --- the folder

_SUMMARY = b"guardagent.summary"


@dataclass(frozen=True, slots=True)
class AuditFolder:
    """The output of a run: a folder, or a URL of one."""

    url: str

    @contextlib.contextmanager
    def _system(self) -> Iterator[tuple[Any, str]]:
        from fsspec.core import url_to_fs

        try:
            yield url_to_fs(self.url)
        except (FileNotFoundError, pa.ArrowException):
            raise
        except (OSError, ValueError, ImportError) as error:
            raise InputError(f"{self.url}: cannot be read or written: {error}") from None

    def manifest(self) -> dict[str, Any] | None:
        """The manifest; None if the folder has none.

        Raises:
            InputError: it is not a manifest, or one of another version.
        """
        with self._system() as (system, path):
            if not system.exists(f"{path}/{MANIFEST_FILE}"):
                return None
            text = system.cat_file(f"{path}/{MANIFEST_FILE}")
        try:
            manifest = loads(text)
            version = manifest["guardagent_audit"]
        except (ValueError, TypeError, KeyError):
            raise InputError(f"{self.url}/{MANIFEST_FILE}: is not the manifest of an audit") from None
        if version != MANIFEST_VERSION:
            raise InputError(f"{self.url}/{MANIFEST_FILE}: has version {version!r}; expected {MANIFEST_VERSION}")
        return dict(manifest)

    def write_manifest(self, values: Mapping[str, Any]) -> None:
        """Writes the manifest, after the folder is created if it is missing."""
        text = json.dumps({"guardagent_audit": MANIFEST_VERSION, **values}, indent=2, ensure_ascii=False) + "\n"
        with self._system() as (system, path):
            system.makedirs(path, exist_ok=True)
        self._put(MANIFEST_FILE, text.encode())

    def discard(self) -> None:
        """Removes the manifest and the parts, and then the folder if it is empty."""
        names = [MANIFEST_FILE, *map(self.part_name, self.part_numbers())]
        with self._system() as (system, path):
            for name in names:
                if system.exists(f"{path}/{name}"):
                    system.rm_file(f"{path}/{name}")
            with contextlib.suppress(OSError, NotImplementedError):
                system.rmdir(path)

    def part_name(self, number: int) -> str:
        return f"part-{number:05}.parquet"

    def finished(self, summary: type[Summarized]) -> dict[int, Summarized]:
        """The summaries of the parts that are written, by number."""
        return {number: self._summary(self.part_name(number), summary) for number in sorted(self.part_numbers())}

    def part_numbers(self) -> set[int]:
        """The numbers of the parts that are written."""
        with self._system() as (system, path):
            if not system.exists(path):
                return set()
            names = [name.rsplit("/", 1)[-1] for name in system.ls(path, detail=False, refresh=True)]
        return {int(name[5:-8]) for name in names if name.startswith("part-") and name.endswith(".parquet")}

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yields the rows of all parts, in the order of the parts; by default with all columns."""
        for name in map(self.part_name, sorted(self.part_numbers())):
            with self._system() as (system, path), system.open(f"{path}/{name}", "rb") as file:
                for batch in pq.ParquetFile(file).iter_batches(1024, columns=columns):
                    yield from batch.to_pylist()

    def _summary(self, name: str, summary: type[Summarized]) -> Summarized:
        try:
            with self._system() as (system, path), system.open(f"{path}/{name}", "rb") as file:
                metadata = pq.read_metadata(file).metadata or {}
            return summary.from_dict(json.loads(metadata[_SUMMARY]))
        except (pa.ArrowException, KeyError, ValueError, TypeError):
            raise InputError(f"{self.url}/{name}: is not a part of this run; remove it, and resume the run") from None

    def write_part(self, number: int, work: Work[Summarized], rows: Iterable[pa.RecordBatch]) -> Summarized:
        """Writes the results of the work on a partition, also if there are none."""
        total, sink = work.summary(), pa.BufferOutputStream()
        with pq.ParquetWriter(sink, work.schema, compression="zstd") as writer:
            for batch, summary in work.results(rows):
                writer.write_batch(batch)
                total += summary
            writer.add_key_value_metadata({_SUMMARY: json.dumps(total.to_dict(), default=str)})
        self._put(self.part_name(number), sink.getvalue().to_pybytes())
        return total

    def _put(self, name: str, data: bytes) -> None:
        """Writes a file as a whole: by renaming where files are written bit by bit."""
        with self._system() as (system, path):
            if "file" not in (system.protocol if isinstance(system.protocol, tuple) else (system.protocol,)):
                system.pipe_file(f"{path}/{name}", data)
                return
            new = f"{path}/.{name}.{uuid.uuid4().hex}"
            system.pipe_file(new, data)
            system.mv(new, f"{path}/{name}")


# --- a run as engines get it


@dataclass(frozen=True, slots=True)
class AuditJob:
    """A run; workers get a pickled copy.

    Attributes:
        splits: the rows to read.
        work: what to do with the rows of a partition.
        partitions: the number of partitions of the traces.
        folder: the output.
    """

    splits: tuple[Split, ...]
    work: Work[Summary]
    partitions: int
    folder: AuditFolder


PartDone = tuple[int, Summary]
"""A partition whose results are written, and their summary."""


class PartitionJudge(Protocol):
    """The function `judge` of an engine's module: works on partitions, and yields each as soon as it is written.

    Args:
        job: the run.
        numbers: the partitions that are still to be worked on.
        options: the options of the engine (`--engine-options NAME=VALUE`).

    Raises:
        InputError: a file cannot be read, the policies cannot be loaded on a worker, or an option is wrong.
        LimitError: a worker was killed.
    """

    def __call__(self, job: AuditJob, numbers: Sequence[int], options: Mapping[str, str]) -> Iterator[PartDone]: ...


def judge_partition(job: AuditJob, number: int, rows: Iterable[pa.RecordBatch]) -> PartDone:
    """Works on a partition and writes the results. May run again for the same partition.

    Args:
        job: the run.
        number: the partition.
        rows: its rows in the schema `EVENTS`; those of a trace are adjacent.
    """
    with rare_collections():
        return number, job.folder.write_part(number, job.work, rows)


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Collects cyclic garbage rarely: traces have no cycles, and it would take a third of the time."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def digest_of(trace: str) -> int:
    """The first 64 bits of the MD5 digest of a trace."""
    digest = md5(trace.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "big")


def digests_of(rows: pa.RecordBatch | pa.Table) -> Any:
    """The digest of the trace of each row in the schema `EVENTS`; 0 for rows without a trace."""
    column = rows.column("trace")
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    places = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
    present = np.flatnonzero(np.bincount(places))
    traces = encoded.dictionary.take(pa.array(present[present < len(encoded.dictionary)])).to_pylist()
    digests = np.zeros(len(encoded.dictionary) + 1, np.uint64)
    digests[present[: len(traces)]] = np.fromiter(map(digest_of, traces), np.uint64, len(traces))
    return digests[places]


def partitions_of(batch: pa.RecordBatch, partitions: int) -> pa.Array:
    """The partition of each row of a batch in the schema `EVENTS`. Rows without a trace are in the first one.

    It is the first 32 bits of the digest of the trace, modulo the number of partitions.
    """
    return pa.array(((digests_of(batch) >> np.uint64(32)) % np.uint64(partitions)).astype(np.int32))
