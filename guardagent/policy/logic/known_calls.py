"""Properties of a policy that judged calls have shown, so that no proof needs to look for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownCalls:
    """Facts about a policy that judged calls have shown.

    Attributes:
        allowed: the tools with a call that all rules together allow as the first one of a session.
        violated: the ids of the rules that a call, or the end of a session, violates.
    """

    allowed: frozenset[str] = frozenset()
    violated: frozenset[str] = frozenset()

    @classmethod
    def of(cls, allowed: Iterable[str], violated: Iterable[str]) -> KnownCalls:
        return cls(frozenset(allowed), frozenset(violated))


NOTHING_KNOWN = KnownCalls()
