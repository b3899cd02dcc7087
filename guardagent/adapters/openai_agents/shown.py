"""A validated value as rules see it: all that there is to it, or an error. No serializer is asked what to show."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import math
import pathlib
import uuid
from collections import deque
from collections.abc import Mapping
from typing import Any

from pydantic import AnyUrl, BaseModel
from pydantic_core import MultiHostUrl, PydanticSerializationError, Url, to_jsonable_python

from guardagent.errors import InputError

_SCALARS = (str, int, float, decimal.Decimal)
_AS_TEXT = (
    *(dt.date, dt.time, dt.timedelta, uuid.UUID, pathlib.PurePath, AnyUrl, Url, MultiHostUrl, bytes),
    *(ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network),
)
_DEEPEST = 100


def plain(value: Any, place: str, depth: int = 0) -> Any:
    """A value in plain ones: models and dataclasses by the names of their fields, dates and the like as their text.

    Args:
        value: what validation has made of what the model wrote.
        place: its name, for messages.
        depth: how deep it is nested.

    Raises:
        InputError: it has something that would not be seen, such as a secret or an iterator.
    """
    if value is None or type(value) is bool:
        return value
    if isinstance(value, enum.Enum):
        return plain(value.value, place, depth)
    if isinstance(value, _SCALARS) and not getattr(value, "__dict__", None):
        return _scalar(value, place)
    if isinstance(value, _AS_TEXT):
        return _text(value, place)
    if depth >= _DEEPEST:
        raise InputError(f"{place[:80]} is nested too deep, or holds itself")
    if (parts := _parts(value)) is not None:
        return _mapping(parts, place, depth)
    if isinstance(value, set | frozenset):  # in an order that is the same in every process
        return sorted((plain(item, place, depth + 1) for item in value), key=repr)
    if isinstance(value, list | tuple | deque):
        return [plain(item, f"{place}[{at}]", depth + 1) for at, item in enumerate(value)]
    raise InputError(
        f"{place} is a {type(value).__name__}, which cannot be shown as a plain value without loss; expected an "
        "argument of JSON values, models or dataclasses, or of a date, an id, a path or a URL"
    )


def _scalar(value: Any, place: str) -> Any:
    """A number or a text; of a type of its own, the number or text that it is."""
    kind = next(one for one in _SCALARS if isinstance(value, one))
    if kind in (float, decimal.Decimal) and not math.isfinite(value):
        raise InputError(f"{place} is {value}; expected a finite number")
    if type(value) is kind:
        return value
    return str.__str__(value) if kind is str else kind(value)


def _text(value: Any, place: str) -> Any:
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError:
        raise InputError(f"{place} are bytes that are no UTF-8; expected a text") from None


def _parts(value: Any) -> Mapping[Any, Any] | None:
    """What a value with named parts holds; None where it has none."""
    if isinstance(value, BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {}), **_private(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        return {**getattr(value, "__dict__", {}), **fields}
    return value if isinstance(value, Mapping) else None


def _private(value: BaseModel) -> dict[str, Any]:
    """The private attributes that a validator has set: the function may go by them."""
    declared = type(value).__private_attributes__
    return {
        name: item
        for name, item in (value.__pydantic_private__ or {}).items()
        if name not in declared or item != declared[name].get_default()
    }


def _mapping(parts: Mapping[Any, Any], place: str, depth: int) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for key, item in parts.items():
        name = key if type(key) is str else str(plain(key, f"a key of {place}", _DEEPEST))
        if name in shown:
            raise InputError(f"{place} has two keys that are shown as {name!r}; expected names of their own")
        shown[name] = plain(item, f"{place}.{name}", depth + 1)
    return shown
