"""The calls of a session: their history, the permits of allowed calls, and claims of other programs.

Calls are reserved and settled in the history, here and for other processes that share the session. Through this shared
history other processes continue a session, concurrently or after a restart.

A program that runs a call itself claims it with a request of its own, and settles it in any process. The history has
the request and the verdict of a claimed call. A repetition of the request gets the verdict again, in any process that
shares the history, and the call has one place. Only the program that runs a claimed call settles it: its outcome, or
that it never ran. Each of these takes the next place in the history, so that a process which was stopped, and goes on
late, changes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from guardagent.errors import CounterError, GuardError, InputError
from guardagent.policy.evaluation.monitor_interface import CallStatus, ClockError, Reading, SessionCall
from guardagent.policy.language.values import EXPECTED, MICROSECONDS, seconds_of
from guardagent.policy.monitors.conversation import ConversationState, Judgement, Memento
from guardagent.policy.scope import ApprovalScope, LiveGrant
from guardagent.types import Decision, Permit, Verdict, sorted_json
from guardagent.types.values import SessionPrincipal, read_principal

if TYPE_CHECKING:
    from guardagent.session.counters import CounterStore, SessionCounters
    from guardagent.session.shadow import SessionShadow

MAX_TRIES = 50  # attempts to change the history while other processes extend it
NO_TIME = f"the clock returned no time; {EXPECTED}"

T = TypeVar("T")
FindGrants = Callable[[str, ApprovalScope, Mapping[str, Any]], Iterable[LiveGrant]]
"""Returns the live grants for the id of a rule, its scope, and the arguments of a call, which has those in `same`."""


# --- the shared history


HistoryEntry = Mapping[str, Any]
"""A change as JSON: `placed` (a call), `settled` (the place of a call), `barred` (a call's id) or `halted`; `released`,
the reservations in the counters of calls that the history lacks; and `migrated`, the version of the policy before, with
the memory of the rules of the one that is in force from then on."""


_OF_CALLS = {"placed", "settled", "migrated"}


class HistoryChangedError(GuardError):
    """Another process extended the history, so the decision was made on an outdated one."""


class SessionEndedError(GuardError):
    """Another process ended the conversation; a new one may have the same name."""


class Journal(Protocol):
    """The history of one session, as seen by one of the processes that share it.

    Attributes:
        scope: identifies the conversation among all that share a store of counters; empty if this is unknown.
    """

    @property
    def scope(self) -> str: ...

    def news(self) -> Sequence[HistoryEntry]:
        """Returns the entries that other processes added since the last call.

        Raises:
            SessionEndedError: another process ended the conversation.
            InputError: the other processes use another policy.
        """

    def append(self, entry: HistoryEntry) -> None:
        """Appends an entry before the change takes effect.

        Raises:
            HistoryChangedError: there are new entries of other processes.
            InputError: the entry cannot be written as JSON.
        """


# --- the calls


class NotClaimedError(InputError):
    """No claimed call has this id."""


class ClaimConflictError(InputError):
    """The call was settled differently."""


@dataclass(frozen=True, slots=True)
class ClaimSettlement:
    """The end of a claimed call.

    Attributes:
        call: the call.
        status: its outcome.
        repeated: whether it had been settled in this way before.
    """

    call: SessionCall
    status: CallStatus
    repeated: bool


class CallHistory:
    """The calls of a session, in its conversation, in the counters and for other processes.

    Args:
        session: the id of the session.
        conversation: the calls and the state of the rules.
        principal: the principal of the session.
        journal: shares the history with other processes.
        counters: the store of the policy's counters, or its address.
        shadow: the candidate that follows the session.
        grants: finds the live grants for a call by the id of the rule that asks; None without any.

    Attributes:
        lock: held while the history is read or changed.
        halted: why every call is denied; None if the session goes on.
        approved: the number of approvals.
        barred: the ids of calls that were withdrawn before they were claimed.
        trials: of a fork: the mementos of its trial calls.
        is_followed: whether something else follows the calls: other processes, counters, a candidate or a fork's marks.
    """

    def __init__(
        self,
        session: str,
        conversation: ConversationState,
        principal: SessionPrincipal | None,
        journal: Journal | None,
        counters: CounterStore | str | None,
        shadow: SessionShadow | None,
        grants: FindGrants | None = None,
    ) -> None:
        self.session = session
        self.conversation = conversation
        self.principal = principal
        self.counters: SessionCounters | None = None
        self.grants = grants if conversation.policies.approval_scopes else None
        if conversation.policies.counters or self.grants is not None:
            from guardagent.session.counters import SessionCounters

            scope = str if journal is None else lambda: journal.scope
            self.counters = SessionCounters.of(
                conversation.policies, counters, self._now, session, scope, has_grants=self.grants is not None
            )
        conversation.context.counters = self.counters
        self.shadow = shadow
        self.lock = threading.RLock()
        self.halted: str | None = None
        self.approved = 0
        self.barred: set[str] = set()
        self.trials: list[Memento] | None = None
        self.is_followed = journal is not None or self.counters is not None or shadow is not None
        self._journal = journal
        self._is_swept = self.counters is None  # whether no reservation is left of calls that the history lacks
        self._lapsed: list[SessionCall] = []  # withdrawn after their permits expired, and not recorded since
        self._lapses_reported = 0  # the number of them that `lapses` has returned
        self._claims: dict[str, int] = {}  # the id of a claimed call -> its place, for the calls read so far
        self._claims_read = 0

    def _now(self) -> float:
        """The time of the check in seconds, for the counters; not a number if it is unknown."""
        moment = self.conversation.context.reading()[0]
        return math.nan if moment is None else float(seconds_of(moment))

    @property
    def sequence(self) -> int:
        """A number that grows with every reserved or recorded call, approval and halt."""
        calls, in_flight = self.conversation.calls, self.conversation.context.in_flight
        return 2 * len(calls) - len(in_flight) + self.approved + (self.halted is not None)

    def become_fork_of(self, other: CallHistory) -> None:
        """Takes over a copy of another session's calls, after which only trial calls follow."""
        self.conversation, self.halted = other.conversation.copied(), other.halted
        self.conversation.context.counters = self.counters
        self.trials, self.is_followed = [], True

    def principal_of(self, principal: Mapping[str, Any] | SessionPrincipal | None) -> Mapping[str, Any] | None:
        """The principal of a call, as rules read it.

        Raises:
            InputError: it is invalid, or has more than the session's.
        """
        part = read_principal(principal)
        if part is None:
            return self.conversation.context.session_principal
        if self.principal is None:
            raise InputError(
                f"principal {part.id!r} of the call has none to narrow; expected a principal of the session"
            )
        return self.principal.narrowed(part).value

    def judge(self, call: SessionCall, lifted: Decision | None = None, *, count: bool) -> Judgement | None:
        """Judges a call; None if every check passes.

        Args:
            call: the call.
            lifted: as for `Judgement.decision`.
            count: whether to reserve its amounts in the counters if it is allowed.
        """
        if count and self.counters is not None:
            if self.conversation.policies.counters:
                self._take_over(call)
            return self.counters.judged(call, partial(self.judge, call, lifted, count=False), lifted)
        if self.halted is None:
            call.counted = ()
            judgement = self.conversation.judge(call, call.applicability)
            if judgement is not None and self.grants is not None and lifted is None:
                self._lift_granted(call, judgement)
            return judgement
        judgement = Judgement()
        judgement.fail(f"the session was halted by {self.halted}")
        return judgement

    def _take_over(self, call: SessionCall) -> None:
        """Gives back what a killed process has reserved for the same request."""
        if call.claim is not None:
            with contextlib.suppress(CounterError):  # the check itself is about to meet it
                self._release_lost(call)

    def _lift_granted(self, call: SessionCall, judgement: Judgement) -> None:
        """Lifts the violations that need approval, and counts the uses, if grants cover the call for all their rules.

        Nothing is lifted while the call stays denied for another reason.
        """
        assert self.grants is not None
        assert self.counters is not None
        asking = [source for source, _ in judgement.broken if source.on_violation is Decision.ESCALATE]
        scopes = {rule.id: rule.approval_scope for rule in asking if rule.approval_scope is not None}
        fitting = [scope for scope in scopes.values() if scope.uses(call.tool, call.args) is not None]
        if not asking or len(fitting) < len(asking) or judgement.decision(Decision.ESCALATE) > Decision.WARN:
            return
        if not self.conversation.policies.counters:
            self._take_over(call)
        now, lifting, counted = self._now(), dict[str, str](), call.counted
        for rule, scope in scopes.items():
            for grant in self.grants(rule, scope, call.args):
                if uses := grant.covered(call.tool, call.args, now, self.counters.value):
                    lifting[rule], counted = grant.id, counted + uses
                    break
            else:
                return
        judgement.grants, call.counted = lifting, counted
        judgement.broken = tuple([rule for rule in judgement.broken if rule[0].id not in lifting])

    def reserve(self, call: SessionCall, judgement: Judgement | None) -> None:
        """Adds a call to the history as in flight."""
        if not self.is_followed:  # the common case
            self.conversation.reserve(call, judgement)
            return
        if self.counters is None:
            self._add(call, judgement)
            return
        if call.reservation is None:  # it runs, whatever the counters say
            self.counters.reserve(call)
        try:
            self._add(call, judgement)
        except BaseException as error:
            swept, self._is_swept = self._is_swept, False
            if self._journal is None or isinstance(error, HistoryChangedError | InputError):
                self.counters.release(call)  # otherwise the history may have the call
                self._is_swept = swept
            raise

    def _add(self, call: SessionCall, judgement: Judgement | None) -> None:
        conversation = self.conversation
        if self._journal is None and self.trials is None:
            conversation.reserve(call, judgement)
            return
        memento = conversation.memento(call)
        conversation.reserve(call, judgement)
        if self.trials is not None:
            self.trials.append(memento)
            return
        try:
            self._publish(conversation.history_entry(call))
        except BaseException:
            conversation.forget(memento)
            raise

    def settle(self, call: SessionCall, output: Any, status: CallStatus) -> None:
        """Records the outcome of a call in flight."""
        if self._journal is None:
            self.conversation.settle(call, output, status)
        else:
            problem = f"the outcome of {call.tool!r} was not recorded"
            self.retried(partial(self._settle_and_publish, call, output, status), problem)
        if self.is_followed:
            self.follow()
            self.settle_counters([call])

    def _settle_and_publish(self, call: SessionCall, output: Any, status: CallStatus) -> None:
        if call.status is not None:
            raise InputError(
                f"the outcome of {call.tool!r} (call {call.place}) was already recorded by another process"
            )
        conversation = self.conversation
        conversation.settle(call, output, status, lambda: self._publish(conversation.history_entry(call)))

    def settle_counters(self, calls: Iterable[SessionCall]) -> None:
        """Settles calls in the counters; again if the process that recorded their outcomes ended before it did."""
        if self.counters is not None:
            for call in calls:
                self.counters.settle(call)

    def follow(self) -> None:
        """Lets the candidate follow the calls of this session."""
        if self.shadow is not None:
            self.shadow.follow(self.conversation.calls, self.conversation.context.state_now)

    def halt(self, why: str) -> None:
        """Denies every call from then on, for all processes."""
        if self.halted != why:
            self._publish({"halted": why})
            self.halted = why

    def retire(self, why: str = "the restoration of its snapshot") -> None:
        """Retires this session after another one took over: it denies every call from then on."""
        with self.lock:
            self.halted = self.halted or why

    # --- other processes

    def _publish(self, entry: HistoryEntry) -> None:
        if self._journal is not None:
            self._journal.append(entry)

    def retried(self, change: Callable[[], T], problem: str) -> T:
        """Repeats a change as long as other processes extend the history before it.

        Args:
            change: raises a `HistoryChangedError` then.
            problem: what was not done if they never stop.
        """
        for _ in range(MAX_TRIES):
            try:
                return change()
            except HistoryChangedError:
                self.catch_up()
        raise HistoryChangedError(f"other processes kept extending the history; {problem}; try again")

    def catch_up(self) -> None:
        """Applies the history entries of other processes that share this session.

        Raises:
            SessionEndedError: another process ended the conversation.
            InputError: as for `Journal.news`.
        """
        if self._journal is None:
            return
        with self.lock:
            try:
                news = self._journal.news()
            except SessionEndedError:
                self.retire("another process, which ended it")
                raise
            if not news and self._is_swept and self.shadow is None:
                return
            self._require_principal(news)
            self.halted = next((entry["halted"] for entry in news if "halted" in entry), self.halted)
            conversation = self.conversation
            try:
                self.barred.update(entry["barred"] for entry in news if "barred" in entry)
                conversation.apply_entries(entry for entry in news if _OF_CALLS & entry.keys())
            except Exception:
                self.retire("an unreadable shared history")
                raise
            self.settle_counters([conversation.calls[entry["settled"] - 1] for entry in news if "settled" in entry])
            self.follow()
            if not self._is_swept:
                self._is_swept = True  # also while this catches up again
                self._is_swept = self.sweep()

    def sweep(self) -> bool:
        """Gives back the amounts of calls that the history lacks, since the process that reserved them was killed.

        Returns whether none is left. If a store fails, the next process that loads the conversation tries again.
        """
        try:
            with self.lock:
                self.retried(self._release_lost, "amounts of calls that never ran stay reserved")
        except GuardError as error:
            import logging  # here: most sessions log nothing

            logging.getLogger("guardagent").warning("amounts of calls that never ran stay in the counters: %s", error)
            return False
        return True

    def _release_lost(self, call: SessionCall | None = None) -> None:
        """Gives back the reservations of calls that the history lacks.

        An entry comes first: a process that is still between its reservation and its own entry is late then, and
        judges its call again.

        Raises:
            HistoryChangedError: there are new entries of other processes.
            GuardError: a store fails.
        """
        if self.counters is None or self._journal is None or not self._journal.scope:
            return
        if lost := self.counters.lost(self.conversation.calls, call):
            self._publish({"released": lost})
            self.counters.give_back(lost)

    def _require_principal(self, news: Iterable[HistoryEntry]) -> None:
        """Requires the calls of other processes to be of this session's principal, or of a part of it.

        Raises:
            InputError: another process continues the conversation for another principal.
        """
        own = self.conversation.context.session_principal
        for entry in news:
            if "placed" in entry and (principal := entry["placed"].get("principal")) != own:
                try:
                    self.principal_of(principal or {"id": ""})
                except InputError as error:
                    self.retire("a call of another principal")
                    raise InputError(
                        f"another process continues this conversation for another principal: {error}"
                    ) from None

    # --- permits

    @property
    def _open_calls(self) -> list[SessionCall]:
        """The calls that are in flight or have lapsed."""
        return [*self.conversation.context.in_flight, *self._lapsed]

    def permit_of(self, call: SessionCall) -> Permit | None:
        """The permit of a call that is in flight."""
        with self.lock:
            if self.trials is not None or call not in self._open_calls:
                return None
            if call.permit is None:
                digest, nonce = self.conversation.policies.digest, secrets.token_hex(16)
                call.permit = Permit(*call.runs, digest, self.session, call.place, call.expires, nonce)
            return call.permit

    def permits_of(self, calls: Iterable[SessionCall]) -> tuple[Permit, ...]:
        permits = [self.permit_of(call) for call in calls]
        return tuple(permit for permit in permits if permit is not None)

    def call_of(self, permit: Any) -> SessionCall:
        """The call in flight, or lapsed, with this permit.

        Raises:
            InputError: there is none.
        """
        for call in self._open_calls:
            if call.permit is not None and call.permit == permit:
                return call
        raise InputError("the permit does not belong to a call in flight of this session; nothing was recorded")

    def only_call(self) -> SessionCall:
        """The call in flight, or lapsed, if there is exactly one.

        Raises:
            InputError: there are several, or none.
        """
        calls = self._open_calls if self._lapsed else self.conversation.context.in_flight
        if len(calls) == 1:
            return calls[0]
        if not calls:
            raise InputError("there is nothing to record, since no call is in flight; check the call first")
        names = ", ".join(f"{call.tool!r} (call {call.place})" for call in calls)
        raise InputError(f"several calls are in flight: {names}; expected the permit of the call to record")

    def lapse(self) -> None:
        """Withdraws the calls whose permits were requested and expired unused.

        A call whose permit was never requested, or that another process may have started, can have run: it stays in
        flight.
        """
        context = self.conversation.context
        if self.trials is not None or not context.in_flight:
            return
        try:
            now = seconds_at(context.clock.read())
        except ClockError:  # no call has certainly expired
            return
        for call in list(context.in_flight):
            if call.expires < now and call.permit_requested and not call.used and not call.may_have_started:
                self.settle(call, "its permit expired unused", "withdrawn")
                call.lapsed = True
                self._lapsed.append(call)

    def lapses(self) -> list[SessionCall]:
        """The calls that lapsed since the last call of this method."""
        lapsed, self._lapses_reported = self._lapsed[self._lapses_reported :], len(self._lapsed)
        return lapsed

    def reinstated(self, call: SessionCall) -> SessionCall:
        """Records a lapsed call as in flight again, because it ran without using its permit."""
        again = call.copied()
        again.permit, again.used, again.lapsed = call.permit, True, False
        again.output, again.status, again.reservation = None, None, None
        self.retried(partial(self._reserve_after_run, again), f"{call.tool!r} was not recorded")
        at, call.permit = self._lapsed.index(call), None
        del self._lapsed[at]
        self._lapses_reported -= at < self._lapses_reported
        return again

    def _reserve_after_run(self, call: SessionCall) -> None:
        judgement, call.time = self.judge(call, count=False), None  # it ran at an unknown time
        self.reserve(call, judgement)

    # --- claims

    def claimed(self, call_id: str) -> SessionCall | None:
        """The claimed call with this id."""
        with self.lock:
            calls = self.conversation.calls
            if len(calls) < self._claims_read:  # places of the history were taken back
                self._claims_read = 0
                self._claims.clear()
            for call in calls[self._claims_read :]:
                if call.claim is not None and call.id is not None:
                    self._claims[call.id] = call.place
            self._claims_read = len(calls)
            place = self._claims.get(call_id)
            claimed = None if place is None else calls[place - 1]
            return claimed if claimed is not None and claimed.id == call_id else None

    def reserve_claimed(self, call: SessionCall, judgement: Judgement | None, verdict: Verdict) -> None:
        """Adds an allowed call to the history with its verdict. It may run from then on."""
        content = verdict.to_dict()
        if content["reasons"] or content["violations"] or content["details"]:
            content = json.loads(verdict.to_json())  # a rule, or a reason, may have a value that is not JSON
        call.claim = {**(call.claim or {}), "verdict": content}
        self.reserve(call, judgement)
        call.used = call.may_have_started = True

    def settle_claimed(self, call_id: str, output: Any, status: CallStatus) -> ClaimSettlement:
        """Records the outcome of a claimed call, once.

        Raises:
            NotClaimedError: no claimed call has this id.
            ClaimConflictError: another outcome was recorded.
        """
        with self.lock:
            call = self.claimed(call_id)
            if call is None:
                raise NotClaimedError(f"no call {call_id!r} is in flight; expected the id of a call that was allowed")
            if call.status is None:
                try:
                    self.settle(call, output, status)
                except InputError:
                    if call.status is None:
                        raise  # otherwise another process was faster
                else:
                    return ClaimSettlement(call, status, repeated=False)
            if call.status != status or (status != "withdrawn" and _hash(call.output) != _hash(output)):
                raise ClaimConflictError(
                    f"call {call_id!r} ended with the outcome {call.status!r}; nothing was recorded again"
                )
            return ClaimSettlement(call, call.status, repeated=True)

    def withdraw_claimed(self, call_id: str, why: str) -> ClaimSettlement | None:
        """Withdraws a claimed call that never ran. An id that was never claimed cannot be claimed later.

        Raises:
            ClaimConflictError: an outcome was recorded.
        """
        with self.lock:
            self.retried(partial(self._bar, call_id), "nothing was withdrawn")
            self.sweep()
            return None if self.claimed(call_id) is None else self.settle_claimed(call_id, why, "withdrawn")

    def _bar(self, call_id: str) -> None:
        if self.claimed(call_id) is None and call_id not in self.barred:
            self._publish({"barred": call_id})
            self.barred.add(call_id)


def seconds_at(reading: Reading) -> float:
    """The seconds of a reading, for permits.

    Raises:
        ClockError: they are unknown.
    """
    moment = reading[0]
    if moment is None:
        raise ClockError(NO_TIME)
    return moment / MICROSECONDS


def same_call(call: SessionCall, other: SessionCall) -> bool:
    """Whether two calls are the same proposal."""

    def identity(call: SessionCall) -> tuple[Any, ...]:
        return call.runs[0], _hash(call.runs[1]), call.action, call.tags, call.agent, _hash(call.principal)

    return identity(call) == identity(other)


def _hash(value: Any) -> str:
    return hashlib.sha256(sorted_json(value).encode("utf-8", "surrogatepass")).hexdigest()
