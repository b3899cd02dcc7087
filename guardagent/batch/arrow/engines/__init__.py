"""The engines of an audit: one module each, with a function `judge`, which is a `PartitionJudge`.

Engines on one machine share a pool of processes, and a folder for data that does not fit into memory. Engines on
clusters share the rows of the missing partitions, and errors on their way to the driver: a cluster hands an exception
of a worker to the driver as a string, within a traceback of its own. So an error of this package travels as JSON behind
a mark, which is found in any string.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent.batch.arrow.reduction import Digests, reduced_rows
from guardagent.batch.arrow.schema import EVENTS
from guardagent.batch.arrow.work import AuditJob, partitions_of
from guardagent.batch.pipeline import worker_map
from guardagent.errors import GuardError, InputError, LimitError, name_hint

# --- engines on one machine

Step = Callable[[AuditJob], Any]
Run = Callable[[Iterable[Step]], Iterator[Any]]


def worker_count(engine: str, options: Mapping[str, str], *others: str) -> int:
    """The option `workers`: by default one process per core.

    Raises:
        InputError: it is not a number, or there is an option that the engine does not have.
    """
    known = ("workers", *others)
    unknown = min(options.keys() - set(known), default=None)
    if unknown is not None:
        raise InputError(f"unknown option {unknown!r} of the engine {engine!r}{name_hint(unknown, known)}")
    workers = options.get("workers") or str(len(os.sched_getaffinity(0)))
    if not workers.isdecimal() or not int(workers):
        raise InputError(f"the option 'workers' is {workers!r}; expected a number of processes")
    return int(workers)


@contextlib.contextmanager
def spill_folder(parent: str | None) -> Iterator[Path]:
    """A temporary folder, in the system's place for those or in another folder.

    Raises:
        InputError: it cannot be written.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="guardagent-spill-", dir=parent, ignore_cleanup_errors=True)
    except OSError as error:
        raise InputError(f"{parent}: cannot be written: {error.strerror}; expected a folder for spill files") from None
    with folder as name:
        yield Path(name)


@contextlib.contextmanager
def pool(job: AuditJob, workers: int) -> Iterator[Run]:
    """Starts processes that hold the job, and gives the function that runs steps in them.

    A step is a pickled function of the job. Outcomes come as soon as they are known, in any order.
    """

    def has_room(running: Collection[Step]) -> bool:
        return len(running) < 2 * workers

    with worker_map(partial(_with_job, job), workers) as run:
        yield lambda steps: (outcome for _, outcome in run(steps, has_room, ordered=False))


def _with_job(job: AuditJob) -> Callable[[Step], Any]:
    return lambda step: step(job)


# --- engines on clusters

SLOT = "slot"
SHUFFLED = EVENTS.append(pa.field(SLOT, pa.int32()))
"""`EVENTS`, and the index of the partition among those that are still to be judged."""

_MARK = re.compile(r'guardagent-error: ("(?:[^"\\]|\\.)*")')
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_RAISED = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b.*)$", re.MULTILINE)


class WorkerError(Exception):
    """An error of this package, with its mark, as it leaves a worker."""


@contextlib.contextmanager
def marked_errors() -> Iterator[None]:
    """On a worker: raises each GuardError of the body as a `WorkerError`."""
    try:
        yield
    except GuardError as error:
        raise WorkerError(f"guardagent-error: {json.dumps(str(error))}") from None


def driver_error(text: str, engine: str, *, killed: bool) -> GuardError:
    """On the driver: the error for a failed run.

    Args:
        text: what the engine says, with the traceback of the worker.
        engine: the name of the engine.
        killed: whether a worker ended without an exception.
    """
    if mark := _MARK.search(text):
        return InputError(json.loads(mark[1]))
    if missing := _MISSING_MODULE.search(text):
        return InputError(
            f"a worker has no Python module {missing[1]!r}; expected guardagent[{engine}] and the imports of all "
            "toolboxes to be installed on each worker"
        )
    if killed:
        return LimitError("a worker was killed, probably for lack of memory; use more '--partitions' or fewer workers")
    lines = _RAISED.findall(text)[-1:] or text.strip().splitlines() or ["without a reason"]
    return InputError(f"the engine {engine!r} failed: {lines[0]}")


def slotted_rows(
    job: AuditJob, splits: Sequence[int], numbers: Sequence[int], shared: Digests
) -> Iterator[pa.RecordBatch]:
    """Yields the reduced rows of some splits that belong to the partitions `numbers`, in the schema `SHUFFLED`."""
    slot_of = np.full(job.partitions, -1, np.int32)
    slot_of[list(numbers)] = np.arange(len(numbers))
    for split in splits:
        for batch in reduced_rows(job, job.splits[split], shared):
            array = pa.array(slot_of[partitions_of(batch, job.partitions).to_numpy()])
            yield batch.append_column(SHUFFLED.field(SLOT), array).filter(pc.greater_equal(array, 0))
