"""The guards of a server: one for each tenant, version of a policy and attachment, and those of finished runs.

Attachments (the tools of agents) and the sessions of agents' hosts are stored, so that every server knows them and can
go on with them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from guardagent._support.execution import combine, verdict_or_denial
from guardagent.enforcement import ToolGuard
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.ledger.staging import StagedLog
from guardagent.enforcement.names import ToolSpec
from guardagent.enforcement.stops import Stops, tools_of
from guardagent.enforcement.wire.messages import TOOL, read_tool, write_tool
from guardagent.enforcement.wire.values import WireField, WireShape, items, read_value, strings
from guardagent.errors import InputError, LedgerError, LogError, UnknownNameError
from guardagent.log import AuditLog, verdict_record
from guardagent.policy.policies import Policies
from guardagent.server.access import Caller
from guardagent.server.service import RequestConflictError, UnknownItemError
from guardagent.server.service.policies import CandidatePolicies, PolicyCatalogue, unchanging
from guardagent.server.service.stores import ServerStores
from guardagent.server.settings import AgentSettings, PolicySettings
from guardagent.server.state import StateStore
from guardagent.session.calls import FindGrants
from guardagent.types import EMPTY, Verdict, freeze, unchecked_verdict

if TYPE_CHECKING:
    from guardagent.guard import GuardAgent

# --- the tools of agents

MAX_TOOLS = 1000
_KIND = "attachment"
ATTACHMENT = WireShape(
    policy=WireField(str, "default"),
    tools=items(read_tool, items=TOOL.schema, maxItems=MAX_TOOLS),
    aliases=WireField(dict, {}, more={"additionalProperties": {"type": "string"}}),
    absent=strings(()),
)


@dataclass(frozen=True, slots=True)
class ToolAttachment:
    """The tools of an agent that a policy guards.

    Attributes:
        id: the digest of tenant, policy and content.
        aliases: a tool's name in the host -> its name in the rules.
        absent: tools that rules name and this agent is known not to have.
    """

    id: str
    tenant: str
    policy: str
    tools: tuple[ToolSpec, ...]
    aliases: Mapping[str, str]
    absent: tuple[str, ...]


def read_attachment(value: Any, tenant: str) -> tuple[ToolAttachment, dict[str, Any]]:
    """Reads the request of an agent's host. Returns the attachment, and its content for the store.

    Raises:
        WireError: it is invalid.
    """
    content = ATTACHMENT.read(value)
    if len(content["tools"]) > MAX_TOOLS:
        raise InputError(f"'tools' has {len(content['tools']):,} tools; expected at most {MAX_TOOLS:,}")
    if not all(isinstance(name, str) for name in content["aliases"].values()):
        raise InputError("'aliases' has a value that is not a string; expected names of tools")
    content |= {"tools": [write_tool(tool) for tool in content["tools"]], "absent": sorted(content["absent"])}
    return _attachment(tenant, content), content


class Attachments:
    """The attachments of all tenants, which never change: their ids are their digests.

    Args:
        state: stores them.
    """

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._known: OrderedDict[tuple[str, str], ToolAttachment] = OrderedDict()

    def add(self, attachment: ToolAttachment, content: Mapping[str, Any]) -> None:
        """Stores an attachment, unless it is there."""
        self._state.add(_KIND, attachment.tenant, attachment.id, content)

    def find(self, tenant: str, name: str) -> ToolAttachment:
        """Returns an attachment of a tenant.

        Raises:
            UnknownItemError: the tenant has no such attachment.
        """
        attachment = self._known.get((tenant, name))
        if attachment is None:
            item = self._state.get(_KIND, tenant, name)
            if item is None:
                raise UnknownItemError(
                    f"there is no attachment {name[:80]!r}; expected the id of one that was attached"
                )
            attachment = self._known[tenant, name] = _attachment(tenant, item.value)
            while len(self._known) > MAX_GUARDS:
                self._known.popitem(last=False)
        return attachment


def _attachment(tenant: str, content: Mapping[str, Any]) -> ToolAttachment:
    text = json.dumps([tenant, content], sort_keys=True, separators=(",", ":"))
    tools = tuple(read_tool(tool, f"tools[{at}]") for at, tool in enumerate(content["tools"]))
    name = f"at_{hashlib.sha256(text.encode()).hexdigest()[:40]}"
    aliases = freeze(content["aliases"])
    return ToolAttachment(name, tenant, content["policy"], tools, aliases, tuple(content["absent"]))


# --- sessions

SESSION = "session"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,199}")
_CACHED = 10_000
_PAGE, _MAX_PAGES = 500, 20  # that a search reads


@dataclass(frozen=True, slots=True)
class HostSession:
    """A session of an agent's host. Only its status changes, and its version if a reload moves it to another one.

    Attributes:
        owner: the id of the caller that opened it.
        digest: the version of the policy under which it runs.
        principal: on whose behalf the agent acts, as rules read it.
        created: when it was opened, in seconds since the epoch.
        candidate: the id of the policy that judges it too, without effect; empty if there is none.
        status: `open`, or `ended`.
        verdict: the verdict on its end.
        number: grows from session to session; 0 of one that was just stored here.
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


