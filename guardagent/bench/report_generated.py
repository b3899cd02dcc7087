"""The tables of what generating took, beside the paper's; empty where no model took part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from guardagent.bench.evaluation import Evaluation, PaperRow

Values = Mapping[str, float | None]


def generated_tables(summary: Mapping[str, Any], evaluation: Evaluation) -> list[str]:
    """Sections of table.md: code that ran and its errors, and the time and words of one check."""
    found = summary["generated"]
    if found is None:
        return []
    per_check = _section("One check", list(found["per_check"]), found["per_check"], evaluation.paper_per_check)
    if found["code_written"] is not None:
        said = f"Answers that are code, though none was asked for: {_number(found['code_written'])} percent."
        return [per_check, f"## Code\n\n{said}"]
    title = "Code that ran, before and after debugging, in percent"
    code = _section(title, ["before", "after"], found["executable"], evaluation.paper_executable)
    return [per_check, code, *_errors(found["errors"])]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, of which the numbers begin with the third column."""
    aligned = ["---" if column < 2 else "---:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in [head, aligned, *rows])


def _section(title: str, columns: Sequence[str], measured: Values, paper: Sequence[PaperRow]) -> str:
    rows = [_row("**this run**", "measured", measured, columns)]
    rows += [_row(row.method, f"paper ({row.source})", row.values, columns) for row in paper]
    return f"## {title}\n\n" + markdown(["guard", "source", *columns], rows)


def _row(first: str, source: str, values: Values, columns: Sequence[str]) -> list[str]:
    return [first, source, *(_number(values[name]) if name in values else "-" for name in columns)]


def _errors(errors: Mapping[str, Mapping[str, int]]) -> list[str]:
    if not errors:
        return []
    rows = [[kind, "measured", str(count["before"]), str(count["solved"])] for kind, count in errors.items()]
    return ["## Errors of the first version\n\n" + markdown(["kind", "source", "examples", "solved"], rows)]


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:g}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
