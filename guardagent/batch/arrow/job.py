"""A run as every engine gets it: which rows, which work on them, where the results go."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Protocol

import pyarrow as pa

from guardagent.batch.arrow.output import AuditFolder
from guardagent.batch.arrow.parquet import Split
from guardagent.batch.arrow.work import Summary, Work


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
