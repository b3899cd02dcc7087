"""Prints verdicts and programs as text, in colour if the terminal supports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guardagent._terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from guardagent.sandbox.doctor import ComponentStatus
    from guardagent.types import ToolCall, Usage, Verdict

_MARKS = {
    "allow": ("✔ ALLOWED", "bold green"),
    "warn": ("! ALLOWED WITH A WARNING", "bold yellow"),
    "deny": ("✘ DENIED", "bold red"),
    "escalate": ("✘ DENIED: needs human approval", "bold magenta"),
    "halt": ("✘ DENIED: the run is halted", "bold red"),
}


def show_verdict(verdict: Verdict, console: Console) -> None:
    """Prints the decision, then the reasons or the allowed answer."""
    mark, style = _MARKS[verdict.decision]
    seconds = f"{verdict.elapsed_ms:.1f} ms, {verdict.model_calls} model calls"
    console.print(f"{mark}", style=style, end="")
    console.print(f"  ({verdict.checked_by}, {seconds})", style="dim", highlight=False)
    for reason in verdict.reasons:
        if not reason.startswith("could not be checked: "):  # printed as an error below
            _line(console, "reason", reason)
    for error in verdict.errors:
        _line(console, "could not check", error)
    if verdict.risk:
        _line(console, "risk", verdict.risk)
    if verdict.label == 0 and verdict.answer is not None:
        _line(console, "answer", verdict.answer)


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
    from guardagent.types import thaw

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
