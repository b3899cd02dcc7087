"""Audits on Spark: rows are shuffled by partition, sorted by trace and streamed to the judge.

Spark sorts on disk what does not fit into memory, so a worker holds a few rows and one trace.

Options: `master` (by default that of Spark's configuration, or else `local[*]`), and any `spark.*` property. Within a
host that has a Spark session, such as a notebook, the run takes place in that session. Any other session is new, and
ends with the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from threading import Thread
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from guardagent.batch.arrow.engines import SHUFFLED, SLOT, driver_error, marked_errors, slotted_rows
from guardagent.batch.arrow.reduction import Digests, shared_digests, split_digests
from guardagent.batch.arrow.schema import EVENTS
from guardagent.batch.arrow.work import AuditJob, PartDone, Summary, judge_partition
from guardagent.errors import InputError

# --- the session

_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
_ON_ONE_MACHINE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "localhost"}
_WITHOUT_RETRIES = re.compile(r"local(?:\[(\*|\d+)\])?")


@contextlib.contextmanager
def spark_session(options: Mapping[str, str]) -> Iterator[SparkSession]:
    """Opens a session with `master` and other properties.

    Raises:
        InputError: an option is wrong, or Spark does not start.
    """
    for name in options:
        if name != "master" and not name.startswith("spark."):
            raise InputError(f"unknown option {name!r} of the engine 'spark'; expected 'master' or 'spark.*'")
    if session := SparkSession.getActiveSession():
        with _configured(session, options):
            yield session
        return
    session = _started({"spark.master" if name == "master" else name: value for name, value in options.items()})
    try:
        yield session
    finally:
        session.stop()


@contextlib.contextmanager
def _configured(session: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """Sets properties of the host's session, and in the end sets them back."""
    if "master" in options:
        raise InputError("a Spark session is running already, with its own master; expected no option 'master'")
    before: dict[str, Any] = {}
    try:
        for name, value in options.items():
            before[name] = session.conf.get(name, None)
            try:
                session.conf.set(name, value)
            except PySparkException:
                del before[name]
                raise InputError(f"the running Spark session does not take the option {name}={value}") from None
        yield
    finally:
        for name, value in before.items():
            session.conf.unset(name) if value is None else session.conf.set(name, value)


def _started(properties: Mapping[str, str]) -> SparkSession:
    """Starts Spark, without its output on the terminal."""
    with tempfile.TemporaryFile() as log:
        try:
            context = _new_context({**_QUIET, **properties}, log)
        except (PySparkException, Py4JError, OSError) as error:
            raise InputError(f"Spark does not start: {_reason(log, error)}") from None
    context.setLogLevel("OFF")
    if context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    return SparkSession(context)


def _new_context(properties: Mapping[str, str], log: BinaryIO) -> SparkContext:
    # A process has one Java machine, which starts with these properties and adds those of Spark's configuration.
    first = SparkConf().setAll(list(properties.items()))
    gateway = SparkContext._gateway or launch_gateway(first, {"stdout": log, "stderr": log})  # noqa: SLF001
    conf = SparkConf(_jvm=gateway.jvm).setAll(list(properties.items()))
    if match := _WITHOUT_RETRIES.fullmatch(conf.get("spark.master", "local[*]")):
        conf.set("spark.master", f"local[{match[1] or 1},4]")  # a task of a killed worker runs again, as on a cluster
        for name, value in _ON_ONE_MACHINE.items():
            conf.setIfMissing(name, value)  # no port is open to other machines
    conf.setIfMissing("spark.app.name", "guardagent audit")
    return SparkContext(conf=conf, gateway=gateway)


def _reason(log: BinaryIO, error: Exception) -> str:
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    if isinstance(error, Py4JError):  # Java runs, and says in its exception what is wrong
        lines = [line for line in str(error).splitlines() if "Exception" in line]
    return next(filter(None, reversed(lines)), str(error)) if lines else str(error)


# --- judging

_BATCHES = {  # of the rows that Spark hands to a worker
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 * 2**20),
}
_DONE = "number int, summary string"
_KILLED = ("Python worker exited unexpectedly", "ExecutorLostFailure")


def judge(job: AuditJob, numbers: Sequence[int], options: Mapping[str, str]) -> Iterator[PartDone]:
    """Judges partitions: see `PartitionJudge`."""
    missing = set(numbers)
    with (
        spark_session({**_BATCHES, **options}) as session,
        contextlib.closing(_judged(session, job, list(numbers))) as parts,
    ):
        for number, summary in parts:
            if number in missing:  # a task may run twice
                missing.remove(number)
                yield number, summary
    for number in sorted(missing):  # no row
        yield judge_partition(job, number, ())


