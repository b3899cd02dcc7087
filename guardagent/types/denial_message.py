"""Formats a verdict for the model that proposed the step: the step once, then a line for each cause.

A line begins with the message of the rule's author. Only values that the conversation has seen, or that the caller
passed, follow it: the maker of the verdict has left out all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from guardagent.types.formatting import format_value
from guardagent.types.verdicts import Decision, Verdict, Violation, json_text, thaw

MAX_DETAIL = 400  # characters

_HEADS = {
    Decision.ALLOW: "This is allowed",
    Decision.WARN: "This is allowed, with a warning",
    Decision.DENY: "This is not allowed",
    Decision.ESCALATE: "This is not allowed unless a reviewer approves it",
    Decision.HALT: "This is not allowed, and the run is halted",
}
_RULE_KEYS = {"call", "needed", "missing", "because", "rules", "core", "reasons", "in flight", "obliged by", "event"}


def denial_message(verdict: Verdict, *, call: bool = True) -> str:
    """Returns the message; empty when the step may proceed and there is nothing to report.

    Args:
        verdict: the verdict on the step.
        call: whether to name the step, which is redundant if the model sees it anyway.
    """
    lines = list(dict.fromkeys(map(_one_line, _lines(verdict))))
    if not lines:
        return ""
    denial = verdict.denial
    step = f": {call_text(denial.tool, denial.args)}" if call and denial is not None and denial.tool else ":"
    return "\n".join([f"{_HEADS[verdict.decision]}{step}", *[f"- {line}" for line in lines]])


def call_text(tool: str, args: Mapping[str, Any]) -> str:
    """Returns a call in one line, with long values truncated."""
    return _truncate(_one_line(f"{tool}({', '.join(f'{name}={format_value(value)}' for name, value in args.items())})"))


def _lines(verdict: Verdict) -> Iterator[str]:
    for violation in verdict.violations:
        yield f"{violation.policy}: {_violation(violation)}"
    for error in verdict.errors:
        yield _error(error, verdict.reasons)
    if verdict.label and not verdict.violations and not verdict.errors:
        yield from verdict.reasons


def _violation(violation: Violation) -> str:
    details = "; ".join(_evidence_lines(violation))
    text = f"{violation.message.strip()} ({_truncate(details)})" if details else violation.message.strip()
    if not violation.remedy:
        return text
    return f"{text}{'' if text.endswith(('.', '!', '?', ')')) else '.'} To comply: {violation.remedy}"


def _evidence_lines(violation: Violation) -> Iterator[str]:
    """Yields the facts that the evidence adds to the message."""
    evidence = violation.evidence
    if not isinstance(evidence, Mapping) or not evidence.keys() <= _RULE_KEYS:
        if evidence:
            yield f"seen: {json_text(thaw(evidence))}"
        return
    needed = [evidence.get("needed"), *evidence.get("rules", ())]
    yield from (f"needed: {one}" for one in needed if one and one not in violation.message)
    yield from evidence.get("reasons", ())
    if open_calls := evidence.get("in flight"):
        yield f"outcome still unknown: {', '.join(dict.fromkeys(one['tool'] for one in open_calls))}"


def _error(error: str, reasons: tuple[str, ...]) -> str:
    """Returns a line on a rule that could not be checked, with its author's message if a reason has one."""
    rule, _, problem = error.partition(": ")
    text = next(
        (reason for reason in reasons if problem and reason.endswith(f" (could not be checked: {problem})")), None
    )
    return f"{rule}: {text}" if text else f"could not be checked: {error}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_DETAIL else f"{text[:MAX_DETAIL]}…"
