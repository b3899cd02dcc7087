"""Objects of a host in the form that rules read: models and dataclasses are mappings of their fields.

Only stored fields are read. No property, method or `__getattr__` of the object runs.

| value | form |
|---|---|
| Pydantic models, dataclasses | a mapping of the fields; a `RootModel` as its root |
| an `Enum` | its value |
| `datetime`, `date`, `time` | ISO 8601 |
| `timedelta` | seconds |
| `UUID`, IP addresses, time zones | a string |

Any other object has no form. A rule that reads it learns its type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from types import MemberDescriptorType
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from guardagent.types.verdicts import ATOMS, freeze

_MISSING = object()


def readable(value: Any) -> Any:
    """Returns a value one level deep in the form that rules read; the value itself if it has no other form."""
    kind = type(value)
    if kind in CONVERTERS:
        return CONVERTERS[kind](value)
    inner = unwrapped(value)
    if inner is not None:
        return inner[0]
    names = field_names(kind)
    if names is None:
        return value
    held = _held(value)
    extra = held.pop("__pydantic_extra__", None)
    fields = {name: _stored(value, held, name) for name in names}
    found = {name: one for name, one in fields.items() if one is not _MISSING}
    return {**found, **extra} if isinstance(extra, dict) else found


def readable_copy(value: Any) -> Any:
    """Returns an immutable deep copy in the form that rules read. An object without a form stays as it is."""
    return value if type(value) in ATOMS else freeze(value, _ObjectCopies())


class _ObjectCopies:
    """Copies each object of one value once. A cycle ends in the object itself, which has no form there."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Any, Any]] = {}  # with the object, so that its id stays taken

    def __call__(self, value: Any) -> Any:
        if id(value) not in self._copies:
            self._copies[id(value)] = value, value
            plain = readable(value)
            if plain is not value:
                self._copies[id(value)] = value, freeze(plain, self)
        return self._copies[id(value)][1]


def unwrapped(value: Any) -> tuple[Any] | None:
    """Returns the value inside an enum member or root model, as a tuple; None for other values."""
    if isinstance(value, Enum):
        return (value.value,)
    if getattr(type(value), "__pydantic_root_model__", False) is True:
        return (_held(value).get("root"),)
    return None


def field_names(kind: type) -> Iterable[str] | None:
    """Returns the names of the fields of a model or dataclass; None for other types."""
    fields = getattr(kind, "model_fields", None) or getattr(kind, "__pydantic_fields__", None)
    if isinstance(fields, Mapping):
        return fields
    return [one.name for one in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else None


def _held(value: Any) -> dict[str, Any]:
    """Returns a copy of the stored attributes, with the extra fields of a model."""
    try:
        held = dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        return {}
    if hasattr(type(value), "__pydantic_extra__"):
        held["__pydantic_extra__"] = _of_slot(value, "__pydantic_extra__")
    return held


def _stored(value: Any, held: Mapping[str, Any], name: str) -> Any:
    return held[name] if name in held else _of_slot(value, name)


def _of_slot(value: Any, name: str) -> Any:
    """Returns the content of a slot; a missing value if there is none."""
    for kind in type(value).__mro__:
        slot = vars(kind).get(name)
        if isinstance(slot, MemberDescriptorType):
            try:
                return slot.__get__(value, kind)
            except AttributeError:
                return _MISSING
    return _MISSING


def _seconds(value: timedelta) -> Any:
    micro = value // timedelta(microseconds=1)
    return Decimal(micro) / 1_000_000 if micro % 1_000_000 else micro // 1_000_000


CONVERTERS: Mapping[type, Callable[[Any], Any]] = {
    **dict.fromkeys((datetime, date, time), lambda value: value.isoformat()),
    **dict.fromkeys(
        (UUID, ZoneInfo, IPv4Address, IPv6Address, IPv4Interface, IPv6Interface, IPv4Network, IPv6Network),
        str,
    ),
    timedelta: _seconds,
}
"""The plain form of each scalar type."""
