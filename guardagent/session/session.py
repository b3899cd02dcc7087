"""A session: one conversation of an agent, whose calls are judged before they run.

    check    judges a proposed call; an allowed call is in flight from then on
    use      starts the call
    record   records its outcome
    withdraw cancels a call that never runs
    finish   ends the conversation and reports pending obligations

Only recorded calls count as history. Several threads can share a session; their calls are processed one at a time.
"""

from __future__ import annotations

import datetime as dt
import inspect
import math
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any, Literal

from guardagent._support.arguments import bind_arguments, call_problem, label_problem
from guardagent.errors import InputError, SessionBusyError, ToolDenied, error_text
from guardagent.policy.evaluation.clock import Clock, ClockError, HostClock, Reading
from guardagent.policy.evaluation.failures import is_failure
from guardagent.policy.evaluation.monitor_interface import CallStatus, Explanation, MonitorResult, SessionCall
from guardagent.policy.language.answer_step import ANSWER, answer_arguments
from guardagent.policy.language.instants import EXPECTED, MICROSECONDS, seconds_of
from guardagent.policy.monitors.conversation import ConversationState, Judgement
from guardagent.policy.monitors.remedies import Remedies, message_of
from guardagent.policy.monitors.rule import RuleMetadata
from guardagent.policy.policies import Applicability, Policies
from guardagent.policy.provenance.recorder import LIMIT as PROVENANCE_BYTES
from guardagent.session.permit import Permit
from guardagent.session.proofs import AgentGraph, Proofs
from guardagent.session.shared_history import HistoryChangedError, Journal, SessionEndedError
from guardagent.session.snapshot import read_snapshot, take_over, write_snapshot
from guardagent.types import (
    EMPTY,
    Decision,
    Denial,
    Event,
    FrozenMapping,
    Usage,
    Verdict,
    Violation,
    freeze,
    quick_verdict,
    quick_violation,
    thaw,
)
from guardagent.types.objects import readable_copy
from guardagent.types.principal import SessionPrincipal, read_principal

if TYPE_CHECKING:
    from guardagent.session.counters.protocol import CounterStore
    from guardagent.session.counters.session_counters import SessionCounters
    from guardagent.session.shadow import OnDifference, SessionShadow

PERMIT_SECONDS = 300.0
MAX_TRIES = 50  # attempts to record an outcome while other processes extend the history
MAX_ORDERED = 6  # calls proposed together that are judged in every order
_NO_TAGS: frozenset[str] = frozenset()
_NO_USAGE = Usage()
_NO_TIME = f"the clock returned no time; {EXPECTED}"

ALLOW = Decision.ALLOW  # the members of an enumeration are slow to look up
WARN, ESCALATE, HALT = Decision.WARN, Decision.ESCALATE, Decision.HALT
ALLOWED = Verdict(Decision.ALLOW, checked_by="policy")
"""The verdict on an allowed call with `reserve=False`: one shared value, without timing."""


class _Grant:
    """An allowed or escalated call and its session."""

    __slots__ = ("call", "session")

    def __init__(self, session: Session, call: SessionCall) -> None:
        self.session, self.call = session, call

    def permit(self) -> Permit | None:
        self.call.permit_requested = True
        return self.session.permit_of(self.call)


