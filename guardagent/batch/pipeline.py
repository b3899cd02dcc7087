"""Judges a file of any size line by line, in several processes.

Each line is a record, and gives a row of JSON or a located error. An unreadable line does not end the run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat
from typing import Any, TypeVar

from guardagent._support.execution import remember, timed_verdict
from guardagent.batch.records import Chunk, InputLine, LineReader, open_bytes
from guardagent.batch.results import Result, ResumableLog, VerdictMetrics, result_of, row_of
from guardagent.errors import ContentError, InputError
from guardagent.policy.policies import Policies
from guardagent.types import Decision, Verdict

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

# --- lines


@dataclass(frozen=True, slots=True)
class Job:
    """The work to do for each line of a file. Worker processes get a pickled copy, so its functions are module-level.

    Attributes:
        path: the file; `-` for standard input.
        load: loads the policies.
        read: makes a record from the text of a line, the path, the line number and the pattern of failed outputs.
        judge: returns the verdict of the policies on a record.
        prepare: prepares `judge` before the first line, with the options `workers` and `resume`.
    """

    path: str
    load: Callable[[], Policies]
    read: Callable[[str, str, int, Any], Any]
    judge: Callable[[Policies, Any], Verdict]
    prepare: Callable[..., None] | None = None

    @property
    def name(self) -> str:
        """The name of the file in messages."""
        return "standard input" if self.path == "-" else self.path


def judge_lines(job: Job, policies: Policies, chunk: Chunk, earlier_rows: Iterable[str] = ()) -> Iterator[Result]:
    """Yields the results of a chunk's lines, in order, each as soon as it is known.

    Args:
        job: the work to do.
        policies: the result of `job.load`.
        chunk: the lines.
        earlier_rows: rows for the first records of the chunk, from an earlier run.

    Raises:
        InputError: there are more such rows than records.
    """
    remaining_rows = deque(earlier_rows)
    for line in chunk.lines:
        yield judge_line(job, policies, line, remaining_rows)
    if remaining_rows:
        raise InputError(f"{job.name}: more results than records; expected the results of an earlier run on this file")


def judge_line(job: Job, policies: Policies, line: InputLine, earlier_rows: deque[str] | None = None) -> Result:
    """Returns the result of a line; takes the row of a record from `earlier_rows` if there is one."""
    resumed = bool(earlier_rows)
    try:
        record = job.read(line.text(job.name), job.name, line.number, policies.failed_output)
    except InputError as error:
        return Result(line.number, error=str(error), resumed=resumed)
    except RecursionError:
        too_deep = ContentError("is nested too deeply; expected fewer levels", job.name, line.number)
        return Result(line.number, error=str(too_deep), resumed=resumed)
    row = earlier_rows.popleft() if earlier_rows else row_of(record.id, _verdict(job, policies, record))
    result = result_of(line.number, record, row, resumed=resumed)
    if result.is_escalated and Decision.DENY in map(policies.responses.get, result.rules):
        return replace(result, is_escalated=False)  # a rule that blocks is broken, too
    return result


def _verdict(job: Job, policies: Policies, record: Any) -> Verdict:
    return timed_verdict(lambda: job.judge(policies, record)).changed(checked_by="policy")


# --- a file

Work = tuple[Chunk, tuple[str, ...]]  # a chunk, and the rows of its first records from an earlier run
_MAX_PENDING_CHUNKS = 3  # chunks per process that are read and not yet reported
_MAX_PENDING_BYTES = 16 * 2**20  # in all of them together, unless a single chunk is larger


def judge_file(
    job: Job,
    policies: Policies,
    metrics: VerdictMetrics,
    log: ResumableLog | None = None,
    *,
    workers: int = 1,
    advance: Callable[[int], None] = lambda _: None,
) -> Generator[Result]:
    """Yields the results of a file's lines in order, writes them to the log, and counts them.

    Holds only a few chunks of lines in memory, whatever the size of the file.

    Args:
        job: the file, and the work to do for each line.
        policies: the policies; worker processes load their own.
        metrics: counts the results: those of the log, if there is one.
        log: stores the rows; lines that it already has are neither judged nor yielded again.
        workers: the number of processes.
        advance: a callback that gets the number of bytes done so far.

    Raises:
        InputError: the file cannot be read, or differs from the one that the log was written for.
        LimitError: a worker process was killed.
    """

    def has_room(running: Collection[Work]) -> bool:
        return (
            len(running) < _MAX_PENDING_CHUNKS * workers
            and sum(chunk.size for chunk, _ in running) < _MAX_PENDING_BYTES
        )

    start = partial(_chunk_judge, job, policies if workers == 1 else None)
    with log or nullcontext(), open_bytes(job.path) as file, remember() as raise_if_interrupted:
        reader = LineReader(file)
        earlier_rows, end = log.seek(reader) if log else ([], None)
        work = zip(reader.chunks(end), chain([tuple(earlier_rows)], repeat(())), strict=False)
        with worker_map(start, workers) as judged:
            for (chunk, _), results in judged(work, has_room):
                with log.chunk(chunk.end) if log else nullcontext():
                    for result in results:
                        raise_if_interrupted()
                        metrics.add(result)
                        if result.resumed:
                            continue
                        if log and result.row:
                            log.append(result.row)
                        yield result
                advance(chunk.end.read)


def _chunk_judge(job: Job, policies: Policies | None) -> Callable[[Work], Iterable[Result]]:
    """Judges chunks: lazily with policies, and otherwise as a whole in a process that loads them."""
    if policies is not None:
        return lambda work: judge_lines(job, policies, *work)
    loaded = job.load()
    return lambda work: list(judge_lines(job, loaded, *work))


@contextmanager
def worker_map(
    start: Callable[[], Callable[[Item], Outcome]], count: int
) -> Iterator[Callable[..., Iterator[tuple[Item, Outcome]]]]:
    """Starts worker processes, and gives `map_concurrently` with their work, which `start` returns in each of them.

    One worker is this process: another would take longer to start than small jobs take.
    """
    if count == 1:
        work = start()
        yield lambda items, *_, **__: ((item, work(item)) for item in items)
        return
    from guardagent.batch.pool import map_concurrently, worker_processes

    with worker_processes(start, count) as submit:
        yield partial(map_concurrently, submit)
