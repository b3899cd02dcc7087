"""Validates arguments against the JSON schema of their tool, and parses arguments that a model wrote."""

from __future__ import annotations

import math
from typing import Any

import pytest

from guardagent import InputError
from guardagent.enforcement import ToolSpec
from guardagent.enforcement.schema import read_object, validate_arguments
from tests.enforcement.guards import LIMIT, guard

AMOUNT = {"type": "integer", "default": 500}
FLAT = {"type": "object", "properties": {"order": {"type": "string"}, "amount": AMOUNT}, "required": ["order"]}


def test_defaults_are_written_out() -> None:
    """The arguments with the tool's defaults are judged; the proposal itself is unchanged."""
    proposed = {"order": "W1"}
    assert validate_arguments("refund", proposed, FLAT) == {"order": "W1", "amount": 500}
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
    """Defaults are found behind references, in lists, and in subschemas that always apply."""
    whole = {
        "type": "object",
        "properties": {"opts": inner},
        "$defs": {"Opts": {"type": "object", "properties": {"amount": {"$ref": "#/$defs/Amount"}}}, "Amount": AMOUNT},
    }
    options = validate_arguments("refund", {"opts": value}, whole)["opts"]
    assert options in ({"amount": 500}, [{"amount": 500}])


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
def test_invalid_arguments_are_refused_and_never_converted(args: Any) -> None:
    """It is unknown how a remote tool would convert a value."""
    with pytest.raises(InputError, match="the arguments of 'refund'"):
        validate_arguments("refund", args, FLAT)


def test_names_are_declared_at_every_depth() -> None:
    """Undeclared names are refused at every depth, unless the schema allows additional properties there."""
    nested = {"type": "object", "properties": {"to": FLAT}}
    with pytest.raises(InputError, match=r"'to\.Amount' is not declared"):
        validate_arguments("refund", {"to": {"order": "W1", "Amount": 5}}, nested)
    open_to = {"type": "object", "properties": {"to": {**FLAT, "additionalProperties": True}}}
    assert validate_arguments("refund", {"to": {"order": "W1", "more": 5}}, open_to)["to"]["more"] == 5


@pytest.mark.parametrize("name", ["Amount", "amount ", "AMOUNT", "\uff41mount"])
@pytest.mark.parametrize(
    ("place", "arguments"),
    [
        (lambda opts: opts, lambda value: value),
        (lambda opts: {"type": "array", "items": opts}, lambda value: [{}, value]),
        (lambda opts: {"type": "array", "prefixItems": [True, opts]}, lambda value: [{}, value]),
        (lambda opts: {"anyOf": [{"type": "null"}, opts]}, lambda value: value),
        (lambda opts: {"if": {"type": "object"}, "then": opts}, lambda value: value),
        (lambda opts: {"type": "object", "additionalProperties": opts}, lambda value: {"any": value}),
        (lambda opts: {"type": "object", "patternProperties": {"a": opts}}, lambda value: {"any": value}),
        (lambda opts: {"$ref": "#opts", "$defs": {"opts": {"$anchor": "opts", **opts}}}, lambda value: value),
    ],
)
def test_variant_spellings_of_declared_names_are_refused(place: Any, arguments: Any, name: str) -> None:
    """Variant spellings are refused even where additional names are allowed: a tool may ignore case."""
    opts = {"type": "object", "properties": {"amount": {"type": "integer"}}, "additionalProperties": True}
    whole = {"properties": {"opts": place(opts)}}
    assert validate_arguments("refund", {"opts": arguments({"amount": 5, "more": 5})}, whole)
    with pytest.raises(InputError, match="read it as 'amount'"):
        validate_arguments("refund", {"opts": arguments({name: 5})}, whole)


def test_subschemas_declare_names_together() -> None:
    """A nested name may be declared by any subschema that applies at its location."""
    part = {"type": "object", "properties": {"to": {"type": "object", "properties": {"iban": {}}}}}
    other = {"type": "object", "properties": {"to": {"type": "object", "properties": {"name": {}}}}}
    args = {"to": {"iban": "DE1", "name": "Ann"}}
    assert validate_arguments("pay", args, {"allOf": [part, other]}) == args


