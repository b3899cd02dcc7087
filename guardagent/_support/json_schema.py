"""JSON Schema with linear-time patterns, since schemas come from servers and strings from models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from guardagent._support import patterns
from guardagent.errors import InputError


def linear_time_validator(kind: Any) -> Any:
    """Returns a jsonschema validator class with RE2 patterns. A pattern that RE2 rejects matches everything."""
    import jsonschema

    extend: Any = jsonschema.validators.extend
    return extend(
        kind,
        {
            "pattern": _pattern,
            "patternProperties": _pattern_properties,
            "additionalProperties": _additional_properties,
            "type": _nullable_type(kind.VALIDATORS["type"]),
        },
    )


def without_unevaluated(kind: Any) -> Any:
    """Drops `unevaluatedProperties`, which would match `patternProperties` with Python's engine."""
    import jsonschema

    extend: Any = jsonschema.validators.extend
    return extend(kind, {"unevaluatedProperties": lambda *_: ()})


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str, where: str = "pattern") -> Any:
    """Compiles a pattern of a schema.

    Raises:
        InputError: it is not an RE2 regular expression.
    """
    try:
        return patterns.compile_pattern(pattern)
    except patterns.PatternError:
        raise InputError(f"{where}: {pattern!r} is not an RE2 regular expression; expected one") from None


def matches(pattern: str, text: str) -> bool | None:
    """Returns whether a pattern occurs in a string; None if RE2 cannot compile the pattern."""
    try:
        return compile_pattern(pattern).search(text) is not None
    except InputError:
        return None
    except UnicodeEncodeError:  # a lone surrogate
        return False


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[Any]:
    import jsonschema

    if isinstance(value, str) and matches(pattern, value) is False:
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], value: Any, _: Any) -> Iterator[Any]:
    if not isinstance(value, dict):
        return
    for pattern, schema in patterns.items():
        for name, item in value.items():
            if matches(pattern, name):  # if that is unknown, the tool itself decides
                yield from validator.descend(item, schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, others: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    import jsonschema

    if not isinstance(value, dict):
        return
    patterns = schema.get("patternProperties", {})
    for name, item in value.items():
        if name in schema.get("properties", {}) or any(matches(pattern, name) is not False for pattern in patterns):
            continue
        if others is False:
            yield jsonschema.ValidationError(f"{name!r} is not declared")
        else:
            yield from validator.descend(item, others, path=name)


def _nullable_type(validate: Any) -> Any:
    """Returns `type` with the `nullable` of OpenAPI, which many servers use."""

    def checked(validator: Any, types: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if value is not None or schema.get("nullable") is not True:
            yield from validate(validator, types, value, schema) or ()

    return checked
