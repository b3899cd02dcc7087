"""Several runs of one evaluation side by side: the metrics of each, what a check took, and from when compiling pays.

The paper's Tables 1, 6 and 7 with our columns. All numbers are read from results; what these do not hold stays empty,
and a note says why.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent._support.files import MAX_DATA_BYTES, parse_json, read_json_lines, read_text
from guardagent.bench.metrics import METRICS
from guardagent.bench.report import NOT_RUN
from guardagent.errors import ContentError, InputError

COLUMNS = ("model calls", "prompt tokens", "completion tokens", "seconds", "US dollars")
WORD_COLUMNS = ("words of a demonstration", "words of a prompt", "words of the answers")

Row = Mapping[str, Any]
Costs = dict[str, float | None]

_SUMMARY = ("name", "agent", "mode", "model", "settings", "version", "data", "data_sha256", "n", "rates", "generated")
_ROW = ("model_calls", "elapsed_ms", "generated")
_USAGE = ("calls", "cached", "prompt_tokens", "completion_tokens", "cost", "seconds")
_NOTHING = dict.fromkeys(_USAGE, 0)
_UNKNOWN = {**dict.fromkeys(_USAGE), "cached": 0}


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run: its folder, its summary, and the means of what its checks took."""

    folder: str
    summary: Row
    per_check: Costs

    @property
    def guard(self) -> str:
        model = self.summary["model"]
        return f"{self.summary['mode']}, {model}" if model else str(self.summary["mode"])

    def to_dict(self) -> dict[str, Any]:
        about = {name: self.summary[name] for name in ("mode", "model", "settings", "version", "n", *METRICS, "rates")}
        return {"folder": self.folder, **about, "per_check": self.per_check}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The runs side by side.

    Attributes:
        compiled: what compiling took; None where no report was given.
        notes: what is missing, and why.
    """

    runs: Sequence[MeasuredRun]
    compiled: Costs | None
    notes: Sequence[str]

    @property
    def first(self) -> Row:
        return self.runs[0].summary

    @property
    def not_run(self) -> list[str]:
        return [mode for mode in NOT_RUN if mode not in {run.summary["mode"] for run in self.runs}]

    def break_even(self) -> list[tuple[MeasuredRun, Costs]]:
        """For each generating run: from how many checks on compiling once has cost less, by each of the columns."""
        return [
            (run, {name: _break_even_checks((self.compiled or {}).get(name), run.per_check[name]) for name in COLUMNS})
            for run in self.runs
            if run.summary["mode"] == "generate"
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            **{name: self.first[name] for name in ("name", "agent", "data", "data_sha256", "n")},
            "runs": [run.to_dict() for run in self.runs],
            "not_run": self.not_run,
            "compiled": self.compiled,
            "break_even": [{"folder": run.folder, **checks} for run, checks in self.break_even()],
            "notes": list(self.notes),
            "paper": self.first.get("paper", []),
            "paper_per_check": self.first.get("paper_generated", {}).get("per_check", []),
        }


def compare(folders: Sequence[Path], compiled: Path | None = None) -> Comparison:
    """Reads the results of several runs of one evaluation.

    Args:
        folders: those that `bench --out` wrote.
        compiled: the report of `guardagent compile --json`.

    Raises:
        InputError: a file is missing or wrong, or the runs are of different evaluations or data.
    """
    if not folders:
        raise InputError("no folder to compare; expected those that `guardagent bench --out` wrote")
    runs = [_read_run(folder) for folder in folders]
    for run in runs[1:]:
        for name in ("name", "agent", "data_sha256"):
            if run.summary[name] != runs[0].summary[name]:
                raise InputError(
                    f"{run.folder}: its {name.replace('_', ' ')} is {run.summary[name]!r}, that of {runs[0].folder} "
                    f"{runs[0].summary[name]!r}; expected runs of one evaluation over the same data"
                )
    usage = _usage_of_compiling(compiled) if compiled else None
    costs = _costs_of_compiling(usage) if usage else None
    return Comparison(runs, costs, list(_notes(runs, compiled, usage)))


def _read_run(folder: Path) -> MeasuredRun:
    path = folder / "summary.json"
    if not path.is_file():
        raise InputError(f"{folder}: holds no summary.json; expected the folder of a `bench` that ran to its end")
    summary = parse_json(read_text(path, limit=MAX_DATA_BYTES), path)
    if not isinstance(summary, dict) or (missing := [key for key in (*_SUMMARY, *METRICS) if key not in summary]):
        lacks = f", it lacks {missing[0]!r}" if isinstance(summary, dict) else ""
        raise ContentError(f"is no summary of a guard's evaluation{lacks}; expected that of `bench`", path)
    rows = _rows(folder / "results.jsonl")
    if len(rows) != summary["n"]:
        mismatch = f"has {len(rows)} rows, and the summary is of {summary['n']}; expected those of one run"
        raise ContentError(mismatch, folder / "results.jsonl")
    return MeasuredRun(str(folder), summary, _per_check(rows))


def _rows(path: Path) -> list[Row]:
    rows: list[Row] = []
    for number, row in read_json_lines(path):
        if missing := [key for key in _ROW if key not in row]:
            raise ContentError(f"lacks {missing[0]!r}; expected a row of an evaluation", path, number)
        rows.append(row)
    return rows


def _per_check(rows: Sequence[Row]) -> Costs:
    """Means. An answer from a cache takes no time and costs nothing: these two are over the rows without any."""
    usages = [_usage_of(row) for row in rows]
    uncached = [(row, usage) for row, usage in zip(rows, usages, strict=True) if not usage["cached"]]
    return {
        "model calls": _mean(row["model_calls"] for row in rows),
        "prompt tokens": _mean(usage["prompt_tokens"] for usage in usages),
        "completion tokens": _mean(usage["completion_tokens"] for usage in usages),
        "seconds": _mean(row["elapsed_ms"] / 1000 for row, _ in uncached),
        "US dollars": _mean(usage["cost"] for _, usage in uncached),
    }


def _usage_of(row: Row) -> Row:
    """What models took for a row: nothing where none was asked."""
    if row["generated"]:
        return row["generated"]["usage"]  # type: ignore[no-any-return]
    return _UNKNOWN if row["model_calls"] else _NOTHING


def _usage_of_compiling(path: Path) -> Row:
    record = parse_json(read_text(path, limit=MAX_DATA_BYTES), path)
    usage = record.get("usage") if isinstance(record, dict) else None
    if not isinstance(usage, dict) or not usage.keys() >= set(_USAGE):
        raise ContentError("has no `usage` of a model; expected the report of `guardagent compile --json`", path)
    if not record.get("passed"):
        raise ContentError("is the report of compiling that gave no program; expected one that did", path)
    return usage


def _costs_of_compiling(usage: Row) -> Costs:
    uncached = not usage["cached"]
    return {
        "model calls": usage["calls"],
        "prompt tokens": usage["prompt_tokens"],
        "completion tokens": usage["completion_tokens"],
        "seconds": usage["seconds"] if uncached else None,
        "US dollars": usage["cost"] if uncached else None,
    }


def _break_even_checks(once: float | None, each: float | None) -> int | None:
    """The number of checks from which on something that is done once costs no more."""
    return math.ceil(once / each) if once is not None and each else None


def _notes(runs: Sequence[MeasuredRun], compiled: Path | None, usage: Row | None) -> Iterable[str]:
    for run in runs:
        if unknown := [name for name in COLUMNS if run.per_check[name] is None]:
            yield f"{run.folder}: {', '.join(unknown)} not known: the model did not say, or all came from the cache."
    if len({run.summary["version"] for run in runs}) > 1:
        yield "The runs are of different versions of GuardAgent."
    if compiled is None:
        yield "No break-even: no report of `guardagent compile --json` was given (--compiled)."
    elif usage and usage["cached"]:
        yield f"{compiled}: {usage['cached']} answers came from the cache; seconds and US dollars are not known."
    elif usage and (unknown := [name for name, cost in _costs_of_compiling(usage).items() if cost is None]):
        yield f"{compiled}: {', '.join(unknown)} not known: the model did not say."
    if not any(run.summary["mode"] == "generate" for run in runs):
        yield "No break-even: no run of mode generate is among these."


def _mean(values: Iterable[float | None]) -> float | None:
    """None where nothing is there, or one value is not known."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return round(statistics.fmean(known), 6) if listed and len(known) == len(listed) else None