@pytest.mark.parametrize(
    ("amount", "fits"),
    [
        ({"type": "integer", "default": None}, True),
        ({"type": "integer", "default": "500"}, False),
        ({"type": ["integer", "null"], "default": None}, True),
    ],
)
def test_a_default_that_does_not_fit_is_never_assumed(amount: dict[str, Any], *, fits: bool) -> None:
    """A null default of a non-nullable type means no default; any other invalid default is known only to the tool."""
    schema = {"type": "object", "properties": {"amount": amount}}
    assert validate_arguments("refund", {"amount": 5}, schema) == {"amount": 5}
    if fits:
        assert validate_arguments("refund", {}, schema).get("amount") is None
    else:
        with pytest.raises(InputError, match="expected a value"):
            validate_arguments("refund", {}, schema)


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
def test_an_unresolvable_schema_is_an_error(schema: dict[str, Any]) -> None:
    """Schemas come from untrusted servers: nothing is fetched, and validation always terminates."""
    with pytest.raises(InputError):
        validate_arguments("refund", {"n": {"x": 1}}, schema)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": {"b": 1, "b": 1}}', '{"a": 1, "\\u0061": 2}'])
def test_a_duplicate_name_is_refused(text: str) -> None:
    """Duplicates are found at any depth and in any escaped spelling."""
    with pytest.raises(InputError, match="appears twice"):
        read_object(text, "refund")


@pytest.mark.parametrize(
    "text", ["NaN", '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', "[]", "7", "{", "{} 1", "[" * 100_000, "9" * 5000]
)
def test_arguments_that_are_not_objects_are_refused(text: str) -> None:
    """Numbers that are not JSON or not representable are refused, too."""
    with pytest.raises(InputError, match="the arguments of 'refund'"):
        read_object(text, "refund")


def test_an_object_is_read() -> None:
    """Some models write an empty string for an empty object."""
    assert read_object("", "refund") == {}
    assert read_object('{"a": [1, 2.5, null, "é"]}', "refund") == {"a": [1, 2.5, None, "é"]}
    assert math.isclose(read_object('{"a": 1e300}', "refund")["a"], 1e300)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"name": {"type": "string", "pattern": "^(a+)+$"}}},
        {"type": "object", "patternProperties": {"^(n+)+$": {}}, "additionalProperties": False},
        {"type": "object", "patternProperties": {"^(n+)+$": {}}, "unevaluatedProperties": False, "minProperties": 2},
    ],
)
def test_patterns_take_linear_time(schema: dict[str, Any]) -> None:
    """Patterns come from servers and strings from models, so patterns are matched by RE2, not by backtracking."""
    with pytest.raises(InputError):
        validate_arguments("find", {"name": "a" * 40 + "!"} if "properties" in schema else {"n" * 40 + "!": 1}, schema)


def test_patterns_that_only_the_tool_can_check_are_left_to_it(caplog: pytest.LogCaptureFixture) -> None:
    """The rules still see the value, and attaching logs a warning."""
    schema = {
        "type": "object",
        "properties": {"ref": {"type": "string", "pattern": r"^(?!-)\S+$"}},
        "patternProperties": {"^(?!ref)x": {"type": "integer"}},
    }
    assert validate_arguments("checkout", {"ref": "main", "x1": 5}, schema) == {"ref": "main", "x1": 5}
    guard(LIMIT).attach([ToolSpec("refund", schema)])
    assert sum("RE2 cannot compile" in line for line in caplog.messages) == 2


def test_a_lone_surrogate_matches_nothing() -> None:
    """A lone surrogate is refused with an InputError, not a crash."""
    with pytest.raises(InputError, match="does not match"):
        validate_arguments("find", {"name": "\ud800"}, {"properties": {"name": {"pattern": "^a"}}})
