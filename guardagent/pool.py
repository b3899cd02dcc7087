"""Judges chunks in several processes at once, with few under way, and gives their results in the order of the file."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import Any

from guardagent.errors import GuardError, InputError, LimitError
from guardagent.judging import Job, Result, judge_lines
from guardagent.lines import Chunk
from guardagent.policy.policies import Policies

_AHEAD = 3  # chunks under way for each process
_AHEAD_BYTES = 16 * 2**20  # and of all of them together, unless one alone is larger

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
        yield from _judge_at_once(job, chunks, workers, tuple(known))
        return
    for chunk in chunks:
        yield chunk, judge_lines(job, policies, chunk, known)
        known = ()


def _judge_at_once(job: Job, chunks: Iterable[Chunk], workers: int, known: tuple[str, ...]) -> Iterator[Judged]:
    waiting, under_way = iter(chunks), deque[tuple[Chunk, Future[list[Result] | str]]]()
    with _processes(job, workers) as pool:
        while True:
            while _has_room(under_way, workers) and (chunk := next(waiting, None)):
                with _interrupts_held():  # the new process is to know of none: this one decides what a Ctrl-C does
                    under_way.append((chunk, pool.submit(_judge, chunk, known)))
                known = ()
            if not under_way:
                return
            chunk, future = under_way.popleft()
            yield chunk, _results(future)


def _has_room(under_way: Iterable[tuple[Chunk, Any]], workers: int) -> bool:
    sizes = [chunk.size for chunk, _ in under_way]
    return len(sizes) < _AHEAD * workers and sum(sizes) < _AHEAD_BYTES


def _results(future: Future[list[Result] | str]) -> list[Result]:
    try:
        results = future.result()
    except BrokenProcessPool:
        raise LimitError("a worker process was ended from outside; expected it to have memory enough") from None
    if isinstance(results, str):
        raise InputError(results)
    return results


@contextlib.contextmanager
def _processes(job: Job, workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes end with this one, however it ends: they watch a pipe of which it alone holds an end."""
    context = multiprocessing.get_context("spawn")
    watched, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, _begin, (job, watched))
    try:
        yield pool
    except BaseException:  # an interrupt, or nobody wants more: what is under way is not waited for
        held.close()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        held.close()
        watched.close()


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_state: dict[str, Any] = {}  # of a worker process: its job, and the policies once they are loaded


def _begin(job: Job, watched: Connection) -> None:
    _state["job"] = job
    threading.Thread(target=_end_with_parent, args=(watched,), daemon=True).start()


def _end_with_parent(watched: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        watched.recv_bytes()
    os._exit(1)


def _judge(chunk: Chunk, known: tuple[str, ...]) -> list[Result] | str:
    """In a worker process. An error is given as its text, since not every error can be sent."""
    job: Job = _state["job"]
    try:
        if "policies" not in _state:
            _state["policies"] = job.load()
        return list(judge_lines(job, _state["policies"], chunk, known))
    except GuardError as error:
        return str(error)
