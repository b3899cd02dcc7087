"""A permit: an allowed call, bound to everything that was judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Permit:
    """Permits one call. Any change voids it; it is used once, before the call runs.

    Attributes:
        policy: the digest of the policy.
        session: the id of the session.
        place: the place of the call in the history, from 1.
        expires: the expiry in seconds since the epoch.
        nonce: a secret random value.
    """

    tool: str
    args: Mapping[str, Any]
    policy: str
    session: str
    place: int
    expires: float
    nonce: str = field(repr=False)
