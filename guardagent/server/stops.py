"""The stops of a server, which all servers with the same state share.

They are entries of a history in the ledger. A commit that places a call holds only if this history is as the server
knows it, so no server allows a call after a stop was committed, and none has to ask for stops before a check.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from guardagent.enforcement.audit_records import add_event
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.ledger.history import FinalLedger
from guardagent.enforcement.ledger.staging import staged
from guardagent.enforcement.stops import GUARD, CallPlace, Stop, new_stop, tools_of
from guardagent.enforcement.wire.values import WireError, WireField, WireShape
from guardagent.errors import GuardError, LedgerError, name_hint
from guardagent.log import AuditLog
from guardagent.policy.language.values import duration_of
from guardagent.server.access import EVERY_TENANT, Caller
from guardagent.server.approvals import ApprovalDesk
from guardagent.server.service import RequestConflictError, UnknownItemError
from guardagent.server.service.guards import GuardCache, HostSession, HostSessions
from guardagent.session.calls import HistoryChangedError

JSON = dict[str, Any]
MAX_SESSIONS = 500  # open ones whose calls in flight a stop lists
_HISTORY = "stops"  # no session has this name: those have a slash
_RACES = 20
_NOT_MIGRATED = "the policy has changed, and the session has not been taken over to the new version"


class StopBook:
    """The stops of all tenants.

    Args:
        ledger: the histories of the sessions.
        session_of: returns a session by tenant and id.
        log: returns the log of a tenant.
        clock: returns the seconds since the epoch.
    """

    def __init__(
        self,
        ledger: FinalLedger,
        session_of: Callable[[str, str], HostSession],
        log: Callable[[str], AuditLog],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ledger, self._session_of, self._log, self._clock = ledger, session_of, log, clock
        self._known: tuple[int, Mapping[str, Stop]] = 0, {}  # the place of the last entry, and the stops by id
        self._problems: dict[str, str] = {}  # conversation -> why it cannot go on under another version
        self._lock = threading.Lock()
        ledger.watch(_HISTORY)

    def covering(self, call: HostCall, tools: Callable[[], frozenset[str]]) -> Stop | None:
        """As of `Stops`, of the stops that `migration` has read, which comes before each operation of a session."""
        place, stops = self._known
        self._ledger.saw_watched(place)
        if not stops:
            return None
        tenant, _, name = str(call.conversation).partition("/")
        session = self._session_of(tenant, name)
        agents = frozenset({session.owner, *([] if call.agent is None else [call.agent])})
        call_place = CallPlace(tenant, agents, name, tools(), session.policy, session.digest, session.created)
        now, migration = self._clock(), self._migration(session)
        live = (stop for stop in stops.values() if not stop.migrates or stop is migration)
        covering = next((stop for stop in live if stop.covers(call_place, now)), None)
        if covering is None or covering is not migration:
            return covering
        why = self._problems.get(session.conversation, "propose the call again")
        return replace(covering, reason=f"{covering.reason}: {why}")

    def migration(self, session: HostSession) -> Stop | None:
        """Returns the stop under which a session is until it goes on under another version of its policy, if any.

        Raises:
            LedgerError: the ledger cannot be read; or the operation is staged, and the session has to go on first.
        """
        if (operation := staged()) is None:
            self._refresh()
        stop, now = self._migration(session), self._clock()
        if stop is None or not stop.is_of_earlier(session.policy, session.digest, session.created):
            return None
        if stop.until is not None and now >= stop.until:
            return None
        if operation is not None:
            operation.fits = False
            raise LedgerError("the session has to go on under another version of its policy first")
        return stop

    def _migration(self, session: HostSession) -> Stop | None:
        """The newest stop of a session's policy that lets sessions go on under the version that it names.

        None for a session that has begun under a version that came into force after it.
        """
        newest = None
        for stop in self._known[1].values():  # in the order of the ledger
            if stop.policy != session.policy or stop.tenant not in (None, session.tenant):
                continue
            if stop.migrates:
                newest = stop
            elif newest is not None and stop.version == session.digest and session.created >= newest.since:
                newest = None
        return newest

    def stays(self, session: HostSession, why: str) -> None:
        """Notes why a session cannot go on, for the reason of its denials."""
        while len(self._problems) >= MAX_SESSIONS:
            self._problems.pop(next(iter(self._problems)), None)
        self._problems[session.conversation] = why

    def halt_tool(self, call: HostCall, tool: str, why: str) -> Stop:
        """As of `Stops`; the log of the tenant has it.

        Raises:
            LedgerError: as `add`; or the operation is staged, and has to be carried out by itself.
        """
        if (operation := staged()) is not None:
            operation.fits = False
            raise LedgerError("a stop is made at once")
        tenant = str(call.conversation).partition("/")[0]
        stop = new_stop(why, GUARD, {"tenant": tenant, "tool": tool}, clock=self._clock)
        self.add(stop)
        self._log(tenant).append({"kind": "stop", "stop": stop.id, "by": stop.by, "why": stop.reason, **stop.named})
        return stop

    def add(self, stop: Stop) -> None:
        """Makes a stop. When this returns, no server allows a call that it covers.

        Raises:
            LedgerError: the ledger fails; the stop may be in force.
        """
        self._append({"stop": stop.json})
        self._ledger.settle()

    def lift(self, tenant: str | None, name: str, by: str) -> Stop:
        """Lifts a stop, and returns it.

        Args:
            tenant: the tenant whose stops may be lifted; None for those of all.
            name: the id of the stop.
            by: the id of the person.

        Raises:
            UnknownItemError: there is no such stop, or it was lifted.
        """
        stop = next((stop for stop in self.page(tenant) if stop.id == name), None)
        if stop is None or (tenant is not None and stop.tenant != tenant):
            raise UnknownItemError(f"there is no stop {name[:80]!r} that the caller may lift")
        self._append({"lifted": name, "by": by, "at": self._clock()})
        return stop

    def page(self, tenant: str | None) -> list[Stop]:
        """Returns the stops that concern a tenant, or all of them, the newest first; neither lifted nor over."""
        self._refresh()
        now = self._clock()
        live = (stop for stop in self._known[1].values() if stop.until is None or now < stop.until)
        return sorted(
            (stop for stop in live if tenant is None or stop.tenant in (None, tenant)), key=lambda stop: -stop.since
        )

    def in_flight(self, conversation: str) -> list[dict[str, Any]]:
        """Returns the calls of a session that were allowed and have not ended as far as it knows, as its history has.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        calls: dict[int, dict[str, Any]] = {}
        count = 0
        for _, _, text in self._ledger.entries(conversation, 0):
            entry = {} if text is None else json.loads(text)
            if "placed" in entry:
                count += 1
                calls[count] = entry["placed"]
            elif "settled" in entry:
                calls.pop(entry["settled"], None)
        return [*calls.values()]

    def _append(self, entry: dict[str, Any]) -> None:
        for _ in range(_RACES):
            place = self._known[0] + 1
            try:
                self._ledger.append(_HISTORY, place, "", json.dumps({**entry, "at": self._clock()}), None)
            except HistoryChangedError:
                self._refresh()
                continue
            self._refresh()
            return
        raise RequestConflictError("the stops change all the time; try again")

    def _refresh(self) -> None:
        """Reads what any server has added since."""
        news = self._ledger.entries(_HISTORY, self._known[0])  # without the lock: a check does not wait for others
        if not news:
            return
        with self._lock:
            known, stops = self._known[0], dict(self._known[1])
            for place, _, text in news:
                if place <= known:  # another thread has read it
                    continue
                if place != known + 1 or text is None:
                    raise LedgerError("the ledger has lost a stop; restore it from a backup")
                known, entry = place, json.loads(text)
                if "stop" in entry:
                    stop = Stop.of(entry["stop"])
                    stops = {name: other for name, other in stops.items() if not _replaces(stop, other)}
                    stops[stop.id] = stop
                else:
                    stops.pop(entry["lifted"], None)
            self._known = known, stops


