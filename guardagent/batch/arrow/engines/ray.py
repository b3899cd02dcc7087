"""Audits on Ray: tasks read the splits and cut them by partition; then a task judges each partition.

A worker holds some splits or one partition at a time. Ray moves to disk what does not fit into its shared memory.

These are plain tasks, not Ray Data: that repeats a read whose worker is killed without end, and takes longer to start.

Options: `address` of a cluster (by default `RAY_ADDRESS`, or else a new Ray on this machine), and `cpus` of a new one.
Within a host that runs Ray already, the run takes place there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import ray
from ray.exceptions import NodeDiedError, ObjectLostError, OutOfMemoryError, RayError, WorkerCrashedError

from guardagent.batch.arrow.engines import SHUFFLED, SLOT, driver_error, marked_errors, slotted_rows
from guardagent.batch.arrow.reduction import Digests, shared_digests, split_digests
from guardagent.batch.arrow.schema import EVENTS, LARGE_EVENTS
from guardagent.batch.arrow.work import AuditJob, PartDone, judge_partition
from guardagent.batch.pool import map_concurrently
from guardagent.errors import InputError

_KILLED = (NodeDiedError, ObjectLostError, OutOfMemoryError, WorkerCrashedError)
_RETRIES = 3  # of a task whose worker was killed
_PARTITIONS_FOR_A_SPLIT = 256  # a task reads more splits if it has more partitions to fill: small objects are costly
_PATIENCE = 20  # seconds to reach a cluster
_JUDGED_ROWS = 4096  # in a batch
_LARGE = LARGE_EVENTS.append(SHUFFLED.field(SLOT))
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


def judge(job: AuditJob, numbers: Sequence[int], options: Mapping[str, str]) -> Iterator[PartDone]:
    """Judges partitions: see `PartitionJudge`."""
    with _cluster(options):
        reads: list[list[Any]] = []
        try:
            shared = ray.put(job)
            reads += _started_reads(shared, job, numbers, _repeated(shared, job))
            _wait_for([marker for marker, *_ in reads])
            yield from _judged(shared, numbers, reads)
        except RayError as error:
            raise driver_error(str(error), "ray", killed=isinstance(error, _KILLED)) from None
        finally:
            for marker, *_ in reads:
                ray.cancel(marker)


def _repeated(shared: Any, job: AuditJob) -> Any:
    """A reference to the digests of the traces that are in several places."""
    find = ray.remote(max_retries=_RETRIES)(_digests)
    return ray.put(shared_digests(ray.get([find.remote(shared, split) for split in range(len(job.splits))])))


def _digests(job: AuditJob, split: int) -> tuple[Digests, Digests]:
    with marked_errors():
        return split_digests(job, job.splits[split])


def _started_reads(shared: Any, job: AuditJob, numbers: Sequence[int], repeated: Any) -> Iterator[list[Any]]:
    """Starts the tasks that read; yields references to what each returns: a marker, and the rows of each partition."""
    step = 1 + len(numbers) // _PARTITIONS_FOR_A_SPLIT
    read = ray.remote(num_returns=1 + len(numbers), max_retries=_RETRIES)(_read)
    for start in range(0, len(job.splits), step):
        yield read.remote(shared, range(start, min(start + step, len(job.splits))), list(numbers), repeated)


def _wait_for(running: list[Any]) -> None:
    while running:
        done, running = ray.wait(running)
        ray.get(done)


def _judged(shared: Any, numbers: Sequence[int], reads: Sequence[list[Any]]) -> Iterator[PartDone]:
    judge_rows = ray.remote(max_retries=_RETRIES)(_judge)
    most = 2 * int(ray.cluster_resources().get("CPU", 1))
    started: dict[int, Any] = {}

    def submit(slot: int) -> Any:
        started[slot] = judge_rows.remote(shared, numbers[slot], *(read[1 + slot] for read in reads))
        for read in reads:
            read[1 + slot] = None  # Ray forgets the rows after the task
        return started[slot].future()

    def has_room(running: Collection[int]) -> bool:
        return len(running) < most

    try:
        for slot, part in map_concurrently(submit, range(len(numbers)), has_room, ordered=False):
            del started[slot]
            yield part
    finally:
        for task in started.values():
            ray.cancel(task)


def _read(job: AuditJob, splits: Sequence[int], numbers: Sequence[int], shared: Digests) -> list[pa.Buffer | None]:
    """A null, and the rows of each partition."""
    with marked_errors():
        rows = pa.Table.from_batches(slotted_rows(job, splits, numbers, shared), SHUFFLED).cast(_LARGE).sort_by(SLOT)
        ends = rows.column(SLOT).to_numpy().searchsorted(range(len(numbers) + 1))
        return [None, *(_packed(rows.slice(start, end - start)) for start, end in pairwise(ends.tolist()))]


def _packed(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, LARGE_EVENTS, options=_COMPRESSED) as writer:
        writer.write_table(rows.select(EVENTS.names))
    return sink.getvalue()


def _judge(job: AuditJob, number: int, *packed: pa.Buffer) -> PartDone:
    with marked_errors():
        rows = pa.concat_tables(
            [LARGE_EVENTS.empty_table(), *(pa.ipc.open_stream(packed_table).read_all() for packed_table in packed)]
        )
        ordered = rows.sort_by([(name, "ascending") for name in ("trace", "source", "row")])
        return judge_partition(job, number, ordered.to_batches(_JUDGED_ROWS))


@contextlib.contextmanager
def _cluster(options: Mapping[str, str]) -> Iterator[None]:
    """The host's Ray, or a connection that ends with the run."""
    if unknown := options.keys() - {"address", "cpus"}:
        raise InputError(f"unknown option {min(unknown)!r} of the engine 'ray'; expected 'address' or 'cpus'")
    if ray.is_initialized():
        if options:
            raise InputError(f"Ray is running already; expected no option {min(options)!r}")
        yield
        return
    _connect(options)
    try:
        yield
    finally:
        ray.shutdown()


def _connect(options: Mapping[str, str]) -> None:
    address = options.get("address") or os.environ.get("RAY_ADDRESS") or "local"
    cpus = options.get("cpus")
    if cpus is not None and (address != "local" or not cpus.isdecimal() or not int(cpus)):
        raise InputError(f"the option 'cpus' is {cpus!r}; expected a number of cores, and no 'address'")
    more = {"num_cpus": cpus and int(cpus), "include_dashboard": False} if address == "local" else {}
    _require_reachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL, **more)
    except (RayError, ConnectionError, RuntimeError, ValueError) as error:
        raise InputError(f"Ray at {address!r}: cannot be reached: {error}") from None


def _require_reachable(address: str) -> None:
    """Tries the port of a cluster. Ray itself tries for many minutes."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    try:
        if port.isdecimal():
            socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"Ray at {address!r}: cannot be reached: {error}") from None
