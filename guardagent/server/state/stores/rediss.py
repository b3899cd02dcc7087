"""A server's state on a Redis server, over TLS."""

from __future__ import annotations

from guardagent.server.state import redis


def Store(rest: str) -> redis.RedisState:  # noqa: N802 - stands for the class
    """Opens `rediss://…`."""
    return redis.RedisState(rest, "rediss")
