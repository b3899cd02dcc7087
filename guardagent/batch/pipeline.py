"""Judges a file of any size line by line. An unreadable line is an error of its own, and does not end the run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Generator, Iterable
from functools import partial
from itertools import chain, repeat

from guardagent._support.execution import remember
from guardagent.batch.jobs import Job, MetricsOnly, Result, judge_lines
from guardagent.batch.records import Chunk, LineReader, open_bytes
from guardagent.policy.policies import Policies

Work = tuple[Chunk, tuple[str, ...]]  # a chunk, and the rows of its first records from an earlier run
_MAX_PENDING_CHUNKS = 3  # chunks per process that are read and not yet reported
_MAX_PENDING_BYTES = 16 * 2**20  # in all of them together, unless a single chunk is larger


def judge_file(
    job: Job,
    policies: Policies,
    log: MetricsOnly,
    *,
    workers: int = 1,
    advance: Callable[[int], None] = lambda _: None,
) -> Generator[Result]:
    """Yields the results of a file's lines in order, writes them to the log, and counts them in its metrics.

    Holds only a few chunks of lines in memory, whatever the size of the file.

    Args:
        job: the file, and the work to do for each line.
        policies: the policies; worker processes load their own.
        log: stores the rows; lines that it already has are neither judged nor yielded again.
        workers: the number of processes.
        advance: a callback that gets the number of bytes done so far.

    Raises:
        InputError: the file cannot be read, or differs from the one that the log was written for.
        LimitError: a worker process was killed.
    """
    with log, open_bytes(job.path) as file, remember() as raise_if_interrupted:
        reader = LineReader(file)
        earlier_rows, end = log.seek(reader)
        work = zip(reader.chunks(end), chain([tuple(earlier_rows)], repeat(())), strict=False)
        judged_chunks = (
            _judge_serially(job, policies, work) if workers == 1 else _judge_in_processes(job, workers, work)
        )
        with contextlib.closing(judged_chunks):
            for chunk, results in judged_chunks:
                log.begin_chunk(chunk.end)
                for result in results:
                    raise_if_interrupted()
                    log.metrics.add(result)
                    if result.resumed:
                        continue
                    if result.row:
                        log.write(result.row)
                    yield result
                log.end_chunk()
                advance(chunk.end.read)


def _judge_serially(job: Job, policies: Policies, work: Iterable[Work]) -> Generator[tuple[Chunk, Iterable[Result]]]:
    """Yields each chunk with its results, which are computed lazily."""
    for chunk, earlier_rows in work:
        yield chunk, judge_lines(job, policies, chunk, earlier_rows)


def _judge_in_processes(job: Job, workers: int, work: Iterable[Work]) -> Generator[tuple[Chunk, Iterable[Result]]]:

    from guardagent.batch.pool import map_concurrently, worker_processes

    def has_room(running: Collection[Work]) -> bool:
        return (
            len(running) < _MAX_PENDING_CHUNKS * workers
            and sum(chunk.size for chunk, _ in running) < _MAX_PENDING_BYTES
        )

    with worker_processes(partial(_chunk_judge, job), workers) as submit:
        for (chunk, _), results in map_concurrently(submit, work, has_room):
            yield chunk, results


def _chunk_judge(job: Job) -> Callable[[Work], list[Result]]:
    policies = job.load()
    return lambda work: list(judge_lines(job, policies, *work))
