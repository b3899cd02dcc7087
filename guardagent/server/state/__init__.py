"""The state that servers share besides histories and counters: attachments, sessions, answers to repeated requests.

A store holds small JSON values by kind, tenant and name. The scheme of its address selects it, and its module is loaded
when it is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError

_PLACE = "guardagent.server.state"
STORES = Plugins(
    "store of a server's state",
    "",
    ("Store",),
    group="guardagent.states",
    members={
        "sqlite": f"{_PLACE}.tables:SqliteState",
        "postgresql": f"{_PLACE}.tables:PostgresState",
        "redis": f"{_PLACE}.redis:RedisState",
        "rediss": f"{_PLACE}.redis:open_with_tls",
    },
    adapt=lambda module: module.Store,
)
ADVICE = "continue with the release that created it, or begin a new one"


@dataclass(frozen=True, slots=True)
class StoredItem:
    """A value.

    Attributes:
        number: greater than those of all other items of the store when it was added.
        version: 1 at first, and one more after each change.
    """

    name: str
    value: Mapping[str, Any]
    number: int
    version: int


class StateStore(Protocol):
    """A store. Each method is atomic among all servers that share it, and raises StateError if it fails."""

    def add(self, kind: str, tenant: str, name: str, value: Mapping[str, Any]) -> bool:
        """Adds a value. Returns False if there is one with this name; nothing is changed."""

    def get(self, kind: str, tenant: str, name: str) -> StoredItem | None:
        """Returns the value with a name."""

    def replace(self, kind: str, tenant: str, name: str, version: int, value: Mapping[str, Any]) -> bool:
        """Changes a value. Returns False if it has another version, or is missing; nothing is changed."""

    def delete(self, kind: str, tenant: str, *names: str) -> None:
        """Deletes values, if they are there."""

    def page(self, kind: str, tenant: str, before: int | None, limit: int) -> list[StoredItem]:
        """Returns the newest values, those with numbers below `before`, in descending order."""

    def oldest(self, kind: str, tenant: str, after: int, limit: int) -> list[StoredItem]:
        """Returns the oldest values, those with numbers above `after`, in ascending order."""

    def tenants(self, kind: str) -> list[str]:
        """Returns the tenants that have values of a kind, or had some."""

    def close(self) -> None:
        """Closes the store; the next use opens it again."""


def open_state(address: str) -> StateStore:
    """Opens the store with an address: `sqlite:PATH`, `postgresql://…`, `redis://…` or that of another plug-in.

    Raises:
        InputError: the address is invalid, or the store cannot be opened.
    """
    scheme, colon, rest = address.partition(":")
    if not colon:
        raise InputError(f"the state is {address!r}; expected an address such as 'sqlite:server.db'")
    store: StateStore = STORES.load(scheme)(rest)
    return store
