"""The permits of the calls that the server has allowed here: each is for one call, once, for a limited time."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.conversations import hashable
from guardagent.errors import InputError
from guardagent.types import freeze, thaw

PERMIT_SECONDS = 300.0  # as of a session's permits


class PermitExpiredError(InputError):
    """A permit expired before it was used.

    Attributes:
        permit: the permit, which is no longer held.
    """

    def __init__(self, permit: HeldPermit) -> None:
        super().__init__(f"the permit of {permit.tool!r} has expired; propose the call again")
        self.permit = permit


@dataclass(slots=True, eq=False)
class HeldPermit:
    """The permit of one allowed call.

    Attributes:
        tool: the tool, by its name in the host.
        args: the arguments that were judged.
        server_id: the id of the call on the server.
        expires: when it expires, as of `time.monotonic`.
        used: whether the call has started.
    """

    tool: str
    args: Mapping[str, Any]
    server_id: str
    expires: float = field(default_factory=lambda: time.monotonic() + PERMIT_SECONDS)
    used: bool = False


class HeldPermits:
    """The permits of one conversation, by the host's ids of the calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_calls: dict[str, list[HeldPermit]] = {}

    def add(self, call_id: str, permit: HeldPermit) -> None:
        with self._lock:
            self._of_calls.setdefault(call_id, []).append(permit)

    def use(self, call: HostCall, args: Mapping[str, Any] | None) -> dict[str, Any]:
        """Uses the permit of a call. Returns the judged arguments.

        Raises:
            InputError: there is none, it was used or has expired, or it is for other arguments.
        """
        with self._lock:
            permit = self._find(call, used=False)
            if permit.used:
                raise InputError(f"the permit of {permit.tool!r} was used already; propose the call again")
            if time.monotonic() > permit.expires:
                self._remove(call.id, permit)
                raise PermitExpiredError(permit)
            if args is not None and hashable(freeze(args)) != hashable(freeze(permit.args)):
                raise InputError(f"{permit.tool!r} would get other arguments than the judged ones; propose it again")
            permit.used = True
        judged: dict[str, Any] = thaw(permit.args)
        return judged

    def take(self, call: HostCall, *, used: bool) -> HeldPermit:
        """Removes and returns the permit of a call that has ended, or that never runs.

        Args:
            call: the call.
            used: whether it has probably started.

        Raises:
            InputError: there is none.
        """
        with self._lock:
            permit = self._find(call, used=used)
            if permit.used and not used:
                raise InputError(f"{permit.tool!r} may be running; it is not withdrawn")
            self._remove(call.id, permit)
            return permit

    def remove(self, call_id: str, permit: HeldPermit) -> None:
        """Removes a permit, if it is held."""
        with self._lock:
            if permit in self._of_calls.get(call_id, ()):
                self._remove(call_id, permit)

    def _find(self, call: HostCall, *, used: bool) -> HeldPermit:
        """The permit that fits a call best, the newest of those: hosts reuse ids of calls."""
        held = self._of_calls.get(call.id)
        if not held:
            raise InputError(f"no call {call.id!r} is in flight in conversation {call.conversation!r}")
        judged = hashable(freeze(call.args)) if len(held) > 1 else None
        fits = [(one.tool == call.tool, hashable(freeze(one.args)) == judged, one.used is used) for one in held]
        return held[max(range(len(held)), key=lambda at: (*fits[at], at))]

    def _remove(self, call_id: str, permit: HeldPermit) -> None:
        self._of_calls[call_id].remove(permit)
        if not self._of_calls[call_id]:
            del self._of_calls[call_id]
