"""Accepts values of plain schemas without jsonschema, which takes ten times as long.

Most tools declare a few scalars and lists. For such a schema, `plain_test` gives a test that is true only for values
that the whole validation accepts and leaves unchanged. Whatever it rejects, the whole validation decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Test = Callable[[Any], bool]

_ANNOTATIONS = frozenset({"title", "description", "examples", "default", "deprecated"})
_SCALAR_TESTS: dict[str, Test] = {
    "string": lambda value: type(value) is str,
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
}


def plain_test(schema: Any) -> Test | None:
    """Returns the test of a schema; None if the schema has keywords that only the whole validation knows."""
    if not isinstance(schema, Mapping):
        return None
    match {word: found for word, found in schema.items() if word not in _ANNOTATIONS}:
        case {"type": str(kind), **none} if kind in _SCALAR_TESTS and not none:
            return _SCALAR_TESTS[kind]
        case {"type": "string", "enum": list(values), **none} if not none:
            return lambda value: type(value) is str and value in values
        case {"type": "array", "items": item, **none} if not none:
            return _list_test(item)
        case {"anyOf": list(options), **none} if options and not none:
            return _any_test(options)
        case {"type": "object", "properties": Mapping() as properties, **others}:
            return _object_test(properties, others)
        case _:
            return None


def _list_test(item: Any) -> Test | None:
    fits = plain_test(item)
    return None if fits is None else lambda value: type(value) is list and all(map(fits, value))


def _any_test(options: list[Any]) -> Test | None:
    tests = [plain_test(one) for one in options]
    known = [one for one in tests if one is not None]
    return (lambda value: any(fits(value) for fits in known)) if len(known) == len(tests) else None


def _object_test(properties: Mapping[str, Any], others: Mapping[str, Any]) -> Test | None:
    tests = {name: test for name, one in properties.items() if (test := plain_test(one)) is not None}
    required = others.get("required", [])
    known = others.keys() <= {"required", "additionalProperties", "$schema"} and isinstance(required, list)
    if not known or not tests or len(tests) < len(properties) or not all(isinstance(one, str) for one in required):
        return None
    # A default that is left out is written out by the whole validation.
    needed = {*required, *(name for name, one in properties.items() if "default" in one)}

    def fits(value: Any) -> bool:
        if type(value) is not dict or not needed <= value.keys():
            return False
        return all(name in tests and tests[name](item) for name, item in value.items())

    return fits
