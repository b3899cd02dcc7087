"""The state that servers share besides histories and counters: attachments, sessions, answers to repeated requests.

A store holds small JSON values by kind, tenant and name. The scheme of its address selects it, and its module is loaded
when it is opened.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from guardagent._support.plugins import Plugins
from guardagent._support.stores import SqliteFile, StoreFormat
from guardagent.errors import InputError, StateError

if TYPE_CHECKING:
    from guardagent._support.postgres import TableStore

_PLACE = "guardagent.server.state"
STORES = Plugins(
    "store of a server's state",
    "",
    ("Store",),
    group="guardagent.states",
    members={
        "sqlite": f"{_PLACE}:SqliteState",
        "postgresql": f"{_PLACE}:PostgresState",
        "redis": f"{_PLACE}.redis:RedisState",
        "rediss": f"{_PLACE}.redis:open_with_tls",
    },
    adapt=lambda module: module.Store,
)
NewItem = tuple[str, str, Mapping[str, Any]]
"""The kind, the name and the value of an item to be stored."""
ItemGroup = tuple[str, Sequence[NewItem]]
"""New items of a tenant that belong together."""
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

    def add_groups(self, groups: Sequence[ItemGroup]) -> list[bool]:
        """Adds groups of values, each as a whole. Returns for each whether its names were new; else it adds nothing."""

    def get(self, kind: str, tenant: str, name: str) -> StoredItem | None:
        """Returns the value with a name."""

    def versions(self, kind: str, tenant: str, names: Collection[str] | None = None) -> Mapping[str, int]:
        """Returns the versions of the values with these names, of those that there are; None for all names."""

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


# --- a table of a database: an SQLite file of one machine, or a PostgreSQL server of several

_COLUMNS = "name, value, number, version"
_ADD = """INSERT INTO items (kind, tenant, name, value, version) VALUES (?, ?, ?, ?, 1)
          ON CONFLICT (kind, tenant, name) DO NOTHING RETURNING number"""
_BATCH = 500  # names in one statement


class TableState:
    """A `StateStore` in the table `items`. Each statement is a transaction of its own.

    Args:
        tables: has the table.
        all_versions: the expression of an object of names and versions. The database makes it in a single step, in
            which other threads run: thousands of rows would each wait for them.
    """

    def __init__(self, tables: TableStore, all_versions: str) -> None:
        self._tables, self._all_versions = tables, all_versions

    def close(self) -> None:
        self._tables.close()

    def add(self, kind: str, tenant: str, name: str, value: Mapping[str, Any]) -> bool:
        return bool(self._tables.execute(_ADD, (kind, tenant, name, json.dumps(value))))

    def add_groups(self, groups: Sequence[ItemGroup]) -> list[bool]:
        added = []
        with self._tables.transaction("additions") as db:  # the lock, since each of them waits for equal names
            for tenant, items in groups:
                db.execute("SAVEPOINT items")
                rows = [(kind, tenant, name, json.dumps(value)) for kind, name, value in items]
                added.append(all(db.execute(_ADD, row).fetchall() for row in rows))
                db.execute("RELEASE SAVEPOINT items" if added[-1] else "ROLLBACK TO SAVEPOINT items")
        return added

    def get(self, kind: str, tenant: str, name: str) -> StoredItem | None:
        query = f"SELECT {_COLUMNS} FROM items WHERE kind = ? AND tenant = ? AND name = ?"  # noqa: S608
        rows = self._tables.repeatable(query, (kind, tenant, name))
        return _item(rows[0]) if rows else None

    def versions(self, kind: str, tenant: str, names: Collection[str] | None = None) -> Mapping[str, int]:
        if names is None:
            query = f"SELECT {self._all_versions} FROM items WHERE kind = ? AND tenant = ?"  # noqa: S608
            return dict(json.loads(self._tables.repeatable(query, (kind, tenant))[0][0] or "{}"))
        versions: dict[str, int] = {}
        listed = list(names)
        for some in (listed[at : at + _BATCH] for at in range(0, len(listed), _BATCH)):
            marks = ", ".join("?" * len(some))
            query = f"SELECT name, version FROM items WHERE kind = ? AND tenant = ? AND name IN ({marks})"  # noqa: S608
            versions.update(self._tables.repeatable(query, (kind, tenant, *some)))
        return versions

    def replace(self, kind: str, tenant: str, name: str, version: int, value: Mapping[str, Any]) -> bool:
        query = """UPDATE items SET value = ?, version = version + 1
                   WHERE kind = ? AND tenant = ? AND name = ? AND version = ? RETURNING number"""
        return bool(self._tables.execute(query, (json.dumps(value), kind, tenant, name, version)))

    def delete(self, kind: str, tenant: str, *names: str) -> None:
        if not names:
            return
        marks = ", ".join("?" * len(names))
        query = f"DELETE FROM items WHERE kind = ? AND tenant = ? AND name IN ({marks}) RETURNING number"  # noqa: S608
        self._tables.execute(query, (kind, tenant, *names))

    def page(self, kind: str, tenant: str, before: int | None, limit: int) -> list[StoredItem]:
        query = f"""SELECT {_COLUMNS} FROM items WHERE kind = ? AND tenant = ? AND number < ?
                    ORDER BY number DESC LIMIT ?"""  # noqa: S608
        last = 2**62 if before is None else before
        return [_item(row) for row in self._tables.repeatable(query, (kind, tenant, last, limit))]

    def oldest(self, kind: str, tenant: str, after: int, limit: int) -> list[StoredItem]:
        query = f"""SELECT {_COLUMNS} FROM items WHERE kind = ? AND tenant = ? AND number > ?
                    ORDER BY number LIMIT ?"""  # noqa: S608
        return [_item(row) for row in self._tables.repeatable(query, (kind, tenant, after, limit))]

    def tenants(self, kind: str) -> list[str]:
        query = """SELECT tenant FROM (
                     WITH RECURSIVE found(tenant) AS (  -- a look into the index for each tenant, whatever they store
                       SELECT min(tenant) FROM items WHERE kind = ?
                       UNION ALL
                       SELECT (SELECT min(tenant) FROM items WHERE kind = ? AND items.tenant > found.tenant)
                       FROM found WHERE found.tenant IS NOT NULL)
                     SELECT tenant FROM found) AS known WHERE tenant IS NOT NULL"""
        return [tenant for (tenant,) in self._tables.repeatable(query, (kind, kind))]


def _item(row: Sequence[Any]) -> StoredItem:
    name, value, number, version = row
    return StoredItem(name, json.loads(value), number, version)


# --- databases

_FORMAT = StoreFormat(
    "server's state",
    1,
    ADVICE,
    StateError,
    "guardagent_server",
    (
        """CREATE TABLE items (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kind text NOT NULL,
                           tenant text NOT NULL, name text NOT NULL, value text NOT NULL,
                           version bigint NOT NULL)""",
        "CREATE UNIQUE INDEX items_by_name ON items (kind, tenant, name)",
        "CREATE INDEX items_by_number ON items (kind, tenant, number)",
    ),
    (
        """CREATE TABLE items (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, tenant TEXT NOT NULL,
                               name TEXT NOT NULL, value TEXT NOT NULL, version INTEGER NOT NULL)""",
        "CREATE UNIQUE INDEX items_by_name ON items (kind, tenant, name)",
        "CREATE INDEX items_by_number ON items (kind, tenant, number)",
    ),
    creator="'guardagent serve'",
    application=0x47415353,
)


class SqliteState(TableState):
    """A `StateStore` in a file, which is created in an existing folder. Its address is `sqlite:PATH`.

    Raises:
        InputError: the file cannot be opened, holds something else, or belongs to another release.
    """

    def __init__(self, path: Path | str) -> None:
        super().__init__(SqliteFile(Path(path), _FORMAT), "json_group_object(name, version)")


class PostgresState(TableState):
    """A `StateStore` in a database schema. Its address is `postgresql://user@host/database`.

    Raises:
        InputError: as `PostgresServer`.
    """

    def __init__(self, rest: str) -> None:
        from guardagent._support.postgres import PostgresServer  # here: requires psycopg

        super().__init__(PostgresServer(rest, _FORMAT), "json_object_agg(name, version)::text")
