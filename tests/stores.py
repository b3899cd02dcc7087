"""Ledgers and stores of counters of each kind, for the tests that all of them pass.

PostgreSQL and Redis are those at `GUARDAGENT_TEST_POSTGRES` and `GUARDAGENT_TEST_REDIS`, or at their usual ports.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guardagent._support.plugins import Plugins
from guardagent.enforcement.ledger import LEDGERS, Ledger
from guardagent.session.counters import STORES, CounterStore

POSTGRES = os.environ.get("GUARDAGENT_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
REDIS = os.environ.get("GUARDAGENT_TEST_REDIS", "redis://127.0.0.1:6379/0?durability=unchecked")
SERVERS = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("postgresql", "redis")]
SHARED = ["sqlite", *SERVERS]


def kinds(stores: Plugins) -> list[Any]:
    """Returns each shipped kind of store, for the tests of all; those on a server are slow."""
    return [*(kind for kind in stores.shipped() if kind not in ("postgresql", "redis", "rediss")), *SERVERS]


@contextlib.contextmanager
def store_address(kind: str, folder: Path) -> Iterator[str]:
    """Yields the address of a new store, which is deleted at the end; skips the test if there is no server."""
    name = f"test_{secrets.token_hex(8)}"
    if kind == "postgresql":
        with contextlib.closing(postgres(POSTGRES)) as db:
            yield f"{POSTGRES}{'&' if '?' in POSTGRES else '?'}schema={name}"
            db.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
    elif kind == "redis":
        with contextlib.closing(redis_client(REDIS)) as client:
            yield f"{REDIS}{'&' if '?' in REDIS else '?'}prefix={name}"
            for key in client.scan_iter(match=f"{name}:*", count=1000):
                client.delete(key)
    else:
        yield f"{kind}:{folder / name}.db"


def new_ledger(address: str) -> Ledger:
    """Opens a ledger as a new process does."""
    scheme, _, rest = address.partition(":")
    return LEDGERS.load(scheme)(rest)  # type: ignore[no-any-return]


def new_counters(address: str) -> CounterStore:
    """Opens a store of counters as a new process does."""
    scheme, _, rest = address.partition(":")
    return STORES.load(scheme)(rest)  # type: ignore[no-any-return]


@contextlib.contextmanager
def unavailable(address: str) -> Iterator[None]:
    """Takes a store away, and brings it back at the end."""
    name = address.rpartition("=")[2]
    if address.startswith("postgresql:"):
        with contextlib.closing(postgres(POSTGRES)) as db:
            db.execute(f"ALTER SCHEMA {name} RENAME TO {name}_aside")
            yield
            db.execute(f"ALTER SCHEMA {name}_aside RENAME TO {name}")
    elif address.startswith("redis:"):
        with contextlib.closing(redis_client(REDIS)) as client:
            client.rename(f"{name}:store", f"{name}:aside")
            yield
            client.rename(f"{name}:aside", f"{name}:store")
    else:
        path = Path(address.partition(":")[2])
        aside = path.rename(path.with_suffix(".aside"))
        yield
        aside.rename(path)


def content(address: str) -> str:
    """Returns all that a ledger stores, as text."""
    name = address.rpartition("=")[2]
    if address.startswith("postgresql:"):
        with contextlib.closing(postgres(POSTGRES)) as db:
            tables = ("ledger", "questions", "used", "entries", "proposed")
            return str([db.execute(f"SELECT * FROM {name}.{table}").fetchall() for table in tables])  # noqa: S608
    if address.startswith("redis:"):
        with contextlib.closing(redis_client(REDIS)) as client:
            return str([(key, client.dump(key)) for key in client.scan_iter(match=f"{name}:*")])
    import sqlite3

    with sqlite3.connect(address.partition(":")[2]) as file:
        return "\n".join(file.iterdump())


def postgres(address: str) -> Any:
    """Returns a connection to a server."""
    psycopg = pytest.importorskip("psycopg")
    try:
        return psycopg.connect(address, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL at GUARDAGENT_TEST_POSTGRES: {error}")


def redis_client(address: str) -> Any:
    """Returns a client of a server."""
    redis = pytest.importorskip("redis")
    client = redis.Redis.from_url(address.partition("?")[0], socket_timeout=3)
    try:
        client.ping()
    except redis.RedisError as error:
        pytest.skip(f"no Redis at GUARDAGENT_TEST_REDIS: {error}")
    return client
