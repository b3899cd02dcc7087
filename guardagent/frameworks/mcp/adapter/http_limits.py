"""Limits on the clients of the proxy."""

from __future__ import annotations

from dataclasses import dataclass

from guardagent._support.http import RequestLimits


@dataclass(frozen=True, slots=True)
class HttpLimits(RequestLimits):
    """Limits on the clients of the proxy.

    Attributes:
        sessions: the open sessions. Each has a server of its own.
        sessions_per_caller: those of one caller, where callers are known.
        idle_seconds: the time after which a session without requests ends.
    """

    sessions: int = 1000
    sessions_per_caller: int = 100
    idle_seconds: float = 1800.0
