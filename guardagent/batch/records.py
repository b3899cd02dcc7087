"""Reads a case or a trace from a line of JSON. Every error has a location and says what was expected.

Unknown keys are ignored and never shown to a rule. A near miss of a known key (`histroy`, or `arguments` for `args`) is
an error: its value would be lost, and a lost value could lead to an allowance.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from guardagent._support.files import parse_json
from guardagent.batch.near_misses import near_miss
from guardagent.errors import ContentError, InputError
from guardagent.policy.evaluation.failures import is_failure
from guardagent.policy.language.instants import moment_of, parsed_instant
from guardagent.types import Event
from guardagent.types.principal import SessionPrincipal, read_principal

_TYPE_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


Instant = float | dt.datetime
"""Seconds since the epoch, or a date and time with its zone."""


class _KeyType(NamedTuple):
    """The type of a value; `object` allows any. Null counts as absent."""

    type: type
    expected: str


_TOOL, _ARGS = _KeyType(str, "the name of a tool"), _KeyType(dict, "an object of arguments")
_OBJECT, _FACTS = _KeyType(dict, "an object"), _KeyType(dict, "an object of facts")
_PRINCIPAL = _KeyType(dict, "a principal: an object with 'id', and with 'roles' and 'tenant' if they are known")
_BOOLEAN, _STRING, _STRINGS = (
    _KeyType(bool, "true, false or null"),
    _KeyType(str, "a string"),
    _KeyType(list, "a list of strings"),
)
_OBJECTS = _KeyType(list, "a list of objects")

_ID, _OUTPUT = _KeyType(object, "a string"), _KeyType(object, "any value")

_PROPOSED = {"tool": _TOOL, "args": _ARGS}
_CALL = {**_PROPOSED, "output": _OUTPUT, "failed": _BOOLEAN}
_STEP = {**_CALL, "action": _STRING, "decision": _STRING, "tags": _STRINGS, "facts": _FACTS, "state": _OBJECT}
_CASE = {
    "id": _ID,
    "history": _OBJECTS,
    "proposed": _OBJECT,
    "state": _OBJECT,
    "context": _FACTS,
    "user_confirmed": _BOOLEAN,
    "facts": _FACTS,
    "principal": _PRINCIPAL,
    "label": _KeyType(int, "0 or 1"),
    "rules": _KeyType(list, "a list of the ids of policies"),
}
_TASK = {"task": _STRING, "success": _BOOLEAN}
_TRACE = {"id": _ID, "events": _OBJECTS, "state": _OBJECT, "facts": _FACTS, "principal": _PRINCIPAL, **_TASK}
_EVENT = {
    **_STEP,
    "trace": _ID,
    "position": _KeyType(int, "a whole number"),
    "trace_state": _OBJECT,
    "trace_facts": _FACTS,
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
class TraceStep:
    """An event of a trace, with the new state and new facts; None if they do not change.

    `time` is the time of the check in seconds since the epoch; None if unknown.
    """

    event: Event
    state: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] | None = None
    time: float | None = None


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
    record = _JsonObject.of_line(text, path, line, _CASE)
    label = record.values.get("label")
    if label not in (None, 0, 1):
        raise record.wrong("label", label, "0 or 1")
    history = record.objects_at("history", _CALL) if "history" in record.values else ()
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
    return _trace(_JsonObject.of_line(text, path, line, _TRACE), failed_output)


def trace_of(value: Any, failed_output: Any = None) -> Trace:
    """Reads a trace from a decoded record; raises an InputError as `read_trace` does, without a place."""
    return _trace(_JsonObject.of_value(value, InputError, _TRACE), failed_output)


def event_of(value: Any, failed_output: Any = None) -> TraceStep:
    """Reads an event of a trace from a decoded record of its own, likewise.

    Such a record also has the keys of its trace: `trace`, `trace_state`, `trace_facts`, `principal`, `task`, `success`.
    """
    return _step(_JsonObject.of_value(value, InputError, _EVENT), failed_output)


def principal_of(value: Any) -> SessionPrincipal | None:
    """Reads a principal from a decoded record, likewise."""
    return _principal(_JsonObject.of_value({"principal": value}, InputError, {"principal": _PRINCIPAL}))


def _trace(record: _JsonObject, failed_output: Any) -> Trace:
    steps = tuple(_step(part, failed_output) for part in record.objects_at("events", _STEP))
    return Trace(record.id(), steps, record.values.get("state"), record.values.get("facts") or {}, _principal(record))


def _principal(record: _JsonObject) -> SessionPrincipal | None:
    try:
        return read_principal(record.values.get("principal"))
    except InputError as error:
        raise record.error("principal", f"is invalid: {error}") from None


def _proposal(record: _JsonObject) -> Event:
    return Event(record.tool(), record.values.get("args") or {})


def _call(record: _JsonObject, failed_output: Any) -> Event:
    get = record.values.get
    status = _status(record, failed_output)
    return Event(record.tool(), get("args") or {}, get("output"), status, time=record.instant("time"))


def _step(record: _JsonObject, failed_output: Any) -> TraceStep:
    get = record.values.get
    event = Event(
        "" if get("tool") is None else record.tool(),
        get("args") or {},
        get("output"),
        _status(record, failed_output),
        get("action"),
        get("decision"),
        frozenset(record.strings("tags") or ()),
        time=record.instant("time"),
    )
    if not (event.tool or event.action or event.decision or event.tags):
        raise record.error("", "has no content; expected 'tool', 'action', 'decision' or 'tags'")
    return TraceStep(event, get("state"), get("facts"), _time(record))


def _time(record: _JsonObject) -> float | None:
    """The time of an event, given in seconds since the epoch or as an ISO 8601 string with its zone."""
    value = record.values.get("time")
    if type(value) is str:
        with contextlib.suppress(ValueError):
            moment = dt.datetime.fromisoformat(value)
            value = moment.timestamp() if moment.tzinfo is not None else value
    if value is None or (type(value) in (int, float) and math.isfinite(value)):
        return None if value is None else float(value)
    raise record.wrong("time", value, "seconds since the epoch, or a string such as '2026-01-31T09:30:00Z'")


def _status(record: _JsonObject, failed_output: Any) -> Literal["ok", "failed", "unknown"]:
    """The status of a call. A step without a tool is ok; a call without an output is unknown."""
    failed = record.values.get("failed")
    if failed is not None:
        return "failed" if failed else "ok"
    if not record.values.get("tool"):
        return "ok"
    if failed_output is None or "output" not in record.values:
        return "unknown"
    return "failed" if is_failure(failed_output, record.values["output"]) else "ok"


@dataclass(frozen=True, slots=True)
class _JsonObject:
    """A JSON object within a record, with its path: `events[3]`; empty for the record itself."""

    values: dict[str, Any]
    error_at: Callable[[str], InputError]
    place: str = ""

    @classmethod
    def of_line(cls, text: str, path: Path | str, line: int, key_types: Mapping[str, _KeyType]) -> _JsonObject:
        def error_at(message: str) -> ContentError:
            return ContentError(message, path, line)

        return cls.of_value(parse_json(text, path, line), error_at, key_types)

    @classmethod
    def of_value(
        cls, value: Any, error_at: Callable[[str], InputError], key_types: Mapping[str, _KeyType]
    ) -> _JsonObject:
        if type(value) is not dict:
            raise error_at(f"{_TYPE_NAMES[type(value)]}; expected a JSON object")
        return cls(value, error_at).checked(key_types)

    def checked(self, key_types: Mapping[str, _KeyType]) -> _JsonObject:
        """Returns the object after checking the types of all known keys."""
        for key, value in self.values.items():
            key_type = key_types.get(key)
            if key_type is None:
                self._refuse_near_miss(key, key_types)
            elif (
                value is not None and key_type.type is not object and type(value) is not key_type.type
            ):  # exact: a boolean is not a number
                raise self.wrong(key, value, key_type.expected)
        return self

    def _refuse_near_miss(self, key: str, key_types: Mapping[str, _KeyType]) -> None:
        present = {known for known in key_types if self.values.get(known) is not None}
        if meant := near_miss(key, frozenset(key_types), present):
            raise self.error(key, f"is not a key of this format; did you mean {meant!r}?")

    def id(self) -> str | int:
        value = self._required("id", "a string")
        if type(value) is not str and type(value) is not int:
            raise self.wrong("id", value, "a string")
        return value

    def tool(self) -> str:
        value = self._required("tool", _TOOL.expected)
        if not value:
            raise self.wrong("tool", value, _TOOL.expected)
        return str(value)

    def strings(self, key: str) -> tuple[str, ...] | None:
        value = self.values.get(key)
        if value is None:
            return None
        for index, item in enumerate(value):
            if type(item) is not str:
                raise self.wrong(f"{key}[{index}]", item, "a string")
        return tuple(value)

    def instant(self, key: str) -> Instant | None:
        """The instant at a key: a number of seconds since the epoch, or a date and time with its zone."""
        value = self.values.get(key)
        if value is None:
            return None
        try:
            found = parsed_instant(value) if type(value) is str else value
            moment_of(found)
        except ValueError as error:
            raise self.error(key, str(error)) from None
        return found

    def object_at(self, key: str, key_types: Mapping[str, _KeyType]) -> _JsonObject:
        return self._child(key, self._required(key, _OBJECT.expected), key_types)

    def objects_at(self, key: str, key_types: Mapping[str, _KeyType]) -> Iterator[_JsonObject]:
        value = self._required(key, _OBJECTS.expected)
        if value is None:
            raise self.wrong(key, value, _OBJECTS.expected)
        return (self._child(f"{key}[{index}]", item, key_types) for index, item in enumerate(value))

    def error(self, key: str, message: str) -> InputError:
        place = f"{self.place}.{key}" if self.place and key else self.place or key
        return self.error_at(f"{place}: {message}")

    def wrong(self, key: str, value: Any, expected: str) -> InputError:
        got = (
            repr(value)[:60] if isinstance(value, bool | int) else _TYPE_NAMES[type(value)] if value != "" else "empty"
        )
        return self.error(key, f"is {got}; expected {expected}")

    def _child(self, key: str, value: Any, key_types: Mapping[str, _KeyType]) -> _JsonObject:
        if type(value) is not dict:
            raise self.wrong(key, value, _OBJECT.expected)
        return _JsonObject(value, self.error_at, f"{self.place}.{key}" if self.place else key).checked(key_types)

    def _required(self, key: str, expected: str) -> Any:
        if key not in self.values:
            keys = ", ".join(map(repr, self.values)) or "no keys"
            raise self.error(key, f"is missing; expected {expected}; the object has {keys:.200}")
        return self.values[key]
