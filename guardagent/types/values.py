"""Values of a host as rules read them: the principal of a session, and objects as mappings of their fields.

The principal is the one on whose behalf the agent acts. Of other objects only stored fields are read: no property,
method or `__getattr__` of the object runs.

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
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from types import MappingProxyType, MemberDescriptorType
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from guardagent.errors import InputError, name_hint
from guardagent.types import ATOMS, freeze

FIELDS = ("id", "roles", "tenant", "on_behalf_of")
"""The keys of a principal, which rules can read."""

ASSIGNED = "assigned_roles"
"""The key of the roles that restrictions hold for, where they differ from the effective ones."""


@dataclass(frozen=True, slots=True)
class SessionPrincipal:
    """A user, an agent or a service.

    Attributes:
        id: its name.
        roles: its effective roles; None if they are unknown.
        tenant: its tenant; None if it is unknown.
        on_behalf_of: the principal it acts on behalf of. It has at most the roles of that principal, and its tenant.
        assigned: its own roles, and those of everyone it acts on behalf of or is a part of; unknown if `roles` is. A
            restriction holds for all of these, so nobody escapes it by acting with fewer roles.
    """

    id: str
    roles: frozenset[str] | None = None
    tenant: str | None = None
    on_behalf_of: SessionPrincipal | None = None
    assigned: frozenset[str] | None = None

    def __post_init__(self) -> None:
        roles = None if self.roles is None else self.roles | (self.assigned or frozenset())
        object.__setattr__(self, "assigned", roles)

    def acting_for(self, other: SessionPrincipal) -> SessionPrincipal:
        """The same principal on behalf of another one, with the roles that both have.

        Raises:
            InputError: they are of different tenants.
        """
        if self.tenant != other.tenant:
            raise InputError(
                f"principal {self.id!r} has the tenant {self.tenant!r}, but acts on behalf of {other.id!r} of the "
                f"tenant {other.tenant!r}; expected the same tenant"
            )
        roles = None if self.roles is None or other.roles is None else self.roles & other.roles
        return SessionPrincipal(self.id, roles, self.tenant, other, self._with_assigned(other))

    def narrowed(self, part: SessionPrincipal) -> SessionPrincipal:
        """The principal of a sub-agent, which has at most the roles of this one, and its tenant.

        Raises:
            InputError: it has more.
        """
        if part.tenant not in (None, self.tenant):
            raise InputError(
                f"principal {part.id!r} of the call has the tenant {part.tenant!r}, and the session's principal "
                f"{self.id!r} has {self.tenant!r}; expected the same tenant"
            )
        more = (part.roles or frozenset()) - (self.roles or frozenset())
        if more:
            raise InputError(
                f"principal {part.id!r} of the call has the role {min(more)!r}, which the session's principal "
                f"{self.id!r} lacks; expected a part of its roles"
            )
        if part.on_behalf_of not in (None, self.on_behalf_of):
            raise InputError(f"principal {part.id!r} of the call acts on behalf of another one than {self.id!r} does")
        roles = None if self.roles is None else part.roles  # a part of unknown roles is unknown
        return SessionPrincipal(part.id, roles, part.tenant, self.on_behalf_of, part._with_assigned(self))

    def _with_assigned(self, other: SessionPrincipal) -> frozenset[str]:
        return (self.assigned or frozenset()) | (other.assigned or frozenset())

    @property
    def value(self) -> Mapping[str, Any]:
        """The principal as rules read it; unknown fields are missing."""
        fields = {
            "id": self.id,
            "roles": None if self.roles is None else tuple(sorted(self.roles)),
            "tenant": self.tenant,
            "on_behalf_of": None if self.on_behalf_of is None else self.on_behalf_of.value,
            ASSIGNED: None if self.assigned in (None, self.roles) else tuple(sorted(self.assigned or ())),
        }
        return MappingProxyType({name: value for name, value in fields.items() if value is not None})


def read_principal(value: Any, on_behalf_of: Any = None, place: str = "principal") -> SessionPrincipal | None:
    """Reads a principal from a mapping with `id`, `roles`, `tenant` and `on_behalf_of`; None if there is none.

    Args:
        value: the mapping, or None.
        on_behalf_of: the principal it acts on behalf of, as a mapping.
        place: its name in messages.

    Raises:
        InputError: a key is unknown, or a value has a wrong type; or the tenants differ.
    """
    if value is None:
        if on_behalf_of is not None:
            raise InputError("'on_behalf_of' has no principal that acts; expected 'principal' as well")
        return None
    if isinstance(value, SessionPrincipal):
        outer, inner = value, None
    else:
        outer, inner = _of_mapping(value, place), value.get("on_behalf_of")
    if inner is not None and on_behalf_of is not None:
        raise InputError(f"{place!r} has 'on_behalf_of' twice; expected it once")
    other = read_principal(on_behalf_of if inner is None else inner, place="on_behalf_of")
    return outer if other is None else outer.acting_for(other)


def _of_mapping(value: Any, place: str) -> SessionPrincipal:
    if not isinstance(value, Mapping):
        raise InputError(f"{place!r} has the type {type(value).__name__!r}; expected a mapping with 'id'")
    for name in value:
        if name not in (*FIELDS, ASSIGNED):
            raise InputError(f"{place!r} has the unknown key {name!r}{name_hint(str(name), FIELDS)}")
    name, tenant, roles = value.get("id"), value.get("tenant"), value.get("roles")
    if not (isinstance(name, str) and name):
        raise InputError(f"'id' of {place!r} is {name!r}; expected a string that is not empty")
    if not (tenant is None or (isinstance(tenant, str) and tenant)):
        raise InputError(f"'tenant' of {place!r} is {tenant!r}; expected a string that is not empty")
    assigned = _roles(value.get(ASSIGNED, ()), place)
    return SessionPrincipal(name, None if roles is None else _roles(roles, place), tenant, assigned=assigned)


def _roles(value: Any, place: str) -> frozenset[str]:
    if not isinstance(value, list | tuple | set | frozenset) or not all(
        isinstance(role, str) and role for role in value
    ):
        raise InputError(f"'roles' of {place!r} is {value!r}; expected a list of strings")
    return frozenset(value)


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
    readable = {name: field for name, field in fields.items() if field is not _MISSING}
    return {**readable, **extra} if isinstance(extra, dict) else readable


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
    return [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else None


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
