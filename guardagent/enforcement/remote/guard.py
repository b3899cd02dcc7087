"""A conversation as its host knows it; its history is on the server."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import threading
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement.remote.held_permits import HeldPermits
from guardagent.errors import InputError

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,199}")
_HASHED = "sha256:"
MAX_PENDING = 1000


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


def session_name(conversation: str) -> str:
    """Returns the id of a conversation's session on the server."""
    if _PLAIN.fullmatch(conversation) and not conversation.startswith(_HASHED):
        return conversation
    return f"{_HASHED}{hashlib.sha256(conversation.encode('utf-8', 'surrogatepass')).hexdigest()}"