SessionFilter = Callable[[HostSession], bool]


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
        if self._state.add(SESSION, session.tenant, session.id, session.content):
            return self.keep(session)
        host_session = self.read(session.tenant, session.id)
        if _opening(host_session) != _opening(session):
            raise RequestConflictError(f"another session has the id {session.id!r}; expected a new id")
        return host_session

    def of_caller(self, caller: Caller, name: str) -> HostSession:
        """Returns a session of a caller, who opened it; its status may be outdated.

        Raises:
            UnknownItemError: the caller has no such session.
        """
        host_session = self.known(caller.tenant, name)
        if host_session.owner != caller.id:
            raise _unknown(name)
        return host_session

    def known(self, tenant: str, name: str) -> HostSession:
        """Returns a session of a tenant; its status may be outdated.

        Raises:
            UnknownItemError: the tenant has no such session.
        """
        host_session = self._known.get((tenant, name))
        if host_session is None:
            host_session = self.keep(self.read(tenant, name))
        return host_session

    def at_hand(self, caller: Caller, name: str) -> HostSession | None:
        """Returns a session of a caller as `of_caller`; None if it has to be read first, or is not the caller's."""
        host_session = self._known.get((caller.tenant, name))
        return None if host_session is None or host_session.owner != caller.id else host_session

    def keep(self, session: HostSession) -> HostSession:
        """Remembers a session that was stored."""
        while len(self._known) >= _CACHED:
            self._known.pop(next(iter(self._known)), None)
        self._known[session.tenant, session.id] = session
        return session

    def read(self, tenant: str, name: str) -> HostSession:
        """Returns a session of a tenant with its current status.

        Raises:
            UnknownItemError: the tenant has no such session.
        """
        item = self._state.get(SESSION, tenant, name)
        if item is None:
            raise _unknown(name)
        return HostSession(name, tenant, number=item.number, **item.value)

    def change(self, session: HostSession, **changes: Any) -> HostSession:
        """Stores changes of a session, such as its end. Returns it as it is stored: unchanged if it has ended."""
        while True:
            item = self._state.get(SESSION, session.tenant, session.id)
            if item is None:
                raise _unknown(session.id)
            host_session = HostSession(session.id, session.tenant, number=item.number, **item.value)
            changed = replace(host_session, **changes)
            if host_session.status != "open":
                return host_session
            if self._state.replace(SESSION, session.tenant, session.id, item.version, changed.content):
                return changed

    def tenants(self) -> list[str]:
        """Returns the tenants that have sessions, or had some."""
        return self._state.tenants(SESSION)

    def page(self, tenant: str, before: int | None, limit: int) -> list[HostSession]:
        """Returns the newest sessions of a tenant, those with numbers below `before`."""
        items = self._state.page(SESSION, tenant, before, limit)
        return [HostSession(item.name, tenant, number=item.number, **item.value) for item in items]

    def search(
        self, tenant: str, before: int | None, limit: int, fits: SessionFilter
    ) -> tuple[list[HostSession], int | None]:
        """Returns the newest sessions that fit, those with numbers below `before`, and the number to go on from.

        It looks at 10,000 sessions at most, so there may be more although few were returned.
        """
        fitting: list[HostSession] = []
        for _ in range(_MAX_PAGES):
            page = self.page(tenant, before, _PAGE)
            for session in page:
                before = session.number
                fitting += [session] if fits(session) else []
                if len(fitting) == limit:
                    return fitting, before
            if len(page) < _PAGE:
                return fitting, None
        return fitting, before


def new_session(
    name: str, caller: Caller, attachment: ToolAttachment, digest: str, principal: Mapping[str, Any], candidate: str
) -> HostSession:
    """Returns a session that a caller opens.

    Raises:
        InputError: the id is invalid.
    """
    if not _ID.fullmatch(name):
        raise InputError(f"the session's id is {name[:80]!r}; expected up to 200 letters, digits and . _ : @ + -")
    about = (attachment.id, attachment.policy, digest, principal, time.time(), candidate)
    return HostSession(name, caller.tenant, caller.id, *about)


