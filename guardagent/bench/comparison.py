"""The comparison of several runs of one evaluation: metrics, cost of a check, and break-even of compiling.

These are the paper's Tables 1, 6 and 7 with our columns. All numbers are read from results. A missing number stays
empty, with a note that explains it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent._support.files import MAX_DATA_BYTES, parse_json, read_json_lines, read_text
from guardagent.bench.metrics import METRICS, mean
from guardagent.bench.results import NOT_RUN, about, line, markdown, shares
from guardagent.errors import ContentError, InputError

COLUMNS = ("model calls", "prompt tokens", "completion tokens", "seconds", "US dollars")
WORD_COLUMNS = ("words of a demonstration", "words of a prompt", "words of the answers")

Row = Mapping[str, Any]
Costs = dict[str, float | None]
Values = Mapping[str, float | None]

_SUMMARY = ("name", "agent", "mode", "model", "settings", "version", "data", "data_sha256", "n", "rates", "generated")
_ROW = ("model_calls", "elapsed_ms", "generated")
_USAGE = ("calls", "cached", "prompt_tokens", "completion_tokens", "cost", "seconds")
_NOTHING = dict.fromkeys(_USAGE, 0)
_UNKNOWN = {**dict.fromkeys(_USAGE), "cached": 0}


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run: its folder, its summary, and the mean cost of its checks."""

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
    """The comparison of several runs.

    Attributes:
        compiled: the cost of compiling; None without a report.
        notes: the missing numbers, with the reason.
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
        """For each generating run and each column, the number of checks from which compiling once costs less."""
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
    """Compares the results of several runs of one evaluation.

    Args:
        folders: the folders written by `bench --out`.
        compiled: the report of `guardagent compile --json`.

    Raises:
        InputError: a file is missing or invalid, or the runs differ in evaluation or data.
    """
    if not folders:
        raise InputError("no folder to compare; expected folders written by 'guardagent bench --out'")
    runs = [_read_run(folder) for folder in folders]
    for run in runs[1:]:
        for name in ("name", "agent", "data_sha256"):
            if run.summary[name] != runs[0].summary[name]:
                raise InputError(
                    f"{run.folder}: {name!r} is {run.summary[name]!r}, but {runs[0].summary[name]!r} "
                    f"in {runs[0].folder}; expected runs of one evaluation over the same data"
                )
    usage = _usage_of_compiling(compiled) if compiled else None
    costs = _costs_of_compiling(usage) if usage else None
    return Comparison(runs, costs, list(_notes(runs, compiled, usage)))


def _read_run(folder: Path) -> MeasuredRun:
    path = folder / "summary.json"
    if not path.is_file():
        raise InputError(f"{folder}: has no summary.json; expected the folder of a completed 'bench'")
    summary = parse_json(read_text(path, limit=MAX_DATA_BYTES), path)
    if not isinstance(summary, dict) or (missing := [key for key in (*_SUMMARY, *METRICS) if key not in summary]):
        lacks = f": key {missing[0]!r} is missing" if isinstance(summary, dict) else ""
        raise ContentError(f"is not a summary of a guard's evaluation{lacks}; expected one written by 'bench'", path)
    rows = _rows(folder / "results.jsonl")
    if len(rows) != summary["n"]:
        mismatch = f"has {len(rows)} rows, but the summary counts {summary['n']}; expected the files of one run"
        raise ContentError(mismatch, folder / "results.jsonl")
    return MeasuredRun(str(folder), summary, _per_check(rows))


def _rows(path: Path) -> list[Row]:
    rows: list[Row] = []
    for number, row in read_json_lines(path):
        if missing := [key for key in _ROW if key not in row]:
            raise ContentError(f"key {missing[0]!r} is missing; expected a row of an evaluation", path, number)
        rows.append(row)
    return rows


def _per_check(rows: Sequence[Row]) -> Costs:
    """The mean costs of a check. Time and money are averaged only over rows without cached answers."""
    usages = [_usage_of(row) for row in rows]
    uncached = [(row, usage) for row, usage in zip(rows, usages, strict=True) if not usage["cached"]]
    return {
        "model calls": mean((row["model_calls"] for row in rows), 6),
        "prompt tokens": mean((usage["prompt_tokens"] for usage in usages), 6),
        "completion tokens": mean((usage["completion_tokens"] for usage in usages), 6),
        "seconds": mean((row["elapsed_ms"] / 1000 for row, _ in uncached), 6),
        "US dollars": mean((usage["cost"] for _, usage in uncached), 6),
    }


def _usage_of(row: Row) -> Row:
    """The model usage of a row; zero without a model call."""
    if row["generated"]:
        return row["generated"]["usage"]  # type: ignore[no-any-return]
    return _UNKNOWN if row["model_calls"] else _NOTHING


def _usage_of_compiling(path: Path) -> Row:
    record = parse_json(read_text(path, limit=MAX_DATA_BYTES), path)
    usage = record.get("usage") if isinstance(record, dict) else None
    if not isinstance(usage, dict) or not usage.keys() >= set(_USAGE):
        raise ContentError("key 'usage' is missing; expected the report of 'guardagent compile --json'", path)
    if not record.get("passed"):
        raise ContentError("is the report of a failed compilation; expected a successful one", path)
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
    """The number of checks after which a one-time cost has paid off."""
    return math.ceil(once / each) if once is not None and each else None


def _notes(runs: Sequence[MeasuredRun], compiled: Path | None, usage: Row | None) -> Iterable[str]:
    for run in runs:
        if unknown := [name for name in COLUMNS if run.per_check[name] is None]:
            yield f"{run.folder}: {', '.join(unknown)} unknown: not reported by the model, or all cached."
    if len({run.summary["version"] for run in runs}) > 1:
        yield "The runs are of different versions of GuardAgent."
    if compiled is None:
        yield "No break-even: it needs '--compiled' with the report of 'guardagent compile --json'."
    elif usage and usage["cached"]:
        yield f"{compiled}: {usage['cached']} answers came from the cache; seconds and US dollars are unknown."
    elif usage and (unknown := [name for name, cost in _costs_of_compiling(usage).items() if cost is None]):
        yield f"{compiled}: {', '.join(unknown)} unknown: not reported by the model."
    if not any(run.summary["mode"] == "generate" for run in runs):
        yield "No break-even: none of the runs has mode 'generate'."


def comparison_table(comparison: Comparison) -> str:
    """The content of compare.md."""
    parts = [
        f"# {comparison.first['name']}: side by side",
        _about(comparison),
        _metrics(comparison),
        _one_check(comparison),
    ]
    if comparison.compiled is not None and comparison.break_even():
        parts.append(_break_even(comparison))
    if comparison.notes:
        parts.append("\n".join(f"- {note}" for note in comparison.notes))
    return "\n\n".join(parts) + "\n"


def _about(comparison: Comparison) -> str:
    lines = [f"- {run.folder}: {about(run.summary)}" for run in comparison.runs]
    return "\n".join([*lines, "- Rows marked *paper* are quoted; their authors measured them on other examples."])


def _metrics(comparison: Comparison) -> str:
    names = list(dict.fromkeys(name for run in comparison.runs for name in shares(run.summary)))
    rows = [
        line(run.guard, _source(run.folder), run.summary["n"], shares(run.summary), names) for run in comparison.runs
    ]
    rows += [line(mode, NOT_RUN[mode], None, {}, names) for mode in comparison.not_run]
    quoted = (row for row in comparison.first.get("paper", []) if row["group"] is None)
    rows += [line(row["method"], f"paper ({row['source']})", row["n"], row, names) for row in quoted]
    return "## Metrics, in percent\n\n" + markdown(["guard", "source", "n", *names], rows)


def _one_check(comparison: Comparison) -> str:
    names = [*COLUMNS, *WORD_COLUMNS]
    rows = [
        _row(run.guard, _source(run.folder), {**run.per_check, **_words(run.summary["generated"])}, names)
        for run in comparison.runs
    ]
    rows += [_row(mode, NOT_RUN[mode], {}, names) for mode in comparison.not_run]
    rows += [_row(row["method"], f"paper ({row['source']})", row, names) for row in _quoted(comparison)]
    return "## One check\n\n" + markdown(["guard", "source", *names], rows)


def _break_even(comparison: Comparison) -> str:
    assert comparison.compiled is not None
    rows = [_row("compiling, once", "measured", comparison.compiled, COLUMNS)]
    rows += [
        _row(f"checks by {run.guard} at the same cost", _source(run.folder), checks, COLUMNS)
        for run, checks in comparison.break_even()
    ]
    return "## Break-even\n\n" + markdown(["guard", "source", *COLUMNS], rows)


def _words(generated: Mapping[str, Any] | None) -> Values:
    per_check = (generated or {}).get("per_check", {})
    return {name: per_check[name] for name in WORD_COLUMNS if name in per_check}


def _quoted(comparison: Comparison) -> Iterator[Mapping[str, Any]]:
    yield from comparison.first.get("paper_generated", {}).get("per_check", [])


def _source(folder: str) -> str:
    return f"measured ({folder})"


def _row(first: str, source: str, values: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    return [first, source, *(_number(values.get(name)) for name in columns)]


def _number(value: float | None) -> str:
    """Formats a number; empty if unknown."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else f"{value}"
