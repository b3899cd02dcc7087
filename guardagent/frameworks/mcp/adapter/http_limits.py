"""Limits on the clients of the proxy."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from guardagent.errors import InputError


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits on the clients of the proxy.

    Attributes:
        sessions: the open sessions. Each has a server of its own.
        sessions_per_caller: those of one caller, where callers are known.
        requests: the requests in flight.
        body: the bytes of a request.
        receive_seconds: the time in which a whole request arrives; a silent connection is closed after it.
        idle_seconds: the time after which a session without requests ends.

    Raises:
        InputError: a limit is not positive.
    """

    sessions: int = 1000
    sessions_per_caller: int = 100
    requests: int = 1000
    body: int = 4 * 1024 * 1024
    receive_seconds: float = 30.0
    idle_seconds: float = 1800.0

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not 0 < value < math.inf:
                name = one.name.replace("_", " ")
                raise InputError(f"the limit of the {name} is {value!r}; expected a positive number")