class Session:
    """One conversation, under the rules of a policy.

    Args:
        policies: the rules.
        state: the state for `state(...)`: a live mapping or object, or a callable that returns the current state.
        facts: the facts of the host about the whole conversation.
        messages: the chat messages (`role`, `content`) for rules that read the conversation: a live list, or a callable
            that returns the current ones.
        id: the id of the session; random by default.
        permit_seconds: the lifetime of a permit.
        clock: returns seconds since the epoch, or a datetime with its zone. It gives `now`, the times of the calls and
            the lifetime of permits.
        zone: the time zone of `hour(now)` and the like; by default that of the datetimes of the clock.
        journal: shares the history with other processes.
        provenance_bytes: the maximum size of the index for `sources(...)`; beyond it sources are unknown.
        counters: the store of the policy's counters across conversations, or its address, such as `sqlite:PATH`.
        principal: on whose behalf the agent acts: a mapping with `id`, `roles`, `tenant` and `on_behalf_of`. It never
            changes.
        on_behalf_of: the principal for which that one acts; the roles of both count.
        on_difference: receives the differences of the policy's candidate (`shadow:`), in a thread of its own; by
            default they go to the logger `guardagent`. With False, the candidate does not judge this session.
    """

    def __init__(
        self,
        policies: Policies,
        state: Any = None,
        facts: Mapping[str, Any] = EMPTY,
        *,
        messages: Any = (),
        id: str | None = None,  # noqa: A002 - what it is
        permit_seconds: float = PERMIT_SECONDS,
        clock: HostClock = time.time,
        zone: dt.tzinfo | str | None = None,
        journal: Journal | None = None,
        provenance_bytes: int = PROVENANCE_BYTES,
        counters: CounterStore | str | None = None,
        principal: Mapping[str, Any] | SessionPrincipal | None = None,
        on_behalf_of: Mapping[str, Any] | SessionPrincipal | None = None,
        on_difference: OnDifference | Literal[False] | None = None,
    ) -> None:
        if not isinstance(facts, Mapping):
            raise InputError(f"'facts' has the type {type(facts).__name__!r}; expected a mapping of names to values")
        self.policies = policies
        self.id = id or secrets.token_hex(8)
        self._facts: Mapping[str, Any] = freeze(facts)
        self._clock = Clock(clock, zone)
        self.principal = read_principal(principal, on_behalf_of)
        self._principal = None if self.principal is None else self.principal.value
        self._conversation = ConversationState(
            policies,
            state,
            self._facts,
            messages,
            self._clock,
            provenance_bytes=provenance_bytes,
            principal=self._principal,
        )
        self._provenance_bytes = provenance_bytes
        self._halted: str | None = None
        self._approved = 0
        self._permit_seconds = permit_seconds
        self._lock = threading.RLock()
        self._journal = journal
        self._counters: SessionCounters | None = None
        if policies.counters:
            from guardagent.session.counters.session_counters import SessionCounters

            self._counters = SessionCounters.of(policies, counters, self._now, self.id)
        self._conversation.context.counters = self._counters
        self._lapsed: list[SessionCall] = []  # withdrawn after their permits expired, and not recorded since
        self._lapses_reported = 0  # the number of them that `lapsed` has returned
        self._mementos: list[Any] | None = None  # of a fork: the mementos of its trial calls
        self._is_followed = journal is not None or self._counters is not None  # whether others learn of the calls
        self._shadow: SessionShadow | None = None
        if policies.shadow is not None and on_difference is not False:
            from guardagent.session.shadow import SessionShadow, log_difference

            self._shadow = SessionShadow(policies.shadow, self.id, self._facts, on_difference or log_difference)
            self._is_followed = True

    def _now(self) -> float:
        """The time of the check in seconds, for the counters; not a number if it is unknown."""
        moment = self._conversation.context.reading()[0]
        return math.nan if moment is None else float(seconds_of(moment))

    # --- before a call

    def check(
        self,
        tool: str,
        args: Mapping[str, Any] = EMPTY,
        *,
        facts: Mapping[str, Any] | None = None,
        action: str | None = None,
        decision: str | None = None,
        tags: Iterable[str] = _NO_TAGS,
        agent: str | None = None,
        id: str | None = None,  # noqa: A002 - as above
        principal: Mapping[str, Any] | SessionPrincipal | None = None,
        reserve: bool = True,
    ) -> Verdict:
        """Judges a call before it runs. An allowed call is recorded as in flight.

        Args:
            tool: the tool's name.
            args: the arguments, exactly as the tool will receive them.
            facts: facts for this call; they override those of the conversation.
            action: the action of the call, for rules with `action:`.
            decision: the decision of the call, for rules with `decision:`.
            tags: the tags of the call.
            agent: the agent of the session that proposes the call.
            id: the host's id of the call.
            principal: the principal of the sub-agent that proposes the call, with a part of the session's roles.
            reserve: False only judges the call: it is not recorded, and there is no permit.

        Raises:
            HistoryChangedError: another process extended the history; call `catch_up` and check again.
        """
        started = time.perf_counter()
        with self._lock:
            conversation = self._conversation
            if conversation.context.in_flight:
                self._lapse()
            frozen = None
            if type(args) is FrozenMapping:
                args = frozen = args.value
            call = SessionCall(tool, args, len(conversation.calls) + 1)
            if problem := call_problem(tool, args, facts):
                return _refused(problem, started)
            try:
                call.facts = self._facts if facts is None else freeze({**self._facts, **facts})
                call.agent = agent
                call.principal = self._principal if principal is None else self._principal_of(principal)
                if reserve:
                    call.args, call.id = freeze(args) if frozen is None else frozen, id
            except (InputError, RecursionError) as error:
                return _refused(_unreadable(tool, error), started)
            if (action is not None or decision is not None or tags is not _NO_TAGS) and (
                problem := _label(call, action, decision, tags)
            ):
                return _refused(problem, started)
            call.applicability = applicability = self.policies.applicability(call)
            if reserve and self._counters is not None:
                judgement = self._judge_and_count(call)
            else:
                judgement = self._judge(call, applicability)
            if reserve:
                return self._answer(call, judgement, started)
            if judgement is None and not conversation.context.in_flight:
                return ALLOWED
            judgement = judgement or Judgement()
            return self._verdict(call, judgement, judgement.decision(), started)

    def _principal_of(self, principal: Mapping[str, Any] | SessionPrincipal | None) -> Mapping[str, Any] | None:
        """The principal of a call, as rules read it.

        Raises:
            InputError: it is invalid, or has more than the session's.
        """
        part = read_principal(principal)
        if part is None:
            return self._principal
        if self.principal is None:
            raise InputError(
                f"principal {part.id!r} of the call has none to narrow; expected a principal of the session"
            )
        return self.principal.narrowed(part).value

    def _judge(self, call: SessionCall, applicability: Applicability) -> Judgement | None:
        if self._halted is None:
            return self._conversation.judge(call, applicability)
        judgement = Judgement()
        judgement.fail(f"the session was halted by {self._halted}")
        return judgement

    def _judge_and_count(self, call: SessionCall, lifted: Decision | None = None) -> Judgement | None:
        """Judges a call and, if it is allowed, reserves its amounts in the counters."""

        def judge() -> Judgement | None:
            return self._judge(call, call.applicability)

        return judge() if self._counters is None else self._counters.judged(call, judge, lifted)

    def _answer(
        self, call: SessionCall, judgement: Judgement | None, started: float, lifted: Decision | None = None
    ) -> Verdict:
        """The verdict on a call. An allowed call is recorded as in flight."""
        decision = ALLOW if judgement is None else judgement.decision(lifted)
        if decision is HALT and judgement is not None:
            self._halt(", ".join(repr(source.id) for source, _ in judgement.broken))
        allowed = decision is ALLOW or decision is WARN
        if allowed:
            try:
                self._stamp(call)
            except ClockError as error:
                return _refused(str(error), started)
        grant = _Grant(self, call) if allowed or decision is ESCALATE else None
        verdict = self._verdict(call, judgement, decision, started, grant, lifted)
        if self._shadow is not None and lifted is None:
            self._shadow.check(call, verdict, self._conversation.context.state_now)
        if allowed:
            if self._mementos is not None:
                self._mementos.append(self._conversation.memento(call))
            self._reserve(call, judgement)
        if self._shadow is not None:
            self._follow()
        return verdict

    def _stamp(self, call: SessionCall) -> None:
        """Sets the time of an allowed call, and when its permit expires. The time is unknown if the clock went back.

        Raises:
            ClockError: the clock cannot be read.
        """
        context = self._conversation.context
        moment = (context.check_time or context.reading())[0]
        if moment is None:
            raise ClockError(_NO_TIME)
        call.time = moment if moment >= context.latest else None
        call.expires = moment / MICROSECONDS + self._permit_seconds

    def _follow(self) -> None:
        """Lets the candidate follow the calls of this session."""
        if self._shadow is not None:
            self._shadow.follow(self._conversation.calls, self._conversation.context.state_now)

    def _reserve(self, call: SessionCall, judgement: Judgement | None) -> None:
        if not self._is_followed:  # the common case
            self._conversation.reserve(call, judgement)
            return
        if self._counters is None:
            self._add_to_history(call, judgement)
            return
        if call.reservation is None:  # it runs, whatever the counters say
            self._counters.reserve(call)
        try:
            self._add_to_history(call, judgement)
        except BaseException:
            self._counters.release(call)
            raise

    def _add_to_history(self, call: SessionCall, judgement: Judgement | None) -> None:
        conversation, journal = self._conversation, self._journal
        if journal is None:
            conversation.reserve(call, judgement)
            return
        memento = conversation.memento(call)
        conversation.reserve(call, judgement)
        try:
            journal.append(conversation.history_entry(call))
        except BaseException:
            conversation.forget(memento)
            raise

    def _settle(self, call: SessionCall, output: Any, status: CallStatus) -> None:
        if not self._is_followed:  # the common case
            self._conversation.settle(call, output, status)
            return
        self._settle_in_history(call, output, status)
        if self._counters is not None:
            self._counters.settle(call)

    def _settle_in_history(self, call: SessionCall, output: Any, status: CallStatus) -> None:
        self._settle_and_publish(call, output, status)
        self._follow()

    def _settle_and_publish(self, call: SessionCall, output: Any, status: CallStatus) -> None:
        conversation, journal = self._conversation, self._journal
        if journal is None:
            conversation.settle(call, output, status)
            return
        for _ in range(MAX_TRIES):
            if call.status is not None:
                raise InputError(
                    f"the outcome of {call.tool!r} (call {call.place}) was already recorded by another process"
                )
            try:
                conversation.settle(call, output, status, lambda: journal.append(conversation.history_entry(call)))
            except HistoryChangedError:
                self.catch_up()
            else:
                return
        raise HistoryChangedError(
            f"other processes kept extending the history; the outcome of {call.tool!r} was not recorded; try again"
        )

    def _halt(self, why: str) -> None:
        if self._journal is not None:
            self._journal.append({"halted": why})
        self._halted = why

    def catch_up(self) -> None:
        """Applies the history entries of other processes that share this session.

        Raises:
            SessionEndedError: another process ended the conversation.
            InputError: as for `Journal.news`.
        """
        if self._journal is None:
            return
        with self._lock:
            try:
                news = self._journal.news()
            except SessionEndedError:
                self.retire("another process, which ended it")
                raise
            self._require_principal(news)
            self._halted = next((one["halted"] for one in news if "halted" in one), self._halted)
            try:
                self._conversation.apply_entries(one for one in news if "halted" not in one)
            except Exception:
                self.retire("an unreadable shared history")
                raise
            self._settle_counters([self._conversation.calls[one["settled"] - 1] for one in news if "settled" in one])
            self._follow()

    def _settle_counters(self, calls: Iterable[SessionCall]) -> None:
        """Settles calls in the counters, in case that the process that recorded their outcomes ended before it did."""
        if self._counters is not None:
            for call in calls:
                self._counters.settle(call)

    def _require_principal(self, news: Iterable[Mapping[str, Any]]) -> None:
        """Requires the calls of other processes to be of this session's principal, or of a part of it.

        Raises:
            InputError: another process continues the conversation for another principal.
        """
        for entry in news:
            if "placed" in entry and (principal := entry["placed"].get("principal")) != self._principal:
                try:
                    self._principal_of(principal or {"id": ""})
                except InputError as error:
                    self.retire("a call of another principal")
                    raise InputError(
                        f"another process continues this conversation for another principal: {error}"
                    ) from None

    def _verdict(
        self,
        call: SessionCall,
        judgement: Judgement | None,
        decision: Decision,
        started: float,
        grant: _Grant | None = None,
        lifted: Decision | None = None,
    ) -> Verdict:
        notes, details = self._notes() if self._conversation.context.in_flight else ((), EMPTY)
        if judgement is None:
            elapsed = (time.perf_counter() - started) * 1000
            return quick_verdict(
                decision, notes, (), (), details, None, None, "policy", _NO_USAGE, elapsed, (), (), grant
            )
        if lifted is not None:
            details = {
                **details,
                "approved": [source.id for source, _ in judgement.broken if source.on_violation is lifted],
            }
            judgement.broken = [one for one in judgement.broken if one[0].on_violation is not lifted]
        violations, withheld = self._violations(judgement, call)
        reasons = [violation.message for violation in violations]
        if judgement.reasons or notes:
            reasons += (*judgement.reasons, *notes)
        return quick_verdict(
            decision,
            tuple(reasons),
            violations,
            tuple(judgement.errors),
            details,
            None,
            None,
            "policy",
            sum((verdict.usage for verdict in judgement.request_verdicts), Usage())
            if judgement.request_verdicts
            else _NO_USAGE,
            (time.perf_counter() - started) * 1000,
            (),
            (),
            grant,
            Denial(call.tool, violations[0].evidence["call"]["args"] if violations else call.args, tuple(withheld)),
        )

    def _violations(self, judgement: Judgement, call: SessionCall | None) -> tuple[tuple[Violation, ...], list[str]]:
        """(violations, withheld details)."""
        facts = self._facts if call is None else call.facts
        remedies = Remedies(self._conversation, call, facts, halted=self._halted is not None)
        shown = None if call is None else call.shown()
        violations: list[Violation] = []
        withheld = list(judgement.withheld)
        for source, result in judgement.broken:
            found, remedy = _explained(source, result, remedies)
            evidence: dict[str, Any] = {} if shown is None else {"call": shown}
            if found.needed:
                evidence["needed"] = found.needed
            if found.missing:
                evidence["missing"] = " or ".join(found.missing)
            if found.evidence:
                evidence.update(found.evidence)
            message = message_of(source, found, remedy, earlier=call is not None)
            violations.append(quick_violation(source.id, message, evidence, remedy))
            if found.withheld:
                withheld += [f"{source.id}: {one}" for one in dict.fromkeys(found.withheld)]
        return tuple(violations), withheld

    def _notes(self) -> tuple[tuple[str, ...], Mapping[str, Any]]:
        """Notes and details for the host about calls in flight."""
        open_calls = self._conversation.context.in_flight
        if not open_calls:
            return (), EMPTY
        shown = [{"call": call.place, **call.shown()} for call in open_calls]
        notes = tuple([f"{call.tool!r} (call {call.place}) is in flight: record its outcome" for call in open_calls])
        return notes, {"in_flight": shown}

    def answer(self, text: str, **options: Any) -> Verdict:
        """Judges the final answer before the user sees it, and records it if it may pass, in one step.

        Rules speak of it as a call of the tool `answer` with the argument `text`.

        Args:
            text: the answer.
            options: as for `check`.
        """
        started = time.perf_counter()
        if not isinstance(text, str):
            return _refused(f"the answer has the type {type(text).__name__!r}; expected a string", started)
        with self._lock:
            verdict = self._check_and_retry(ANSWER, answer_arguments(text), options)
            if verdict.permit is not None and verdict.label == 0:
                permit = verdict.permit
                self.use(permit)
                self.record(permit=permit)
            return verdict

    def _check_and_retry(self, tool: str, args: Mapping[str, Any], options: Mapping[str, Any]) -> Verdict:
        for _ in range(MAX_TRIES):
            try:
                return self.check(tool, args, **options)
            except HistoryChangedError:
                self.catch_up()
        raise HistoryChangedError(f"other processes kept extending the history; {tool!r} was not judged; try again")

    def check_all(self, calls: Sequence[tuple[str, Mapping[str, Any]]], **options: Any) -> list[Verdict]:
        """Judges calls that are proposed together and may run in any order.

        A call is allowed if it complies in every order with the calls allowed before it. More than six calls are judged
        only in the given order. Allowed calls are recorded as in flight, in the given order.
        """
        with self._lock:
            if not 1 < len(calls) <= MAX_ORDERED:
                return [self.check(tool, args, **options) for tool, args in calls]
            base = self.fork()
            allowed: list[tuple[str, Mapping[str, Any]]] = []
            verdicts = []
            for call in calls:
                denial = _in_other_orders(base, [*allowed, call], options)
                verdict = (
                    self.check(*call, **options) if denial is None else self._jointly_denied(denial, call, options)
                )
                allowed += [call] if verdict.label == 0 else []
                verdicts.append(verdict)
            return verdicts

    def _jointly_denied(
        self, denial: Verdict, call: tuple[str, Mapping[str, Any]], options: Mapping[str, Any]
    ) -> Verdict:
        """The verdict on a call that some order denies. A halt or escalation in the given order stands."""
        alone = self.check(*call, **{**options, "reserve": False})
        if alone.decision >= Decision.ESCALATE:
            return self.check(*call, **options)
        return replace(denial, decision=Decision.DENY)

    def approve(self, verdict: Verdict) -> Verdict:
        """Applies human approval to an escalated call: judges it again as proposed.

        The approval lifts only the violations that escalated. It counts once, and only without later calls.

        Raises:
            InputError: the verdict is not a pending escalation of this session.
        """
        started = time.perf_counter()
        with self._lock:
            grant = verdict.grant
            if not isinstance(grant, _Grant) or grant.session is not self or verdict.decision is not Decision.ESCALATE:
                raise InputError("nothing to approve; expected the verdict of a call that this session escalated")
            if grant.call.used or grant.call.place != len(self._conversation.calls) + 1:
                raise InputError(
                    "the approval is void: it was already used, or other calls followed; check the call again"
                )
            grant.call.used = True
            self._approved += 1
            call = grant.call.copied()
            call.used = False
            call.applicability = self.policies.applicability(call)
            return self._answer(call, self._judge_and_count(call, Decision.ESCALATE), started, Decision.ESCALATE)

    # --- permits

    def permit_of(self, call: SessionCall) -> Permit | None:
        """The permit of a call that is in flight."""
        with self._lock:
            here = call in self._conversation.context.in_flight or call in self._lapsed
            if not here or self._mementos is not None:
                return None
            if call.permit is None:
                nonce = secrets.token_hex(16)
                digest = self.policies.digest
                call.permit = Permit(call.tool, call.args, digest, self.id, call.place, call.expires, nonce)
            return call.permit  # type: ignore[no-any-return]

    def use(
        self,
        permit: Permit,
        tool: str | None = None,
        args: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> Mapping[str, Any]:
        """Uses a permit just before its call runs: once, before it expires, and for exactly the judged call.

        Args:
            permit: the permit of a call in flight.
            tool: the tool that is about to run, to compare with the permit.
            args: its arguments, to compare with the permit.
            timeout: seconds to wait for a running check; None waits without limit.

        Returns:
            The judged arguments as plain values.

        Raises:
            InputError: the permit is void.
            SessionBusyError: a running check exceeds `timeout`; the permit stays valid.
        """
        if not self._lock.acquire(timeout=-1 if timeout is None else timeout):
            raise SessionBusyError("another check of the conversation is running; the call may not run yet: try again")
        try:
            return self._use(permit, tool, args)
        finally:
            self._lock.release()

    def _use(self, permit: Permit, tool: str | None, args: Mapping[str, Any] | None) -> Mapping[str, Any]:
        call = self._call_of(permit)
        if call.used:
            raise InputError(f"the permit of {call.tool!r} (call {call.place}) was already used; check the call again")
        if call.lapsed or _seconds(self._clock.read()) > call.expires:
            raise InputError(f"the permit of {call.tool!r} (call {call.place}) has expired; check the call again")
        if (tool is not None and tool != call.tool) or (args is not None and freeze(args) != call.args):
            raise InputError(
                f"the permit is for another call; expected {call.tool!r} with the arguments that were judged"
            )
        self._conversation.began(call)
        self._follow()
        return thaw(call.args)  # type: ignore[no-any-return]

    def withdraw(self, permit: Permit, why: str = "it was not run", *, never_ran: bool = False) -> None:
        """Withdraws an allowed call that never runs. Rules ignore it from then on.

        Until a permit is used, later calls are judged as if its call might never run.

        Args:
            permit: the permit of a call in flight.
            why: the reason.
            never_ran: confirms that the permit was used but the call did not run.

        Raises:
            InputError: no such call is in flight, or its permit was used, so that it may be running.
        """
        with self._lock:
            call = self._call_of(permit)
            if call.lapsed:
                return
            if call.used and not never_ran:
                raise InputError(
                    f"{call.tool!r} (call {call.place}) may be running, since its permit was used; record its outcome"
                )
            self._settle(call, why, "withdrawn")

    def lapsed(self) -> tuple[Permit, ...]:
        """The permits that expired unused since the last call of this method. Their calls were withdrawn."""
        with self._lock:
            lapsed, self._lapses_reported = self._lapsed[self._lapses_reported :], len(self._lapsed)
            permits = [self.permit_of(call) for call in lapsed]
            return tuple(permit for permit in permits if permit is not None)

    def _lapse(self) -> None:
        """Withdraws the calls whose permits were requested and expired unused.

        A call whose permit was never requested, or that another process may have started, can have run: it stays in
        flight.
        """
        if self._mementos is not None:
            return
        try:
            now = _seconds(self._clock.read())
        except ClockError:  # no call has certainly expired
            return
        for call in list(self._conversation.context.in_flight):
            if call.expires < now and call.permit_requested and not call.used and not call.may_have_started:
                self._settle(call, "its permit expired unused", "withdrawn")
                call.lapsed = True
                self._lapsed.append(call)

    def _reinstate(self, call: SessionCall) -> SessionCall:
        """Records a withdrawn call as in flight again, because it ran without using its permit."""
        again = call.copied()
        again.permit, again.used, again.lapsed = call.permit, True, False
        again.output, again.status, again.reservation = None, None, None
        self._reserve_and_retry(again)
        at, call.permit = self._lapsed.index(call), None
        del self._lapsed[at]
        self._lapses_reported -= at < self._lapses_reported
        return again

    def _reserve_and_retry(self, call: SessionCall) -> None:
        for _ in range(MAX_TRIES):
            try:
                judgement, call.time = self._judge(call, call.applicability), None  # it ran at an unknown time
                return self._reserve(call, judgement)
            except HistoryChangedError:
                self.catch_up()
        raise HistoryChangedError(
            f"other processes kept extending the history; {call.tool!r} was not recorded; try again"
        )

    def _call_of(self, permit: Any) -> SessionCall:
        for call in (*self._conversation.context.in_flight, *self._lapsed):
            if call.permit is not None and call.permit == permit:
                return call
        raise InputError("the permit does not belong to a call in flight of this session; nothing was recorded")

    # --- after a call

    def record(self, output: Any = None, failed: bool | None = False, permit: Permit | None = None) -> None:  # noqa: FBT001, FBT002 - the public contract
        """Records the outcome of a call in flight.

        Args:
            output: the output of the tool.
            failed: whether the call failed; None if unknown. An output that matches the policy's `failed_output` counts
                as failed in any case.
            permit: the permit of the call; needed if several calls are in flight.

        Raises:
            InputError: no such call is in flight.
        """
        with self._lock:
            call = self._only_call() if permit is None else self._call_of(permit)
            try:
                kept, status = readable_copy(output), self.status_of(output, failed)
            except RecursionError:
                raise InputError(f"the output of {call.tool!r} is nested too deeply; record it as a string") from None
            call = self._reinstate(call) if call.lapsed else call
            self._settle(call, kept, status)

    def _only_call(self) -> SessionCall:
        in_flight = self._conversation.context.in_flight
        if self._lapsed:
            in_flight = [*in_flight, *self._lapsed]
        if len(in_flight) == 1:
            return in_flight[0]
        if not in_flight:
            raise InputError("there is nothing to record, since no call is in flight; check the call first")
        names = ", ".join(f"{call.tool!r} (call {call.place})" for call in in_flight)
        raise InputError(f"several calls are in flight: {names}; expected the permit of the call to record")

    def status_of(self, output: Any, failed: bool | None) -> CallStatus:  # noqa: FBT001 - as in `record`
        """The status of a call with this output; see `record`."""
        pattern = self.policies.failed_output
        if pattern is not None and is_failure(pattern, output):
            return "failed"
        return "unknown" if failed is None else "failed" if failed else "ok"

    def call(self, fn: Callable[..., Any], tool: str, args: Mapping[str, Any] = EMPTY, **options: Any) -> Any:
        """Checks a call, runs it with the judged arguments and records its outcome.

        Errors of `fn` propagate, and the call is recorded as failed. An interrupted call stays in flight.

        Raises:
            ToolDenied: the call is denied; with the verdict.
        """
        if inspect.iscoroutinefunction(fn):
            raise InputError(f"{tool!r} is a coroutine function; use 'await session.acall(...)'")
        permit = self._permit_for(fn, tool, args, options)
        try:
            output = fn(**self.use(permit))
        except Exception as error:
            self.record(f"{type(error).__name__}: {error}", failed=True, permit=permit)
            raise
        self.record(output, permit=permit)
        return output

    async def acall(
        self, fn: Callable[..., Awaitable[Any]], tool: str, args: Mapping[str, Any] = EMPTY, **options: Any
    ) -> Any:
        """As `call`, for a coroutine function."""
        permit = self._permit_for(fn, tool, args, options)
        try:
            output = await fn(**self.use(permit))
        except Exception as error:
            self.record(f"{type(error).__name__}: {error}", failed=True, permit=permit)
            raise
        self.record(output, permit=permit)
        return output

    def _permit_for(
        self, fn: Callable[..., Any], tool: str, args: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Permit:
        try:
            arguments = bind_arguments(fn, tool, args)
        except InputError as error:
            raise ToolDenied(tool, _refused(str(error), time.perf_counter())) from None
        verdict = self.check(tool, arguments, **options)
        if verdict.permit is None:
            raise ToolDenied(tool, verdict)
        return verdict.permit  # type: ignore[no-any-return]

    def observe(
        self, event: Event, state: Any = None, facts: Mapping[str, Any] | None = None, *, judge: bool = True
    ) -> Verdict:
        """Records a call that has already happened, whatever the verdict. It never halts the session.

        Args:
            event: the call with its outcome. Without a status, the policy's `failed_output` decides; without that
                pattern the status is unknown. Its `time` is `now` for this call; without it, the clock gives `now`, and
                the time of the call is unknown.
            state: the state for `state(...)` from this call on; None keeps the current one.
            facts: facts for this call; they override those of the conversation.
            judge: False records the call without judging it.

        Raises:
            InputError: the time of the event is invalid.
        """
        started = time.perf_counter()
        with self._lock:
            conversation = self._conversation
            if state is not None:
                conversation.context.state_source = state
            call = SessionCall(event.tool, event.args, len(conversation.calls) + 1)
            call.labelled(event.action, event.decision, event.tags)
            call.facts = self._facts if facts is None else {**self._facts, **facts}
            call.agent, call.id = event.agent, event.id
            reading = None if event.time is None else _reading_of(self._clock, event)
            call.time = reading and conversation.context.time_of(reading)
            call.principal = self._principal_of(event.principal)
            call.applicability = self.policies.applicability(call)
            judgement = conversation.judge(call, call.applicability, reading=reading) or Judgement()
            verdict = self._verdict(call, judgement, judgement.decision(), started) if judge else ALLOWED
            self._reserve(call, judgement)
            failed = None if self.policies.failed_output is None else False
            self._settle(call, readable_copy(event.output), event.status or self.status_of(event.output, failed))
            return verdict

    # --- the end, and in between

    def finish(self) -> Verdict:
        """Ends the conversation: pending obligations are violations. Every outcome of the calls in flight counts."""
        started = time.perf_counter()
        with self._lock:
            self._lapse()
            judgement = self._conversation.pending_obligations()
            notes, details = self._notes()
            violations, withheld = self._violations(judgement, None)
            reasons = [f"at the end: {violation.message}" for violation in violations]
            verdict = Verdict(
                judgement.decision(),
                (*reasons, *judgement.reasons, *notes),
                violations,
                tuple(judgement.errors),
                details,
                checked_by="policy",
                elapsed_ms=(time.perf_counter() - started) * 1000,
                denial=Denial(withheld=tuple(withheld)),
            )
            if self._shadow is not None:
                self._shadow.end(verdict, self._conversation.context.state_now)
            return verdict

    @property
    def obligations(self) -> dict[str, str]:
        """The pending obligations: rule id -> remedy or message, if the conversation ended now."""
        with self._lock:
            violations, _ = self._violations(self._conversation.pending_obligations(), None)
            return {violation.policy: violation.remedy or violation.message for violation in violations}

    @property
    def status(self) -> dict[str, str]:
        """The id of each temporal rule -> `satisfied` for good, `violated` for good, or `open`."""
        with self._lock:
            return self._conversation.status()

    @property
    def history(self) -> tuple[Event, ...]:
        """The recorded calls in order. Calls in flight have no status yet."""
        with self._lock:
            return self._conversation.history()

    @property
    def in_flight(self) -> tuple[Permit, ...]:
        """The permits of the calls in flight."""
        with self._lock:
            permits = [self.permit_of(call) for call in self._conversation.context.in_flight]
            return tuple(permit for permit in permits if permit is not None)

    @property
    def halted(self) -> bool:
        return self._halted is not None

    # --- proofs

    def rely_on(self, proofs: Proofs, graph: AgentGraph) -> None:
        """Skips rules that are proved for every run of the agent's graph.

        Calls of tools outside of the graph are judged by all rules. After the first such call, nothing is skipped.

        Args:
            proofs: the result of `guardagent.workflow.analysis.proofs.prove`.
            graph: the current graph.

        Raises:
            InputError: `proofs` is not a result of `prove`, or is for another graph, other sources or another policy.
        """
        with self._lock:
            self._conversation.skipped = frozenset()
            if not isinstance(proofs, Proofs):
                raise InputError(
                    f"'proofs' has the type {type(proofs).__name__!r}; expected the result of 'prove(...)'"
                )
            if not proofs.hold_for(graph, self.policies):
                raise InputError("the proofs do not match the current graph and policy; call 'prove(...)' again")
            tools = frozenset(tool for node in graph.nodes for tool in node.tools)
            proved = [number for number, rule in enumerate(self.policies.rule_of) if rule.id in proofs.rules]
            self._conversation.rely_on(tools, frozenset(proved))

    def graph_changed(self) -> None:
        """Notes that the agent's graph changed: no rule is skipped until `rely_on` is called with new proofs."""
        with self._lock:
            self._conversation.skipped = frozenset()

    # --- snapshots

    @property
    def sequence(self) -> int:
        """A number that grows with every reserved or recorded call, approval and halt."""
        conversation = self._conversation
        return 2 * len(conversation.calls) - len(conversation.context.in_flight) + self._approved + self.halted

    def snapshot(self, key: bytes) -> bytes:
        """An authenticated snapshot for another process to continue the session: see `Policies.restore`.

        Raises:
            InputError: the key is too short, or a value cannot be written as JSON.
        """
        with self._lock:
            content = {
                "policy": self.policies.digest,
                "session": self.id,
                "sequence": self.sequence,
                "facts": thaw(self._facts),
                "principal": None if self._principal is None else thaw(self._principal),
                "halted": self._halted,
                "approved": self._approved,
                "permit_seconds": self._permit_seconds,
                "provenance_bytes": self._provenance_bytes,
                **self._conversation.dumped(),
            }
            return write_snapshot(self, content, key)

    def retire(self, why: str = "the restoration of its snapshot") -> None:
        """Retires this session after another one took over: it denies every call from then on."""
        with self._lock:
            self._halted = self._halted or why

    @classmethod
    def restore(
        cls,
        policies: Policies,
        snapshot: bytes,
        key: bytes,
        *,
        state: Any = None,
        messages: Any = (),
        newest: int | None = None,
        clock: HostClock = time.time,
        zone: dt.tzinfo | str | None = None,
        counters: CounterStore | str | None = None,
        on_difference: OnDifference | None = None,
    ) -> Session:
        """Restores a session: see `Policies.restore`."""
        content = read_snapshot(snapshot, key, newest)
        policies = policies.version(content["policy"])
        seconds = content["permit_seconds"]
        name = content["session"]
        session = cls(
            policies,
            state,
            content["facts"],
            messages=messages,
            id=name,
            permit_seconds=seconds,
            clock=clock,
            zone=zone,
            provenance_bytes=content.get("provenance_bytes", PROVENANCE_BYTES),
            counters=counters,
            principal=content.get("principal"),
            on_difference=on_difference,
        )  # fmt: skip
        session._conversation.load(content)
        session._halted, session._approved = content["halted"], content["approved"]
        take_over(session, content)
        session._settle_counters(call for call in session._conversation.calls if call.status is not None)
        session._follow()
        return session

    # --- forks

    def fork(self) -> Session:
        """A copy for trial calls: they do not affect this session and have no permits."""
        with self._lock:
            self._lapse()
            fork = Session(
                self.policies,
                facts=self._facts,
                id=f"{self.id}/{secrets.token_hex(4)}",
                permit_seconds=self._permit_seconds,
                counters=None if self._counters is None else self._counters.trial_store(),
                principal=self.principal,
                on_difference=False,
            )
            fork._clock = self._clock
            fork._conversation, fork._halted, fork._mementos = self._conversation.copied(), self._halted, []
            fork._conversation.context.counters = fork._counters
            return fork

    def mark(self) -> int:
        """A mark to which a fork can be rolled back."""
        return len(self._conversation.calls)

    def rollback(self, mark: int = 0) -> int:
        """Removes trial calls of a fork, newest first, down to a mark.

        Stops at a recorded call and at a call that is in flight in the session itself: these are never removed.

        Returns:
            The number of remaining calls.
        """
        with self._lock:
            calls = self._conversation.calls
            while self._mementos and len(calls) > mark and calls[-1].status is None:
                if self._counters is not None:
                    self._counters.release(calls[-1])
                self._conversation.forget(self._mementos.pop())
            return len(calls)


def _label(call: SessionCall, action: str | None, decision: str | None, tags: Iterable[str]) -> str | None:
    """Labels a call. Returns the problem of invalid labels, which are not set."""
    tags = tags if isinstance(tags, str) else list(tags)
    problem = label_problem(action, decision, tags)
    if problem is None:
        call.labelled(action, decision, frozenset(tags))
    return problem


def _in_other_orders(base: Session, calls: Sequence[Any], options: Mapping[str, Any]) -> Verdict | None:
    """A denial in some other order of the calls, or None. The given order is judged when the calls are reserved."""
    for order in list(permutations(calls))[1:]:
        trial = base.fork()
        for tool, args in order:
            verdict = trial.check(tool, args, **options)
            if verdict.label:
                names = " then ".join(name for name, _ in order)
                reason = f"the calls were proposed together, and the order {names} is not allowed"
                return replace(verdict, reasons=(*verdict.reasons, reason), grant=None)
    return None


def _seconds(reading: Reading) -> float:
    """The seconds of a reading, for permits.

    Raises:
        ClockError: they are unknown.
    """
    moment = reading[0]
    if moment is None:
        raise ClockError(_NO_TIME)
    return moment / MICROSECONDS


def _reading_of(clock: Clock, event: Event) -> Reading:
    try:
        return clock.reading_of(event.time)
    except ValueError as error:
        raise InputError(f"the time of the event {event.tool!r} is invalid: {error}") from None


def _explained(source: RuleMetadata, result: MonitorResult, remedies: Remedies) -> tuple[Explanation, str | None]:
    """The explanation of a violation and its remedy. Errors here do not affect the denial."""
    found = Explanation()
    try:
        found = result.explain()
        return found, remedies.remedy(source, found)
    except Exception as error:  # noqa: BLE001 - as above
        found.withheld += (f"its explanation failed: {error_text(error)}",)
        return found, None


def _unreadable(tool: str, error: Exception) -> str:
    """The problem of a call that cannot be copied, or whose principal is invalid."""
    if isinstance(error, RecursionError):
        return f"the arguments of {tool!r}, or the facts, are nested too deeply"
    return str(error)


def _refused(problem: str, started: float) -> Verdict:
    elapsed = (time.perf_counter() - started) * 1000
    reasons = (f"could not be checked: {problem}",)
    return Verdict(Decision.DENY, reasons, errors=(problem,), checked_by="policy", elapsed_ms=elapsed)
