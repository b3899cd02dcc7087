"""Judges the lines of a file. Each line is a record, and gives a row of JSON or a located error."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from guardagent._support.execution import timed_verdict
from guardagent.batch.lines import Chunk, InputLine
from guardagent.errors import ContentError, InputError
from guardagent.policy.policies import Policies
from guardagent.types import Verdict, unchecked_verdict


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


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one line: an error if it is unreadable, else a verdict.

    Attributes:
        row: the verdict as a line of JSON.
        label, rules, unchecked: the label, the ids of the violated policies, and whether the verdict has errors.
        is_clean: the record is allowed, without a warning.
        expected_label, expected_rules: the expectation of the record, if it has one.
        resumed: an earlier run has already reported it.
    """

    line: int
    error: str = ""
    row: str = ""
    label: int = 0
    rules: tuple[str, ...] = ()
    unchecked: bool = False
    is_clean: bool = False
    expected_label: int | None = None
    expected_rules: tuple[str, ...] | None = None
    resumed: bool = False


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
        yield _judge_line(job, policies, line, remaining_rows)
    if remaining_rows:
        raise InputError(f"{job.name}: more results than records; expected the results of an earlier run on this file")


def _judge_line(job: Job, policies: Policies, line: InputLine, remaining_rows: deque[str]) -> Result:
    resumed = bool(remaining_rows)
    try:
        record = job.read(line.text(job.name), job.name, line.number, policies.failed_output)
    except InputError as error:
        return Result(line.number, error=str(error), resumed=resumed)
    except RecursionError:
        too_deep = ContentError("is nested too deeply; expected fewer levels", job.name, line.number)
        return Result(line.number, error=str(too_deep), resumed=resumed)
    row = remaining_rows.popleft() if resumed else row_of(record.id, _verdict(job, policies, record))
    return result_of(line.number, record, row, resumed=resumed)


def result_of(line: int, record: Any, row: str, *, resumed: bool = False) -> Result:
    """The result of a record from the row of its verdict."""
    verdict = json.loads(row)
    return Result(
        line,
        "",
        row,
        verdict["label"],
        tuple(verdict["rules"]),
        bool(verdict["errors"]),
        verdict["decision"] == "allow",
        getattr(record, "label", None),
        getattr(record, "rules", None),
        resumed,
    )


def _verdict(job: Job, policies: Policies, record: Any) -> Verdict:
    return timed_verdict(lambda: job.judge(policies, record)).changed(checked_by="policy")


def row_of(record_id: str | int, verdict: Verdict) -> str:
    """The verdict as a line of JSON; a verdict that JSON cannot represent becomes a denial."""
    try:
        return _json(record_id, verdict)
    except ValueError as error:
        return _json(
            record_id, unchecked_verdict(f"the verdict cannot be written as JSON: {error}", checked_by="policy")
        )


def _json(record_id: str | int, verdict: Verdict) -> str:
    row = {"id": record_id, **verdict.to_dict(), "rules": list(verdict.rules)}
    text = json.dumps(row, ensure_ascii=False, allow_nan=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate becomes its JSON escape
