"""JSON Schema with patterns that take linear time: schemas come from servers, and the texts from models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from guardagent._support import patterns
from guardagent.errors import InputError


def linear_time_validator(kind: Any) -> Any:
    """A validator class of jsonschema whose patterns are RE2's. One that is none of RE2's everything matches."""
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
    """For a schema with `patternProperties`: `unevaluatedProperties` would match these by Python's engine."""
    import jsonschema

    extend: Any = jsonschema.validators.extend
    return extend(kind, {"unevaluatedProperties": lambda *_: ()})


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str, where: str = "a pattern") -> Any:
    """A pattern of a schema.

    Raises:
        InputError: it is none of RE2's.
    """
    try:
        return patterns.compile_pattern(pattern)
    except patterns.PatternError:
        raise InputError(f"{where}: {pattern!r} is no regular expression of RE2; expected one") from None


def matches(pattern: str, text: str) -> bool | None:
    """Whether a text has what a pattern looks for; None where RE2 cannot compile the pattern."""
    try:
        return compile_pattern(pattern).search(text) is not None
    except InputError:
        return None
    except UnicodeEncodeError:  # half a character
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
            if matches(pattern, name):  # where that is not known, the tool itself sees to it
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
    """`type`, with the `nullable` of OpenAPI, which many servers write."""

    def checked(validator: Any, types: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if value is not None or schema.get("nullable") is not True:
            yield from validate(validator, types, value, schema) or ()

    return checked
