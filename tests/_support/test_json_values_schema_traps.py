"""JSON Schema in the places where libraries differ: decimals, big integers, booleans beside numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guardagent._support.json_values import linear_time_validator

jsonschema = pytest.importorskip("jsonschema")

TRAPS = [  # a schema, the texts of valid values, those of invalid ones
    (
        {"multipleOf": 0.01},
        ["19.99", "0.07", "4.35", "1.1", "0.29", "8.2", "0.57", "1e2", "-19.99", "100000000.01"],
        ["0.075", "1e-3", "19.995"],
    ),
    ({"multipleOf": 0.1}, ["0.3"], []),
    ({"multipleOf": 0.0001}, ["0.0075"], []),
    ({"multipleOf": 0.3}, ["0.9"], []),
    ({"multipleOf": 1e-08}, ["12391239123"], []),
    ({"multipleOf": 0.123456789}, [], ["1e308"]),
    ({"multipleOf": 2}, ["1e308"], ["9007199254740993"]),
    ({"multipleOf": 3}, ["9007199254740993"], []),
    ({"multipleOf": 7}, ["700000000000000000000000000000"], ["700000000000000000000000000001"]),
    ({"multipleOf": 2.5}, ["7.5"], []),
    ({"multipleOf": 1}, ["1.0"], []),
    ({"multipleOf": 0.5}, ["9007199254740993"], []),
    ({"multipleOf": 1e300}, ["1e308"], []),
    ({"type": "integer"}, ["1.0", "1e2", "123456789012345678901234567890"], ["1.5", "true"]),
    ({"type": "number"}, [], ["true"]),
    ({"type": "boolean"}, [], ["1"]),
    ({"maximum": 9007199254740992}, [], ["9007199254740993"]),
    ({"maximum": 9007199254740992.0}, [], ["9007199254740993"]),
    ({"exclusiveMinimum": 18446744073709551615}, ["18446744073709551616"], []),
    ({"minimum": -9223372036854775809}, [], ["-9223372036854775810"]),
    ({"const": 1}, ["1.0"], ["true"]),
    ({"const": 0}, [], ["false"]),
    ({"const": [1]}, [], ["[true]"]),
    ({"const": {"a": 0}}, [], ['{"a":false}']),
    ({"enum": [1, 2]}, [], ["true"]),
    ({"enum": [9007199254740993]}, [], ["9007199254740992"]),
    ({"enum": [[0]]}, ["[0.0]"], []),
    (
        {"uniqueItems": True},
        ["[1,true]", "[0,false,null]", "[[1],[true]]", "[9007199254740993,9007199254740992]", '[{"a":false},{"a":0}]'],
        ["[1,1.0]", '[{"a":1,"b":2},{"b":2,"a":1}]'],
    ),
    ({"maxLength": 1}, ['"\\ud83d\\ude00"'], []),
    ({"minLength": 2}, [], ['"\\ud83d\\ude00"']),
    ({"properties": {"a": {"type": "integer"}}}, [], ['{"a":null}']),
    ({"prefixItems": [{"type": "integer"}], "items": False}, [], ["[1,2]"]),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}, "maxLength": 1}, [], ['"ab"']),
    ({"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"required": ["b"]}}, [], ['{"a":1.0}']),
    (
        {
            "unevaluatedProperties": False,
            "anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}],
        },
        ['{"a":1,"b":2}'],
        [],
    ),
    ({"contains": {"const": 1}, "maxContains": 1}, ["[1,true]"], []),
    ({"dependentRequired": {"a": ["b"]}}, [], ['{"a":1}']),
    ({"format": "date"}, ['"2024-02-30"'], []),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), TRAPS, ids=lambda part: json.dumps(part)[:40])
def test_traps(schema: dict[str, Any], valid: list[str], invalid: list[str]) -> None:
    """A number is the decimal that it prints as; a boolean is not a number, also in a list."""
    validator = linear_time_validator(jsonschema.Draft202012Validator)(schema)
    assert [text for text in valid if not validator.is_valid(json.loads(text))] == []
    assert [text for text in invalid if validator.is_valid(json.loads(text))] == []


def test_every_price_is_a_multiple_of_a_cent() -> None:
    """`multipleOf: 0.01` accepts all prices to 100.00 and none with a third digit."""
    validator = linear_time_validator(jsonschema.Draft202012Validator)({"multipleOf": 0.01})
    assert all(validator.is_valid(cents / 100) for cents in range(10_001))
    assert not any(validator.is_valid((10 * cents + 5) / 1000) for cents in range(1000))
    assert not validator.is_valid(float("nan"))
    assert validator.is_valid("19.995")
