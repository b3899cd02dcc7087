"""Arguments held to the JSON schema of their tool, and read as a model wrote them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from guardagent import InputError
from guardagent.enforcement.schema import completed, read_object

AMOUNT = {"type": "integer", "default": 500}
FLAT = {"type": "object", "properties": {"order": {"type": "string"}, "amount": AMOUNT}, "required": ["order"]}


def test_defaults_are_written_out() -> None:
    """What the tool would take is judged; the proposal itself is left alone."""
    proposed = {"order": "W1"}
    assert completed("refund", proposed, FLAT) == {"order": "W1", "amount": 500}
    assert proposed == {"order": "W1"}


@pytest.mark.parametrize(
    ("inner", "value"),
    [
        ({"type": "object", "properties": {"amount": AMOUNT}}, {}),
        ({"$ref": "#/$defs/Opts"}, {}),
        ({"allOf": [{"$ref": "#/$defs/Opts"}]}, {}),
        ({"type": "array", "items": {"$ref": "#/$defs/Opts"}}, [{}]),
    ],
)
def test_defaults_deep_inside_are_written_out(inner: Any, value: Any) -> None:
    """Behind references, in lists, and in what always holds."""
    whole = {
        "type": "object",
        "properties": {"opts": inner},
        "$defs": {"Opts": {"type": "object", "properties": {"amount": {"$ref": "#/$defs/Amount"}}}, "Amount": AMOUNT},
    }
    found = completed("refund", {"opts": value}, whole)["opts"]
    assert found in ({"amount": 500}, [{"amount": 500}])


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"order": "W1", "amount": "500"},
        {"order": "W1", "amount": 5.5},
        {"order": "W1", "amount": True},
        {"order": "W1", "Amount": 5},
        {"order": "W1", "amount": 5, "more": 1},
        {"order": 7},
        [],
        None,
        "W1",
    ],
    ids=repr,
)
def test_what_does_not_fit_is_refused_and_nothing_is_converted(args: Any) -> None:
    """What a tool far away would make of it is not known."""
    with pytest.raises(InputError, match="the arguments of refund"):
        completed("refund", args, FLAT)


def test_names_are_declared_at_every_depth() -> None:
    """Unless the schema leaves them open."""
    nested = {"type": "object", "properties": {"to": FLAT}}
    with pytest.raises(InputError, match=r"'to\.Amount' is not declared"):
        completed("refund", {"to": {"order": "W1", "Amount": 5}}, nested)
    open_to = {"type": "object", "properties": {"to": {**FLAT, "additionalProperties": True}}}
    assert completed("refund", {"to": {"order": "W1", "Amount": 5}}, open_to)["to"]["Amount"] == 5


NODE: dict[str, Any] = {"anyOf": [{"$ref": "#/$defs/N"}, {"$ref": "#/$defs/N"}, {"type": "null"}]}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": NODE}},
        {"type": "object", "properties": {"n": {"$ref": "#/$defs/Nowhere"}}},
        {"type": "object", "properties": {"n": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        {"type": "object", "properties": {"n": {"$ref": "file:///etc/hostname"}}},
        {"type": "no such type"},
        {"type": "object", "properties": {"n": {"type": 7}}},
    ],
    ids=["loops", "leads nowhere", "leads out", "leads to a file", "no type", "no schema"],
)
def test_a_schema_that_cannot_be_followed_is_an_error(schema: dict[str, Any]) -> None:
    """It comes from a server that nobody here wrote: nothing is fetched, and nothing goes on for ever."""
    with pytest.raises(InputError):
        completed("refund", {"n": {"x": 1}}, schema)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": {"b": 1, "b": 1}}', '{"a": 1, "\\u0061": 2}'])
def test_a_name_that_is_given_twice_is_refused(text: str) -> None:
    """At any depth, however it is spelt."""
    with pytest.raises(InputError, match="is given twice"):
        read_object(text, "refund")


@pytest.mark.parametrize(
    "text", ["NaN", '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', "[]", "7", "{", "{} 1", "[" * 100_000, "9" * 5000]
)
def test_what_is_no_object_is_refused(text: str) -> None:
    """So are numbers that JSON has not, or that nobody can hold."""
    with pytest.raises(InputError, match="the arguments of refund"):
        read_object(text, "refund")


def test_an_object_is_read() -> None:
    """No text at all is one without arguments, as some models write it."""
    assert read_object("", "refund") == {}
    assert read_object('{"a": [1, 2.5, null, "é"]}', "refund") == {"a": [1, 2.5, None, "é"]}
    assert math.isclose(read_object('{"a": 1e300}', "refund")["a"], 1e300)


def test_patterns_take_linear_time_and_odd_ones_are_refused() -> None:
    """A server's pattern meets a model's text: one that could take for ever is compiled by RE2, or refused."""
    slow = {"properties": {"name": {"type": "string", "pattern": "^(a+)+$"}}}
    with pytest.raises(InputError, match="does not match"):
        completed("find", {"name": "a" * 40 + "!"}, slow)
    looking_ahead = {"properties": {"name": {"type": "string", "pattern": "(?=a)b"}}}
    with pytest.raises(InputError, match="RE2"):
        completed("find", {"name": "b"}, looking_ahead)
