"""Judges chunks in several processes at once, with few under way, and gives their results in the order of the file.

Each process has a pipe of its own and one chunk at a time. So one that is ended, wherever it was, is an end of its pipe
and nothing else: nobody waits for the rest of what it was saying, or for a lock that it held.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from guardagent.batch.job import Job, Result, judge_lines
from guardagent.batch.lines import Chunk
from guardagent.errors import GuardError, InputError, LimitError
from guardagent.policy.policies import Policies

_AHEAD = 3  # chunks for each process that are read and not given yet
_AHEAD_BYTES = 16 * 2**20  # and in all of them together, unless one alone is larger

Judged = tuple[Chunk, Iterable[Result]]


def judge_chunks(
    job: Job, policies: Policies, chunks: Iterable[Chunk], workers: int = 1, known: Iterable[str] = ()
) -> Iterator[Judged]:
    """Each chunk with its results; with one worker they are made as they are asked for, in this process.

    Args:
        job: what is done with each line.
        policies: what `job.load` gave; other processes load their own.
        chunks: the lines.
        workers: how many processes judge.
        known: the rows of the first records of the first chunk, which an earlier run has judged.

    Raises:
        InputError: the policies are wrong by now, or the known rows are of something else.
        LimitError: a process was ended from outside, as for the memory that it took.
    """
    if workers > 1:
        with _team(job, workers) as team:
            yield from _judge_at_once(team, chunks, tuple(known))
        return
    for chunk in chunks:
        yield chunk, judge_lines(job, policies, chunk, known)
        known = ()


@dataclass(eq=False)
class _Task:
    """A chunk that is read and not given yet; its results, once they are there."""

    chunk: Chunk
    results: list[Result] | None = None


@dataclass(eq=False)
class _Worker:
    """A process, the pipe to it, and what it is doing."""

    process: BaseProcess
    pipe: Connection
    task: _Task | None = None

    def begin(self, task: _Task, known: tuple[str, ...]) -> None:
        self.task = task
        try:
            self.pipe.send((task.chunk, known))
        except OSError:
            raise _ended() from None

    def end(self) -> None:
        """Takes the results of its task, which are there or on their way."""
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            raise _ended() from None
        if isinstance(said, str):
            raise InputError(said)
        assert self.task is not None
        self.task.results, self.task = said, None


def _ended() -> LimitError:
    return LimitError("a worker process was ended from outside; expected it to have memory enough")


def _judge_at_once(team: list[_Worker], chunks: Iterable[Chunk], known: tuple[str, ...]) -> Iterator[Judged]:
    waiting, tasks = iter(chunks), deque[_Task]()
    while True:
        for worker in team:
            if worker.task is None and _has_room(tasks, len(team)) and (chunk := next(waiting, None)):
                tasks.append(_Task(chunk))
                worker.begin(tasks[-1], known)
                known = ()
        if not tasks:
            return
        if tasks[0].results is None:
            _take_results(team)
        else:
            task = tasks.popleft()
            yield task.chunk, task.results or ()


def _has_room(tasks: Iterable[_Task], workers: int) -> bool:
    sizes = [task.chunk.size for task in tasks]
    return len(sizes) < _AHEAD * workers and sum(sizes) < _AHEAD_BYTES


def _take_results(team: Iterable[_Worker]) -> None:
    """Waits until at least one worker is done with its task."""
    busy = {worker.pipe: worker for worker in team if worker.task is not None}
    for pipe in wait(list(busy)):
        busy[pipe].end()  # type: ignore[index]


@contextlib.contextmanager
def _team(job: Job, workers: int) -> Iterator[list[_Worker]]:
    """Processes that end when they are not needed any more: at once, where what they do is of no use."""
    team: list[_Worker] = []
    try:
        team += (_start(job) for _ in range(workers))
        yield team
    except BaseException:
        for worker in team:
            worker.process.terminate()
        raise
    finally:
        for worker in team:
            worker.pipe.close()
            worker.process.join()


def _start(job: Job) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(job, theirs))
    resource_tracker.ensure_running()  # which start() would do, and let interrupts through again
    with theirs, _interrupts_held():  # it is to know of none: this process decides what a Ctrl-C does
        process.start()
    return _Worker(process, ours)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(job: Job, pipe: Connection) -> None:
    """A worker process: judges the chunks that come, until the pipe ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    policies: Policies | None = None
    with contextlib.suppress(EOFError, OSError):
        while True:
            chunk, known = pipe.recv()
            try:
                if policies is None:
                    policies = job.load()
                said: list[Result] | str = list(judge_lines(job, policies, chunk, known))
            except GuardError as error:  # as its text, since not every error can be sent
                said = str(error)
            pipe.send(said)


def _end_with_parent() -> None:
    """However that one ends, in whatever this one is doing then."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
