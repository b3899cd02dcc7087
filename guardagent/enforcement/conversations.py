"""The conversations of a guard. Each has one session, which sub-agents share."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from guardagent.enforcement.calls import HostCall
from guardagent.errors import InputError
from guardagent.policy.language.values import seconds_of
from guardagent.session.calls import SessionEndedError
from guardagent.session.session import Session
from guardagent.types import Decision, Permit, Verdict, freeze
from guardagent.types.values import SessionPrincipal, read_principal

if TYPE_CHECKING:
    from guardagent.enforcement.ledger.history import ConversationJournal

Key = tuple[str, str, Any]
Resolve = Callable[[str], str]
Begin = Callable[[str, Callable[[], Sequence[Mapping[str, Any]]]], tuple[Session, "ConversationJournal | None"]]


@dataclass(slots=True, weakref_slot=True)
class Conversation:
    """One conversation.

    Attributes:
        session: judges its calls.
        messages: the messages that the host last showed.
        lock: held while the fields below change; never while a rule is evaluated.
        call_ids: the host's ids of all calls that were proposed here.
        open_permits: call id -> the permits of the calls in flight with this id.
        used_nonces: the nonces of the permits of calls that have started.
        replans: the number of consecutive model turns with denied calls.
        step: the last of these turns.
        hung_checks: the number of late checks that still run.
        shown_ids: the ids of the results in the host's last messages; the list only grows.
        confirmed: how many of them this guard has seen.
        process: the process in which it began; a fork lacks the later part of the history.
        notes: data of the host's adapter.
        restored: whether it comes from a snapshot, without the host's ids of its calls; the next messages show them.
        journal: the history shared with other processes; None if it is not shared.
    """

    id: str
    session: Session
    messages: Sequence[Mapping[str, Any]] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)
    call_ids: set[str] = field(default_factory=set)
    open_permits: dict[str, list[Permit]] = field(default_factory=dict)
    used_nonces: set[str] = field(default_factory=set)
    replans: int = 0
    step: str | None = None
    hung_checks: int = 0
    notes: dict[Any, Any] = field(default_factory=dict)
    restored: bool = False
    shown_ids: Sequence[str] = ()
    confirmed: int = 0
    process: int = field(default_factory=os.getpid)
    journal: ConversationJournal | None = None

    def unseen_call(self, call: HostCall) -> str | None:
        """Returns the id of a call that the host's messages show and this guard never saw; None if there is none."""
        if call.seen is None:
            return None
        with self.lock:
            if self.restored:
                self.call_ids.update(call.seen)
                self.restored = False
            known = self.confirmed if call.seen is self.shown_ids else 0
            missing = [one for one in islice(call.seen, known, None) if one not in self.call_ids]
            if missing and self.journal is not None:
                unknown = self.journal.unknown_call_ids(missing)
                self.call_ids.update(one for one in missing if one not in unknown)
                missing = [one for one in missing if one in unknown]
            if not missing:
                self.shown_ids, self.confirmed = call.seen, len(call.seen)
            return missing[0] if missing else None

    def note_verdict(self, call: HostCall, verdict: Verdict, max_replans: int) -> bool:
        """Notes a verdict. Returns whether this denial exhausts the agent's replans."""
        with self.lock:
            if isinstance(call.id, str):
                self.call_ids.add(call.id)
            if verdict.label == 0:
                self.replans, self.step = 0, None
                if call.claim is None:
                    self.open_permits.setdefault(call.id, []).append(verdict.permit)
                return False
            if verdict.decision is Decision.ESCALATE:
                return False
            if call.step is None or call.step != self.step:
                self.replans += 1
            self.step = call.step
            return self.replans > max_replans

    def take_permit(self, call: HostCall, tool: Resolve) -> Permit:
        """Removes and returns the permit of a call whose outcome is recorded; `tool` resolves its name in the rules.

        Raises:
            InputError: no such call is in flight.
        """
        with self.lock:
            permit = self._permit(call, tool, used=True)
            self._close(call.id, permit)
            return permit

    def permit_in_flight(self, call: HostCall, tool: Resolve, *, used: bool = True) -> Permit:
        """Returns the permit of a call that stays in flight; `used` tells whether it has probably started."""
        with self.lock:
            return self._permit(call, tool, used=used)

    def id_of(self, permit: Permit) -> str:
        """Returns the host's id of a permit's call."""
        with self.lock:
            return next((call for call, permits in self.open_permits.items() if permit in permits), "")

    def return_permit(self, call: HostCall, permit: Permit) -> None:
        """Puts a permit back: its call stays in flight."""
        with self.lock:
            self.open_permits.setdefault(call.id, []).append(permit)

    def drop_permit(self, call_id: str, permit: Permit) -> None:
        """Removes the permit of an allowed call that will not run."""
        with self.lock:
            if permit in self.open_permits.get(call_id, ()):
                self._close(call_id, permit)

    def _close(self, call_id: str, permit: Permit) -> None:
        self.open_permits[call_id].remove(permit)
        self.used_nonces.discard(permit.nonce)
        if not self.open_permits[call_id]:
            del self.open_permits[call_id]

    def count_hung_checks(self, more: int) -> None:
        """Adds to the number of abandoned checks."""
        with self.lock:
            self.hung_checks += more

    def use_permit(self, call: HostCall, tool: Resolve) -> Permit:
        """Returns the permit of a call that is about to run, and marks the call as started.

        Raises:
            InputError: no such call is in flight.
        """
        with self.lock:
            permit = self._permit(call, tool, used=False)
            self.used_nonces.add(permit.nonce)
            return permit

    def _permit(self, call: HostCall, tool: Resolve, *, used: bool) -> Permit:
        """Returns the permit that fits a call best, and the newest of those: hosts reuse call ids."""
        permits = self.open_permits.get(call.id)
        if not permits:
            raise InputError(f"no call {call.id!r} is in flight in conversation {self.id!r}")
        if len(permits) == 1:
            return permits[0]

        name = tool(call.tool)

        def fits(one: Permit) -> tuple[bool, ...]:
            return one.tool == name, one.args == call.args, (one.nonce in self.used_nonces) is used

        return max(permits, key=lambda one: (*fits(one), one.place))

    def start_turn(self) -> None:
        """Resets the replans after a new user message."""
        with self.lock:
            self.replans, self.step = 0, None


