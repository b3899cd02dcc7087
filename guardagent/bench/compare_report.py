"""The comparison of several runs as Markdown, beside the paper's rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from guardagent.bench.compare import COLUMNS, WORDS, Comparison
from guardagent.bench.report import NOT_RUN, about, line, shares
from guardagent.bench.report_generated import markdown

Values = Mapping[str, float | None]


def comparison_table(found: Comparison) -> str:
    """The whole of compare.md."""
    parts = [f"# {found.first['name']}: side by side", _about(found), _metrics(found), _one_check(found)]
    if found.compiled is not None and found.break_even():
        parts.append(_break_even(found))
    if found.notes:
        parts.append("\n".join(f"- {note}" for note in found.notes))
    return "\n\n".join(parts) + "\n"


def _about(found: Comparison) -> str:
    lines = [f"- {run.folder}: {about(run.summary)}" for run in found.runs]
    return "\n".join([*lines, "- Rows marked *paper* are quoted; their authors measured them, on other examples."])


def _metrics(found: Comparison) -> str:
    names = list(dict.fromkeys(name for run in found.runs for name in shares(run.summary)))
    rows = [line(run.guard, _source(run.folder), run.summary["n"], shares(run.summary), names) for run in found.runs]
    rows += [line(mode, NOT_RUN[mode], None, {}, names) for mode in found.not_run]
    quoted = (row for row in found.first.get("paper", []) if row["group"] is None)
    rows += [line(row["method"], f"paper ({row['source']})", row["n"], row, names) for row in quoted]
    return "## Metrics, in percent\n\n" + markdown(["guard", "source", "n", *names], rows)


def _one_check(found: Comparison) -> str:
    names = [*COLUMNS, *WORDS]
    rows = [
        _row(run.guard, _source(run.folder), {**run.per_check, **_words(run.summary["generated"])}, names)
        for run in found.runs
    ]
    rows += [_row(mode, NOT_RUN[mode], {}, names) for mode in found.not_run]
    rows += [_row(row["method"], f"paper ({row['source']})", row, names) for row in _quoted(found)]
    return "## One check\n\n" + markdown(["guard", "source", *names], rows)


def _break_even(found: Comparison) -> str:
    assert found.compiled is not None
    rows = [_row("compiling, once", "measured", found.compiled, COLUMNS)]
    rows += [
        _row(f"checks by {run.guard} that take as much", _source(run.folder), checks, COLUMNS)
        for run, checks in found.break_even()
    ]
    return "## Break-even\n\n" + markdown(["guard", "source", *COLUMNS], rows)


def _words(generated: Mapping[str, Any] | None) -> Values:
    per_check = (generated or {}).get("per_check", {})
    return {name: per_check[name] for name in WORDS if name in per_check}


def _quoted(found: Comparison) -> Iterator[Mapping[str, Any]]:
    yield from found.first.get("paper_generated", {}).get("per_check", [])


def _source(folder: str) -> str:
    return f"measured ({folder})"


def _row(first: str, source: str, values: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    return [first, source, *(_number(values.get(name)) for name in columns)]


def _number(value: float | None) -> str:
    """Empty where it is not known."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else f"{value}"
