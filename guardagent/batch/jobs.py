"""A result log for the lines of a file: an interrupted run resumes after the last complete row.

A small progress file beside the rows records the position in the input. It is replaced before the rows of a chunk are
written, and names the end of that chunk: any rows after it belong to exactly those bytes of the input. So the run may
be killed at any moment, ids may repeat, and the progress file does not grow with the input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from guardagent._support.files import parse_json
from guardagent.batch.lines import FilePosition, LineReader
from guardagent.batch.result_log import ResultLog, file_errors
from guardagent.batch.verdict_metrics import VerdictMetrics
from guardagent.errors import ContentError, InputError

_KEYS = {"id", "label", "decision", "rules", "errors"}
_START_ANEW = "expected the input and policies of that run; to start anew, use another '--out'"


class MetricsOnly:
    """Keeps the metrics only, and no rows."""

    def __init__(self, metrics: VerdictMetrics) -> None:
        self.metrics = metrics

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: no file is open."""

    def seek(self, reader: LineReader) -> tuple[list[str], int | None]:  # noqa: ARG002 - the reader stays at the beginning
        """Skips the input that is done. Returns the existing rows of the next chunk, and the end of that chunk."""
        return [], None

    def begin_chunk(self, end: FilePosition) -> None:
        """Records the end of the chunk whose rows come next."""

    def write(self, row: str) -> None:
        """Stores a row."""

    def end_chunk(self) -> None:
        """Records that all rows of the chunk are written."""


class ResumableLog(MetricsOnly):
    """Stores the rows of a run in a file.

    Args:
        path: the file, one row per line.
        setup: identifies version, command and policies; a run resumes only under the same setup.
        metrics: empty metrics.
        resume: continue after the existing rows; otherwise the file must be empty or missing.

    Raises:
        InputError: the existing rows cannot be continued, another run is writing, or the file cannot be written.
    """

    def __init__(self, path: Path, setup: str, metrics: VerdictMetrics, *, resume: bool = False) -> None:
        super().__init__(metrics)
        self.path = path
        self._setup = setup
        self._progress_path = path.with_name(f"{path.name}.progress")
        self._done = self._promised = FilePosition()
        self._written = 0
        self._log = ResultLog(path)
        try:
            self._open_rows(resume=resume)
        except BaseException:
            self._log.close()
            raise

    def __exit__(self, *error: object) -> None:
        with self._log:
            if error[0] is None:
                self._refuse_change(self._done)
                self._save()

    def seek(self, reader: LineReader) -> tuple[list[str], int | None]:
        if not reader.skip_to(self._done):
            raise InputError(
                f"{self.path}: the first {self._done.line:,} lines of the input have changed since it was written; "
                + _START_ANEW
            )
        return self._rows_of_next_chunk(), self._promised.read

    def begin_chunk(self, end: FilePosition) -> None:
        self._refuse_change(end)
        self._promised = end
        self._save()

    def write(self, row: str) -> None:
        self._log.append(row)

    def end_chunk(self) -> None:
        self._done, self._written = self._promised, self._log.size

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

    def _open_rows(self, *, resume: bool) -> None:
        if resume:
            self._read_progress()
        elif self._log.size:
            raise InputError(f"{self.path}: already holds results; use '--resume' to continue, or another '--out'")

    def _read_progress(self) -> None:
        with file_errors(self._progress_path):
            text = self._progress_path.read_text(encoding="utf-8") if self._progress_path.exists() else ""
        if text:
            self._restore(parse_json(text, self._progress_path))
        if self._log.size < self._written:
            raise InputError(
                f"{self.path}: has fewer rows than were written; expected the unchanged file, or another '--out'"
            )
        if self._log.size and not text:
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
        rows = self._log.rows(self._written)
        if rows and self._promised == self._done:
            raise InputError(
                f"{self.path}: has more rows than were written; expected the unchanged file, or another '--out'"
            )
        for row in rows:
            value = parse_json(row, self.path)
            if not isinstance(value, dict) or not value.keys() >= _KEYS:
                raise ContentError("the last rows are not verdicts; expected the unchanged file", self.path)
        self._log.drop_torn_row()
        return rows
