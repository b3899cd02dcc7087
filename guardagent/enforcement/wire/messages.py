"""Calls, verdicts, approvals, outcomes and tools as strict JSON, of a limited size and depth, with exact numbers.

The address of a request names the conversation of its call. A verdict is its public JSON: its permit, its withheld
values and the steps of its models stay with the writer. Of a tool, only the parts that the server compares with the
rules are sent.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from guardagent._support import json_values
from guardagent.enforcement.approval import Approval
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.names import ToolSpec
from guardagent.enforcement.wire.values import (
    MAX_DEPTH,
    WireError,
    WireField,
    WireShape,
    below,
    choice,
    complete,
    items,
    read_number,
    read_value,
    shown,
    strings,
    typed,
    write_value,
)
from guardagent.types import EMPTY, Decision, Usage, Verdict, Violation, json_text
from guardagent.types.values import readable_copy

_log = logging.getLogger("guardagent")


# --- the text of a message

MAX_BYTES = 8 * 1024 * 1024
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ENVELOPE = 8  # levels around a value: the message, the call, its arguments, ...


def dumps(message: Any, limit: int = MAX_BYTES) -> bytes:
    """Returns the text of a message that the writers of this package made.

    Raises:
        WireError: it has more than `limit` bytes.
    """
    text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    _require_size(len(text), limit)
    return text


def loads(text: bytes | bytearray, limit: int = MAX_BYTES) -> Any:
    """Returns the JSON value of a message.

    Raises:
        WireError: it is not JSON, or ambiguous, too large or nested too deep.
    """
    _require_size(len(text), limit)
    try:
        value = json_values.loads(text, parse_float=read_number)
    except ValueError as error:
        raise WireError("", f"the message is not JSON: {error}") from None
    escaped = _ESCAPED_SURROGATE.search(text.decode()) is not None
    if escaped or text.count(b"[") + text.count(b"{") > MAX_DEPTH:
        _require_complete(value, "", 0)
    return value


def _require_size(size: int, limit: int) -> None:
    if size > limit:
        raise WireError("", f"the message has {size:,} bytes; expected at most {limit:,}")


def _require_complete(value: Any, where: str, depth: int) -> None:
    """Requires complete characters, and no more levels than a value with its envelope can have."""
    if type(value) is str:
        complete(value, where)
    elif type(value) in (dict, list) and depth > MAX_DEPTH + _ENVELOPE:
        raise WireError(where[:200], f"is nested too deep; expected at most {MAX_DEPTH} levels")
    elif type(value) is dict:
        for name, item in value.items():
            complete(name, where)
            _require_complete(item, below(where, name), depth + 1)
    elif type(value) is list:
        for at, item in enumerate(value):
            _require_complete(item, f"{where}[{at}]", depth + 1)


# --- calls

_OPTIONAL = ("agent", "step", "action", "view")


def write_call(call: HostCall, where: str = "call") -> dict[str, Any]:
    """Returns a call as JSON; fields without a value are left out.

    Raises:
        WireError: a part of it has no JSON form.
    """
    written: dict[str, Any] = {
        "id": _string(call.id, f"{where}.id"),
        "tool": _string(call.tool, f"{where}.tool"),
        "args": _mapping(call.args, f"{where}.args"),
    }
    for name in _OPTIONAL:
        if (value := getattr(call, name)) is not None:
            written[name] = _string(value, f"{where}.{name}")
    if call.tags:
        written["tags"] = sorted(_strings(call.tags, f"{where}.tags"))
    if call.facts != EMPTY:
        written["facts"] = _mapping(call.facts, f"{where}.facts")
    if call.seen is not None:
        written["seen"] = _strings(call.seen, f"{where}.seen")
    if call.messages is not None:
        written["messages"] = write_value(list(call.messages), f"{where}.messages")
    if call.usage is not None:
        written["usage"] = _mapping(
            {name: call.usage[name] for name in _USED if call.usage.get(name) is not None}, where
        )
    if call.principal is not None:
        written["principal"] = _mapping(call.principal, f"{where}.principal")
    return written


def read_mapping(value: Any, where: str) -> dict[str, Any]:
    """Returns the mapping of a JSON object.

    Raises:
        WireError: it is not the form of a mapping.
    """
    mapping = read_value(value, where)
    if not isinstance(mapping, dict):
        raise WireError(where, f"is {shown(mapping)}; expected an object")
    return mapping


_USED = ("tokens", "cost")


def _read_used(value: Any, where: str) -> dict[str, Any]:
    used = read_mapping(value, where)
    for name, amount in used.items():
        if name not in _USED or isinstance(amount, bool) or not isinstance(amount, int | float | Decimal) or amount < 0:
            raise WireError(where, f"has {name!r}: {shown(amount)}; expected 'tokens' and 'cost', numbers from 0")
    return used


CALL = WireShape(
    id=WireField(str),
    tool=WireField(str),
    args=WireField(dict, read=read_mapping),
    agent=WireField(str, None),
    step=WireField(str, None),
    action=WireField(str, None),
    tags=strings(()),
    facts=WireField(dict, EMPTY, read_mapping),
    seen=strings(None),
    messages=items(read_mapping, None, items={"type": "object"}),
    principal=WireField(dict, None, read_mapping),
    usage=WireField(dict, None, _read_used, {"properties": {name: {"type": "number", "minimum": 0} for name in _USED}}),
    view=WireField(str, None),
)


def read_call(value: Any, conversation: str, where: str = "call", *, claim: str | None = None) -> HostCall:
    """Returns the call of a JSON value, in a conversation.

    Args:
        value: the value.
        conversation: the conversation.
        where: the path of the value.
        claim: what `HostCall.claim` becomes.

    Raises:
        WireError: it is not of this form.
    """
    call = CALL.read(value, where)
    call["tags"] = frozenset(call["tags"])
    return HostCall(conversation=conversation, claim=claim, **call)


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise WireError(where, f"is {shown(value)}; expected a mapping of names to values")
    written: dict[str, Any] = write_value(value, where)
    return written


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise WireError(where, f"is {shown(value)}; expected a string")
    return complete(str.__str__(value), where)


def _strings(values: Iterable[Any], where: str) -> list[str]:
    return [_string(value, f"{where}[{at}]") for at, value in enumerate(values)]


# --- verdicts

_SURROGATE = re.compile("[\ud800-\udfff]")


def write_verdict(verdict: Verdict) -> dict[str, Any]:
    """Returns a verdict as JSON; a value that JSON lacks becomes its string, since it is for people to read."""
    texts = verdict.reasons, verdict.violations, verdict.errors, verdict.details, verdict.answer, verdict.risk
    if not any(texts):  # the common case: no value of others
        return verdict.to_dict()
    try:
        text = json_text(verdict.to_dict())
    except RecursionError:
        text = json_text(
            verdict.changed(violations=tuple(map(_without_evidence, verdict.violations)), details={}).to_dict()
        )
    written: dict[str, Any] = json.loads(_SURROGATE.sub(_escape, text), parse_constant=str)
    return written


def _read_usage(value: Any, where: str) -> Usage:
    return Usage(**_USAGE.read(value, where))


def _read_violation(value: Any, where: str) -> Violation:
    return Violation(**_VIOLATION.read(value, where))


_VIOLATION = WireShape(policy=WireField(str), message=WireField(str), evidence=WireField(), remedy=WireField(str, None))
_USAGE = WireShape(
    calls=WireField(int),
    cached=WireField(int),
    prompt_tokens=WireField(int, None),
    completion_tokens=WireField(int, None),
    cost=WireField(float, None),
    seconds=WireField(float),
)
_VERDICT = WireShape(
    decision=choice(*map(str, Decision)),
    reasons=strings(),
    violations=items(_read_violation),
    errors=strings(),
    details=WireField(dict),
    answer=WireField(str, None),
    risk=WireField(str, None),
    checked_by=choice("program", "generated", "policy", "structure"),
    model_calls=WireField(int),
    usage=WireField(dict, None, _read_usage),
    elapsed_ms=WireField(float),
    label=WireField(int),
)


def read_verdict(value: Any, where: str = "verdict") -> Verdict:
    """Returns the verdict of a JSON value.

    Raises:
        WireError: it is not of this form, or its parts contradict each other.
    """
    fields = _VERDICT.read(value, where)
    label, calls, usage = fields.pop("label"), fields.pop("model_calls"), fields["usage"]
    if usage is None:
        fields["usage"] = Usage(calls)
    elif usage.calls != calls:
        raise WireError(below(where, "model_calls"), f"is {calls}, but the usage has {usage.calls} calls")
    fields |= {"decision": Decision(fields["decision"]), "elapsed_ms": float(fields["elapsed_ms"])}
    verdict = Verdict(**fields)
    if label != verdict.label:
        raise WireError(f"{where}.label", f"is {label}, but the decision is {verdict.decision}")
    return verdict


def _without_evidence(violation: Violation) -> Violation:
    return replace(violation, evidence=None)


def _escape(half: re.Match[str]) -> str:
    return f"\\\\u{ord(half[0]):04x}"


# --- approvals

_APPROVAL = WireShape(
    choice=choice("approve", "reject", "edit"),
    args=WireField(dict, None, read_mapping),
    reason=WireField(str, ""),
    by=WireField(str, None),
    of=WireField(str, None),
)


def write_approval(approval: Approval, where: str = "approval") -> dict[str, Any]:
    """Returns an approval as JSON; fields without a value are left out.

    Raises:
        WireError: a part of it has no JSON form.
    """
    written: dict[str, Any] = {"choice": approval.choice}
    if approval.choice == "edit":
        written["args"] = write_value(approval.args, f"{where}.args")
    for name in ("reason", "by", "of"):
        if value := getattr(approval, name):
            written[name] = complete(value, f"{where}.{name}")
    return written


def read_approval(value: Any, where: str = "approval") -> Approval:
    """Returns the approval of a JSON value.

    Raises:
        WireError: it is not of this form; or an edit has no arguments, or another choice has some.
    """
    fields = _APPROVAL.read(value, where)
    if (fields["choice"] == "edit") is (fields["args"] is None):
        expected = f"expected the new arguments for 'edit', and none for {fields['choice']!r}"
        raise WireError(below(where, "args"), expected)
    fields["args"] = EMPTY if fields["args"] is None else fields["args"]
    return Approval(**fields)


# --- outcomes


def write_outcome(outcome: Outcome, where: str = "outcome") -> dict[str, Any]:
    """Returns an outcome as JSON: its output as rules read it, with null for each part that JSON does not have.

    The call has run, so its outcome is never refused. If a string of the output is lost, the status that the host
    states is not certain any more, since the policy may recognize failures by their text: it becomes unknown.
    """
    lost: list[WireError] = []

    def drop(part: Any, error: WireError) -> None:
        if isinstance(part, str | Mapping | list | tuple):
            lost.append(error)

    def written_output(output: Any) -> Any:
        try:
            return write_value(readable_copy(output), f"{where}.output", replace=drop)
        except RecursionError:
            return drop((), WireError(f"{where}.output", "is nested too deep, or contains itself"))

    outputs = [written_output(other_output) for other_output in (outcome.output, *outcome.other_outputs)]
    failed = outcome.failed if isinstance(outcome.failed, bool | None) else None
    if lost:
        _log.warning("an outcome is sent without a part of its output, so it counts as unknown: %s", lost[0])
        failed = failed or None
    written = {"output": outputs[0], "failed": failed, "ended": bool(outcome.ended)}
    return {**written, "other_outputs": outputs[1:]} if outputs[1:] else written


def _read_failed(value: Any, where: str) -> bool | None:
    if not isinstance(value, bool | None):
        raise WireError(where, "expected true, false or null")
    return value


OUTCOME = WireShape(
    output=WireField(read=read_value),
    failed=WireField(read=_read_failed, more={"type": ["boolean", "null"]}),
    ended=WireField(bool),
    other_outputs=items(read_value, ()),
)


def read_outcome(value: Any, where: str = "outcome") -> Outcome:
    """Returns the outcome of a JSON value.

    Raises:
        WireError: it is not of this form.
    """
    return Outcome(**OUTCOME.read(value, where))


# --- tools


def write_tool(tool: ToolSpec, where: str = "tools[]") -> dict[str, Any]:
    """Returns a tool as JSON.

    Raises:
        WireError: its schema is not JSON.
    """
    written = {
        "name": complete(tool.name, f"{where}.name"),
        "description": complete(tool.description, f"{where}.description"),
        "parameters": write_value(tool.schema, f"{where}.parameters"),
    }
    if tool.unlisted_arguments is None:
        return {**written, "unlisted_arguments": None}
    unlisted = [complete(name, f"{where}.unlisted_arguments") for name in sorted(tool.unlisted_arguments)]
    return {**written, "unlisted_arguments": unlisted} if unlisted else written


def _read_unlisted(value: Any, where: str) -> frozenset[str] | None:
    if value is None:
        return None
    return frozenset(typed(name, str, f"{where}[{at}]") for at, name in enumerate(typed(value, list, where)))


TOOL = WireShape(
    name=WireField(str),
    description=WireField(str, ""),
    parameters=WireField(dict, {}, read_mapping),
    unlisted_arguments=WireField(None, frozenset(), _read_unlisted, strings(None).schema),
)


def read_tool(value: Any, where: str = "tools[]") -> ToolSpec:
    """Returns the tool of a JSON value.

    Raises:
        WireError: it is not of this form.
    """
    fields = TOOL.read(value, where)
    return ToolSpec(schema=fields.pop("parameters"), **fields)
