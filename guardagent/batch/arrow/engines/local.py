"""Audits on one machine, with a pool of processes and no other service.

First the traces of each split are read, to know which are in several places. Then each split is reduced, and sorted by
partition into a spill file: an Arrow IPC file with one record batch for each partition. Then each partition is
collected from the spill files and judged. So a process holds one split or one partition.

Options: `workers` (by default one process per core), `spill` (the folder of the spill files).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent.batch.arrow.engines import pool, spill_folder, worker_count
from guardagent.batch.arrow.reduction import Digests, reduced_rows, shared_digests, split_digests
from guardagent.batch.arrow.schema import EVENTS, LARGE_EVENTS
from guardagent.batch.arrow.source_files import SPLIT_BYTES, Split
from guardagent.batch.arrow.work import AuditJob, PartDone, judge_partition, partitions_of

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
_JUDGED_ROWS = 4096  # in a batch


def judge(job: AuditJob, numbers: Sequence[int], options: Mapping[str, str]) -> Iterator[PartDone]:
    """Judges partitions: see `PartitionJudge`."""
    workers = worker_count("local", options, "spill")
    with spill_folder(options.get("spill")) as folder, pool(job, workers) as run:
        files = [folder / f"{number}.arrow" for number in range(len(job.splits))]
        shared = shared_digests(run(partial(split_digests, split=split) for split in job.splits))
        steps = (
            partial(_spill, split=split, file=file, shared=shared)
            for split, file in zip(job.splits, files, strict=True)
        )
        for _ in run(steps):
            pass
        yield from run(partial(_judge_spilled, number=number, files=files) for number in numbers)


def _spill(job: AuditJob, split: Split, file: Path, shared: Digests) -> None:
    """Writes the rows of a split, sorted by partition: in turn one batch of each partition, as often as needed."""
    with file.open("wb") as sink, pa.ipc.new_file(sink, LARGE_EVENTS, options=_COMPRESSED) as writer:
        for table in _tables(reduced_rows(job, split, shared)):
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
        if sum(record_batch.nbytes for record_batch in held) >= SPLIT_BYTES:
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
