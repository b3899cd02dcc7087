"""Audits on one machine, with a pool of processes and no other service.

First each split is sorted by partition into a spill file: an Arrow IPC file with one record batch for each partition.
Then each partition is collected from the spill files and judged. So a process holds one split or one partition.

Options: `workers` (by default one process per core), `spill` (the folder of the spill files).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent.batch.arrow.job import AuditJob, PartDone, judge_partition, partitions_of
from guardagent.batch.arrow.rows import rows_of
from guardagent.batch.arrow.schema import EVENTS, LARGE_EVENTS
from guardagent.batch.arrow.splits import SPLIT_BYTES, Split
from guardagent.batch.pool import map_concurrently, worker_processes
from guardagent.errors import InputError

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
_JUDGED_ROWS = 4096  # in a batch


def judge(job: AuditJob, numbers: Sequence[int], options: Mapping[str, str]) -> Iterator[PartDone]:
    """Judges partitions: see `Judge`."""
    workers, parent = _read_options(options)

    def has_room(running: Collection[object]) -> bool:
        return len(running) < 2 * workers

    with _spill_folder(parent) as folder, worker_processes(partial(_with_job, job), workers) as submit:
        files = [folder / f"{number}.arrow" for number in range(len(job.splits))]
        spills = (partial(_spill, split=split, file=file) for split, file in zip(job.splits, files, strict=True))
        for _ in map_concurrently(submit, spills, has_room, ordered=False):
            pass
        parts = (partial(_judge_spilled, number=number, files=files) for number in numbers)
        for _, done in map_concurrently(submit, parts, has_room, ordered=False):
            yield done


def _with_job(job: AuditJob) -> Callable[[Callable[[AuditJob], Any]], Any]:
    return lambda step: step(job)


def _read_options(options: Mapping[str, str]) -> tuple[int, Path | None]:
    unknown = options.keys() - {"workers", "spill"}
    if unknown:
        raise InputError(f"unknown option {min(unknown)!r} of the engine 'local'; expected 'workers' or 'spill'")
    workers = options.get("workers") or str(os.cpu_count() or 1)
    if not workers.isdecimal() or not int(workers):
        raise InputError(f"the option 'workers' is {workers!r}; expected a number of processes")
    return int(workers), Path(options["spill"]) if "spill" in options else None


@contextlib.contextmanager
def _spill_folder(parent: Path | None) -> Iterator[Path]:
    try:
        folder = Path(tempfile.mkdtemp(prefix="guardagent-spill-", dir=parent))
    except OSError as error:
        raise InputError(f"{parent}: cannot be written: {error.strerror}; expected a folder for spill files") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _spill(job: AuditJob, split: Split, file: Path) -> None:
    """Writes the rows of a split, sorted by partition: in turn one batch of each partition, as often as needed."""
    with file.open("wb") as sink, pa.ipc.new_file(sink, LARGE_EVENTS, options=_COMPRESSED) as writer:
        for table in _tables(rows_of(split)):
            partitions = pa.chunked_array([partitions_of(batch, job.partitions) for batch in table.to_batches()])
            ends = np.cumsum(np.bincount(partitions.to_numpy(), minlength=job.partitions))
            ordered = table.cast(LARGE_EVENTS).take(pc.sort_indices(partitions)).combine_chunks()
            for start, end in pairwise([0, *ends.tolist()]):
                writer.write_batch(_one_batch(ordered.slice(start, end - start)))


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Collects batches to tables of a limited size."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.nbytes for one in held) >= SPLIT_BYTES:
            yield pa.Table.from_batches(held, EVENTS)
            held = []
    if held:
        yield pa.Table.from_batches(held, EVENTS)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _judge_spilled(job: AuditJob, number: int, files: Sequence[Path]) -> PartDone:
    batches = [batch for file in files for batch in _batches_of(file, number, job.partitions)]
    table = pa.Table.from_batches(batches, LARGE_EVENTS).sort_by("trace")
    return judge_partition(job, number, table.to_batches(_JUDGED_ROWS))


def _batches_of(file: Path, number: int, partitions: int) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(file)) as source, pa.ipc.open_file(source) as reader:
        for index in range(number, reader.num_record_batches, partitions):
            yield reader.get_batch(index)