def _opening(session: HostSession) -> tuple[Any, ...]:
    return session.owner, session.attachment, session.policy, session.principal


def _unknown(name: str) -> UnknownItemError:
    return UnknownItemError(f"there is no session {name[:80]!r}; expected the id of a session that this caller opened")


# --- guards

MAX_GUARDS = 500
MAX_CONVERSATIONS = 5000  # that this process keeps in memory; the ledger has all
_MAX_RULE_STATES = 250_000  # of all of them: large policies leave room for fewer
_Key = tuple[str, ...]


class GuardCache:
    """Makes guards on demand, and keeps those that were used last.

    Args:
        catalogue: the policies.
        candidates: those that judge too, without effect.
        stores: the ledger, the counters and the logs.
        attachments: the tools of agents.
        sessions: the sessions, for their principals.
        grants: returns the function with which a session finds its grants.
        stops: the calls that a person has stopped.
    """

    def __init__(
        self,
        catalogue: PolicyCatalogue,
        candidates: CandidatePolicies,
        stores: ServerStores,
        attachments: Attachments,
        sessions: HostSessions,
        grants: Callable[[HostSession], FindGrants],
        stops: Stops,
    ) -> None:
        self._catalogue, self._candidates, self._stores = catalogue, candidates, stores
        self._attachments, self._sessions, self._grants, self._stops = attachments, sessions, grants, stops
        self._guards: OrderedDict[_Key, ToolGuard] = OrderedDict()
        self._recent: OrderedDict[str, ToolGuard] = OrderedDict()
        self._states: dict[str, Any] = {}
        self._state_locks = [threading.Lock() for _ in range(256)]
        self._lock = threading.Lock()

    def of(self, session: HostSession) -> ToolGuard:
        """Returns the guard of a session.

        Raises:
            LedgerError: this server lacks the version of the policy under which the session began.
            UnknownItemError: its attachment is gone.
        """
        version = self._catalogue.version(session.policy, session.digest)
        if version is None:
            raise LedgerError(
                f"this server does not have version {session.digest[:12]} of the policy {session.policy!r}, under "
                "which the session began"
            )
        guard = self.at_hand(session)
        if guard is None:
            attachment = self._attachments.find(session.tenant, session.attachment)
            candidate = self._candidates.find(session.tenant, session.policy, session.candidate)
            guard = self._keep(_key(session), self.new(attachment, version, candidate))
            self._touch(session.conversation, guard)
        return guard

    def at_hand(self, session: HostSession) -> ToolGuard | None:
        """Returns the guard of a session if it is made already."""
        guard = self._known(_key(session))
        if guard is not None:
            self._touch(session.conversation, guard)
        return guard

    def tools(self, session: HostSession) -> frozenset[str]:
        """Returns the names of a session's tools and of those that its rules know, as stops name them.

        Raises:
            GuardError: as `of`.
        """
        guard, attachment = self.of(session), self._attachments.find(session.tenant, session.attachment)
        policies = guard.policies
        names = {*policies.of_tool.known, *(f"@{tag.removeprefix('@')}" for tag in policies.tags)}
        calls = (HostCall(spec.name, {}, session.conversation) for spec in attachment.tools)
        return frozenset(names.union(*(tools_of(call, guard.names, policies) for call in calls)))

    def new(self, attachment: ToolAttachment, version: Policies, candidate: Policies | None = None) -> ToolGuard:
        """Returns a new guard for the tools of an agent.

        Raises:
            InputError: the tools do not fit the rules.
        """
        tenant, settings = attachment.tenant, self._catalogue.settings(attachment.policy, attachment.tenant)
        guard = ToolGuard(
            unchanging(version, candidate),
            state=self._state_of(settings),
            principal=lambda name: self._sessions.known(*_parts(name)).principal,
            aliases=attachment.aliases,
            absent=attachment.absent,
            log=StagedLog(self._stores.log(tenant)),
            max_replans=settings.max_replans,
            zone=settings.zone,
            deadline=settings.deadline,
            ledger=self._stores.ledger,
            counters=self._stores.counters(tenant),
            grants=lambda name: self._grants(self._sessions.known(*_parts(name))),
            stop_file=self._stops,
        )
        guard.attach(attachment.tools)
        return guard

    @contextlib.contextmanager
    def with_state(self, session: HostSession, state: Any) -> Iterator[None]:
        """Uses the state that a host has sent with a check. Meanwhile, no other state of the session is used."""
        if state is None:
            yield
            return
        locks = self._state_locks
        with locks[hash(session.conversation) % len(locks)]:
            self._states[session.conversation] = state
            yield

    def forget(self, session: HostSession) -> None:
        """Forgets a session that has ended."""
        with self._lock:
            guard = self._recent.pop(session.conversation, None)
            self._states.pop(session.conversation, None)
        if guard is not None:
            guard.release(session.conversation)

    def _state_of(self, settings: PolicySettings) -> Callable[[str], Any]:
        if settings.state:
            return _operators_state(settings.state)
        return self._sent_state

    def _sent_state(self, conversation: str) -> Any:
        try:
            return self._states[conversation]
        except KeyError:
            raise InputError("the host has sent no state with this check; expected 'state'") from None

    def _known(self, key: _Key) -> ToolGuard | None:
        with self._lock:
            guard = self._guards.get(key)
            if guard is not None:
                self._guards.move_to_end(key)
            return guard

    def _keep(self, key: _Key, guard: ToolGuard) -> ToolGuard:
        with self._lock:
            guard = self._guards.setdefault(key, guard)
            while len(self._guards) > MAX_GUARDS:
                self._guards.popitem(last=False)
            return guard

    def _touch(self, conversation: str, guard: ToolGuard) -> None:
        """Notes the use of a session, and forgets the one that was not used for the longest time."""
        released: list[tuple[str, ToolGuard]] = []
        with self._lock:
            self._recent[conversation] = guard
            self._recent.move_to_end(conversation)
            most = max(50, min(MAX_CONVERSATIONS, _MAX_RULE_STATES // max(1, len(guard.policies.monitors))))
            while len(self._recent) > most:
                released.append(self._recent.popitem(last=False))
                self._states.pop(released[-1][0], None)
        for name, tool_guard in released:
            tool_guard.release(name)


def _key(session: HostSession) -> _Key:
    return session.tenant, session.policy, session.digest, session.attachment, session.candidate


def _parts(conversation: str) -> tuple[str, str]:
    tenant, _, name = conversation.partition("/")
    return tenant, name


def _operators_state(place: str) -> Callable[[str], Any]:
    """Returns the operator's function for the state of a session; it gets the session's id."""
    module, _, name = place.partition(":")
    try:
        namespace: Mapping[str, Any] = vars(importlib.import_module(module))
    except ImportError as error:
        raise InputError(f"the state {place!r} cannot be imported: {error}; expected 'module:callable'") from None
    if name not in namespace:
        raise UnknownNameError(
            "function", name, (attribute for attribute in namespace if not attribute.startswith("_")), module
        )
    return lambda conversation: namespace[name](_parts(conversation)[1])


# --- finished runs

FINISHED_RUN = WireShape(
    agent=WireField(str), input=WireField(str), output_log=WireField(str), facts=WireField(dict, EMPTY, read_value)
)


def _guard(setting: AgentSettings) -> GuardAgent:
    from guardagent.guard import GuardAgent

    return GuardAgent(agent=setting.agent, mode=setting.mode, model=setting.model, locked=setting.locked)


class RunGuards:
    """The guards of finished runs.

    Args:
        settings: the agents by their names.
        log: returns the log of a tenant.

    Raises:
        InputError: an agent is unknown, or an option is invalid.
    """

    def __init__(self, settings: Mapping[str, AgentSettings], log: Callable[[str], AuditLog]) -> None:
        self._settings, self._log = settings, log
        self._guards = {name: _guard(setting) for name, setting in settings.items()}

    def judge(self, caller: Caller, body: Any) -> Verdict:
        """Judges a finished run.

        Raises:
            WireError: the request is invalid.
            UnknownItemError: the tenant has no such agent.
        """
        name, *run = FINISHED_RUN.read(body).values()
        settings = self._settings.get(name)
        if settings is None or (settings.tenants is not None and caller.tenant not in settings.tenants):
            raise UnknownItemError(f"there is no agent {name[:80]!r}; expected one that the server's settings name")
        guard = self._guards[name]
        verdict = verdict_or_denial(lambda: guard.guard(*run))
        return self._logged(caller, name, run[0], verdict)

    def close(self) -> None:
        """Ends the workers of the guards."""
        for guard in self._guards.values():
            guard.close()

    def _logged(self, caller: Caller, name: str, agent_input: str, verdict: Verdict) -> Verdict:
        record = verdict_record(
            verdict,
            policy="",
            conversation="",
            tool="agent_run",
            args={"input": agent_input},
            agent=name,
            principal=caller.principal.value,
        )
        try:
            self._log(caller.tenant).append({**record, "kind": "answer"})
        except LogError as error:
            return combine(verdict, unchecked_verdict(f"the audit log cannot be written: {error}", checked_by="policy"))
        return verdict
