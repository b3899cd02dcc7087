"""A server's state on a Redis server that several machines share.

last                          hash: the number of the newest item
item:KIND:LENGTH:TENANT:NAME  hash: value, number, version
items:KIND:TENANT             sorted set: the names of the items by their numbers
tenants:KIND                  set: the tenants with items
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from guardagent._support.redis import Command, RedisServer
from guardagent._support.stores import StoreFormat
from guardagent.errors import StateError
from guardagent.server.state import ADVICE, ItemGroup, NewItem, StoredItem

MAX_TRIES = 100  # while other servers add items
_FORMAT = StoreFormat("server's state", 1, ADVICE, StateError, "guardagent_server")


class RedisState:
    """A `StateStore` on a Redis server. Its address is `redis://user:password@host/0`, or `rediss://…` with TLS.

    Raises:
        InputError: as `RedisServer`.
    """

    def __init__(self, rest: str, scheme: str = "redis") -> None:
        self._server = RedisServer(scheme, rest, _FORMAT)
        self._last = self._server.key("last")

    def add(self, kind: str, tenant: str, name: str, value: Mapping[str, Any]) -> bool:
        return self._add(tenant, [(kind, name, value)])

    def add_groups(self, groups: Sequence[ItemGroup]) -> list[bool]:
        return [self._add(tenant, items) for tenant, items in groups]

    def _add(self, tenant: str, items: Sequence[NewItem]) -> bool:
        keys = [self._key(kind, tenant, name) for kind, name, _ in items]
        for _ in range(MAX_TRIES):
            last, *exist = self._server.read(("HGET", self._last, "number"), *(("EXISTS", key) for key in keys))
            if any(exist):
                return False
            number, writes = int(last or 0), list[Command]()
            for key, (kind, name, value) in zip(keys, items, strict=True):
                number += 1
                writes += [
                    ("HSET", key, "value", json.dumps(value), "number", number, "version", 1),
                    ("ZADD", self._items(kind, tenant), number, name),
                    ("SADD", self._server.key("tenants", kind), tenant),
                ]
            writes.append(("HSET", self._last, "number", number))
            unknown = [(key, "number", None) for key in keys]
            failed = self._server.commit([*unknown, (self._last, "number", last)], writes)
            if not failed:
                return True
            if failed <= len(keys):
                return False
        raise StateError("other servers kept adding to the state; nothing was added; try again")

    def get(self, kind: str, tenant: str, name: str) -> StoredItem | None:
        (fields,) = self._server.read(("HMGET", self._key(kind, tenant, name), "value", "number", "version"))
        return _item(name, fields)

    def versions(self, kind: str, tenant: str, names: Collection[str] | None = None) -> Mapping[str, int]:
        if names is None:
            (names,) = self._server.read(("ZRANGE", self._items(kind, tenant), 0, -1))
        reads = [("HGET", self._key(kind, tenant, name), "version") for name in names]
        replies = self._server.read(*reads) if reads else []
        return {name: int(version) for name, version in zip(names, replies, strict=True) if version is not None}

    def replace(self, kind: str, tenant: str, name: str, version: int, value: Mapping[str, Any]) -> bool:
        key = self._key(kind, tenant, name)
        write = ("HSET", key, "value", json.dumps(value), "version", version + 1)
        return not self._server.commit([(key, "version", str(version))], [write])

    def delete(self, kind: str, tenant: str, *names: str) -> None:
        if names:
            keys = [self._key(kind, tenant, name) for name in names]
            self._server.commit([], [("DEL", *keys), ("ZREM", self._items(kind, tenant), *names)])

    def page(self, kind: str, tenant: str, before: int | None, limit: int) -> list[StoredItem]:
        top = "+inf" if before is None else f"({before}"
        range_of = ("ZREVRANGEBYSCORE", self._items(kind, tenant), top, "-inf", "LIMIT", 0, limit)
        return self._read(kind, tenant, range_of)

    def oldest(self, kind: str, tenant: str, after: int, limit: int) -> list[StoredItem]:
        range_of = ("ZRANGEBYSCORE", self._items(kind, tenant), f"({after}", "+inf", "LIMIT", 0, limit)
        return self._read(kind, tenant, range_of)

    def tenants(self, kind: str) -> list[str]:
        (tenants,) = self._server.read(("SMEMBERS", self._server.key("tenants", kind)))
        return sorted(tenants)

    def _read(self, kind: str, tenant: str, range_of: tuple[Any, ...]) -> list[StoredItem]:
        (names,) = self._server.read(range_of)
        reads = [("HMGET", self._key(kind, tenant, name), "value", "number", "version") for name in names]
        replies = self._server.read(*reads) if reads else []
        items = [_item(name, reply) for name, reply in zip(names, replies, strict=True)]
        return [item for item in items if item is not None]

    def close(self) -> None:
        self._server.close()

    def _key(self, kind: str, tenant: str, name: str) -> str:
        return self._server.key("item", kind, str(len(tenant)), tenant, name)  # no two items share a key

    def _items(self, kind: str, tenant: str) -> str:
        return self._server.key("items", kind, tenant)


open_with_tls = partial(RedisState, scheme="rediss")


def _item(name: str, fields: Any) -> StoredItem | None:
    value, number, version = fields
    return None if value is None else StoredItem(name, json.loads(value), int(number), int(version))
