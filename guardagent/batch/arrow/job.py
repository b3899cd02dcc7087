"""The work of an audit, as every engine gets it: which rows, which policies, where the verdicts go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Protocol

import pyarrow as pa

from guardagent.batch.arrow.bundle import PolicyBundle
from guardagent.batch.arrow.judge import judge
from guardagent.batch.arrow.output import AuditFolder, AuditSummary
from guardagent.batch.arrow.splits import Split


@dataclass(frozen=True, slots=True)
class AuditJob:
    """The work; workers get a pickled copy.

    Attributes:
        splits: the rows to read.
        policies: the policies.
        partitions: the number of partitions of the traces.
        folder: the output.
    """

    splits: tuple[Split, ...]
    policies: PolicyBundle
    partitions: int
    folder: AuditFolder


@dataclass(frozen=True, slots=True)
class PartDone:
    """A partition whose verdicts are written."""

    number: int
    summary: AuditSummary


class Judge(Protocol):
    """The function `judge` of an engine's module: judges partitions, and yields each as soon as it is written.

    Args:
        job: the work.
        numbers: the partitions that are still to be judged.
        options: the options of the engine (`--engine-options NAME=VALUE`).

    Raises:
        InputError: a file cannot be read, the policies cannot be loaded on a worker, or an option is wrong.
        LimitError: a worker was killed.
    """

    def __call__(self, job: AuditJob, numbers: Sequence[int], options: Mapping[str, str]) -> Iterator[PartDone]: ...


def judge_partition(job: AuditJob, number: int, rows: Iterable[pa.RecordBatch]) -> PartDone:
    """Judges the traces of a partition and writes their verdicts. May run again for the same partition.

    Args:
        job: the work.
        number: the partition.
        rows: its rows in the schema `EVENTS`; those of a trace are adjacent.
    """
    return PartDone(number, job.folder.write_part(number, judge(rows, job.policies)))


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
