"""A run over tables, apart from its engine: its work, its folder, its traces, and its policies for other machines.

Engines distribute the work on a partition without knowing what it does. The folder of a run has a manifest, and one
Parquet file of results for each partition. A part appears whole or not at all, so an interrupted run resumes with the
parts that are missing. It holds its own summary, and a worker may write it twice.

The rows of a trace are put together: its events in order, and values that hold for all of it.

Policies travel to worker processes and other machines as one value, a bundle. It holds the bytes of the policy files,
their programs and toolboxes. Included packs of GuardAgent are not in it: a worker takes its own, and refuses to judge
if it would get other policies than the driver.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import json
import os
import shutil
import tempfile
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import md5, sha256
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from guardagent import __file__ as _package
from guardagent._support.json_values import loads
from guardagent._version import __version__
from guardagent.batch.arrow.parquet import Split
from guardagent.batch.arrow.rows import EventRow
from guardagent.batch.records import Trace, event_of, principal_of, trace_of
from guardagent.batch.report import MANIFEST_FILE, MANIFEST_VERSION
from guardagent.batch.traces import StepColumns, TraceStep, step_of_columns
from guardagent.errors import InputError
from guardagent.models import Model
from guardagent.policy.file.inclusions import contents_of
from guardagent.policy.load import load_policies, read_policy_files
from guardagent.policy.policies import Policies
from guardagent.types import EMPTY

# --- work


class Summary(Protocol):
    """Numbers about results. One without arguments is that of no results. It travels as JSON."""

    def __init__(self) -> None: ...

    def __add__(self, other: Self) -> Self: ...

    def to_dict(self) -> dict[str, Any]: ...

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self: ...


Summarized = TypeVar("Summarized", bound=Summary)
Result_co = TypeVar("Result_co", bound=Summary, covariant=True)


class Work(Protocol[Result_co]):
    """The work on a partition; workers get a pickled copy.

    Attributes:
        name: the command that it is for.
        schema: the schema of its results.
        summary: the type of their summaries.
        digest: changes with its policies.
        about: what the manifest says of it.
        counters: the names of the counters that need all traces in one partition.
    """

    @property
    def name(self) -> str: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def summary(self) -> type[Result_co]: ...

    @property
    def digest(self) -> str: ...

    @property
    def about(self) -> Mapping[str, Any]: ...

    @property
    def counters(self) -> tuple[str, ...]: ...

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, Result_co]]:
        """Yields results, each with a summary of them.

        Args:
            rows: rows in the schema `EVENTS`. The rows of a trace are adjacent.

        Raises:
            InputError: the rows of a trace are not adjacent, or the policies cannot be loaded.
        """
        ...


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
            found = loads(text)
            version = found["guardagent_audit"]
        except (ValueError, TypeError, KeyError):
            raise InputError(f"{self.url}/{MANIFEST_FILE}: is not the manifest of an audit") from None
        if version != MANIFEST_VERSION:
            raise InputError(f"{self.url}/{MANIFEST_FILE}: has version {version!r}; expected {MANIFEST_VERSION}")
        return dict(found)

    def write_manifest(self, values: Mapping[str, Any]) -> None:
        """Writes the manifest, after the folder is created if it is missing."""
        text = json.dumps({"guardagent_audit": MANIFEST_VERSION, **values}, indent=2, ensure_ascii=False) + "\n"
        with self._system() as (system, path):
            system.makedirs(path, exist_ok=True)
        self._put(MANIFEST_FILE, text.encode())

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
            for batch, summary in work(rows):
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


@dataclass(frozen=True, slots=True)
class PartDone:
    """A partition whose results are written."""

    number: int
    summary: Summary


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
    with _rare_collections():
        return PartDone(number, job.folder.write_part(number, job.work, rows))


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Collects cyclic garbage rarely: traces have no cycles, and it would take a third of the time."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def partition_of(trace: str, partitions: int) -> int:
    """The partition of a trace: the first 32 bits of its MD5 digest, modulo the number of partitions."""
    return (
        int.from_bytes(md5(trace.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()[:4], "big")
        % partitions
    )


def partitions_of(batch: pa.RecordBatch, partitions: int) -> pa.Array:
    """The partition of each row of a batch in the schema `EVENTS`. Rows without a trace are in the first one."""
    encoded = batch.column("trace").dictionary_encode()
    of_traces = [partition_of(trace, partitions) for trace in encoded.dictionary.to_pylist()]
    return pa.array(of_traces, pa.int32()).take(encoded.indices).fill_null(0)


# --- traces

_TRACE_COLUMNS = ("trace_state", "trace_facts", "principal", "task", "success")
_JSON_COLUMNS = frozenset(_TRACE_COLUMNS[:3])
_NOTHING = (None,) * len(_TRACE_COLUMNS)


@dataclass(frozen=True, slots=True)
class AssembledTrace:
    """The trace of some rows, or the reason why it cannot be read.

    Attributes:
        id: its id; None if the rows have none.
        trace: the trace; None if it cannot be read.
        error, source: what is wrong, and the file.
        task, success: what the agent was to do, and whether it did, if that is known.
    """

    id: str | None
    trace: Trace | None = None
    error: str | None = None
    source: str | None = None
    task: str | None = None
    success: bool | None = None

    @property
    def times(self) -> tuple[float | None, float | None]:
        """The first and the last time of an event."""
        times = [step.time for step in self.trace.steps if step.time is not None] if self.trace else []
        return (min(times), max(times)) if times else (None, None)


class _Place(NamedTuple):
    """The place of an event: in its trace, if that is known, and in its file."""

    position: int | None
    time: float | None
    source: str
    row: int


@dataclass(slots=True)
class _Parts:
    """The content of the rows of a trace: events, values of the whole trace, and the texts of whole traces.

    `rows` is the number of rows that events come from.
    """

    failed_output: Any
    ignored: Mapping[str, bool]
    steps: list[tuple[_Place, TraceStep]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    records: set[str] = field(default_factory=set)
    rows: int = 0

    def read(self, rows: Sequence[EventRow]) -> None:
        """Adds rows, in the order of their places."""
        for row in rows if len(rows) == 1 else sorted(rows, key=_place_of):
            if row.error is not None:
                raise InputError(row.error)
            if row.trace is None:
                raise InputError("the row has no 'trace'; expected the id of its conversation")
            if row.record is None:
                self._add_event(row)
            elif row.record not in self.records:  # it may be delivered more than once
                self._add_record(row, loads(row.record))

    def _add_event(self, row: EventRow) -> None:
        columns = StepColumns(*row[3:12], row.time)  # from `tool` to `state`
        of_trace = row[12:17]  # from `trace_state` to `success`
        if of_trace != _NOTHING:
            values = zip(_TRACE_COLUMNS, of_trace, strict=True)
            self._add_values({name: _decoded(name, value) for name, value in values})
        self._add(row, row.position, step_of_columns(columns, self.failed_output, self.ignored))

    def _add_record(self, row: EventRow, record: Any) -> None:
        if not isinstance(record, dict) or "events" not in record:
            step = event_of(record, self.failed_output, self.ignored)
            self._add_values(record)
            self._add(row, record.get("position"), step)
            return
        trace = trace_of(record, self.failed_output, self.ignored)
        self.records.add(str(row.record))
        self._add_values({**record, "trace_state": record.get("state"), "trace_facts": record.get("facts")})
        self._add(row, None, *trace.steps)

    def _add(self, row: EventRow, position: int | None, *steps: TraceStep) -> None:
        self.rows += 1
        source, number = _place_of(row)
        self.steps += [(_Place(position, step.time, source, number), step) for step in steps]

    def _add_values(self, values: Mapping[str, Any]) -> None:
        """Adds values of the whole trace, which are the same in all of its rows."""
        for name in _TRACE_COLUMNS:
            value = values.get(name)
            if value is not None and self.values.setdefault(name, value) != value:
                raise InputError(
                    f"rows of the trace have different values of {name!r}; expected the same in all of them"
                )


def _place_of(row: EventRow) -> tuple[str, int]:
    return row.source or "", row.row or 0


def _decoded(name: str, value: Any) -> Any:
    if value is None or name not in _JSON_COLUMNS:
        return value
    try:
        found = loads(value)
    except ValueError as error:
        raise InputError(f"{name!r} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{name!r} is not an object; expected a JSON object")
    return found


def assembled(
    trace: str | None, rows: Sequence[EventRow], failed_output: Any = None, ignored: Mapping[str, bool] = EMPTY
) -> AssembledTrace:
    """Puts a trace together.

    Events are ordered by `position`, or else by `time`. Without either, all of them have to come from one file, whose
    order counts. The events of a single record keep its order.

    Args:
        trace: the id.
        rows: its rows, in any order.
        failed_output: the compiled pattern of the outputs of failed calls, if the policy has one.
        ignored: as for `plain_step`.
    """
    try:
        parts = _Parts(failed_output, ignored)
        parts.read(rows)
        steps = tuple(step for _, step in _ordered(parts))
        values = parts.values
        principal = principal_of(values.get("principal"))
    except (ValueError, InputError, RecursionError) as error:
        reason = "a value is nested too deep" if isinstance(error, RecursionError) else str(error)
        return AssembledTrace(trace, error=reason, source=_source_of(rows))
    found = Trace(trace or "", steps, values.get("trace_state"), values.get("trace_facts") or {}, principal)
    return AssembledTrace(trace, found, task=values.get("task"), success=values.get("success"))


def _source_of(rows: Sequence[EventRow]) -> str | None:
    return min((row.source for row in rows if row.source is not None), default=None)


def _ordered(parts: _Parts) -> list[tuple[_Place, TraceStep]]:
    steps = parts.steps
    if parts.rows == 1:
        return steps  # one event, or those of one record
    if all(place.position is not None for place, _ in steps):
        return _in_order(steps, "position")
    if all(place.time is not None for place, _ in steps):
        return _in_order(steps, "time")
    if len({place.source for place, _ in steps}) == 1:
        return steps  # in the order of the file
    raise InputError("its events come from several files, and not all have a 'position' or a 'time'; add one of them")


def _in_order(steps: Sequence[tuple[_Place, TraceStep]], key: str) -> list[tuple[_Place, TraceStep]]:
    """Sorts events by position or time."""
    value_of = (lambda one: one[0].position) if key == "position" else (lambda one: one[0].time)
    ordered = sorted(steps, key=value_of)
    if len(set(map(value_of, ordered))) == len(ordered):
        return ordered
    found: list[tuple[_Place, TraceStep]] = []
    for value, group in groupby(ordered, value_of):
        equal = list(group)
        alike = all(step == equal[0][1] for _, step in equal)
        if key == "position" and alike:
            equal = equal[:1]  # one event that was delivered more than once
        elif not alike and (key == "position" or len({place.source for place, _ in equal}) > 1):
            raise InputError(
                f"different events have the {key} {value!r}, so that their order is unknown; "
                "expected a 'position' of its own for each event"
            )
        found += equal
    return found


# --- policies

_PACKAGE = Path(_package).resolve().parent


@dataclass(frozen=True, slots=True)
class PolicyBundle:
    """The files of a policy.

    Attributes:
        files: the policy files among the files of the archive.
        archive: a zip archive.
        archive_digest: its SHA-256.
        policy_digest: the digest of the loaded policies.
        model: as for `load_policies`. It travels too.
        version: the version of GuardAgent.
    """

    files: tuple[str, ...]
    archive: bytes
    archive_digest: str
    policy_digest: str
    model: Model | None = None
    version: str = __version__

    @classmethod
    def of(
        cls,
        paths: Sequence[Path | str],
        *,
        locked: Path | str | None = None,
        require_review: bool = False,
        model: Model | None = None,
    ) -> PolicyBundle:
        """Reads policy files and everything that they refer to.

        Args:
            paths: the policy files.
            locked: a lock file: only content that it pins is read.
            require_review: as for `load_policies`.
            model: as for `load_policies`; it has to be hashable, and is pickled.

        Raises:
            InputError: the policies are invalid or not locked, or ask a model without one.
        """
        policies = load_policies(list(paths), locked=locked, require_review=require_review, model=model)
        files = [Path(path).resolve() for path in paths]
        others = {content.path.resolve() for content in contents_of(read_policy_files(list(paths)))}
        contents = sorted({*files, *(one for one in others if not one.is_relative_to(_PACKAGE))})
        root = Path(os.path.commonpath([one.parent for one in contents]))
        archive = _zipped(root, contents)
        names = tuple(str(one.relative_to(root)) for one in files)
        bundle = cls(names, archive, sha256(archive).hexdigest(), policies.digest, model)
        bundle.policies()  # a change in the meantime shows here
        return bundle

    def policies(self) -> Policies:
        """The policies, loaded from this bundle; loaded once in a process.

        Raises:
            InputError: the bundle was changed, or the policies cannot be loaded here as they were where it was made.
        """
        return _loaded(self)


@lru_cache(8)
def _loaded(bundle: PolicyBundle) -> Policies:
    if sha256(bundle.archive).hexdigest() != bundle.archive_digest:
        raise InputError("the bundle of policies was changed on its way; expected the bytes that its digest names")
    if bundle.version != __version__:
        raise InputError(
            f"this worker has GuardAgent {__version__}; expected {bundle.version}, as where the run was started"
        )
    folder = tempfile.mkdtemp(prefix="guardagent-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # not before: toolboxes may read their files late
    with zipfile.ZipFile(io.BytesIO(bundle.archive)) as archive:
        archive.extractall(folder)
    policies = load_policies([Path(folder, name) for name in bundle.files], model=bundle.model)
    if policies.digest != bundle.policy_digest:
        raise InputError(
            "the policies differ on this worker; expected the same packs of GuardAgent, and files that do not change"
        )
    return policies


def _zipped(root: Path, contents: Sequence[Path]) -> bytes:
    """The same bytes for the same files."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in contents:
            archive.writestr(zipfile.ZipInfo(str(path.relative_to(root))), path.read_bytes())
    return data.getvalue()
