"""Parts of values: fields, items and lengths, also of strings that contain JSON."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any

from guardagent._support import json_values
from guardagent.policy.language.values import Unknown, as_read, exact, kind_name, kind_of, mismatch

MAX_TEXT = 4_000_000  # characters of a string that is parsed as JSON
CACHED_TEXT = 20_000  # results for shorter strings are cached


def length(value: Any) -> int | Unknown:
    """The length of a string, a list, a mapping or a set."""
    if kind_of(value) in ("text", "list", "mapping", "set"):
        return len(value)
    return _of_kind(value, "has no length")


def field_of(value: Any, name: str) -> Any:
    """A field of a mapping, or of a string that contains one as JSON."""
    if type(value) is Unknown:
        return value.unbounded
    if kind_of(value) == "text":
        value = parsed(str(value))
        if type(value) is Unknown:
            return value
    if kind_of(value) != "mapping":
        form = as_read(value)
        return _of_kind(value, "has no fields") if form is value else field_of(form, name)
    found = value.get(name)
    return NO_VALUE if found is None else as_read(found)


def item_of(value: Any, index: Any) -> Any:
    """An item of a list by index, or of a mapping by key. A string is parsed as JSON."""
    if type(value) is Unknown or type(index) is Unknown:
        return mismatch(value, index)
    if kind_of(value) == "text":
        value = parsed(str(value))
    if kind_of(value) == "mapping" and kind_of(index) == "text":
        return field_of(value, index)
    form = as_read(value)
    if form is not value:
        return item_of(form, index)
    if kind_of(value) != "list" or kind_of(index) != "number":
        return value if type(value) is Unknown else _of_kind(value, f"cannot be indexed by a {kind_name(index)}")
    number = exact(index)
    if type(number) is not int or not -len(value) <= number < len(value):
        return NO_VALUE
    found = value[number]
    return NO_VALUE if found is None else as_read(found)


def _of_kind(value: Any, problem: str) -> Unknown:
    return value.unbounded if type(value) is Unknown else Unknown(f"a {kind_name(value)} {problem}")


NO_VALUE = Unknown("a value is missing or null")


def parsed(text: str) -> Any:
    """Parses a string as JSON; unknown for invalid JSON and duplicate keys."""
    if len(text) > MAX_TEXT:
        return Unknown("a string is too long to parse as JSON")
    return _parsed_once(text) if len(text) < CACHED_TEXT else _parsed(text)


def _parsed(text: str) -> Any:
    try:
        return json_values.loads(text, parse_float=Decimal)
    except ValueError:
        return Unknown("a string is not JSON, or a key appears twice in it")


_parsed_once = lru_cache(256)(_parsed)
