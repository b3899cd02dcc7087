"""An adapter's notes on a conversation."""

from __future__ import annotations

from typing import Any

from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.enforcement_point import EnforcementPoint


def proposed_ids(guard: EnforcementPoint, conversation: str | None) -> set[str]:
    """Returns the ids of the calls that models proposed in a conversation."""
    known: set[str] = guard.notes(conversation).setdefault("proposed", set()) if conversation else set()
    return known


def paused_calls(guard: EnforcementPoint, conversation: str | None) -> dict[Any, HostCall]:
    """Returns the running calls of a conversation whose tools wait for a person."""
    known: dict[Any, HostCall] = guard.notes(conversation).setdefault("paused", {}) if conversation else {}
    return known
