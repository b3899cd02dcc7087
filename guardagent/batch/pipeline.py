"""Judges a file of any size line by line: a bad line is an error of its own, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable, Generator

from guardagent._support.interrupts import remembered
from guardagent.batch.job import Job, Result
from guardagent.batch.lines import LineReader, open_bytes
from guardagent.batch.pool import judge_chunks
from guardagent.batch.result_log import Unkept
from guardagent.policy.policies import Policies


def judge_file(
    job: Job,
    policies: Policies,
    journal: Unkept,
    *,
    workers: int = 1,
    advance: Callable[[int], None] = lambda _: None,
) -> Generator[Result]:
    """The results of a file's lines, in their order, kept in the journal and counted in its metrics.

    Memory holds a few chunks of lines, whatever the size of the file.

    Args:
        job: the file, and what is done with each line.
        policies: what judges.
        journal: keeps the rows; those that it has are neither judged nor given again.
        workers: how many processes judge.
        advance: is told how many bytes of the file are done.

    Raises:
        InputError: the file cannot be read, or is not the one that the journal was written for.
        LimitError: a worker process was ended from outside.
    """
    with journal, open_bytes(job.path) as file, remembered() as raise_if_interrupted:
        reader = LineReader(file)
        known, until = journal.place(reader)
        for chunk, results in judge_chunks(job, policies, reader.chunks(until), workers, known):
            journal.promise(chunk.end)
            for result in results:
                raise_if_interrupted()
                journal.metrics.add(result)
                if result.known:
                    continue
                if result.row:
                    journal.write(result.row)
                yield result
            journal.settle()
            advance(chunk.end.read)
