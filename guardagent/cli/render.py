"""Verdicts and programs as text, in colour if the terminal supports it.

Many verdicts are printed one by one, as a diff with the expectation, and as a summary.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from guardagent._terminal import printable
from guardagent.batch.cases import LABELS, Difference, difference, unknown_rule_hint
from guardagent.types import Decision, Verdict, thaw

if TYPE_CHECKING:
    from rich.console import Console

    from guardagent.batch.results import ConfusionMatrix, Result, VerdictMetrics
    from guardagent.sandbox.doctor import ComponentStatus
    from guardagent.types import ToolCall, Usage


_MARKS = {
    "allow": ("✔ ALLOWED", "bold green"),
    "warn": ("! ALLOWED WITH A WARNING", "bold yellow"),
    "deny": ("✘ DENIED", "bold red"),
    "escalate": ("✘ DENIED: needs human approval", "bold magenta"),
    "halt": ("✘ DENIED: the run is halted", "bold red"),
}


def show_verdict(verdict: Verdict, console: Console) -> None:
    """Prints the decision, then the reasons or the allowed answer."""
    show_decision(verdict, console)
    unchecked = [f"could not be checked: {error}" for error in verdict.errors]  # printed as errors below
    for reason in verdict.reasons:
        if reason not in unchecked:
            _line(console, "reason", reason)
    for error in verdict.errors:
        _line(console, "could not check", error)
    if verdict.risk:
        _line(console, "risk", verdict.risk)
    if verdict.label == 0 and verdict.answer is not None:
        _line(console, "answer", verdict.answer)


def show_decision(verdict: Verdict, console: Console) -> None:
    """Prints the decision on one line, with who decided and how long it took."""
    mark, style = _MARKS[verdict.decision]
    seconds = f"{verdict.elapsed_ms:.1f} ms, {verdict.model_calls} model calls"
    console.print(f"{mark}", style=style, end="")
    console.print(f"  ({verdict.checked_by}, {seconds})", style="dim", highlight=False)


def show_calls(calls: Iterable[ToolCall], console: Console) -> None:
    """Prints toolbox calls, one per line."""
    for call in calls:
        values = [*map(_short, call.args), *(f"{key}={_short(value)}" for key, value in call.kwargs.items())]
        result = f"error: {call.error}" if call.error else _short(call.result, 100)
        text = f"  {call.name}({', '.join(values)}) → {result}"
        style = "red" if call.denied or call.error else "green" if call.is_check else "dim"
        console.print(text, style=style, markup=False, highlight=False)


def show_story(verdict: Verdict, console: Console) -> None:
    """Prints each step behind a verdict: prompts, answers, errors and toolbox calls."""
    for step in verdict.story:
        console.rule(step.name if not step.vote else f"{step.name} (vote {step.vote + 1})", style="bold")
        for message in step.prompt:
            _block(console, f"{message.role}:", message.content, "dim")
        _block(console, "answer:" if step.prompt else "", step.text, "")
        if step.error:
            _block(console, "error:", step.error, "red")
        show_calls(step.calls, console)
    host = [call for call in verdict.calls if call.made_by == "host" or not verdict.story]
    if host:
        console.rule("calls", style="bold")
        show_calls(host, console)
    if verdict.usage.calls:
        console.rule("models", style="bold")
        console.print(usage_line(verdict.usage), markup=False, highlight=False)


def usage_line(usage: Usage) -> str:
    """Model calls, tokens, cost and time as text."""
    tokens = f"{_count_text(usage.prompt_tokens)} prompt and {_count_text(usage.completion_tokens)} completion tokens"
    cost = "cost unknown" if usage.cost is None else f"${usage.cost:.4f}"
    return f"{usage.calls} calls ({usage.cached} from the cache), {tokens}, {cost}, {usage.seconds:.1f} s"


def _count_text(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _block(console: Console, label: str, text: str, style: str) -> None:
    if label:
        console.print(label, style="bold", markup=False, highlight=False)
    if text:
        console.print(printable(text), style=style or None, markup=False, highlight=False)


def show_code(program: str, console: Console) -> None:
    from rich.syntax import Syntax

    console.print(Syntax(program, "python", background_color="default"))


def _line(console: Console, label: str, text: str) -> None:
    # The text may come from an attacker: no markup, no escape sequences.
    console.print(f"  {label}: ", style="bold", end="")
    console.print(printable(text).replace("\n", "\n    "), markup=False, highlight=False)


def _short(value: Any, width: int = 48) -> str:
    text = printable(repr(thaw(value))).replace("\n", " ")
    return text if len(text) <= width else f"{text[: width - 1]}…"


def show_findings(findings: list[ComponentStatus], console: Console) -> None:
    """Prints each hardening layer and engine, with a remedy for those that do not work."""
    for finding in findings:
        console.print(
            "missing" if finding.problem else "works  ", style="bold red" if finding.problem else "green", end=""
        )
        behind = f"behind {', '.join(finding.layers)}" if finding.layers else "confined by the engine alone"
        status = finding.problem or (behind if finding.kind == "engine" else "active in every worker")
        console.print(f"  {finding.kind:6}  {finding.name:10}  {status}", markup=False, highlight=False)


# --- many verdicts


def show_result(result: Result, console: Console) -> None:
    """Prints the id, the verdict with its reasons, and the violated rules."""
    row = json.loads(result.row)
    console.print(printable(str(row["id"])), style="bold", end="  ", markup=False, highlight=False)
    show_verdict(_verdict(row), console)
    if result.rules:
        console.print(f"  rules: {printable(', '.join(result.rules))}", markup=False, highlight=False)


def show_labelled(result: Result, console: Console) -> None:
    """Prints the label and the expected label; if they differ, also the reasons."""
    row, wrong = json.loads(result.row), result.label != result.expected_label
    labels = f"label {result.label}, expected {result.expected_label}"
    console.print("WRONG" if wrong else "right", style="red" if wrong else "green", end="  ")
    console.print(f"{printable(str(row['id']))}  {labels}", markup=False, highlight=False)
    for reason in row["reasons"] if wrong or result.unchecked else ():
        console.print(f"       {printable(reason)}", style="dim", markup=False, highlight=False)


def _verdict(row: dict[str, Any]) -> Verdict:
    return Verdict(
        Decision(row["decision"]),
        reasons=tuple(row["reasons"]),
        errors=tuple(row["errors"]),
        risk=row["risk"],
        checked_by=row["checked_by"],
        elapsed_ms=row["elapsed_ms"],
    )


def show_difference(result: Result, where: str, known: Iterable[str], console: Console) -> None:
    """Prints missing expectations (`-`), unexpected results (`+`), and the reasons."""
    row = json.loads(result.row)
    console.print(f"{where} {printable(str(row['id']))}", style="bold", markup=False, highlight=False)
    for line in _diff_lines(difference(result), result, known):
        style = {"-": "red", "+": "green"}.get(line[0])
        console.print(f"  {printable(line)}", style=style, markup=False, highlight=False)
    for reason in row["reasons"]:
        console.print(f"      {printable(reason)}", style="dim", markup=False, highlight=False)


def _diff_lines(difference: Difference, result: Result, known: Iterable[str]) -> Iterator[str]:
    if difference.label:
        yield f"- label: {LABELS[difference.label[0]]}"
        yield f"+ label: {LABELS[difference.label[1]]}"
    else:
        yield f"  label: {LABELS[result.label]}"
    names = list(known)
    for rule in sorted({*result.rules, *difference.missing}):
        sign = "-" if rule in difference.missing else "+" if rule in difference.unexpected else " "
        yield f"{sign} rule:  {rule}{unknown_rule_hint(rule, names) if sign == '-' else ''}"


def summary(metrics: VerdictMetrics, record_kind: str) -> str:
    """The counts, the metrics if there are labels, and a row for each rule."""
    name = record_kind[:-1] if metrics.judged == 1 else record_kind
    counts = (
        f"{metrics.judged:,} {name}: {metrics.judged - metrics.denied - metrics.escalated:,} allowed, "
        f"{f'{metrics.escalated:,} only needed approval, ' * bool(metrics.escalated)}{metrics.denied:,} denied "
        f"({metrics.unchecked:,} could not be fully checked); {metrics.unreadable:,} unreadable lines"
    )
    metrics_lines = [_metrics_line(metrics.labels)] if metrics.labels.count else []
    return "\n".join([counts, *metrics_lines, *_rule_table(metrics)])


def _metrics_line(matrix: ConfusionMatrix) -> str:
    return (
        f"on {matrix.count:,} labels: accuracy {_percent(matrix.accuracy)}, precision {_percent(matrix.precision)}, "
        f"recall {_percent(matrix.recall)} (tp {matrix.tp:,}, fp {matrix.fp:,}, fn {matrix.fn:,}, tn {matrix.tn:,})"
    )


def _rule_table(metrics: VerdictMetrics) -> list[str]:
    if any(hits.count for hits in metrics.rules.values()):
        head = ["rule", "violated", "tp", "fp", "fn", "precision", "recall"]
        rows = [[rule, _violated(metrics, rule), *_hit_cells(hits)] for rule, hits in metrics.rules.items()]
    else:
        head = ["rule", "violated"]
        rows = [[rule, _violated(metrics, rule)] for rule in metrics.violated] if metrics.judged else []
    table = [head, *rows] if rows else []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(_aligned(cells, widths)).rstrip() for cells in table]


def _hit_cells(matrix: ConfusionMatrix) -> list[str]:
    counts = [f"{count:,}" for count in (matrix.tp, matrix.fp, matrix.fn)]
    return [*counts, _percent(matrix.precision), _percent(matrix.recall)]


def _violated(metrics: VerdictMetrics, rule: str) -> str:
    return f"{metrics.violated.get(rule, 0):,}"


def _aligned(cells: list[str], widths: list[int]) -> Iterator[str]:
    """Aligns the first column to the left, numbers to the right."""
    for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        yield cell.rjust(width) if index else printable(cell).ljust(width)


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{100 * share:.1f}%"
