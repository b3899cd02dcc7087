"""Work that is under way at once, with little of it begun, and processes that do it.

`concurrent.futures` runs it. Its `ProcessPoolExecutor` cannot carry what is promised here: all its processes answer
through one pipe, which has no end while any of them lives, so that one which is killed within its answer is waited for
for ever; it cannot end its processes at once, as a Ctrl-C has to; and they outlive a parent that is killed. So each
thread of a `ThreadPoolExecutor` has a process with a pipe of its own, whose end is the end of the process.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import TypeVar

from guardagent.batch.job import Job, Result, judge_lines
from guardagent.batch.lines import Chunk
from guardagent.errors import GuardError, InputError, LimitError
from guardagent.policy.policies import Policies

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Work = tuple[Chunk, tuple[str, ...]]  # a chunk, and the rows of its first records, which an earlier run has judged
Submit = Callable[[Work], Future[list[Result]]]


def map_concurrently(
    submit: Callable[[Item], Future[Outcome]],
    items: Iterable[Item],
    has_room: Callable[[Collection[Item]], bool],
    *,
    ordered: bool = True,
) -> Iterator[tuple[Item, Outcome]]:
    """Each item with its outcome.

    Args:
        submit: begins an item.
        items: are read only as there is room for them.
        has_room: whether one more may begin beside those that have begun and are not given yet.
        ordered: gives them in their order; else each as soon as it is done.
    """
    waiting, running = iter(items), dict[Future[Outcome], Item]()
    while True:
        while has_room(running.values()) and (item := next(waiting, None)) is not None:
            running[submit(item)] = item
        if not running:
            return
        future = next(iter(running if ordered else wait(running, return_when=FIRST_COMPLETED).done))
        yield running.pop(future), future.result()


@contextlib.contextmanager
def worker_processes(job: Job, count: int) -> Iterator[Submit]:
    """Gives what begins a chunk in one of several processes. They end at once where what they do is of no use any more.

    The future raises an InputError where the policies are wrong by now or the known rows are of something else, and a
    LimitError where its process was ended from outside, as for the memory that it took.
    """
    workers: list[_Worker] = []
    idle: SimpleQueue[_Worker] = SimpleQueue()
    threads = ThreadPoolExecutor(count)
    try:
        for _ in range(count):
            workers.append(_start_worker(job))
            idle.put(workers[-1])
        yield lambda work: threads.submit(_judge, idle, work)
    except BaseException:
        for worker in workers:
            worker.process.terminate()
        raise
    finally:
        threads.shutdown(cancel_futures=True)  # no pipe is closed that a thread still reads
        for worker in workers:
            worker.pipe.close()
            worker.process.join()


@dataclass(frozen=True, slots=True)
class _Worker:
    """A process and the pipe to it."""

    process: BaseProcess
    pipe: Connection

    def judge(self, work: Work) -> list[Result]:
        try:
            self.pipe.send(work)
            reply = self.pipe.recv()
        except (EOFError, OSError):
            raise LimitError("a worker process was ended from outside; expected it to have memory enough") from None
        if isinstance(reply, str):
            raise InputError(reply)
        return reply  # type: ignore[no-any-return]


def _judge(idle: SimpleQueue[_Worker], work: Work) -> list[Result]:
    worker = idle.get()  # there is one for each thread
    try:
        return worker.judge(work)
    finally:
        idle.put(worker)


def _start_worker(job: Job) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve_chunks, args=(job, theirs))
    resource_tracker.ensure_running()  # which start() would do, and let interrupts through again
    with theirs, _interrupts_blocked():  # it is to know of none: this process decides what a Ctrl-C does
        process.start()
    return _Worker(process, ours)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve_chunks(job: Job, pipe: Connection) -> None:
    """A worker process: judges the chunks that come, until the pipe ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    policies: Policies | None = None
    with contextlib.suppress(EOFError, OSError):
        while True:
            chunk, earlier_rows = pipe.recv()
            try:
                if policies is None:
                    policies = job.load()
                reply: list[Result] | str = list(judge_lines(job, policies, chunk, earlier_rows))
            except GuardError as error:  # as its text, since not every error can be sent
                reply = str(error)
            pipe.send(reply)


def _end_with_parent() -> None:
    """However that one ends, in whatever this one is doing then."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
