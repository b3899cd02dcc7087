"""Decodes the values of log entries. What the log hides or cuts becomes an unknown value that is marked as unrecorded.

A rule that depends on such a value is undecidable, even if it only asks whether the value is known. A rule that holds
whatever the value is stays decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any

from guardagent.log.records import MARK, MAX_STRING
from guardagent.policy.language.values import Unknown, Unrecorded


def unrecorded(why: str) -> Unknown:
    """Returns an unknown value that a log does not hold."""
    return Unknown(Unrecorded(why))


_REDACTED = unrecorded("the log redacts a value that the rule reads")
_CUT = unrecorded("the log cuts a value that the rule reads")
_OBJECT = unrecorded("the log describes an object that the rule reads, but does not hold it")
_NO_FACT = unrecorded("the log does not hold a fact that the rule reads; declare the facts of the host with '--facts'")
STATE = unrecorded("the log does not hold the state")
_MARKS = {"redacted": _REDACTED, "cut": _CUT}


def recorded_value(value: Any) -> Any:
    """Returns the value that the log was given, read-only; unknown where the log does not hold it."""
    if isinstance(value, dict):
        return _mapping(value)
    if isinstance(value, list):
        return tuple(map(recorded_value, value))
    return _REDACTED if isinstance(value, str) and MARK in value else value


def _mapping(value: dict[str, Any]) -> Any:
    if len(value) == 1:
        ((key, inside),) = value.items()
        if key in _MARKS:
            return _MARKS[key]
        if key == "$object":
            return _object(inside)
    if any(MARK in key for key in value):
        return _REDACTED
    if any(len(key) == MAX_STRING + 1 and key.endswith("…") for key in value):
        return _CUT
    return MappingProxyType({key: recorded_value(item) for key, item in value.items()})


def _object(description: Any) -> Any:
    """Returns a value that JSON lacks, if its description determines it."""
    try:
        kind, inside = description
        if kind == "dict":
            return MappingProxyType({recorded_value(key): recorded_value(item) for key, item in inside})
        return _DECODERS[kind](inside)
    except (KeyError, TypeError, ValueError, InvalidOperation):
        return _OBJECT


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "decimal.Decimal": Decimal,
    "float": float,
    "int": lambda text: int(text, 16),
}


def is_complete(value: Any) -> bool:
    """Whether a decoded value has no unrecorded part."""
    if isinstance(value, Mapping):
        return all(map(is_complete, value.values()))
    if isinstance(value, tuple):
        return all(map(is_complete, value))
    return type(value) is not Unknown


class RecordedFacts(dict[str, Any]):
    """The facts of a log entry. It holds those of the call alone, so any other fact is unrecorded, not missing."""

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ARG002 - as of a mapping
        return super().get(name, _NO_FACT)
