"""The sessions of agents' hosts, stored so that every server can go on with them."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from guardagent.errors import InputError
from guardagent.server.access import Caller
from guardagent.server.service.attachments import ToolAttachment
from guardagent.server.service.errors import RequestConflictError, UnknownItemError
from guardagent.server.state import StateStore

SESSION = "session"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,199}")
_CACHED = 10_000


@dataclass(frozen=True, slots=True)
class HostSession:
    """A session of an agent's host. Only its status changes.

    Attributes:
        owner: the id of the caller that opened it.
        digest: the version of the policy under which it runs.
        principal: on whose behalf the agent acts, as rules read it.
        created: when it was opened, in seconds since the epoch.
        candidate: the id of the policy that judges it too, without effect; empty if there is none.
        status: `open`, or `ended`.
        verdict: the verdict on its end.
        number: grows from session to session; 0 until it is stored.
    """

    id: str
    tenant: str
    owner: str
    attachment: str
    policy: str
    digest: str
    principal: Mapping[str, Any]
    created: float
    candidate: str = ""
    status: str = "open"
    verdict: Mapping[str, Any] | None = None
    number: int = 0

    @property
    def conversation(self) -> str:
        """Its name in the ledger and in the log; no tenant has a slash, so two tenants never share one."""
        return f"{self.tenant}/{self.id}"

    @property
    def content(self) -> dict[str, Any]:
        """Its value in the store."""
        content = asdict(self)
        return {name: value for name, value in content.items() if name not in ("id", "tenant", "number")}


class HostSessions:
    """The sessions of all tenants. What never changes of a session is read once.

    Args:
        state: stores them.
    """

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._known: dict[tuple[str, str], HostSession] = {}

    def open(self, session: HostSession) -> HostSession:
        """Stores a new session. Returns the one that is there if the same caller has opened it alike.

        Raises:
            InputError: the id is invalid.
            RequestConflictError: another session has this id.
        """
        if not _ID.fullmatch(session.id):
            raise InputError(
                f"the session's id is {session.id[:80]!r}; expected up to 200 letters, digits and . _ : @ + -"
            )
        if self._state.add(SESSION, session.tenant, session.id, session.content):
            return session
        found = self.read(session.tenant, session.id)
        if _opening(found) != _opening(session):
            raise RequestConflictError(f"another session has the id {session.id!r}; expected a new id")
        return found

    def of_caller(self, caller: Caller, name: str) -> HostSession:
        """Returns a session of a caller, who opened it; its status may be outdated.

        Raises:
            UnknownItemError: the caller has no such session.
        """
        found = self.known(caller.tenant, name)
        if found.owner != caller.id:
            raise _unknown(name)
        return found

    def known(self, tenant: str, name: str) -> HostSession:
        """Returns a session of a tenant; its status may be outdated.

        Raises:
            UnknownItemError: the tenant has no such session.
        """
        found = self._known.get((tenant, name))
        if found is None:
            found = self.read(tenant, name)
            while len(self._known) >= _CACHED:
                self._known.pop(next(iter(self._known)), None)
            self._known[tenant, name] = found
        return found

    def read(self, tenant: str, name: str) -> HostSession:
        """Returns a session of a tenant with its current status.

        Raises:
            UnknownItemError: the tenant has no such session.
        """
        item = self._state.get(SESSION, tenant, name)
        if item is None:
            raise _unknown(name)
        return HostSession(name, tenant, number=item.number, **item.value)

    def end(self, session: HostSession, verdict: Mapping[str, Any]) -> HostSession:
        """Stores the end of a session. Returns it with the verdict of the server that ended it first."""
        item = self._state.get(SESSION, session.tenant, session.id)
        if item is None:
            raise _unknown(session.id)
        found = HostSession(session.id, session.tenant, number=item.number, **item.value)
        if found.status != "open":
            return found
        ended = replace(found, status="ended", verdict=verdict)
        stored = self._state.replace(SESSION, session.tenant, session.id, item.version, ended.content)
        return ended if stored else self.read(session.tenant, session.id)

    def page(self, tenant: str, before: int | None, limit: int) -> list[HostSession]:
        """Returns the newest sessions of a tenant, those with numbers below `before`."""
        items = self._state.page(SESSION, tenant, before, limit)
        return [HostSession(one.name, tenant, number=one.number, **one.value) for one in items]


def new_session(
    name: str, caller: Caller, attachment: ToolAttachment, digest: str, principal: Mapping[str, Any], candidate: str
) -> HostSession:
    """Returns a session that a caller opens."""
    about = (attachment.id, attachment.policy, digest, principal, time.time(), candidate)
    return HostSession(name, caller.tenant, caller.id, *about)


def _opening(session: HostSession) -> tuple[Any, ...]:
    return session.owner, session.attachment, session.policy, session.principal


def _unknown(name: str) -> UnknownItemError:
    return UnknownItemError(f"there is no session {name[:80]!r}; expected the id of a session that this caller opened")
