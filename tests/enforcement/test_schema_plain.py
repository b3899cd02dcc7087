"""Plain schemas, whose values need no jsonschema, decide as the whole validation does."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent import InputError
from guardagent._support.json_values import plain_test
from guardagent.enforcement.schema import validate_arguments

SCALARS: list[dict[str, Any]] = [{"type": name} for name in ("string", "integer", "number", "boolean", "null")]
SIMPLE: list[Any] = [
    *SCALARS,
    {"type": "string", "enum": ["a", "b"], "title": "t"},
    {"type": "string", "enum": ["a", 1]},
    *({"anyOf": [schema, {"type": "null"}]} for schema in SCALARS),
    *({"type": "integer", "default": default} for default in (7, "no", None)),
]
SCHEMAS: list[Any] = [
    *SIMPLE,
    *({"type": "array", "items": schema} for schema in SIMPLE),
    *({"type": "object", "properties": {"a": schema, "b": {"type": "string"}}} for schema in SIMPLE),
    *(
        {"anyOf": [{"type": "array", "items": schema}, {"type": "object", "properties": {"a": schema}}]}
        for schema in SIMPLE
    ),
]
ATOMS = [None, True, False, 0, 1, 7, 1.0, 0.5, float("nan"), "a", "c", "7", "\ud800"]
VALUES = [
    *ATOMS,
    [],
    {},
    *([atom] for atom in ATOMS),
    ["a", 7],
    *({"a": atom} for atom in ATOMS),
    {"A": 7},
    {"a": 7, "b": 7},
]
OTHERS: list[Any] = [False, {"type": "integer"}]
REST: list[dict[str, Any]] = [{}, {"required": ["a"]}, *({"additionalProperties": other} for other in OTHERS)]


def decided(args: Any, schema: Any) -> Any:
    try:
        return repr(validate_arguments("t", args, schema))
    except InputError as error:
        return str(error)


@pytest.mark.parametrize("inner", SCHEMAS, ids=repr)
def test_a_plain_schema_decides_as_the_whole_validation(inner: Any) -> None:
    """A keyword that changes nothing, and that is not plain, makes the other schema one for jsonschema."""
    for rest in REST if inner in SIMPLE else REST[:1]:
        schema = {"type": "object", "properties": {"a": inner}, **rest}
        whole = {**schema, "minProperties": 0}
        assert plain_test(schema) is not None
        assert plain_test(whole) is None
        for args in [
            {},
            {"b": 7},
            *({"a": value} for value in VALUES),
            *({"a": value, "A": 7} for value in VALUES[:9]),
        ]:
            assert decided(args, schema) == decided(args, whole), args


@pytest.mark.parametrize("more", [{"pattern": "x"}, {"minLength": 1}, {"$ref": "#"}, {"not": {}}, {"const": 1}])
def test_a_schema_with_another_keyword_is_not_plain(more: Any) -> None:
    """Deep inside, too."""
    inner = {"type": "array", "items": {"type": "string", **more}}
    assert plain_test({"type": "object", "properties": {"a": inner}}) is None
