"""The results of lines, their metrics, and the files that keep them so that an interrupted run can resume.

A line gives a row of JSON or an error. A file of results has one row per line, and one process at a time appends to it.
If a run is killed, all written rows remain. Only the last one may be torn; it is removed before the next is appended.

A small progress file beside the rows records the position in the input. It is replaced before the rows of a chunk are
written, and names the end of that chunk: any rows after it belong to exactly those bytes of the input. So the run may
be killed at any moment, ids may repeat, and the progress file does not grow with the input.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, Self

from guardagent._support.files import parse_json, replace_file
from guardagent.batch.records import FilePosition, InputLine, LineReader, open_bytes
from guardagent.errors import ContentError, InputError
from guardagent.types import Verdict, unchecked_verdict

# --- lines


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one line: an error if it is unreadable, else a verdict.

    Attributes:
        row: the verdict as a line of JSON.
        label, rules, unchecked: the label, the ids of the violated policies, and whether the verdict has errors.
        is_clean: the record is allowed, without a warning.
        is_escalated: it only needs approval.
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
    is_escalated: bool = False


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
        verdict["decision"] == "escalate" and not verdict["errors"],
    )


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


# --- metrics


@dataclass(slots=True)
class ConfusionMatrix:
    """Counts of true positives, false positives, false negatives and true negatives."""

    tp: int = 0
    fp: int = 0
    fn: int = 0
    tn: int = 0

    def add(self, *, is_predicted: bool, expected: bool) -> None:
        if is_predicted:
            self.tp, self.fp = self.tp + expected, self.fp + (not expected)
        else:
            self.fn, self.tn = self.fn + expected, self.tn + (not expected)

    @property
    def count(self) -> int:
        return self.tp + self.fp + self.fn + self.tn

    @property
    def accuracy(self) -> float | None:
        return _ratio(self.tp + self.tn, self.count)

    @property
    def precision(self) -> float | None:
        return _ratio(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> float | None:
        return _ratio(self.tp, self.tp + self.fn)


@dataclass(slots=True)
class VerdictMetrics:
    """The results of the lines so far.

    Attributes:
        judged, unreadable: the number of lines with a verdict, and with an error.
        denied, unchecked: the number of verdicts with label 1, and with errors.
        escalated: the number of verdicts that only ask for approval; they are not among the denied ones.
        violated: rule id -> the number of records that violate it.
        labels: the labels of the verdicts against the expected labels.
        rules: the same for each rule, over the records with expected rules.
    """

    judged: int = 0
    unreadable: int = 0
    denied: int = 0
    unchecked: int = 0
    violated: dict[str, int] = field(default_factory=dict)
    labels: ConfusionMatrix = field(default_factory=ConfusionMatrix)
    rules: dict[str, ConfusionMatrix] = field(default_factory=dict)
    escalated: int = 0

    @classmethod
    def for_rules(cls, rules: Iterable[str]) -> Self:
        """Empty metrics with a row for each rule."""
        ids = list(rules)
        return cls(violated=dict.fromkeys(ids, 0), rules={rule: ConfusionMatrix() for rule in ids})

    @property
    def status(self) -> int:
        """The exit status of a command with many verdicts."""
        return 2 if self.unreadable else 3 if self.unchecked else 1 if self.denied or self.escalated else 0

    def add(self, result: Result) -> None:
        if result.error:
            self.unreadable += 1
            return
        self.judged += 1
        self.escalated += result.is_escalated
        self.denied += result.label - result.is_escalated
        self.unchecked += result.unchecked
        for rule in result.rules:
            self.violated[rule] = self.violated.get(rule, 0) + 1
        if result.expected_label is not None:
            self.labels.add(is_predicted=result.label == 1, expected=result.expected_label == 1)
        if result.expected_rules is not None:
            self._compare(set(result.rules), set(result.expected_rules))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        rules = {rule: ConfusionMatrix(**matrix) for rule, matrix in values["rules"].items()}
        return cls(**{**values, "labels": ConfusionMatrix(**values["labels"]), "rules": rules})

    def _compare(self, predicted: set[str], expected: set[str]) -> None:
        for rule in expected - self.rules.keys():  # a rule that the policies lack counts as missed
            self.rules[rule] = ConfusionMatrix()
        for rule, matrix in self.rules.items():
            matrix.add(is_predicted=rule in predicted, expected=rule in expected)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


# --- files of results

_KEYS = {"id", "label", "decision", "rules", "errors"}
_START_ANEW = "expected the input and policies of that run; to start anew, use another '--out'"


class ResultLog:
    """The file, open and locked; created if missing.

    Raises:
        InputError: another run is writing to it, its rows cannot be continued, or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._is_new = path, not path.exists()
        with file_errors(path):
            self._file = FileIO(path, "a+")
        self._complete_size = 0
        try:
            self._lock()
            self._resume()
        except BaseException:
            self.close()
            raise

    def _resume(self) -> None:
        """Reads what an earlier run has left."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes and unlocks the file."""
        self._file.close()

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self._file.seek(0, os.SEEK_END)

    def rows(self, start: int = 0) -> list[str]:
        """The lines from a byte offset on, unvalidated, without a torn last line."""
        with file_errors(self.path):
            self._file.seek(start)
            data = self._file.readall() or b""
        complete = data[: data.rfind(b"\n") + 1]  # on bytes: the row may be torn within a character
        self._complete_size = start + len(complete)
        return complete.decode("utf-8", "replace").split("\n")[:-1]

    def drop_torn_row(self) -> None:
        """Truncates a torn last row, once the rows before it are validated."""
        with file_errors(self.path):
            self._file.truncate(self._complete_size)

    def append(self, row: str) -> None:
        """Appends a row."""
        data = f"{row}\n".encode()
        with file_errors(self.path):
            while data:
                data = data[self._file.write(data) :]

    def replace(self, rows: Iterable[str]) -> None:
        """Replaces all rows atomically and closes the file; after a crash, either the old or the new rows remain."""
        with self, file_errors(self.path):
            replace_file(self.path, "".join(f"{row}\n" for row in rows))

    def _lock(self) -> None:
        """Locks the file, unless another run has replaced it since it was opened."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released by the system when the process ends
            if os.path.samestat(os.fstat(self._file.fileno()), self.path.stat()):
                return
        raise InputError(f"{self.path}: another run is writing to it; wait until that run ends")


@contextlib.contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turns errors of the operating system into errors that name the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read or written: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ContentError("is not UTF-8; expected the unchanged file", path) from None


class ResumableLog(ResultLog):
    """The rows of a run, with its metrics.

    Args:
        path: the file, one row per line.
        setup: identifies version, command and policies; a run resumes only under the same setup.
        metrics: empty metrics.
        resume: continue after the existing rows; otherwise the file must be empty or missing.
    """

    def __init__(self, path: Path, setup: str, metrics: VerdictMetrics, *, resume: bool = False) -> None:
        self.metrics = metrics
        self._setup, self._continues = setup, resume
        self._progress_path = path.with_name(f"{path.name}.progress")
        self._done = self._promised = FilePosition()
        self._written = 0
        super().__init__(path)

    def __exit__(self, *error: object) -> None:
        with contextlib.closing(self):
            if error[0] is None:
                self._refuse_change(self._done)
                self._save()
            if self._is_new and not self.size:  # nothing was read: another command may write here
                self.path.unlink()
                self._progress_path.unlink(missing_ok=True)

    def seek(self, reader: LineReader) -> tuple[list[str], int | None]:
        """Skips the input that is done. Returns the existing rows of the next chunk, and the end of that chunk."""
        if not reader.skip_to(self._done):
            raise InputError(
                f"{self.path}: the first {self._done.line:,} lines of the input have changed since it was written; "
                + _START_ANEW
            )
        return self._rows_of_next_chunk(), self._promised.read

    @contextlib.contextmanager
    def chunk(self, end: FilePosition) -> Iterator[None]:
        """Records before the body the end of the chunk whose rows it appends, and then that all of them are written."""
        self._refuse_change(end)
        self._promised = end
        self._save()
        yield
        self._done, self._written = end, self.size

    def _refuse_change(self, end: FilePosition) -> None:
        """Refuses another end than the one that an earlier run recorded."""
        if self._promised not in (self._done, end):
            raise InputError(f"{self.path}: the input changed before line {self._promised.line + 1:,}; {_START_ANEW}")

    def _save(self) -> None:
        values = {
            "setup": self._setup,
            "done": asdict(self._done),
            "promised": asdict(self._promised),
            "written": self._written,
            "metrics": self.metrics.to_dict(),
        }
        new_file = self._progress_path.with_name(f"{self._progress_path.name}.new")
        with file_errors(self._progress_path):  # not synced: that would take longer than judging the chunk
            new_file.write_text(json.dumps(values), encoding="utf-8")
            new_file.replace(self._progress_path)

    def _resume(self) -> None:
        if self._continues:
            self._read_progress()
        elif self.size:
            raise InputError(f"{self.path}: already holds results; use '--resume' to continue, or another '--out'")

    def _read_progress(self) -> None:
        with file_errors(self._progress_path):
            text = self._progress_path.read_text(encoding="utf-8") if self._progress_path.exists() else ""
        if text:
            self._restore(parse_json(text, self._progress_path))
        if self.size < self._written:
            raise InputError(
                f"{self.path}: has fewer rows than were written; expected the unchanged file, or another '--out'"
            )
        if self.size and not text:
            raise InputError(
                f"{self.path}: holds results, but {self._progress_path} is missing; expected both, or neither"
            )

    def _restore(self, values: Mapping[str, Any]) -> None:
        try:
            self._done, self._promised = FilePosition(**values["done"]), FilePosition(**values["promised"])
            self._written, setup = int(values["written"]), values["setup"]
            metrics = VerdictMetrics.from_dict(values["metrics"])
        except (KeyError, TypeError, ValueError):
            raise ContentError("is not a progress file; expected the unchanged file", self._progress_path) from None
        if setup != self._setup:
            raise InputError(f"{self.path}: was written under other policies or by another version; {_START_ANEW}")
        self.metrics = metrics

    def _rows_of_next_chunk(self) -> list[str]:
        """The existing rows of the chunk that was begun."""
        rows = self.rows(self._written)
        if rows and self._promised == self._done:
            raise InputError(
                f"{self.path}: has more rows than were written; expected the unchanged file, or another '--out'"
            )
        for row in rows:
            value = parse_json(row, self.path)
            if not isinstance(value, dict) or not value.keys() >= _KEYS:
                raise ContentError("the last rows are not verdicts; expected the unchanged file", self.path)
        self.drop_torn_row()
        return rows


# --- labelled runs of an agent, one JSON object per line

RunJudge = Callable[[str, str, Mapping[str, Any]], Verdict]


def judge_runs(path: str, judge: RunJudge) -> Iterator[Result]:
    """Yields the result of each line in order: a verdict, or the error of an unreadable line. Labels are not used.

    Raises:
        InputError: the file cannot be read, or has no lines.
    """
    name, empty = ("standard input" if path == "-" else path), True
    with open_bytes(path) as stream:
        for chunk in LineReader(stream).chunks():
            for line in chunk.lines:
                empty = False
                yield _result(line, name, judge)
    if empty:
        raise InputError(f"{name}: holds no runs; expected one JSON object per line")


def _result(line: InputLine, name: str, judge: RunJudge) -> Result:
    from guardagent.programs.compile.examples import read_example  # here: `check` reads no runs

    try:
        example = read_example(parse_json(line.text(name), name, line.number), name, line.number)
    except InputError as error:
        return Result(line.number, error=str(error))
    verdict = judge(example.agent_input, example.agent_output, example.facts)
    return result_of(line.number, example, row_of(example.id, verdict))
