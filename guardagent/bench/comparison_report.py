"""Renders the comparison of several runs as Markdown, with the paper's rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from guardagent.bench.comparison import COLUMNS, WORD_COLUMNS, Comparison
from guardagent.bench.generation_report import markdown
from guardagent.bench.report import NOT_RUN, about, line, shares

Values = Mapping[str, float | None]


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
