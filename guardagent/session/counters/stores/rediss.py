"""Counters on a Redis server, over TLS."""

from __future__ import annotations

from guardagent.session.counters import redis


def Store(rest: str) -> redis.Store:  # noqa: N802 - stands for the class
    """Opens `rediss://…`."""
    return redis.Store(rest, "rediss")
