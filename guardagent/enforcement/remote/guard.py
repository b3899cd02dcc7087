"""A conversation as its host knows it: the permits of its calls, and the context that the host sends.

Its history is on the server. A permit is for one call that the server has allowed, once, for a limited time. The
context of a call is its facts, the state, and the user. An approver can wait for the reviewers of the server.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement.approval import Approval, ApprovalRequest
from guardagent.enforcement.calls import HostCall, hashable
from guardagent.enforcement.wire import write_value
from guardagent.errors import InputError, error_text
from guardagent.policy.views import HostView
from guardagent.types import EMPTY, freeze, thaw

_log = logging.getLogger("guardagent")


# --- permits

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
        timeout: the seconds for which the tool may run; None for any time.
        expires: when it expires, as of `time.monotonic`.
        used: whether the call has started.
    """

    tool: str
    args: Mapping[str, Any]
    server_id: str
    timeout: float | None = None
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

    def timeout(self, call: HostCall) -> float | None:
        """Returns the seconds for which the tool of a running call may run; None for any time."""
        with self._lock:
            return self._find(call, used=True).timeout

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
        fits = [
            (permit.tool == call.tool, hashable(freeze(permit.args)) == judged, permit.used is used) for permit in held
        ]
        return held[max(range(len(held)), key=lambda at: (*fits[at], at))]

    def _remove(self, call_id: str, permit: HeldPermit) -> None:
        self._of_calls[call_id].remove(permit)
        if not self._of_calls[call_id]:
            del self._of_calls[call_id]


# --- conversations

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,199}")
_HASHED = "sha256:"
MAX_PENDING = 1000
MAX_OUTCOMES = 100  # that a server takes with a check


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request that the server has to get before the next check; its key is the same in each attempt."""

    operation: str
    body: Mapping[str, Any]
    key: str = field(default_factory=lambda: secrets.token_hex(16))


@dataclass(slots=True, eq=False)
class RemoteConversation:
    """One conversation.

    Attributes:
        id: its id in the host.
        notes: data of the host's adapter.
        permits: the permits of the calls that may run.
        lock: held while the session is opened, and while pending requests are sent.
        opened: whether the server has its session.
        sends_soon: whether a timer will send what is pending.
        pending: requests that the server has to get before the next check, in their order.
        spent: how many ids of the server each id of a call has used up: hosts reuse ids, and the server does not.
        approvals: the digest of an escalated call -> the id of its approval on the server.
        host_requests: the digests of calls for which the host itself requests approval.
    """

    id: str
    notes: dict[Any, Any] = field(default_factory=dict)
    permits: HeldPermits = field(default_factory=HeldPermits)
    lock: threading.Lock = field(default_factory=threading.Lock)
    opened: bool = False
    sends_soon: bool = False
    pending: deque[PendingRequest] = field(default_factory=deque)
    spent: Counter[str] = field(default_factory=Counter)
    approvals: dict[str, str] = field(default_factory=dict)
    host_requests: set[str] = field(default_factory=set)

    @property
    def session(self) -> str:
        """The id of its session on the server: its own id, or a hash if the server takes no such id."""
        return session_name(self.id)

    def server_id(self, call_id: str) -> str:
        """Returns the id on the server of the next call with an id of the host."""
        spent = self.spent[call_id]
        return f"{call_id}~{spent + 1}" if spent else call_id

    def add_turn(self) -> None:
        """Adds a new user message; one before the next check is enough."""
        with contextlib.suppress(IndexError):  # another thread may have sent the last request
            if self.pending and self.pending[-1].operation == "turn":
                return
        self.add_pending("turn", {})

    def add_pending(self, operation: str, body: Mapping[str, Any]) -> bool:
        """Adds a request for the server. Returns false if there are too many, so that the oldest one was dropped."""
        fits = len(self.pending) < MAX_PENDING
        if not fits:
            with contextlib.suppress(IndexError):
                self.pending.popleft()
        self.pending.append(PendingRequest(operation, body))
        return fits

    def drop_pending(self, request: PendingRequest) -> None:
        """Removes a request that the server has got, unless it was dropped in the meantime."""
        with contextlib.suppress(ValueError):
            self.pending.remove(request)

    def has_only_outcomes(self) -> bool:
        """Whether all pending requests are outcomes, and no more than one request takes."""
        pending = list(self.pending)
        return len(pending) <= MAX_OUTCOMES and all(request.operation == "record" for request in pending)


class RemoteConversations:
    """The conversations by id. A forked process begins with none: permits of its parent are not valid in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._known: dict[str, RemoteConversation] = {}

    def of(self, name: Any) -> RemoteConversation:
        """Returns the conversation with this id.

        Raises:
            InputError: the id is missing.
        """
        if not isinstance(name, str) or not name:
            raise InputError(
                f"the conversation's id is {name!r}; expected a string; the host must name the conversation"
            )
        if self._process != os.getpid():
            self._lock, self._process, self._known = threading.Lock(), os.getpid(), {}
        with self._lock:
            return self._known.setdefault(name, RemoteConversation(name))

    def drop(self, name: str) -> None:
        with self._lock:
            self._known.pop(name, None)

    def all(self) -> list[RemoteConversation]:
        """Returns the conversations of this process."""
        with self._lock:
            return [] if self._process != os.getpid() else list(self._known.values())


