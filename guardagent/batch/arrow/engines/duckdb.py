"""Audits on one machine, sorted by DuckDB, which spills to disk what does not fit into its memory.

Options: `workers` (by default one process per core), `spill` (the folder of the spill files), `memory_limit` (of
DuckDB, such as 4GB), `threads` (of DuckDB).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from guardagent.batch.arrow.engines import pool, spill_folder, worker_count
from guardagent.batch.arrow.reduction import Digests, reduced_rows, shared_digests, split_digests
from guardagent.batch.arrow.rows import stream_rows
from guardagent.batch.arrow.schema import EVENTS
from guardagent.batch.arrow.source_files import Split
from guardagent.batch.arrow.work import AuditJob, PartDone, judge_partition
from guardagent.errors import InputError

_SORTED = """
SELECT *, coalesce(('0x' || md5(trace)[:8])::UBIGINT % {partitions}, 0) AS partition
FROM rows WHERE list_contains($numbers, partition) ORDER BY partition, trace
"""
_BATCH_ROWS = 4096
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


def judge(job: AuditJob, numbers: Sequence[int], options: Mapping[str, str]) -> Iterator[PartDone]:
    """Judges partitions: see `PartitionJudge`."""
    workers = worker_count("duckdb", options, "spill", "memory_limit", "threads")
    with spill_folder(options.get("spill")) as folder, pool(job, workers) as run:
        config = {"temp_directory": str(folder), "preserve_insertion_order": False}
        config |= {name: options[name] for name in ("memory_limit", "threads") if name in options}
        shared = shared_digests(run(partial(split_digests, split=split) for split in job.splits))
        reduced = [folder / f"split-{number}.arrow" for number in range(len(job.splits))]
        places = zip(job.splits, reduced, strict=True)
        for _ in run(partial(_reduce, split=split, file=file, shared=shared) for split, file in places):
            pass
        files = _sorted_files(job, reduced, numbers, config, folder)
        yield from run(partial(_judge_file, number=number, file=file) for number, file in files)


def _reduce(job: AuditJob, split: Split, file: Path, shared: Digests) -> None:
    with file.open("wb") as sink, pa.ipc.new_stream(sink, EVENTS, options=_COMPRESSED) as writer:
        for batch in reduced_rows(job, split, shared):
            writer.write_batch(batch)


def _sorted_files(
    job: AuditJob, reduced: Sequence[Path], numbers: Sequence[int], config: Mapping[str, Any], folder: Path
) -> Iterator[tuple[int, Path | None]]:
    """Writes each partition, sorted by trace, into a file of its own; None for a partition without rows."""
    reduced_batches = (batch for file in reduced for batch in stream_rows(str(file)))
    rows = pa.RecordBatchReader.from_batches(EVENTS, reduced_batches)
    seen = set()
    try:
        with duckdb.connect(config=dict(config)) as connection:
            connection.register("rows", rows)
            query = connection.sql(_SORTED.format(partitions=job.partitions), params={"numbers": list(numbers)})
            ordered = _by_partition(query.to_arrow_reader(_BATCH_ROWS))
            for number, batches in groupby(ordered, lambda numbered_batch: numbered_batch[0]):
                seen.add(number)
                yield number, _written((batch for _, batch in batches), folder / f"{number}.arrow")
    except duckdb.Error as error:
        raise InputError(f"DuckDB cannot sort the rows: {error}") from None
    yield from ((number, None) for number in numbers if number not in seen)


def _by_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cuts sorted batches where a partition ends."""
    for batch in batches:
        table = pa.Table.from_batches([batch])
        for number in table.column("partition").unique().to_pylist():
            part = table.filter(pa.compute.equal(table.column("partition"), number))
            yield from ((number, batch) for batch in part.drop_columns("partition").to_batches())


def _written(batches: Iterator[pa.RecordBatch], file: Path) -> Path:
    first = next(batches)
    with file.open("wb") as sink, pa.ipc.new_stream(sink, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
    return file


def _judge_file(job: AuditJob, number: int, file: Path | None) -> PartDone:
    done = judge_partition(job, number, () if file is None else stream_rows(str(file)))
    if file is not None:
        file.unlink()
    return done
