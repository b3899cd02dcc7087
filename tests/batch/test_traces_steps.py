"""Steps of traces are the same, whichever way they are read: from JSON or from columns, plain or not."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from guardagent.batch.json_object import JsonObject, errors_at
from guardagent.batch.records import read_trace
from guardagent.batch.traces import STEP, STEP_COLUMNS, TraceStep, checked_step, plain_step, step_of_columns
from guardagent.errors import ContentError, InputError

FAILED = re2.compile("^Error|refused")
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | st.sampled_from(["", "a", "Error: é"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "id"]), inner, max_size=2),
    max_leaves=4,
)
names = st.sampled_from(["", "pay", "é"]) | st.none()
times = st.sampled_from([0, 1.5, -1, 10**12, 253_402_300_799.5, "2026-01-31T12:00:00Z", "2026-01-31T12:00:00", "now"])
objects = st.dictionaries(st.sampled_from(["a", "b"]), values, max_size=2)
RIGHT: dict[str, st.SearchStrategy[Any]] = {
    "tool": names,
    "args": objects,
    "output": values,
    "failed": st.booleans() | st.none(),
    "action": names,
    "decision": names,
    "tags": st.lists(st.sampled_from(["urgent", "pii"]), max_size=2),
    "facts": objects,
    "state": objects,
    "time": times | st.none(),
}
JSON = ("args", "output", "facts", "state")
ODD = st.sampled_from(["source", "arguments", "Tool", "tag", "ouput", "id", "stat"])


@st.composite
def events(draw: st.DrawFn) -> Any:
    """An object for an event; now and then with a wrong value or an unknown key."""
    event = draw(st.fixed_dictionaries({}, optional=RIGHT))
    if draw(st.integers(0, 4)) == 0:
        event[draw(st.sampled_from(sorted(RIGHT)) | ODD)] = draw(values)
    return event if draw(st.integers(0, 20)) else draw(values)


def checked(value: Any) -> TraceStep:
    """The step of `events[0]`, the careful way."""
    record = JsonObject({"events": [value]}, errors_at("f", 1)).item("events", 0, value, STEP)
    return checked_step(record, FAILED)


def outcome(read: Callable[[], TraceStep]) -> Any:
    """The step with the types of its parts, or the error."""
    try:
        step = read()
    except InputError as error:
        return str(error)
    event = step.event
    return step, event.time, type(event.time), type(step.time), [repr(value) for value in event.args.values()]


@given(events())
def test_a_plain_step_is_the_checked_step(value: Any) -> None:
    """The careful way decides about all others."""
    text = json.dumps({"id": 1, "events": [value]})
    expected = outcome(lambda: checked(value))
    assert outcome(lambda: read_trace(text, "f", 1, FAILED).steps[0]) == expected
    plain = plain_step(json.loads(json.dumps(value)), FAILED)
    assert plain is None or outcome(lambda: plain) == expected


def columns(tool: str | None = None, **values: Any) -> tuple[Any, ...]:
    """An event row."""
    return tuple({"tool": tool, **values}.get(name) for name in STEP_COLUMNS)


@given(events())
def test_columns_give_the_step_of_the_object(value: Any) -> None:
    """An event row is the same as its object, with the same errors."""
    if not isinstance(value, dict) or not value.keys() <= RIGHT.keys():
        return
    there = {name: part for name, part in value.items() if part is not None or name == "output"}
    row: dict[str, Any] = {name: json.dumps(part) if name in JSON else part for name, part in there.items()}
    whole = JsonObject(there, InputError)
    assert outcome(lambda: step_of_columns(columns(**row), FAILED)) == outcome(
        lambda: checked_step(whole.checked(STEP), FAILED)
    )


@given(st.lists(events(), max_size=3), st.data())
def test_a_damaged_line_is_an_error_or_a_trace(happened: list[Any], data: st.DataObject) -> None:
    """Whatever happens to its text, the plain way accepts nothing that the careful one refuses."""
    text = json.dumps({"id": 1, "events": happened})
    at = data.draw(st.integers(0, len(text)))
    put = data.draw(st.sampled_from(["", '"', "{", "}", ",", "NaN", "1e999", '"tool": "x",', "\\ud800", " "]))
    damaged = text[:at] + put + text[at + data.draw(st.integers(0, 3)) :]
    try:
        trace = read_trace(damaged, "f", 1, FAILED)
    except ContentError:
        return
    again = json.loads(damaged, object_pairs_hook=_only_once)["events"]
    assert [outcome(partial(tuple.__getitem__, (step,), 0)) for step in trace.steps] == [
        outcome(partial(checked, value)) for value in again
    ]


def _only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (columns("pay", args='{"n": 1, "n": 2}'), "args: not acceptable JSON: key 'n' appears twice"),
        (columns("pay", args="{"), "args: not JSON at column 2"),
        (columns("pay", args="[1]"), "args: is a list; expected an object of arguments"),
        (columns("pay", output="NaN"), "output: not acceptable JSON: NaN is not a JSON value"),
        (columns("pay", output="1e999"), "output: not acceptable JSON: 1e999 is too large"),
        (columns("pay", facts="1 2"), "facts: not JSON at column 3: Extra data"),
        (columns("pay", state="[" * 100_000), "state: not acceptable JSON: it is nested too deep"),
        (columns("pay", time=float("nan")), "time: "),
        (columns(""), "tool: is empty; expected the name of a tool"),
        (columns(), "has no content; expected 'tool', 'action', 'decision' or 'tags'"),
    ],
)
def test_a_wrong_row_says_where(row: tuple[Any, ...], says: str) -> None:
    """With the column."""
    with pytest.raises(InputError) as wrong:
        step_of_columns(row)
    assert str(wrong.value).startswith(says)


def test_an_integer_keeps_its_digits() -> None:
    """In columns as in JSON."""
    step = step_of_columns(columns("pay", args='{"n": 123456789012345678901234567890}'))
    assert step.event.args["n"] == 123456789012345678901234567890
    assert step_of_columns(columns("pay", output=" null"), FAILED).event.status == "ok"
    assert step_of_columns(columns("pay"), FAILED).event.status == "unknown"
