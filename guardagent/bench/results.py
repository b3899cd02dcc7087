"""The file results.jsonl: one row per example, written when it is judged, so that an interrupted run can resume."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from guardagent._support.files import parse_json, replace_file
from guardagent._version import __version__
from guardagent.batch.jobs import ResultLog, file_errors
from guardagent.bench.evaluation import BenchExample, Evaluation
from guardagent.bench.generation import describe
from guardagent.errors import ContentError, InputError
from guardagent.guard import GuardAgent
from guardagent.programs.generation import CHECKED_BY
from guardagent.programs.program import UNKNOWN
from guardagent.types import Verdict, thaw

Row = dict[str, Any]

_KEYS = {"id", "label", "truth", "errors", "digest"}


class Results(ResultLog):
    """The file of rows. A row is reused only if its digest is that of the example and the guard.

    With `retry_errors`, rows that could not be checked are judged again: a failure of a model may be temporary.
    """

    def __init__(self, path: Path, *, retry_errors: bool = False) -> None:
        super().__init__(path)
        self._retry_errors = retry_errors
        try:
            self._rows = {row["id"]: row for row in self._read()}
            self.drop_torn_row()
        except BaseException:
            self.close()
            raise

    def refuse_other_rows(self, ids: Iterable[str]) -> None:
        """Checks that all rows belong to this data.

        Raises:
            InputError: a row belongs to an unknown example.
        """
        if others := sorted(self._rows.keys() - set(ids)):
            raise InputError(
                f"{self.path}: holds {len(others)} rows of other data, such as {others[0]!r}; "
                "expected a new folder, or the folder of the same evaluation and data"
            )

    def get(self, example: BenchExample, digest: str) -> Row | None:
        row = self._rows.get(example.id)
        if row is None or row["digest"] != digest or (self._retry_errors and row["errors"]):
            return None
        return row

    def keep(self, row: Row) -> None:
        """Appends the row of an example."""
        self.append(line_of(row))

    def complete(self, rows: Iterable[Row]) -> None:
        """Replaces the file by the rows of all examples in the order of the data."""
        self.replace(map(line_of, rows))

    def _read(self) -> Iterator[Row]:
        for number, line in enumerate(self.rows(), start=1):
            if not line.strip():
                continue
            row = parse_json(line, self.path, number)
            if not isinstance(row, dict) or not row.keys() >= _KEYS:
                message = "is not a row of an evaluation; expected the rows of an earlier run, or an empty folder"
                raise ContentError(message, self.path, number)
            yield row


def result_row(
    evaluation: Evaluation, example: BenchExample, verdict: Verdict, digest: str, *, of_program: bool = False
) -> Row:
    """The row of a verdict. `explained` is None for a run that must pass, `answered` for one that must be denied.

    With `of_program`, a verdict by a model means that the program could not decide the run.
    """
    must_deny = example.label == 1
    allowed_answer = verdict.answer if verdict.label == 0 else None
    return {
        "id": example.id,
        "label": verdict.label,
        "truth": example.label,
        "decision": str(verdict.decision),
        "label_right": verdict.label == example.label,
        "explained": (verdict.label == 1 and evaluation.explained(verdict, example)) if must_deny else None,
        "answered": None if must_deny else _answers(evaluation, allowed_answer, example),
        "run_right": None if must_deny else _answers(evaluation, evaluation.run_answer(example), example),
        "rates": {name: rate(verdict, example) for name, rate in evaluation.rates.items()},
        "details": thaw(verdict.details),
        "reasons": list(verdict.reasons),
        "errors": list(verdict.errors),
        "answer": verdict.answer,
        "risk": verdict.risk,
        "checked_by": verdict.checked_by,
        "model_calls": verdict.model_calls,
        "elapsed_ms": round(verdict.elapsed_ms, 3),
        "unknown": bool(verdict.details.get(UNKNOWN)) or (of_program and verdict.checked_by == CHECKED_BY),
        "generated": describe(verdict),
        "groups": evaluation.groups(example),
        "digest": digest,
    }


def digest_of(example: BenchExample, setup: str) -> str:
    """A digest of the example and the setup."""
    values = [
        setup,
        example.id,
        example.agent_input,
        example.agent_output,
        example.label,
        thaw(example.truth),
    ]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:24]


def setup_of(guard: GuardAgent, evaluation_file: Path, settings: Mapping[str, Any]) -> str:
    """Identifies the setup of a run: settings, the guard's files, the evaluation and the version."""
    files = [file for file in (*guard.sources, evaluation_file) if file.is_file()]
    # Names without folders, so that a checkout may move.
    contents = [(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]
    return repr((__version__, dict(settings), contents))


def write_text(path: Path, text: str) -> None:
    """Writes a file atomically.

    Raises:
        InputError: it cannot be written.
    """
    with file_errors(path):
        replace_file(path, text)


def line_of(row: Mapping[str, Any]) -> str:
    """A row as JSON; a lone surrogate becomes its JSON escape."""
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def _answers(evaluation: Evaluation, answer: str | None, example: BenchExample) -> bool:
    return answer is not None and evaluation.answered(answer, example)
