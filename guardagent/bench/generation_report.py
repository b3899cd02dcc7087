"""The tables on generation beside the paper's; empty without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from guardagent.bench.evaluation import Evaluation, PaperRow

Values = Mapping[str, float | None]


def generated_tables(summary: Mapping[str, Any], evaluation: Evaluation) -> list[str]:
    """Sections of table.md: executable code, errors, and the time and words of one check."""
    found, paper = summary["generated"], evaluation.paper_generated
    if found is None:
        return []
    sections = [_section("One check", found["per_check"], paper.per_check)]
    if summary["mode"] == "model-only":
        measured = {"percent": found["code_written"]}
        return [*sections, _section("Answers that are code although none was requested", measured, paper.code_written)]
    title = "Executable code before and after debugging, in percent"
    return [
        *sections,
        _section(title, found["executable"], paper.executable),
        *_error_section(found["errors"], paper.errors),
    ]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with numbers from the third column on."""
    aligned = ["---" if column < 2 else "---:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in [head, aligned, *rows])


def _section(title: str, measured: Values, paper: Sequence[PaperRow]) -> str:
    rows = [_row("**this run**", "measured", measured, list(measured))]
    rows += [_row(row.method, f"paper ({row.source})", row.values, list(measured)) for row in paper]
    return f"## {title}\n\n" + markdown(["guard", "source", *measured], rows)


def _row(first: str, source: str, values: Values, columns: Sequence[str]) -> list[str]:
    return [first, source, *(_number(values[name]) if name in values else "-" for name in columns)]


def _error_section(errors: Mapping[str, Values], paper: Sequence[PaperRow]) -> list[str]:
    if not errors:
        return []
    columns = ["examples", "solved"]
    rows = [_row(kind, "measured", count, columns) for kind, count in errors.items()]
    rows += [_row(row.method, f"paper ({row.source})", row.values, columns) for row in paper]
    return ["## Errors of the first version of the code\n\n" + markdown(["kind", "source", *columns], rows)]


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:g}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
