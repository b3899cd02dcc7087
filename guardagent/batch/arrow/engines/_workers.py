"""Shared by the engines on clusters: the rows of the missing partitions, and errors on their way to the driver.

A cluster hands an exception of a worker to the driver as a text, within a traceback of its own. So an error of this
package travels as JSON behind a mark, which is found in any text.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent.batch.arrow.job import AuditJob, partitions_of
from guardagent.batch.arrow.rows import rows_of
from guardagent.batch.arrow.schema import EVENTS
from guardagent.errors import GuardError, InputError, LimitError

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


def slotted_rows(job: AuditJob, splits: Sequence[int], numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of some splits that belong to the partitions `numbers`, in the schema `SHUFFLED`."""
    slot_of = np.full(job.partitions, -1, np.int32)
    slot_of[list(numbers)] = np.arange(len(numbers))
    for split in splits:
        for batch in rows_of(job.splits[split]):
            found = pa.array(slot_of[partitions_of(batch, job.partitions).to_numpy()])
            yield batch.append_column(SHUFFLED.field(SLOT), found).filter(pc.greater_equal(found, 0))
