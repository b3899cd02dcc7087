"""Metrics of generation, with tables beside the paper's: executable code, errors, words, tokens and time.

They follow the paper's Table 2 and Appendix K (executable code before and after debugging, and errors), Table 6 (time)
and Table 7 (words). Without a model there are no tables.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from guardagent.bench.evaluation import Evaluation, PaperRow
from guardagent.bench.metrics import Row, mean, percent
from guardagent.programs.answers import holds_code
from guardagent.types import Step, Verdict

ATTEMPTS = ("code", "debug")
NO_CODE = "no code"
"""No version of the code was generated: the plan was unusable, or the model did not answer."""

_MODEL_STEPS = ("plan", *ATTEMPTS, "judge")


def describe(verdict: Verdict) -> dict[str, Any] | None:
    """The part of a row about generation; None for a verdict without a model."""
    if not verdict.story:
        return None
    votes = sorted({step.vote for step in verdict.story})
    judged = [step.text for step in verdict.story if step.name == "judge"]
    return {
        "usage": asdict(verdict.usage),
        "attempts": [] if judged else [_attempts(_steps_of_vote(verdict.story, vote)) for vote in votes],
        "words": {
            "demonstration": mean(_demonstrations(verdict.story)),
            "prompt": mean(map(_prompt_words, _first_prompts(verdict.story))),
            "response": sum(len(step.text.split()) for step in verdict.story if step.name in _MODEL_STEPS),
        },
        "code_written": holds_code(judged[0]) if judged and judged[0] else None,
    }


def is_silent(verdict: Verdict) -> bool:
    """Whether a model was called and gave no answer at all."""
    answers = [step.text for step in verdict.story if step.name in _MODEL_STEPS]
    return bool(verdict.errors and answers) and not any(answers)


def measure_generated(rows: Sequence[Row]) -> dict[str, Any] | None:
    """The metrics over all rows with a model; None without such rows."""
    generated_rows = [row for row in rows if row.get("generated")]
    if not generated_rows:
        return None
    records = [row["generated"] for row in generated_rows]
    attempts = [attempt for record in records for attempt in record["attempts"]]
    written = [record["code_written"] for record in records if record["code_written"] is not None]
    return {
        "executable": {
            "before": percent(sum(attempt[0] is None for attempt in attempts), len(attempts)),
            "after": percent(sum(attempt[-1] is None for attempt in attempts), len(attempts)),
        },
        "errors": _error_counts(attempts),
        "code_written": percent(sum(written), len(written)),
        "cached": sum(record["usage"]["cached"] for record in records),
        "per_check": _per_check(generated_rows),
    }


def _per_check(rows: Sequence[Row]) -> dict[str, float | None]:
    """The means per check. Time and money are averaged only over rows without cached answers."""
    words, usage = [row["generated"]["words"] for row in rows], [row["generated"]["usage"] for row in rows]
    uncached = [row for row in rows if not row["generated"]["usage"]["cached"]]
    return {
        "seconds": mean(row["elapsed_ms"] / 1000 for row in uncached),
        "words of a demonstration": mean(word["demonstration"] for word in words),
        "words of a prompt": mean(word["prompt"] for word in words),
        "words of the answers": mean(word["response"] for word in words),
        "prompt tokens": mean(counts["prompt_tokens"] for counts in usage),
        "completion tokens": mean(counts["completion_tokens"] for counts in usage),
        "US dollars": mean((row["generated"]["usage"]["cost"] for row in uncached), digits=6),
    }


def _steps_of_vote(story: Sequence[Step], vote: int) -> list[Step]:
    return [step for step in story if step.vote == vote]


def _attempts(story: Sequence[Step]) -> list[str | None]:
    """The kind of error of each version of the code, None for one that ran; never empty."""
    kinds = [_error_kind(step) for step in story if step.name == "run" or (step.name in ATTEMPTS and step.kind)]
    return kinds or [NO_CODE]


def _error_kind(step: Step) -> str | None:
    """The kind of error; `other` if the error has no kind."""
    return step.kind or ("other" if step.error else None)


def _error_counts(attempts: Sequence[Sequence[str | None]]) -> dict[str, dict[str, int]]:
    """Kind of the first version's error -> the number of examples, and of those solved by debugging."""
    failed = [attempt for attempt in attempts if attempt[0] is not None]
    before = Counter(str(attempt[0]) for attempt in failed)
    solved = Counter(str(attempt[0]) for attempt in failed if attempt[-1] is None)
    return {kind: {"examples": count, "solved": solved[kind]} for kind, count in sorted(before.items())}


def _first_prompts(story: Sequence[Step]) -> list[Step]:
    """The first step of each kind except debugging: plan and code, or the judgement."""
    names: dict[str, Step] = {}
    for step in story:
        if step.name in _MODEL_STEPS and step.name != "debug":
            names.setdefault(step.name, step)
    return list(names.values())


def _prompt_words(step: Step) -> int:
    return sum(len(message.content.split()) for message in step.prompt)


def _demonstrations(story: Sequence[Step]) -> list[int]:
    lines = [line for step in story[:1] if step.name == "retrieve" for line in step.text.split("\n") if line]
    return [_words(json.loads(line)) for line in lines]


def _words(record: Mapping[str, Any]) -> int:
    return sum(len(("\n".join(value) if isinstance(value, list) else value).split()) for value in record.values())


Values = Mapping[str, float | None]


def generated_tables(summary: Mapping[str, Any], evaluation: Evaluation) -> list[str]:
    """Sections of table.md: executable code, errors, and the time and words of one check."""
    figures, paper = summary["generated"], evaluation.paper_generated
    if figures is None:
        return []
    sections = [_section("One check", figures["per_check"], paper.per_check)]
    if summary["mode"] == "model-only":
        measured = {"percent": figures["code_written"]}
        return [*sections, _section("Answers that are code although none was requested", measured, paper.code_written)]
    title = "Executable code before and after debugging, in percent"
    return [
        *sections,
        _section(title, figures["executable"], paper.executable),
        *_error_section(figures["errors"], paper.errors),
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
