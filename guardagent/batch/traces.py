"""The steps of traces, from JSON objects and from the columns of event rows.

Most steps are plain: `plain_step` makes them in a third of the time, and leaves all others to `checked_step`, which
finds what is wrong.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from guardagent._support import json_values
from guardagent._support.files import json_problem
from guardagent.batch.json_object import ARGS, FACTS, OBJECT, TOOL, Instant, JsonObject, KeyType, is_unrelated
from guardagent.errors import InputError
from guardagent.policy.evaluation.call_outcomes import is_failure
from guardagent.policy.language.values import parsed_instant
from guardagent.types import ATOMS, EMPTY, Event, freeze, quick_event

Status = Literal["ok", "failed", "unknown"]

BOOLEAN, _STRING = KeyType(bool, "true, false or null"), KeyType(str, "a string")
CALL = {"tool": TOOL, "args": ARGS, "output": KeyType(object, "any value"), "failed": BOOLEAN}
STEP = {
    **CALL,
    "action": _STRING,
    "decision": _STRING,
    "tags": KeyType(list, "a list of strings"),
    "facts": FACTS,
    "state": OBJECT,
}
_KEYS, _CALL_KEYS = frozenset(STEP), frozenset(CALL)
_TIMED_KEYS, _PLAIN_KEYS = _KEYS | {"time"}, _CALL_KEYS | {"time"}
LAST_SECOND = 253_402_300_799  # of year 9999
_new_tuple: Any = tuple.__new__  # a named tuple's own `__new__` takes twice as long
_NO_TAGS: frozenset[str] = frozenset()


class TraceStep(NamedTuple):
    """An event of a trace, with the new state and new facts; None if they do not change.

    `time` is the time of the check in seconds since the epoch; None if unknown.
    """

    event: Event
    state: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] | None = None
    time: float | None = None


def checked_step(record: JsonObject, failed_output: Any) -> TraceStep:
    """The step of an object whose keys were checked against `STEP`.

    Raises:
        ContentError: it is not a step; with its place and the expectation.
    """
    get = record.values.get
    event = Event(
        "" if get("tool") is None else record.tool(),
        get("args") or {},
        get("output"),
        status_of(record.values, failed_output),
        get("action"),
        get("decision"),
        frozenset(record.strings("tags") or ()),
        time=record.instant("time"),
    )
    if not (event.tool or event.action or event.decision or event.tags):
        raise record.error("", "has no content; expected 'tool', 'action', 'decision' or 'tags'")
    return TraceStep(event, get("state"), get("facts"), _time(record))


def _time(record: JsonObject) -> float | None:
    """The time of an event, given in seconds since the epoch or as an ISO 8601 string with its zone."""
    value = record.values.get("time")
    if type(value) is str:
        with contextlib.suppress(ValueError):
            moment = dt.datetime.fromisoformat(value)
            value = moment.timestamp() if moment.tzinfo is not None else value
    if value is None or (type(value) in (int, float) and math.isfinite(value)):
        return None if value is None else float(value)
    raise record.wrong("time", value, "seconds since the epoch, or a string such as '2026-01-31T09:30:00Z'")


def status_of(values: Mapping[str, Any], failed_output: Any) -> Status:
    """The status of a call. A step without a tool is ok; a call without an output is unknown."""
    get = values.get
    failed = get("failed")
    if failed is not None:
        return "failed" if failed else "ok"
    if not get("tool"):
        return "ok"
    if failed_output is None or "output" not in values:
        return "unknown"
    return "failed" if is_failure(failed_output, values["output"]) else "ok"


def plain_step(values: Any, failed_output: Any, ignored: Mapping[str, bool] = EMPTY) -> TraceStep | None:
    """The step of a plain object, equal to that of `checked_step`; None if it is for `checked_step` to decide.

    Args:
        values: the value that was read. Its parts become parts of the step.
        failed_output: the compiled pattern of the outputs of failed calls, if the policy has one.
        ignored: the tools whose calls no rule looks at. Their steps have no arguments, output and status.
    """
    if type(values) is not dict:
        return None
    get = values.get
    tool, args, failed = get("tool"), get("args"), get("failed")
    if (
        type(tool) is not str
        or not tool
        or (args is not None and type(args) is not dict)
        or (failed is not None and type(failed) is not bool)
    ):
        return None
    if ignored is not EMPTY and ignored[tool] and values.keys() <= _PLAIN_KEYS:
        return _ignored_step(tool, get("time"))
    args = EMPTY if args is None else _frozen(args)
    if values.keys() <= _CALL_KEYS:
        event = quick_event(tool, args, get("output"), status_of(values, failed_output))
        return _new_tuple(TraceStep, (event, None, None, None))  # type: ignore[no-any-return]
    return _labelled_step(values, tool, args, failed_output)


def _ignored_step(tool: str, time: Any) -> TraceStep | None:
    try:
        moment, seconds = _moment(time)
    except ValueError:
        return None
    return _new_tuple(TraceStep, (quick_event(tool, EMPTY, None, "unknown", time=moment), None, None, seconds))  # type: ignore[no-any-return]


def _labelled_step(values: dict[str, Any], tool: str, args: Mapping[str, Any], failed_output: Any) -> TraceStep | None:
    """Reads a step from an object with keys beyond those of a call, as `plain_step` does."""
    get = values.get
    action, decision, state, facts = get("action"), get("decision"), get("state"), get("facts")
    if not (
        (action is None or type(action) is str)
        and (decision is None or type(decision) is str)
        and (state is None or type(state) is dict)
        and (facts is None or type(facts) is dict)
        and (values.keys() <= _TIMED_KEYS or all(is_unrelated(key, _KEYS) for key in values))
    ):
        return None
    try:
        tags, (moment, time) = _tags(get("tags")), _moment(get("time"))
    except ValueError:
        return None
    event = quick_event(tool, args, get("output"), status_of(values, failed_output), action, decision, tags, moment)
    return TraceStep(event, state, facts, time)


def _frozen(args: dict[str, Any]) -> Mapping[str, Any]:
    """The arguments as `freeze` returns them, without a copy of a flat object."""
    for value in args.values():
        if type(value) not in ATOMS:
            return freeze(args)  # type: ignore[no-any-return]
    return MappingProxyType(args)


def _tags(value: Any) -> frozenset[str]:
    if value is None:
        return _NO_TAGS
    if type(value) is list and all(type(tag) is str for tag in value):
        return frozenset(value)
    raise ValueError


def _moment(value: Any) -> tuple[Instant | None, float | None]:
    """(the instant, its seconds since the epoch)."""
    if value is None:
        return None, None
    if (type(value) is float or type(value) is int) and 0 <= value <= LAST_SECOND:
        return value, float(value)
    if type(value) is not str:
        raise ValueError
    moment = parsed_instant(value)
    return moment, moment.timestamp()


STEP_COLUMNS = ("tool", "args", "output", "failed", "action", "decision", "tags", "facts", "state", "time")
"""The columns of an event row: `args`, `facts` and `state` are JSON objects, `output` is a JSON value."""

_JSON_COLUMNS = ("args", "output", "facts", "state")
_LABELS = STEP_COLUMNS[4:]
_NO_LABELS = [None] * len(_LABELS)


def step_of_columns(
    columns: Sequence[Any], failed_output: Any = None, ignored: Mapping[str, bool] = EMPTY
) -> TraceStep:
    """The step of an event row: the same, or the same error, as for an object of a trace.

    Args:
        columns: the values of `STEP_COLUMNS`; None is the same as an absent key of the JSON format.
        failed_output: the compiled pattern of the outputs of failed calls, if the policy has one.
        ignored: as for `plain_step`.

    Raises:
        InputError: the row is not a step; with the column and the expectation.
    """
    try:
        values = _values(columns)
    except ValueError:
        raise InputError(_invalid_json(columns)) from None
    return plain_step(values, failed_output, ignored) or checked_step(
        JsonObject(values, InputError).checked(STEP), failed_output
    )


def _values(columns: Sequence[Any]) -> dict[str, Any]:
    """The object of a row; null stands for an absent key, except of the output."""
    tool, args, output, failed, *labels = columns
    values: dict[str, Any] = {"tool": tool, "failed": failed}
    if args is not None:
        values["args"] = json_values.plain_value(args)
    if output is not None:
        values["output"] = json_values.plain_value(output)
    if labels != _NO_LABELS:
        for name, value in zip(_LABELS, labels, strict=True):
            if value is not None:
                values[name] = value if name not in _JSON_COLUMNS else json_values.plain_value(str(value))
    return values


def _invalid_json(columns: Sequence[Any]) -> str:
    """The first column that is not JSON, and why."""
    for name, text in zip(STEP_COLUMNS, columns, strict=True):
        try:
            if name in _JSON_COLUMNS and text is not None:
                json_values.plain_value(text)
        except ValueError as error:
            return f"{name}: {json_problem(error)}"
    raise AssertionError(columns)
