"""The pool of processes of engines on one machine, and a folder for what does not fit into memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from guardagent.batch.arrow.job import AuditJob
from guardagent.batch.pool import map_concurrently, worker_processes
from guardagent.errors import InputError, name_hint

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
        folder = Path(tempfile.mkdtemp(prefix="guardagent-spill-", dir=parent))
    except OSError as error:
        raise InputError(f"{parent}: cannot be written: {error.strerror}; expected a folder for spill files") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def pool(job: AuditJob, workers: int) -> Iterator[Run]:
    """Starts processes that hold the job, and gives the function that runs steps in them.

    A step is a pickled function of the job. Outcomes come as soon as they are known, in any order. One worker is this
    process: another would take longer to start than small jobs take.
    """
    if workers == 1:
        yield lambda steps: (step(job) for step in steps)
        return

    def has_room(running: Collection[Step]) -> bool:
        return len(running) < 2 * workers

    with worker_processes(partial(_with_job, job), workers) as submit:
        yield lambda steps: (outcome for _, outcome in map_concurrently(submit, steps, has_room, ordered=False))


def _with_job(job: AuditJob) -> Callable[[Step], Any]:
    return lambda step: step(job)
