"""The folder of an audit: a manifest, and one Parquet file of verdicts for each partition.

A part appears whole or not at all, so an interrupted run resumes with the parts that are missing. It holds its own
summary, and a worker may write it twice.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from guardagent._support.strict_json import loads
from guardagent.batch.arrow.schema import VERDICTS
from guardagent.errors import InputError

MANIFEST = "_audit.json"
_SUMMARY = b"guardagent.summary"
_FORMAT = 1


@dataclass(slots=True)
class AuditSummary:
    """The number of traces by result.

    Attributes:
        traces: all traces, also unreadable ones.
        events: the events of those that were read.
        denied, unchecked, unreadable: traces that break a rule, that could not be checked, that could not be read.
        violated: rule id -> the number of traces that break it.
    """

    traces: int = 0
    events: int = 0
    denied: int = 0
    unchecked: int = 0
    unreadable: int = 0
    violated: Counter[str] = field(default_factory=Counter)

    @property
    def status(self) -> int:
        """The exit status, as that of all commands with many verdicts."""
        return 2 if self.unreadable else 3 if self.unchecked else 1 if self.denied else 0

    def __add__(self, other: AuditSummary) -> AuditSummary:
        return AuditSummary(
            self.traces + other.traces,
            self.events + other.events,
            self.denied + other.denied,
            self.unchecked + other.unchecked,
            self.unreadable + other.unreadable,
            self.violated + other.violated,
        )

    def add(self, batch: pa.RecordBatch) -> None:
        """Counts the verdicts of a batch in the schema `VERDICTS`."""
        readable = batch.filter(pc.is_null(batch.column("error")))
        self.traces += batch.num_rows
        self.unreadable += batch.num_rows - readable.num_rows
        self.events += pc.sum(readable.column("events")).as_py() or 0
        self.denied += pc.sum(readable.column("label")).as_py() or 0
        self.unchecked += pc.sum(pc.greater(pc.list_value_length(readable.column("errors")), 0)).as_py() or 0
        self.violated.update(pc.list_flatten(readable.column("rules")).to_pylist())

    def to_dict(self) -> dict[str, Any]:
        return {**{one.name: getattr(self, one.name) for one in fields(self)}, "violated": dict(self.violated)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "violated": Counter(values["violated"])})


@dataclass(frozen=True, slots=True)
class AuditFolder:
    """The output of an audit: a folder, or a URL of one."""

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
            if not system.exists(f"{path}/{MANIFEST}"):
                return None
            text = system.cat_file(f"{path}/{MANIFEST}")
        try:
            found = loads(text)
            version = found["guardagent_audit"]
        except (ValueError, TypeError, KeyError):
            raise InputError(f"{self.url}/{MANIFEST}: is not the manifest of an audit") from None
        if version != _FORMAT:
            raise InputError(f"{self.url}/{MANIFEST}: has version {version!r}; expected {_FORMAT}")
        return dict(found)

    def write_manifest(self, values: Mapping[str, Any]) -> None:
        """Writes the manifest, after the folder is created if it is missing."""
        text = json.dumps({"guardagent_audit": _FORMAT, **values}, indent=2, ensure_ascii=False) + "\n"
        with self._system() as (system, path):
            system.makedirs(path, exist_ok=True)
        self._put(MANIFEST, text.encode())

    def part_name(self, number: int) -> str:
        return f"part-{number:05}.parquet"

    def part_numbers(self) -> set[int]:
        """The numbers of the parts that are written."""
        with self._system() as (system, path):
            names = [name.rsplit("/", 1)[-1] for name in system.ls(path, detail=False, refresh=True)]
        return {int(name[5:-8]) for name in names if name.startswith("part-") and name.endswith(".parquet")}

    def finished(self) -> dict[int, AuditSummary]:
        """The summaries of the parts that are written, by number."""
        return {number: self._summary(self.part_name(number)) for number in sorted(self.part_numbers())}

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yields the rows of all parts, in the order of the parts; by default with all columns."""
        for number in self.finished():
            with self._system() as (system, path), system.open(f"{path}/{self.part_name(number)}", "rb") as file:
                for batch in pq.ParquetFile(file).iter_batches(1024, columns=columns):
                    yield from batch.to_pylist()

    def _summary(self, name: str) -> AuditSummary:
        try:
            with self._system() as (system, path), system.open(f"{path}/{name}", "rb") as file:
                metadata = pq.read_metadata(file).metadata or {}
            return AuditSummary.from_dict(json.loads(metadata[_SUMMARY]))
        except (pa.ArrowException, KeyError, ValueError, TypeError):
            raise InputError(f"{self.url}/{name}: is not a part of an audit; remove it, and resume the run") from None

    def write_part(self, number: int, batches: Iterable[pa.RecordBatch]) -> AuditSummary:
        """Writes the verdicts of a partition, also if there are none."""
        summary, sink = AuditSummary(), pa.BufferOutputStream()
        with pq.ParquetWriter(sink, VERDICTS, compression="zstd") as writer:
            for batch in batches:
                summary.add(batch)
                writer.write_batch(batch)
            writer.add_key_value_metadata({_SUMMARY: json.dumps(summary.to_dict())})
        self._put(self.part_name(number), sink.getvalue().to_pybytes())
        return summary

    def _put(self, name: str, data: bytes) -> None:
        """Writes a file as a whole: by renaming where files are written bit by bit."""
        with self._system() as (system, path):
            if "file" not in (system.protocol if isinstance(system.protocol, tuple) else (system.protocol,)):
                system.pipe_file(f"{path}/{name}", data)
                return
            new = f"{path}/.{name}.{uuid.uuid4().hex}"
            system.pipe_file(new, data)
            system.mv(new, f"{path}/{name}")
