"""A store of a server's state in a table of a database."""

from __future__ import annotations

import abc
import json
from collections.abc import Mapping, Sequence
from typing import Any

from guardagent.server.state.state_store import StoredItem

_COLUMNS = "name, value, number, version"


class TableState(abc.ABC):
    """A `StateStore` in the table `items`. Each statement is a transaction of its own."""

    @abc.abstractmethod
    def _run(self, query: str, parameters: Sequence[Any]) -> list[Any]:
        """Runs a statement and returns its rows."""

    def add(self, kind: str, tenant: str, name: str, value: Mapping[str, Any]) -> bool:
        query = """INSERT INTO items (kind, tenant, name, value, version) VALUES (?, ?, ?, ?, 1)
                   ON CONFLICT (kind, tenant, name) DO NOTHING RETURNING number"""
        return bool(self._run(query, (kind, tenant, name, json.dumps(value))))

    def get(self, kind: str, tenant: str, name: str) -> StoredItem | None:
        query = f"SELECT {_COLUMNS} FROM items WHERE kind = ? AND tenant = ? AND name = ?"  # noqa: S608
        rows = self._run(query, (kind, tenant, name))
        return _item(rows[0]) if rows else None

    def replace(self, kind: str, tenant: str, name: str, version: int, value: Mapping[str, Any]) -> bool:
        query = """UPDATE items SET value = ?, version = version + 1
                   WHERE kind = ? AND tenant = ? AND name = ? AND version = ? RETURNING number"""
        return bool(self._run(query, (json.dumps(value), kind, tenant, name, version)))

    def delete(self, kind: str, tenant: str, *names: str) -> None:
        if not names:
            return
        marks = ", ".join("?" * len(names))
        query = f"DELETE FROM items WHERE kind = ? AND tenant = ? AND name IN ({marks}) RETURNING number"  # noqa: S608
        self._run(query, (kind, tenant, *names))

    def page(self, kind: str, tenant: str, before: int | None, limit: int) -> list[StoredItem]:
        query = f"""SELECT {_COLUMNS} FROM items WHERE kind = ? AND tenant = ? AND number < ?
                    ORDER BY number DESC LIMIT ?"""  # noqa: S608
        last = 2**62 if before is None else before
        return [_item(row) for row in self._run(query, (kind, tenant, last, limit))]

    def oldest(self, kind: str, tenant: str, after: int, limit: int) -> list[StoredItem]:
        query = f"""SELECT {_COLUMNS} FROM items WHERE kind = ? AND tenant = ? AND number > ?
                    ORDER BY number LIMIT ?"""  # noqa: S608
        return [_item(row) for row in self._run(query, (kind, tenant, after, limit))]

    def tenants(self, kind: str) -> list[str]:
        query = """SELECT tenant FROM (
                     WITH RECURSIVE found(tenant) AS (  -- a look into the index for each tenant, whatever they store
                       SELECT min(tenant) FROM items WHERE kind = ?
                       UNION ALL
                       SELECT (SELECT min(tenant) FROM items WHERE kind = ? AND items.tenant > found.tenant)
                       FROM found WHERE found.tenant IS NOT NULL)
                     SELECT tenant FROM found) AS known WHERE tenant IS NOT NULL"""
        return [tenant for (tenant,) in self._run(query, (kind, kind))]


def _item(row: Sequence[Any]) -> StoredItem:
    name, value, number, version = row
    return StoredItem(name, json.loads(value), number, version)
