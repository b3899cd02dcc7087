"""Reads a case or a trace from a line of JSON. Every error has a location and says what was expected.

Unknown keys are ignored and never shown to a rule. A near miss of a known key (`histroy`, or `arguments` for `args`) is
an error: its value would be lost, and a lost value could lead to an allowance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guardagent.batch.json_object import ARGS, FACTS, OBJECT, OBJECTS, TOOL, Instant, JsonObject, KeyType
from guardagent.batch.traces import BOOLEAN, CALL, STEP, TraceStep, checked_step, plain_step, status_of
from guardagent.errors import InputError
from guardagent.types import EMPTY, Event
from guardagent.types.values import SessionPrincipal, read_principal

_ID = KeyType(object, "a string")
_PRINCIPAL = KeyType(dict, "a principal: an object with 'id', and with 'roles' and 'tenant' if they are known")
_PROPOSED = {"tool": TOOL, "args": ARGS}
_CASE = {
    "id": _ID,
    "history": OBJECTS,
    "proposed": OBJECT,
    "state": OBJECT,
    "context": FACTS,
    "user_confirmed": BOOLEAN,
    "facts": FACTS,
    "principal": _PRINCIPAL,
    "label": KeyType(int, "0 or 1"),
    "rules": KeyType(list, "a list of the ids of policies"),
}
_TASK = {"task": KeyType(str, "a string"), "success": BOOLEAN}
_TRACE = {"id": _ID, "events": OBJECTS, "state": OBJECT, "facts": FACTS, "principal": _PRINCIPAL}
_OF_TRACE = {  # in the record of a single event
    "trace": _ID,
    "position": KeyType(int, "a whole number"),
    "trace_state": OBJECT,
    "trace_facts": FACTS,
    "principal": _PRINCIPAL,
    **_TASK,
}


@dataclass(frozen=True, slots=True)
class Case:
    """A proposed call with its history.

    Attributes:
        id: the id of the case and its verdict.
        history: the earlier events, in order.
        proposed: the call to judge.
        state: the state; None if the case has none, so that it is unknown.
        facts: `user_confirmed` and `context`, and `facts` over them.
        now: the time of the proposed call; None if the case has none, so that it is unknown.
        principal: on whose behalf the agent acts; None if it is unknown.
        label, rules: the expectation; None if the case has none. No rule sees them.
    """

    id: str | int
    history: tuple[Event, ...]
    proposed: Event
    state: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    label: int | None = None
    rules: tuple[str, ...] | None = None
    now: Instant | None = None
    principal: SessionPrincipal | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """A complete conversation."""

    id: str | int
    steps: tuple[TraceStep, ...]
    state: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    principal: SessionPrincipal | None = None


def read_case(text: str, path: Path | str, line: int, failed_output: Any = None) -> Case:
    """Reads a case from a line of a file.

    Args:
        text: the line.
        path: the file, for messages.
        line: the line number, for messages.
        failed_output: the compiled pattern of the outputs of failed calls, if the policy has one.

    Raises:
        ContentError: the line is not a case; with location and expectation.
    """
    record = JsonObject.of_line(text, path, line, _CASE)
    label = record.values.get("label")
    if label not in (None, 0, 1):
        raise record.wrong("label", label, "0 or 1")
    history = record.objects_at("history", CALL) if "history" in record.values else ()
    return Case(
        record.id(),
        tuple(_call(part, failed_output) for part in history),
        _proposal(record.object_at("proposed", _PROPOSED)),
        record.values.get("state"),
        _case_facts(record.values),
        label,
        record.strings("rules"),
        record.instant("now"),
        _principal(record),
    )


def _case_facts(values: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a case: `facts` override `user_confirmed` and `context`."""
    base = {"user_confirmed": values.get("user_confirmed"), "context": values.get("context") or {}}
    return {**base, **(values.get("facts") or {})}


def read_trace(text: str, path: Path | str, line: int, failed_output: Any = None) -> Trace:
    """Reads a trace from a line of a file; arguments and errors as for `read_case`."""
    return _trace(JsonObject.of_line(text, path, line, _TRACE), failed_output)


def trace_of(value: Any, failed_output: Any = None, ignored: Mapping[str, bool] = EMPTY) -> Trace:
    """Reads a trace from a decoded record; raises an InputError as `read_trace` does, without a place.

    Such a record may also have `task` and `success`. `ignored` is as for `plain_step`.
    """
    return _trace(JsonObject.of_value(value, InputError, {**_TRACE, **_TASK}), failed_output, ignored)


def event_of(value: Any, failed_output: Any = None, ignored: Mapping[str, bool] = EMPTY) -> TraceStep:
    """Reads an event of a trace from a decoded record of its own, likewise.

    Such a record also has the keys of its trace: `trace`, `trace_state`, `trace_facts`, `principal`, `task`, `success`.
    """
    record = JsonObject.of_value(value, InputError, {})
    JsonObject({key: value[key] for key in _OF_TRACE if key in value}, InputError).checked(_OF_TRACE)
    own = {key: found for key, found in record.values.items() if key not in _OF_TRACE}
    return plain_step(own, failed_output, ignored) or checked_step(record.checked({**STEP, **_OF_TRACE}), failed_output)


def principal_of(value: Any) -> SessionPrincipal | None:
    """Reads a principal from a decoded record, likewise."""
    return _principal(JsonObject.of_value({"principal": value}, InputError, {"principal": _PRINCIPAL}))


def _trace(record: JsonObject, failed_output: Any, ignored: Mapping[str, bool] = EMPTY) -> Trace:
    steps = tuple(_steps(record, failed_output, ignored))
    return Trace(record.id(), steps, record.values.get("state"), record.values.get("facts") or {}, _principal(record))


def _steps(record: JsonObject, failed_output: Any, ignored: Mapping[str, bool]) -> Iterator[TraceStep]:
    for index, item in enumerate(record.list_at("events")):
        yield plain_step(item, failed_output, ignored) or checked_step(
            record.item("events", index, item, STEP), failed_output
        )


def _principal(record: JsonObject) -> SessionPrincipal | None:
    try:
        return read_principal(record.values.get("principal"))
    except InputError as error:
        raise record.error("principal", f"is invalid: {error}") from None


def _proposal(record: JsonObject) -> Event:
    return Event(record.tool(), record.values.get("args") or {})


def _call(record: JsonObject, failed_output: Any) -> Event:
    get = record.values.get
    status = status_of(record.values, failed_output)
    return Event(record.tool(), get("args") or {}, get("output"), status, time=record.instant("time"))