class NotBegunError(InputError):
    """No conversation with this id has begun."""


@dataclass(slots=True)
class WaitState:
    """Tells a check whether its caller still waits; `expired` once the caller took a late verdict for a denial."""

    expired: bool = False


class Conversations:
    """The conversations by id. A new id begins a conversation.

    Args:
        begin: creates the session of a conversation from its id and a function that returns its messages, with the
            journal of its history, if it has one.
        keeps_history: whether conversations have journals, so that one may have begun in another process.
    """

    def __init__(self, begin: Begin, *, keeps_history: bool) -> None:
        self._begin, self._keeps_history = begin, keeps_history
        self._lock = threading.Lock()
        self._known: dict[str, Conversation] = {}

    def of(self, name: Any) -> Conversation:
        """Returns the conversation with this id.

        Raises:
            InputError: the id is missing, or the conversation began in the parent of this forked process.
        """
        if not isinstance(name, str) or not name:
            raise InputError(
                f"the conversation's id is {name!r}; expected a string; the host must name the conversation"
            )
        found = self._known.get(name)
        return self._check_process(found if found is not None else self._begin_new(name))

    def current(self, name: Any) -> Conversation:
        """Returns a conversation with the entries that other processes have added; a new one if they ended it."""
        conversation = self.of(name)
        if conversation.journal is not None:
            try:
                conversation.session.catch_up()
            except SessionEndedError:
                self.drop(name)
                conversation = self.of(name)
                conversation.session.catch_up()
        return conversation

    def digest_of(self, name: str) -> str | None:
        """Returns the digest of the policy of a conversation; None if it has not begun here."""
        return getattr(self.policies_of(name), "digest", None)

    def policies_of(self, name: Any) -> Any:
        """Returns the policies of a conversation; None if it has not begun here."""
        found = self._known.get(name) if isinstance(name, str) else None
        return None if found is None else getattr(found.session, "policies", None)

    def _check_process(self, conversation: Conversation) -> Conversation:
        if conversation.process != os.getpid() and conversation.journal is not None:
            self.drop(conversation.id)
            return self._begin_new(conversation.id)
        if conversation.process != os.getpid():
            raise InputError(
                f"conversation {conversation.id!r} began in another process, which may have gone on with it; "
                "expected one of this process: take a snapshot there, and restore it here"
            )
        return conversation

    def _begin_new(self, name: str) -> Conversation:
        with self._lock:
            if name not in self._known:
                shown = _ShownMessages()
                session, journal = self._begin(name, shown)
                self._known[name] = Conversation(name, session, journal=journal)
                shown.conversation = weakref.ref(self._known[name])
            return self._known[name]

    def known(self, name: Any) -> Conversation:
        """Returns a conversation that has begun.

        Raises:
            NotBegunError: no conversation with this id has begun.
        """
        is_known = isinstance(name, str) and name in self._known
        if is_known or (isinstance(name, str) and self._keeps_history):
            found = self.current(name)
            if is_known or found.session.sequence:
                return found
            self.drop(name)
        raise NotBegunError(f"no conversation {name!r} has begun here; expected the id of a conversation of this guard")

    def principal(self, name: Any, part: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        """Returns the principal of a conversation that has begun, or that of a call of it; None if there is none.

        Args:
            name: the id of the conversation.
            part: the principal of the call, as the host states it; it is returned as it is if it is invalid.
        """
        found = self._known.get(name) if isinstance(name, str) else None
        principal: SessionPrincipal | None = None if found is None else getattr(found.session, "principal", None)
        try:
            if principal is None:
                return part
            stated = read_principal(part)
            return (principal if stated is None else principal.narrowed(stated)).value
        except InputError:
            return part

    def check_time(self, name: Any) -> Mapping[str, Any] | None:
        """Returns the time of the last check of a conversation; None if it is unknown."""
        found = self._known.get(name) if isinstance(name, str) else None
        reading = found.session.check_time if found is not None and isinstance(found.session, Session) else None
        return None if reading is None else {"time": float(seconds_of(reading[0])), "zone": reading[1]}

    def put(self, conversation: Conversation) -> None:
        """Adds a restored conversation.

        Raises:
            InputError: a conversation of this id exists.
        """
        with self._lock:
            if conversation.id in self._known:
                raise InputError(f"conversation {conversation.id!r} has begun here already; it is not restored")
            self._known[conversation.id] = conversation

    def drop(self, name: str) -> None:
        with self._lock:
            self._known.pop(name, None)


def key_of(call: HostCall) -> Key:
    """Returns a hashable key of a call and its arguments."""
    return (call.id, call.tool, hashable(freeze(call.args)))


def hashable(value: Any) -> Any:
    """Returns a hashable key of a frozen value; values of different types differ."""
    if isinstance(value, Mapping):
        items = [(hashable(name), hashable(item)) for name, item in value.items()]
        return ("mapping", *sorted(items, key=repr))
    if isinstance(value, tuple):
        return ("list", *map(hashable, value))
    return (type(value).__name__, repr(value))


class _ShownMessages:
    """The messages of a conversation, for its session. It holds the conversation weakly: no cycle keeps both."""

    conversation: weakref.ref[Conversation] | None = None

    def __call__(self) -> Sequence[Mapping[str, Any]]:
        if self.conversation is None:  # it is beginning
            return ()
        found = self.conversation()
        if found is None:
            raise InputError("the conversation was dropped while a call of it was judged; propose the call again")
        return found.messages
