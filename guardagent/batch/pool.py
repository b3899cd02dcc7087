"""A bounded concurrent map, and the pool of worker processes that it runs on.

The pool is a `ThreadPoolExecutor`; each thread drives one process through a pipe of its own. `ProcessPoolExecutor` does
not meet the requirements. Its processes share one result pipe, so that it waits forever for a process that was killed
while answering. It cannot terminate its processes at once, as Ctrl-C requires. Its processes outlive a killed parent.
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
from typing import Any, TypeVar

from guardagent.errors import GuardError, InputError, LimitError

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Start = Callable[[], Callable[[Item], Outcome]]
"""Called in a worker process before its first work; returns the function that does the work. It is pickled."""


def map_concurrently(
    submit: Callable[[Item], Future[Outcome]],
    items: Iterable[Item],
    has_room: Callable[[Collection[Item]], bool],
    *,
    ordered: bool = True,
) -> Iterator[tuple[Item, Outcome]]:
    """Yields each item with its outcome.

    Args:
        submit: starts the work on an item.
        items: the items; read only as there is room for them.
        has_room: whether one more item may start besides those that are started and not yet yielded.
        ordered: yields items in their order; else each as soon as it is done.
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
def worker_processes(start: Start[Item, Outcome], count: int) -> Iterator[Callable[[Item], Future[Outcome]]]:
    """Starts worker processes, and gives the function that submits an item to one of them.

    An exception in the body terminates the processes at once. A future raises an InputError if the work raised a
    GuardError, and a LimitError if its process was killed, for example for lack of memory.
    """
    workers: list[_Worker] = []
    idle: SimpleQueue[_Worker] = SimpleQueue()
    threads = ThreadPoolExecutor(count)
    try:
        for _ in range(count):
            workers.append(_start_worker(start))
            idle.put(workers[-1])
        yield lambda item: threads.submit(_work, idle, item)
    except BaseException:
        for worker in workers:
            worker.process.terminate()
        raise
    finally:
        threads.shutdown(cancel_futures=True)  # before the pipes close: a thread may still read one
        for worker in workers:
            worker.pipe.close()
            worker.process.join()


@dataclass(frozen=True, slots=True)
class _Worker:
    """A worker process and the pipe to it."""

    process: BaseProcess
    pipe: Connection

    def work(self, item: Any) -> Any:
        try:
            self.pipe.send(item)
            outcome, error = self.pipe.recv()
        except (EOFError, OSError):
            raise LimitError(
                "a worker process was killed, probably for lack of memory; use fewer '--workers'"
            ) from None
        if error:
            raise InputError(error)
        return outcome


def _work(idle: SimpleQueue[_Worker], item: Any) -> Any:
    worker = idle.get()  # there is one worker per thread
    try:
        return worker.work(item)
    finally:
        idle.put(worker)


def _start_worker(start: Start[Any, Any]) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(start, theirs))
    resource_tracker.ensure_running()  # start() would do it too, and unblock interrupts
    with theirs, _interrupts_blocked():  # the parent alone handles Ctrl-C
        process.start()
    return _Worker(process, ours)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(start: Start[Any, Any], pipe: Connection) -> None:
    """The main function of a worker process: works until the pipe closes."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    work: Callable[[Any], Any] | None = None
    with contextlib.suppress(EOFError, OSError):
        while True:
            item = pipe.recv()
            try:
                work = work or start()
                reply = work(item), ""
            except GuardError as error:  # as a string, since not every error can be pickled
                reply = None, str(error)
            pipe.send(reply)


def _end_with_parent() -> None:
    """Ends this process when its parent ends, in whatever way."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