def _judged(session: SparkSession, job: AuditJob, numbers: list[int]) -> Generator[PartDone]:
    """Yields partitions as they are done where Spark can report them, else at the end of the job."""
    context = getattr(session, "sparkContext", None)  # a remote session has none
    arrivals = context.accumulator([], _Arrivals()) if context else None
    frame = _shuffled(session, job, numbers).mapInArrow(partial(_judge_sorted, job, numbers, arrivals), _DONE)
    action = _Action(frame.collect, context)
    action.start()
    seen = 0
    try:
        while action.is_alive():
            action.join(0.2)
            new = arrivals.value[seen:] if arrivals else []
            seen += len(new)
            yield from _parts(new, job.work.summary)
        yield from _parts(action.rows(), job.work.summary)
    finally:
        action.cancel()


def _shuffled(session: SparkSession, job: AuditJob, numbers: list[int]) -> Any:
    """The rows of the partitions `numbers`, each in a partition of Spark, where those of a trace are adjacent."""
    from pyspark.sql.pandas.types import from_arrow_schema

    splits = session.range(0, len(job.splits), 1, max(1, len(job.splits)))
    digests = splits.mapInArrow(partial(_digests, job), "digests binary, repeated binary")
    answers = _collected(digests, getattr(session, "sparkContext", None)) if job.splits else []
    pairs = ((np.frombuffer(digests, np.uint64), np.frombuffer(repeated, np.uint64)) for digests, repeated in answers)
    shared = shared_digests(pairs)
    rows = splits.mapInArrow(partial(_read, job, numbers, shared), from_arrow_schema(SHUFFLED))
    by_slot = getattr(rows, "repartitionById", rows.repartition)  # the former is new in Spark 4.1
    return by_slot(len(numbers), SLOT).sortWithinPartitions(SLOT, "trace", "source", "row")


def _collected(frame: Any, context: SparkContext | None) -> list[Any]:
    """The rows of a frame; an interrupt cancels the job."""
    action = _Action(frame.collect, context)
    action.start()
    try:
        action.join()
        return action.rows()
    finally:
        action.cancel()


def _digests(job: AuditJob, splits: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with marked_errors():
        for split in (number for batch in splits for number in batch.column(0).to_pylist()):
            columns = [pa.array([digests.tobytes()]) for digests in split_digests(job, job.splits[split])]
            yield pa.RecordBatch.from_arrays(columns, ["digests", "repeated"])


def _read(
    job: AuditJob, numbers: list[int], shared: Digests, splits: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with marked_errors():
        for batch in splits:
            yield from slotted_rows(job, batch.column(0).to_pylist(), numbers, shared)


def _judge_sorted(
    job: AuditJob, numbers: list[int], arrivals: Any, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Judges rows that are sorted by slot; a partition of Spark may have several slots, or none."""
    with marked_errors():
        for slot, runs in groupby(_runs(batches), itemgetter(0)):
            number, summary = judge_partition(job, numbers[slot], (rows for _, rows in runs))
            row = {"number": number, "summary": json.dumps(summary.to_dict(), default=str)}
            if arrivals is not None:
                arrivals.add([row])
            yield pa.RecordBatch.from_pylist([row], pa.schema([("number", pa.int32()), ("summary", pa.string())]))


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Splits batches where the slot changes."""
    for batch in batches:
        slots = batch.column(SLOT).to_numpy()
        rows = batch.select(EVENTS.names)
        for start, end in pairwise([0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]):
            if end > start:
                yield int(slots[start]), rows.slice(start, end - start)


def _parts(rows: Iterable[Any], summary: type[Summary]) -> Iterator[PartDone]:
    for row in rows:
        yield row["number"], summary.from_dict(json.loads(row["summary"]))


class _Arrivals(AccumulatorParam):
    """Collects what workers report."""

    def zero(self, value: list[Any]) -> list[Any]:  # noqa: ARG002 - Spark's signature
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802 - Spark names it
        value1.extend(value2)
        return value1


class _Action(Thread):
    """A job of Spark, which another thread can cancel."""

    def __init__(self, collect: Callable[[], list[Any]], context: Any) -> None:
        super().__init__(daemon=True)
        self._collect, self._context = collect, context
        self._group = f"guardagent-{uuid.uuid4().hex}"
        self._rows: list[Any] = []
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            if self._context:
                self._context.setJobGroup(self._group, "guardagent audit", interruptOnCancel=True)
            self._rows = self._collect()
        except Exception as error:  # noqa: BLE001 - raised by `rows`
            self._error = error

    def rows(self) -> list[Any]:
        if self._error is not None:
            text = str(self._error)
            raise driver_error(text, "spark", killed=any(phrase in text for phrase in _KILLED)) from None
        return self._rows

    def cancel(self) -> None:
        if self._context and self.is_alive():
            self._context.cancelJobGroup(self._group)
            self.join()
