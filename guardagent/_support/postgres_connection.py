"""Connections to PostgreSQL on which every wait ends, also if the server hangs or the network drops packets."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

from guardagent._support.requirements import require
from guardagent._support.store_address import StoreAddress

require({"psycopg": "3.2"}, "postgres")

import psycopg  # noqa: E402

__all__ = ["PostgresConnection", "connect", "psycopg"]  # from here, its version is tested before it is imported

ANSWER_SECONDS = 20.0  # for each answer
_CONNECT_SECONDS = 5


class PostgresConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose operations raise `psycopg.OperationalError` after a time limit."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        return super().wait(_answers_within(gen, time.monotonic() + ANSWER_SECONDS), *args, **options)


def connect(address: StoreAddress) -> PostgresConnection:
    """Connects, in autocommit mode and without prepared statements, which some poolers lack.

    Raises:
        psycopg.Error: the server cannot be reached, or refuses.
    """
    defaults: dict[str, Any] = {
        "connect_timeout": _CONNECT_SECONDS,
        "application_name": "guardagent",
        "keepalives_idle": 10,
        "keepalives_interval": 3,
        "keepalives_count": 3,
        "tcp_user_timeout": int(ANSWER_SECONDS * 1000),
    }
    options = {**defaults, **psycopg.conninfo.conninfo_to_dict(address.url), "client_encoding": "utf8"}
    found = PostgresConnection.connect(autocommit=True, prepare_threshold=None, **options)
    assert isinstance(found, PostgresConnection)
    return found


def _answers_within(steps: Generator[Any, Any, Any], deadline: float) -> Generator[Any, Any, Any]:
    """Passes on the steps of an operation until a deadline."""
    try:
        state = next(steps)
        while True:
            ready = yield state
            if not ready and time.monotonic() >= deadline:
                raise psycopg.OperationalError(f"the server has not answered for {ANSWER_SECONDS:.0f} s")
            state = steps.send(ready)
    except StopIteration as end:
        return end.value
