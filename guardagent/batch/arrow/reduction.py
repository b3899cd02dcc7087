"""Reduces the rows of splits where they are read, before an engine shuffles them by trace.

A split is read in chunks. A trace that is whole in one chunk can be worked on there, and leaves the chunk as one row.
So each split is read twice. First only the traces of its rows are read, to know which traces are in several chunks:
their rows are shuffled as they are. A trace is known by 64 bits of its digest; two traces with the same bits are
shuffled, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from guardagent.batch.arrow.rows import chunks_of, filtered, rows_of
from guardagent.batch.arrow.source_files import Split
from guardagent.batch.arrow.work import AuditJob, digests_of, rare_collections

Digests = np.ndarray[tuple[int], np.dtype[np.uint64]]
NO_DIGESTS: Digests = np.empty(0, np.uint64)


def split_digests(job: AuditJob, split: Split) -> tuple[Digests, Digests]:
    """(the digests of the traces of a split, those of traces in several of its chunks); nothing if there is no use."""
    if job.work.reduce is None:
        return NO_DIGESTS, NO_DIGESTS
    chunks = [np.unique(digests_of(chunk)) for chunk in chunks_of(split, only_traces=True)]
    return _repeated(chunks)


def shared_digests(splits: Iterable[tuple[Digests, Digests]]) -> Digests:
    """The digests of the traces that are in several chunks, from those of all splits."""
    all_digests, repeated = zip((NO_DIGESTS, NO_DIGESTS), *splits, strict=True)
    return np.unique(np.concatenate([*repeated, _repeated(all_digests)[1]]))


def _repeated(groups: Iterable[Digests]) -> tuple[Digests, Digests]:
    """(the digests in some groups, those in several of them)."""
    digests, counts = np.unique(np.concatenate([NO_DIGESTS, *groups]), return_counts=True)
    return digests, digests[counts > 1]


def reduced_rows(job: AuditJob, split: Split, shared: Digests) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a split that are to be shuffled.

    Raises:
        InputError: the file cannot be read, or its columns are not those of `EVENTS`.
    """
    if job.work.reduce is None:
        yield from rows_of(split)
        return
    for chunk in chunks_of(split):
        whole = ~np.isin(digests_of(chunk), shared) & chunk.column("trace").is_valid().to_numpy()
        if not whole.all():
            yield from filtered(chunk, ~whole).to_batches()
        with rare_collections():
            reduced = job.work.reduce(chunk if whole.all() else filtered(chunk, whole))
        yield from reduced.to_batches()
