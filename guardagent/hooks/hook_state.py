"""Calls that wait for a person who answers in `guardagent watch`, in the state that all hooks of a user share."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from guardagent.errors import InputError
from guardagent.server.state import StateStore
from guardagent.types import thaw

Status = Literal["pending", "approved", "rejected", "used", "expired"]
SECONDS = 3600.0
"""How long a request waits, and how long an approval lasts."""
_ASK, _ASK_TENANT = "ask", ""


@dataclass(frozen=True, slots=True)
class PendingAsk:
    """A call that a rule escalated. An approval is for this call alone, once: same session, tool and arguments.

    Attributes:
        name: identifies it.
        since: in seconds since the epoch.
    """

    name: str
    host: str
    session: str
    tool: str
    args: Mapping[str, Any]
    reasons: tuple[str, ...]
    since: float
    status: Status = "pending"


class PendingAsks:
    """Stores them.

    Args:
        state: the store.
        clock: returns the seconds since the epoch.
    """

    def __init__(self, state: StateStore, clock: Callable[[], float] = time.time) -> None:
        self._state, self._clock = state, clock

    def request(self, host: str, session: str, tool: str, args: Mapping[str, Any], reasons: tuple[str, ...]) -> None:
        """Adds a request, unless it is there."""
        name = _name(host, session, tool, args)
        new = PendingAsk(name, host, session, tool, thaw(args), reasons, self._clock())
        if not self._state.add(_ASK, _ASK_TENANT, name, _content(new)):
            found, version = self._find(name)
            if found is not None and found.status in ("used", "expired"):
                self._state.replace(_ASK, _ASK_TENANT, name, version, _content(new))

    def answer_of(self, host: str, session: str, tool: str, args: Mapping[str, Any]) -> PendingAsk | None:
        """Returns the request for a call; None if there is none."""
        return self._find(_name(host, session, tool, args))[0]

    def use(self, name: str) -> bool:
        """Uses an approval, once. Returns whether it was there to be used."""
        found, version = self._find(name)
        if found is None or found.status != "approved":
            return False
        return self._state.replace(_ASK, _ASK_TENANT, name, version, _content(replace(found, status="used")))

    def answer(self, name: str, *, approves: bool) -> None:
        """Records the answer of a person.

        Raises:
            InputError: the request is not pending any more.
        """
        found, version = self._find(name)
        status: Status = "approved" if approves else "rejected"
        if found is None or found.status != "pending":
            raise InputError(f"the request is {'gone' if found is None else found.status}; nothing was changed")
        answered = replace(found, status=status, since=self._clock())
        if not self._state.replace(_ASK, _ASK_TENANT, name, version, _content(answered)):
            raise InputError("the request was answered at this moment; nothing was changed")

    def pending(self) -> list[PendingAsk]:
        """Returns the requests that wait, the newest first."""
        found = [self._current(one.name, one.value) for one in self._state.page(_ASK, _ASK_TENANT, None, 200)]
        return [one for one in found if one.status == "pending"]

    def delete_old(self, seconds: Callable[[PendingAsk], float]) -> None:
        """Deletes the requests that are older than a time that depends on them."""
        last, now = 0, self._clock()
        while page := self._state.oldest(_ASK, _ASK_TENANT, last, 200):
            last = page[-1].number
            found = [self._current(one.name, one.value) for one in page]
            self._state.delete(_ASK, _ASK_TENANT, *(one.name for one in found if now - one.since > seconds(one)))

    def _find(self, name: str) -> tuple[PendingAsk | None, int]:
        item = self._state.get(_ASK, _ASK_TENANT, name)
        return (None, 0) if item is None else (self._current(name, item.value), item.version)

    def _current(self, name: str, value: Mapping[str, Any]) -> PendingAsk:
        found = PendingAsk(name, **{**value, "reasons": tuple(value["reasons"])})
        is_late = self._clock() - found.since > SECONDS and found.status != "used"
        return replace(found, status="expired") if is_late else found


def _name(host: str, session: str, tool: str, args: Mapping[str, Any]) -> str:
    text = json.dumps([host, session, tool, thaw(args)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _content(ask: PendingAsk) -> dict[str, Any]:
    content = asdict(ask)
    del content["name"]
    return content
