"""Limits on the clients of a server."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from guardagent.errors import InputError


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits on the clients of a server.

    Attributes:
        requests: the requests in flight.
        body: the bytes of a request.
        receive_seconds: the time in which a whole request arrives; a silent connection is closed after it.

    Raises:
        InputError: a limit is not positive.
    """

    requests: int = 1000
    body: int = 4 * 1024 * 1024
    receive_seconds: float = 30.0

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not 0 < value < math.inf:
                name = one.name.replace("_", " ")
                raise InputError(f"the limit of the {name} is {value!r}; expected a positive number")
