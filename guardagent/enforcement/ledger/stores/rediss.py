"""A ledger on a Redis server, over TLS."""

from __future__ import annotations

from guardagent.enforcement.ledger.redis import RedisLedger


def Store(rest: str) -> RedisLedger:  # noqa: N802 - stands for the class
    """Opens `rediss://…`."""
    return RedisLedger(rest, "rediss")