def _replaces(stop: Stop, other: Stop) -> bool:
    """Whether all that a stop covers is covered by a later one, which lets it go on under a later version."""
    is_same = stop.policy == other.policy and stop.tenant in (None, other.tenant)
    return stop.migrates and other.migrates and is_same


def seconds_of(value: Any, where: str) -> Any:
    """Reads a duration such as `30m`, or seconds.

    Raises:
        WireError: it is neither.
    """
    seconds = duration_of(value.strip()) if isinstance(value, str) else value
    if seconds is None:
        raise WireError(where, f"is {value[:40]!r}; expected a duration such as 30m, or seconds")
    return float(seconds) if isinstance(value, str) else seconds


STOP = WireShape(
    reason=WireField(str),
    tenant=WireField(str, None),
    agent=WireField(str, None),
    session=WireField(str, None),
    tool=WireField(str, None),
    **{"for": WireField(None, None, seconds_of, {"type": ["string", "number", "null"]})},
)


class StopDesk:
    """Makes and lifts stops for people.

    Args:
        book: the stops.
        sessions, guards, approvals: those of the server.
        log: returns the log of a tenant.
    """

    def __init__(
        self,
        book: StopBook,
        sessions: HostSessions,
        guards: GuardCache,
        approvals: ApprovalDesk,
        log: Callable[[str], AuditLog],
    ) -> None:
        self._book, self._sessions, self._guards, self._approvals, self._log = book, sessions, guards, approvals, log

    def stop(self, caller: Caller, body: Any) -> JSON:
        """Stops calls: when it returns, no server allows a call that the stop names.

        Returns:
            The stop, the calls that were allowed before and may still run (`in_flight`; `complete` unless there are too
            many sessions), the number of requests for approval that are `void` from now on, and what is `unknown`: the
            problem of a session or a tool that nobody has now.

        Raises:
            InputError: the body is invalid.
            UnknownItemError: the caller may not see the tenant.
            GuardError: a store fails; the stop may be in force.
        """
        fields = STOP.read(body)
        named = {name: fields[name] for name in ("tenant", "agent", "session", "tool")}
        if caller.tenant != EVERY_TENANT:
            if named["tenant"] not in (None, caller.tenant):
                raise UnknownItemError("there is no such tenant")
            named["tenant"] = caller.tenant
        return self._made(new_stop(fields["reason"], caller.id, named, seconds=fields["for"]))

    def stop_earlier(self, caller: Caller, policy: str, version: str, *, migrates: bool) -> JSON:
        """Stops the sessions of a policy that run under another version of it; returns as `stop`.

        With `migrates`, a session goes on once its history was replayed under the version.
        """
        tenant = None if caller.tenant == EVERY_TENANT else caller.tenant
        named = {"tenant": tenant, "policy": policy, "version": version}
        reason = _NOT_MIGRATED if migrates else "the policy has changed; begin a new session"
        return self._made(new_stop(reason, caller.id, named, migrates=migrates))

    def note_later(self, caller: Caller, policy: str, version: str) -> None:
        """Notes a version for new sessions, so that no stop before takes them to the version that it names."""
        tenant = None if caller.tenant == EVERY_TENANT else caller.tenant
        named = {"tenant": tenant, "policy": policy, "version": version}
        later = new_stop("a later version", caller.id, named, seconds=1e-6)  # over at once
        if any(stop.migrates and stop.is_of_earlier(policy, version, later.since) for stop in self._book.page(None)):
            self._book.add(later)

    def _made(self, stop: Stop) -> JSON:
        self._book.add(stop)
        add_event("stop", {"stop": stop.id, "by": stop.by, **stop.named})
        json: JSON = {**stop.json, "in_flight": [], "complete": True, "void": 0, "unknown": []}
        sessions: list[HostSession] = []
        for tenant in self._tenants_of(stop):
            self._log(tenant).append({"kind": "stop", "stop": stop.id, "by": stop.by, "why": stop.reason, **stop.named})
            covered, further = self._sessions.search(tenant, None, MAX_SESSIONS, partial(_is_open_under, stop))
            json["complete"] &= further is None
            sessions += covered
            for session in covered:
                calls = self._book.in_flight(session.conversation)
                json["in_flight"] += [_call_of(session, call) for call in calls if self._names(stop, session, call)]
            json["void"] += self._approvals.end(tenant, partial(self._is_void, stop, tenant))
        if json["complete"]:
            json["unknown"] += self._unknown(stop, sessions)
        return json

    def _unknown(self, stop: Stop, sessions: Iterable[HostSession]) -> Iterator[str]:
        """Yields what a stop names and no open session has."""
        alike = {(session.tenant, session.attachment, session.policy, session.digest): session for session in sessions}
        if stop.session is not None and not alike:
            yield f"no open session has the id {stop.session!r}"
        elif stop.tool is not None:
            try:
                known = frozenset[str]().union(*map(self._guards.tools, alike.values()))
            except GuardError:  # a version is unknown here, and so are its tools
                return
            if stop.tool not in known:
                yield f"no open session that it may cover has the tool {stop.tool!r}{name_hint(stop.tool, known)}"

    def lift(self, caller: Caller, name: str) -> JSON:
        """Lifts a stop.

        Raises:
            UnknownItemError: there is no such stop, or the caller may not lift it.
        """
        stop = self._book.lift(None if caller.tenant == EVERY_TENANT else caller.tenant, name, caller.id)
        add_event("stop_lifted", {"stop": stop.id, "by": caller.id, **stop.named})
        for tenant in self._tenants_of(stop):
            self._log(tenant).append({"kind": "stop_lifted", "stop": stop.id, "by": caller.id, **stop.named})
        return {"id": stop.id, "lifted": True}

    def page(self, tenant: str) -> list[JSON]:
        """Returns the stops that are in force for a tenant, or for all of them, the newest first."""
        return [stop.json for stop in self._book.page(None if tenant == EVERY_TENANT else tenant)]

    def _tenants_of(self, stop: Stop) -> list[str]:
        return self._sessions.tenants() if stop.tenant is None else [stop.tenant]

    def _is_void(self, stop: Stop, tenant: str, waiting: Mapping[str, Any]) -> bool:
        try:
            session = self._sessions.known(tenant, waiting["session"])
        except UnknownItemError:  # it was deleted, so its call cannot run
            return True
        return _is_open_under(stop, session) and self._names(stop, session, waiting["call"])

    def _names(self, stop: Stop, session: HostSession, call: Mapping[str, Any]) -> bool:
        """Whether a stop names the agent and the tool of a call, in a session that it may cover."""
        if stop.agent not in (None, session.owner, call.get("agent")):
            return False
        if stop.tool is None:
            return True
        try:
            guard = self._guards.of(session)
        except GuardError:
            return True  # its version is unknown here: better a call too many
        host_call = HostCall(call["tool"], call.get("args") or {}, session.conversation)
        return stop.tool in tools_of(host_call, guard.names, guard.policies)


def _is_open_under(stop: Stop, session: HostSession) -> bool:
    """Whether a session is open and a stop may cover calls of it; agents within it may have other names."""
    is_of_policy = stop.policy is None or stop.is_of_earlier(session.policy, session.digest, session.created)
    return session.status == "open" and stop.session in (None, session.id) and is_of_policy


def _call_of(session: HostSession, call: Mapping[str, Any]) -> JSON:
    return {"session": session.id, **{name: call.get(name) for name in ("id", "tool", "args", "agent")}}
