"""Copies of a call's arguments, so that nobody changes between judgement and call what the tool gets."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from guardagent.enforcement.plain_values import plain_value
from guardagent.errors import InputError
from guardagent.types import thaw

JSON_SCALARS = frozenset({str, int, float, bool, type(None)})


def value_copy(value: Any, place: str) -> Any:
    """Returns a deep copy of JSON values; others are checked for a form that rules can read.

    Raises:
        InputError: there is no copy, or no such form; the message names the place.
    """
    if type(value) in JSON_SCALARS:
        return value
    if type(value) is dict:
        return {name: value_copy(item, f"{place}.{name}") for name, item in value.items()}
    if type(value) is list:
        return [value_copy(item, f"{place}[]") for item in value]
    try:
        plain_value(value, place)
        return copy.deepcopy(value)
    except Exception as error:  # noqa: BLE001 - whatever a copy raises
        raise InputError(f"{place} cannot be judged and copied: {error}") from None


def copied_values(args: Mapping[str, Any]) -> dict[str, Any]:
    """Returns copies of arguments by their names; see `value_copy`."""
    return {name: value_copy(value, name) for name, value in args.items()}


def same_arguments(args: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Whether arguments are equal as rules read them, with the types of their values."""
    return repr(_ordered(thaw(args))) == repr(_ordered(thaw(others)))


def as_judged(args: Mapping[str, Any], own: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that run: the judged copies, or a reviewer's edits where they differ.

    Args:
        args: the arguments that may run, as rules read them.
        own: the judged copies.
        plain: the judged copies, as rules read them.
    """
    shown = thaw(plain)
    return {
        name: own[name] if name in own and repr(shown[name]) == repr(value) else value for name, value in args.items()
    }


def _ordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _ordered(value[name]) for name in sorted(value)}
    return [_ordered(item) for item in value] if isinstance(value, list | tuple) else value