def session_name(conversation: str) -> str:
    """Returns the id of a conversation's session on the server."""
    if _PLAIN.fullmatch(conversation) and not conversation.startswith(_HASHED):
        return conversation
    return f"{_HASHED}{hashlib.sha256(conversation.encode('utf-8', 'surrogatepass')).hexdigest()}"


# --- the context of a call


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The options of the host.

    Attributes:
        facts: the facts, or a function that returns them for a call.
        sent_state: the state, or a function that returns it for a conversation; None if the server has its own.
        on_behalf_of: the user, or a function that returns one for a conversation; None for the caller of the token.
        views: the functions that show calls to reviewers, by tool.
    """

    facts: Mapping[str, Any] | Callable[[HostCall], Mapping[str, Any]]
    sent_state: Any
    on_behalf_of: Mapping[str, Any] | Callable[[str], Mapping[str, Any] | None] | None
    views: Mapping[str, HostView] = field(default_factory=lambda: EMPTY)

    def of_call(self, call: HostCall) -> Mapping[str, Any]:
        """Returns the facts of a call.

        Raises:
            InputError: the host's function failed.
        """
        facts = _result("facts", self.facts, call)
        if not isinstance(facts, Mapping):
            raise InputError(f"the facts are a {type(facts).__name__}; expected a mapping of names to values")
        return facts

    def state(self, conversation: str) -> dict[str, Any]:
        """Returns the field of a request with the state; empty if the server has its own.

        Raises:
            InputError: the host's function failed, or the state is not JSON.
        """
        sent_state = _result("state", self.sent_state, conversation)
        return {} if self.sent_state is None else {"state": write_value(thaw(sent_state), "state")}

    def user(self, conversation: str) -> dict[str, Any]:
        """Returns the field of a request with the user; empty for the caller of the token.

        Raises:
            InputError: the host's function failed, or the user is not JSON.
        """
        principal = _result("user", self.on_behalf_of, conversation)
        return {} if principal is None else {"on_behalf_of": write_value(principal, "on_behalf_of")}


def _result(name: str, value: Any, about: Any) -> Any:
    if not callable(value):
        return value
    try:
        return value(about)
    except Exception as error:  # noqa: BLE001 - a host's function
        _log.error("the %s of the host is unavailable: %s", name, error_text(error))
        raise InputError(f"the {name} is unavailable: {type(error).__name__}") from None  # the model sees no more


# --- reviewers


@dataclass(frozen=True, slots=True)
class ReviewerWait:
    """An approver for `RemoteGuard`: the reviewers of its server, for whom a call waits."""

    seconds: float

    def __call__(self, _request: ApprovalRequest) -> Approval:
        """Rejects the call of any other guard, which has no server to wait for."""
        return Approval("reject", reason="only a RemoteGuard can wait for the reviewers of its server")


def wait_for_reviewers(seconds: float = 300.0) -> ReviewerWait:
    """Returns an approver with which an escalated call waits until reviewers on the server have answered.

    Args:
        seconds: the longest wait; a call without an answer is denied then.

    Raises:
        InputError: the time is invalid.
    """
    if type(seconds) not in (int, float) or not 0 < seconds <= 86_400:
        raise InputError(f"the wait for reviewers is {seconds!r}; expected seconds above 0 and up to 86400")
    return ReviewerWait(float(seconds))
