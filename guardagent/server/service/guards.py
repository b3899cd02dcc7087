"""The guards of a server: one for each tenant, version of a policy and attachment."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from guardagent.enforcement import ToolGuard
from guardagent.errors import InputError, LedgerError, UnknownNameError
from guardagent.policy.policies import Policies
from guardagent.server.service.attachments import Attachments, ToolAttachment
from guardagent.server.service.host_sessions import HostSession, HostSessions
from guardagent.server.service.policies import CandidatePolicies
from guardagent.server.service.policy_catalogue import PolicyCatalogue, unchanging
from guardagent.server.service.stores import ServerStores
from guardagent.server.settings import PolicySettings

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
    """

    def __init__(
        self,
        catalogue: PolicyCatalogue,
        candidates: CandidatePolicies,
        stores: ServerStores,
        attachments: Attachments,
        sessions: HostSessions,
    ) -> None:
        self._catalogue, self._candidates, self._stores = catalogue, candidates, stores
        self._attachments, self._sessions = attachments, sessions
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
        key = (session.tenant, session.policy, session.digest, session.attachment, session.candidate)
        guard = self._known(key)
        if guard is None:
            attachment = self._attachments.find(session.tenant, session.attachment)
            candidate = self._candidates.find(session.tenant, session.policy, session.candidate)
            guard = self._keep(key, self.new(attachment, version, candidate))
        self._touch(session.conversation, guard)
        return guard

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
            log=self._stores.log(tenant),
            max_replans=settings.max_replans,
            zone=settings.zone,
            deadline=settings.deadline,
            ledger=self._stores.ledger,
            counters=self._stores.counters(tenant),
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
        for name, one in released:
            one.release(name)


def _parts(conversation: str) -> tuple[str, str]:
    tenant, _, name = conversation.partition("/")
    return tenant, name


def _operators_state(place: str) -> Callable[[str], Any]:
    """Returns the operator's function for the state of a session; it gets the session's id."""
    module, _, name = place.partition(":")
    try:
        found: Mapping[str, Any] = vars(importlib.import_module(module))
    except ImportError as error:
        raise InputError(f"the state {place!r} cannot be imported: {error}; expected 'module:callable'") from None
    if name not in found:
        raise UnknownNameError("function", name, (one for one in found if not one.startswith("_")), module)
    return lambda conversation: found[name](_parts(conversation)[1])
