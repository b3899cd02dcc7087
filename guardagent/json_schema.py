"""JSON Schema with patterns that take linear time: schemas come from servers, and the texts from models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from guardagent.errors import InputError


def linear(kind: Any) -> Any:
    """A validator class of jsonschema whose patterns are RE2's."""
    import jsonschema

    extend: Any = jsonschema.validators.extend
    return extend(kind, {"pattern": _pattern, "patternProperties": _pattern_properties})


@lru_cache(maxsize=1024)
def compiled(pattern: str, where: str = "a pattern") -> Any:
    """A pattern of a schema.

    Raises:
        InputError: it is none of RE2's.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        raise InputError(f"{where}: {pattern!r} is no regular expression of RE2; expected one") from None


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[Any]:
    import jsonschema

    if isinstance(value, str) and compiled(pattern).search(value) is None:
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], value: Any, _: Any) -> Iterator[Any]:
    if not isinstance(value, dict):
        return
    for pattern, schema in patterns.items():
        for name, item in value.items():
            if compiled(pattern).search(name):
                yield from validator.descend(item, schema, path=name, schema_path=pattern)
