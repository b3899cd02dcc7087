"""Permits: an allowed call, bound to all that was judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Permit:
    """Names one allowed call. Changing any of it voids it; it is used once, before the call runs.

    Attributes:
        policy: the digest of the policy that allowed it.
        session: the session's id.
        place: the call's place in the session's history, from 1.
        expires: seconds since the epoch.
        nonce: known to no one else.
    """

    tool: str
    args: Mapping[str, Any]
    policy: str
    session: str
    place: int
    expires: float
    nonce: str = field(repr=False)
