"""A verdict as its public JSON. Its permit, its withheld values and the steps of its models stay with the writer."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from guardagent.enforcement.wire.fields import Fields, WireError
from guardagent.types import Decision, Usage, Verdict, Violation, json_text

_SURROGATE = re.compile("[\ud800-\udfff]")
_CHECKERS = ("program", "generated", "policy", "structure")


def write_verdict(verdict: Verdict) -> dict[str, Any]:
    """Returns a verdict as JSON; a value that JSON lacks becomes its string, since it is for people to read."""
    try:
        text = json_text(verdict.to_dict())
    except RecursionError:
        text = json_text(
            verdict.changed(violations=tuple(map(_without_evidence, verdict.violations)), details={}).to_dict()
        )
    written: dict[str, Any] = json.loads(_SURROGATE.sub(_escape, text), parse_constant=str)
    return written


def read_verdict(value: Any, where: str = "verdict") -> Verdict:
    """Returns the verdict of a JSON value.

    Raises:
        WireError: it is not of this form, or its parts contradict each other.
    """
    fields = Fields(value, where)
    verdict = Verdict(
        Decision(fields.choice("decision", tuple(map(str, Decision)))),
        fields.strings("reasons"),
        fields.items("violations", _violation),
        fields.strings("errors"),
        fields.object("details"),
        fields.string("answer", None),
        fields.string("risk", None),
        fields.choice("checked_by", _CHECKERS),
        _usage(fields),
        float(fields.number("elapsed_ms")),
    )
    label = fields.integer("label")
    fields.end()
    if label != verdict.label:
        raise WireError(f"{where}.label", f"is {label}, but the decision is {verdict.decision}")
    return verdict


def _violation(value: Any, where: str) -> Violation:
    fields = Fields(value, where)
    violation = Violation(
        fields.string("policy"), fields.string("message"), fields.value("evidence"), fields.string("remedy", None)
    )
    fields.end()
    return violation


def _usage(fields: Fields) -> Usage:
    calls, usage = fields.integer("model_calls"), fields.object("usage", None)
    if usage is None:
        return Usage(calls)
    inner = Fields(usage, fields.place("usage"))
    found = Usage(
        inner.integer("calls"),
        inner.integer("cached"),
        inner.integer("prompt_tokens", None),
        inner.integer("completion_tokens", None),
        inner.number("cost", None),
        inner.number("seconds"),
    )
    inner.end()
    if found.calls != calls:
        raise WireError(fields.place("model_calls"), f"is {calls}, but the usage has {found.calls} calls")
    return found


def _without_evidence(violation: Violation) -> Violation:
    return replace(violation, evidence=None)


def _escape(half: re.Match[str]) -> str:
    return f"\\\\u{ord(half[0]):04x}"
