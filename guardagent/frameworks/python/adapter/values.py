"""Arguments as plain values, so that the judged value is the whole argument."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from guardagent.errors import InputError

_SCALARS = frozenset({str, int, bool, type(None)})
_DEEPEST = 100


def plain_value(value: Any, place: str, depth: int = 0) -> Any:
    """Returns a frozen copy of a JSON value, which cannot change after it was judged.

    Args:
        value: None, a boolean, a number, a string, or a list, tuple or mapping of these. A list becomes a tuple.
        place: its name, for messages.
        depth: how deep it is nested.

    Raises:
        InputError: the value is of another type.
    """
    kind = type(value)
    if kind in _SCALARS or (kind is float and math.isfinite(value)):
        return value
    if depth >= _DEEPEST:
        raise InputError(f"{place[:80]} is nested too deeply, or contains itself")
    if kind is dict or isinstance(value, Mapping):
        return _plain_mapping(dict(value), place, depth)
    if isinstance(value, list | tuple):
        items = enumerate(tuple(value))
        return tuple(
            item if type(item) in _SCALARS else plain_value(item, f"{place}[{at}]", depth + 1) for at, item in items
        )
    description = repr(value) if kind is float else f"a {kind.__name__}"
    raise InputError(
        f"{place} is {description}; expected a JSON value, which can be judged and copied; convert it, or name the "
        "argument in 'unjudged' if the program supplies it and no rule mentions it"
    )


def _plain_mapping(value: dict[Any, Any], place: str, depth: int) -> Mapping[str, Any]:
    for key in value:
        if type(key) is not str:
            raise InputError(f"a key of {place} is {key!r}; expected a string")
    return MappingProxyType(
        {
            key: item if type(item) in _SCALARS else plain_value(item, f"{place}.{key}", depth + 1)
            for key, item in value.items()
        }
    )
