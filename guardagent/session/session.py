"""A session: one conversation of an agent, whose calls are judged before they run.

    check    judges a proposed call; an allowed call is in flight from then on
    use      starts the call
    record   records its outcome
    withdraw cancels a call that never runs
    finish   ends the conversation and reports pending obligations

Only recorded calls count as history. Several threads can share a session; their calls are processed one at a time.
Calls that have already happened are recorded with their outcomes, whatever the verdict. Of calls that a model proposes
together, all are recorded as in flight, or none.
"""

from __future__ import annotations

import datetime as dt
import inspect
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any, Literal

from guardagent._support.arguments import bind_arguments, call_problem, frozen_arguments, label_problem
from guardagent.errors import InputError, SessionBusyError, ToolDenied
from guardagent.policy.evaluation.call_outcomes import is_failure
from guardagent.policy.evaluation.monitor_interface import (
    CallStatus,
    Clock,
    ClockError,
    HostClock,
    Reading,
    SessionCall,
)
from guardagent.policy.file.file_keys import worst_effect
from guardagent.policy.language import ANSWER, answer_arguments
from guardagent.policy.language.ast import USAGE
from guardagent.policy.language.values import MICROSECONDS
from guardagent.policy.monitors.conversation import ConversationState, Judgement
from guardagent.policy.monitors.remedies import Remedies
from guardagent.policy.policies import Applicability, Policies
from guardagent.policy.provenance.recorder import LIMIT as PROVENANCE_BYTES
from guardagent.session.calls import NO_TIME, CallHistory, ClaimSettlement, FindGrants, Journal, seconds_at
from guardagent.session.snapshot import AgentGraph, Proofs, read_snapshot, take_over, write_snapshot
from guardagent.session.verdicts import claimed_verdict, notes_on, refused, verdict_on, violations_of
from guardagent.types import (
    ATOMS,
    EMPTY,
    NO_USAGE,
    Decision,
    Denial,
    Event,
    FrozenMapping,
    Permit,
    Verdict,
    freeze,
    new,
    quick_verdict,
    thaw,
)
from guardagent.types.values import SessionPrincipal, read_principal, readable_copy

if TYPE_CHECKING:
    from guardagent.session.counters import CounterStore
    from guardagent.session.shadow import OnDifference, SessionShadow

PERMIT_SECONDS = 300.0
MAX_ORDERED = 6  # calls proposed together that are judged in every order

ReplayedStep = tuple[Event, Any, Mapping[str, Any] | None, Any]

_NO_TAGS: frozenset[str] = frozenset()

ALLOW = Decision.ALLOW  # the members of an enumeration are slow to look up
WARN, ESCALATE, HALT = Decision.WARN, Decision.ESCALATE, Decision.HALT
ALLOWED = Verdict(Decision.ALLOW, checked_by="policy")
"""The verdict on an allowed call with `reserve=False`: one shared value, without timing."""


class _CallGrant:
    """An allowed or escalated call and its history."""

    __slots__ = ("call", "history")

    history: CallHistory
    call: SessionCall

    def permit(self) -> Permit | None:
        self.call.permit_requested = True
        return self.history.permit_of(self.call)


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
        grants: finds the live grants for a call, which lift the violations that need approval; a server has them.
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
        grants: FindGrants | None = None,
        on_difference: OnDifference | Literal[False] | None = None,
    ) -> None:
        if not isinstance(facts, Mapping):
            raise InputError(f"'facts' has the type {type(facts).__name__!r}; expected a mapping of names to values")
        self.policies = policies
        self.id = id or secrets.token_hex(8)
        self.principal = read_principal(principal, on_behalf_of)
        self._principal = None if self.principal is None else self.principal.value
        self._facts: Mapping[str, Any] = freeze(facts)
        self._permit_seconds = permit_seconds
        self._provenance_bytes = provenance_bytes
        self._conversation = ConversationState(
            policies,
            state,
            self._facts,
            messages,
            Clock(clock, zone),
            provenance_bytes=provenance_bytes,
            principal=self._principal,
        )
        shadow: SessionShadow | None = None
        if policies.shadow is not None and on_difference is not False:
            from guardagent.session.shadow import SessionShadow, log_difference

            shadow = SessionShadow(policies.shadow, self.id, self._facts, on_difference or log_difference)
        self._history = CallHistory(self.id, self._conversation, self.principal, journal, counters, shadow, grants)
        self._lock = self._history.lock

    def check(  # noqa: C901 - the common case calls no helpers
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
        claim: str | None = None,
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
            claim: the request of a program that runs the call itself, in place of a permit; it needs `id`.

        Raises:
            HistoryChangedError: another process extended the history; call `catch_up` and check again.
        """
        started = time.perf_counter()
        with self._lock:
            conversation, history, policies = self._conversation, self._history, self.policies
            if conversation.context.in_flight:
                history.lapse()
            frozen = frozen_arguments(args) if type(tool) is str and tool and facts is None else None
            call: SessionCall = new(SessionCall)
            call.tool, call.agent, call.place = tool, agent, len(conversation.calls) + 1
            try:
                call.args = _arguments(tool, args, facts) if frozen is None else frozen
                call.facts = self._facts if facts is None else freeze({**self._facts, **facts})
                call.principal = self._principal if principal is None else history.principal_of(principal)
                if action is not None or decision is not None or tags is not _NO_TAGS:
                    _label(call, action, decision, tags)
                    applicability = policies.applicability(call)
                else:
                    applicability = policies.applicability(call) if policies.is_scoped else policies.of_tool[tool]
                if applicability.problem is not None and policies.dispatch:
                    applicability = policies.dispatched(call, applicability)
            except (InputError, RecursionError) as error:
                return refused(_unreadable(tool, error), started)
            call.applicability = applicability
            if reserve:
                call.id = id
            if claim is not None and (verdict := claimed_verdict(history, call, claim, started)) is not None:
                return verdict
            is_alone = history.counters is None and history.halted is None  # the common case
            judgement = conversation.judge(call, applicability) if is_alone else history.judge(call, count=reserve)
            if reserve:
                if judgement is None and claim is None and not history.is_followed:  # the common case
                    return self._granted(call, started)
                return self._answer(call, judgement, started)
            if judgement is None:
                if not conversation.context.in_flight:
                    return ALLOWED
                judgement = Judgement()
            return verdict_on(history, call, judgement, judgement.decision(), started)

    def _answer(
        self, call: SessionCall, judgement: Judgement | None, started: float, lifted: Decision | None = None
    ) -> Verdict:
        """The verdict on a call. An allowed call is recorded as in flight."""
        history = self._history
        decision = ALLOW if judgement is None else judgement.decision(lifted)
        if decision is HALT and judgement is not None:
            history.halt(", ".join(repr(source.id) for source, _ in judgement.broken))
        allowed = decision is ALLOW or decision is WARN
        if allowed:
            try:
                self._stamp(call)
            except ClockError as error:
                return refused(str(error), started)
        grant: _CallGrant | None = None
        if allowed or decision is ESCALATE:
            grant = new(_CallGrant)
            grant.history, grant.call = history, call
        verdict = verdict_on(history, call, judgement, decision, started, grant, lifted)
        if history.shadow is not None and lifted is None and not (judgement is not None and judgement.grants):
            history.shadow.check(call, verdict, self._conversation.context.state_now)
        if allowed and call.claim is not None:
            history.reserve_claimed(call, judgement, verdict)
        elif allowed:
            history.reserve(call, judgement)
        if history.shadow is not None:
            history.follow()
        return verdict

    def _granted(self, call: SessionCall, started: float) -> Verdict:
        """Allows a call that passes every check and records it as in flight, unless the history `is_followed`."""
        conversation, history = self._conversation, self._history
        try:
            self._stamp(call)
        except ClockError as error:
            return refused(str(error), started)
        grant: _CallGrant = new(_CallGrant)
        grant.history, grant.call = history, call
        notes, details = notes_on(history) if conversation.context.in_flight else ((), EMPTY)
        elapsed = (time.perf_counter() - started) * 1000
        verdict = quick_verdict(ALLOW, notes, (), (), details, None, None, "policy", NO_USAGE, elapsed, (), (), grant)
        conversation.reserve(call, None)
        return verdict

    def _stamp(self, call: SessionCall) -> None:
        """Sets the time of an allowed call, and when its permit expires. The time is unknown if the clock went back.

        Raises:
            ClockError: the clock cannot be read.
        """
        context = self._conversation.context
        moment = (context.check_time or context.reading())[0]
        if moment is None:
            raise ClockError(NO_TIME)
        call.time = moment if moment >= context.latest else None
        call.expires = moment / MICROSECONDS + self._permit_seconds

    def answer(self, text: str, **options: Any) -> Verdict:
        """Judges the final answer before the user sees it, and records it if it may pass, in one step.

        Rules speak of it as a call of the tool `answer` with the argument `text`.

        Args:
            text: the answer.
            options: as for `check`.
        """
        started = time.perf_counter()
        if not isinstance(text, str):
            return refused(f"the answer has the type {type(text).__name__!r}; expected a string", started)
        with self._lock:
            verdict: Verdict = self._history.retried(
                lambda: self.check(ANSWER, answer_arguments(text), **options), f"{ANSWER!r} was not judged"
            )
            if verdict.permit is not None and verdict.label == 0:
                permit = verdict.permit
                self.use(permit)
                self.record(permit=permit)
            return verdict

    def approve(self, verdict: Verdict) -> Verdict:
        """Applies human approval to an escalated call: judges it again as proposed.

        The approval lifts only the violations that escalated. It counts once, and only without later calls.

        Raises:
            InputError: the verdict is not a pending escalation of this session.
        """
        started = time.perf_counter()
        with self._lock:
            grant = verdict.grant
            if (
                not isinstance(grant, _CallGrant)
                or grant.history is not self._history
                or verdict.decision is not Decision.ESCALATE
            ):
                raise InputError("nothing to approve; expected the verdict of a call that this session escalated")
            if grant.call.used or grant.call.place != len(self._conversation.calls) + 1:
                raise InputError(
                    "the approval is void: it was already used, or other calls followed; check the call again"
                )
            grant.call.used = True
            self._history.approved += 1
            call = grant.call.copied()
            call.used = False
            call.applicability = self.policies.applicability(call)
            judgement = self._history.judge(call, ESCALATE, count=True)
            return self._answer(call, judgement, started, ESCALATE)

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
        """Checks, runs and records a call of a coroutine function, as `call` does for a plain one."""
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
            raise ToolDenied(tool, refused(str(error), time.perf_counter())) from None
        verdict = self.check(tool, arguments, **options)
        if verdict.permit is None:
            raise ToolDenied(tool, verdict)
        return verdict.permit  # type: ignore[no-any-return]

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
            call = self._history.call_of(permit)
            if call.used:
                raise InputError(
                    f"the permit of {call.tool!r} (call {call.place}) was already used; check the call again"
                )
            if call.lapsed or seconds_at(self._conversation.context.clock.read()) > call.expires:
                raise InputError(f"the permit of {call.tool!r} (call {call.place}) has expired; check the call again")
            own_tool, own_args = call.runs
            if (tool is not None and tool != own_tool) or (args is not None and freeze(args) != own_args):
                raise InputError(
                    f"the permit is for another call; expected {own_tool!r} with the arguments that were judged"
                )
            self._conversation.began(call)
            self._history.follow()
            return thaw(own_args)  # type: ignore[no-any-return]
        finally:
            self._lock.release()

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
            call = self._history.call_of(permit)
            if call.lapsed:
                return
            if call.used and not never_ran:
                raise InputError(
                    f"{call.tool!r} (call {call.place}) may be running, since its permit was used; record its outcome"
                )
            self._history.settle(call, why, "withdrawn")

    def lapsed(self) -> tuple[Permit, ...]:
        """The permits that expired unused since the last call of this method. Their calls were withdrawn."""
        with self._lock:
            return self._history.permits_of(self._history.lapses())

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
            history = self._history
            call = history.only_call() if permit is None else history.call_of(permit)
            try:
                outcome = output if type(output) in ATOMS else readable_copy(output)
                status = (
                    "ok" if failed is False and self.policies.failed_output is None else self.status_of(output, failed)
                )
            except RecursionError:
                raise InputError(f"the output of {call.tool!r} is nested too deeply; record it as a string") from None
            if not history.is_followed and not call.lapsed:  # the common case
                self._conversation.settle(call, outcome, status)
                return
            history.settle(history.reinstated(call) if call.lapsed else call, outcome, status)

    def status_of(self, output: Any, failed: bool | None, other_outputs: Iterable[Any] = ()) -> CallStatus:  # noqa: FBT001 - as in `record`
        """The status of a call with this output, of which a host may have several forms; see `record`."""
        pattern = self.policies.failed_output
        if pattern is not None and any(is_failure(pattern, form) for form in (output, *other_outputs)):
            return "failed"
        return "unknown" if failed is None else "failed" if failed else "ok"

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
            call, reading = self._observed(event, state, facts)
            judgement = self._conversation.judge(call, call.applicability, reading=reading) or Judgement()
            decision, history = judgement.decision(), self._history
            verdict = verdict_on(history, call, judgement, decision, started) if judge else ALLOWED
            history.reserve(call, judgement)
            history.settle(call, readable_copy(event.output), event.status or self._observed_status(event))
            return verdict

    def replay(self, steps: Iterable[ReplayedStep], report: Callable[[int, Verdict], None]) -> None:
        """Observes the next events of a finished trace, with the same verdicts as `observe` in less time.

        The history then has a gap for each event that no rule looks at.

        Args:
            steps: each event, with the new state and the facts for `observe`; the last value is ignored.
            report: receives the index of a step and its verdict, but no plain allowance: one without a warning and
                without the use of a model.
        """
        with self._lock:
            conversation, passed = self._conversation, False
            alone = conversation.is_alone and not self._history.is_followed and not self.policies.is_scoped
            for index, (event, state, facts, _) in enumerate(steps):
                if alone:
                    applicability = self.policies.for_everyone(event)
                    passed = (
                        applicability.unjudged
                        and type(event.output) in ATOMS
                        and event.status is not None
                        and state is None
                        and facts is None
                        and event.principal is None
                    )
                    if passed:
                        reading = None if event.time is None else _reading_of(conversation.context.clock, event)
                        if applicability.ignored:
                            conversation.add_ignored(reading)
                        else:
                            conversation.add_unjudged(event, applicability, self._facts, reading)
                        continue
                    verdict = self._replayed(event, state, facts, applicability)
                else:
                    verdict = self.observe(event, state, facts)
                if verdict is not None and (verdict.decision is not ALLOW or verdict.usage.calls):
                    report(index, verdict)
            if passed:
                conversation.context.refresh(self._facts)

    def _replayed(
        self, event: Event, state: Any, facts: Mapping[str, Any] | None, applicability: Applicability
    ) -> Verdict | None:
        """Judges and records a call that has already happened; None if every check passes."""
        started, conversation = time.perf_counter(), self._conversation
        call, reading = self._observed(event, state, facts, applicability)
        judgement = conversation.judge(call, call.applicability, reading=reading)
        verdict = None
        if judgement is not None:
            verdict = verdict_on(self._history, call, judgement, judgement.decision(), started)
        output = event.output
        if type(output) not in ATOMS:
            output = readable_copy(output)
        conversation.add_settled(call, judgement, output, event.status or self._observed_status(event))
        return verdict

    def _observed(
        self,
        event: Event,
        state: Any,
        facts: Mapping[str, Any] | None,
        applicability: Applicability | None = None,
    ) -> tuple[SessionCall, Reading | None]:
        """(the call that has happened, the time of its check); sets the new state."""
        conversation, reading = self._conversation, None
        if state is not None:
            conversation.context.state_source = state
        call: SessionCall = new(SessionCall)
        call.tool, call.args, call.place = event.tool, event.args, len(conversation.calls) + 1
        call.action, call.decision, call.tags = event.action, event.decision, event.tags
        call.agent, call.id = event.agent, event.id
        call.facts = self._facts if facts is None else {**self._facts, **facts}
        if event.time is not None:
            reading = _reading_of(conversation.context.clock, event)
            call.time = conversation.context.time_of(reading)
        call.principal = self._principal if event.principal is None else self._history.principal_of(event.principal)
        call.applicability = applicability or self.policies.applicability(call)
        if call.applicability.problem is not None and self.policies.dispatch:
            call.applicability = self.policies.dispatched(call, call.applicability)
        return call, reading

    def _observed_status(self, event: Event) -> CallStatus:
        """The status of an event without one."""
        return self.status_of(event.output, None if self.policies.failed_output is None else False)

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

    def finish(self) -> Verdict:
        """Ends the conversation: pending obligations are violations. Every outcome of the calls in flight counts."""
        started = time.perf_counter()
        with self._lock:
            self._history.lapse()
            self._history.sweep()
            judgement = self._conversation.pending_obligations()
            notes, details = notes_on(self._history)
            violations, withheld = violations_of(self._final_remedies, judgement.broken, judgement.withheld)
            reasons = [f"at the end: {violation.message}" for violation in violations]
            verdict = Verdict(
                judgement.decision(),
                (*reasons, *judgement.reasons, *notes),
                violations,
                judgement.errors,
                details,
                checked_by="policy",
                elapsed_ms=(time.perf_counter() - started) * 1000,
                denial=Denial(withheld=withheld),
            )
            if self._history.shadow is not None:
                self._history.shadow.end(verdict, self._conversation.context.state_now)
            return verdict

    def _final_remedies(self) -> Remedies:
        """The remedies at the end of the conversation."""
        return Remedies(self._conversation, None, self._facts, halted=self.halted)

    @property
    def obligations(self) -> dict[str, str]:
        """The pending obligations: rule id -> remedy or message, if the conversation ended now."""
        with self._lock:
            judgement = self._conversation.pending_obligations()
            violations, _ = violations_of(self._final_remedies, judgement.broken)
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
    def usage(self) -> Mapping[str, Any] | None:
        """The usage of models at the last call whose host stated it; None without such a call."""
        with self._lock:
            stated = (call.facts.get(USAGE) for call in reversed(self._conversation.calls))
            return next((usage for usage in stated if isinstance(usage, Mapping)), None)

    @property
    def effect(self) -> str | None:
        """The worst effect of the calls so far, whether they failed or not; None if there is none.

        A chain of calls is as severe as its worst step. A tool for which `effects:` states nothing counts as
        irreversible; without `effects:` in the policy, nothing has an effect.
        """
        return worst_effect(self.policies.effects, (event.tool for event in self.history))

    @property
    def in_flight(self) -> tuple[Permit, ...]:
        """The permits of the calls in flight."""
        with self._lock:
            return self._history.permits_of(self._conversation.context.in_flight)

    @property
    def halted(self) -> bool:
        return self._history.halted is not None

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

    @property
    def sequence(self) -> int:
        """A number that grows with every reserved or recorded call, approval and halt."""
        return self._history.sequence

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
                "halted": self._history.halted,
                "approved": self._history.approved,
                "permit_seconds": self._permit_seconds,
                "provenance_bytes": self._provenance_bytes,
                **self._conversation.dumped(),
            }
            return write_snapshot(self._history, content, key)

    @classmethod
    def restore(
        cls, policies: Policies, snapshot: bytes, key: bytes, *, newest: int | None = None, **options: Any
    ) -> Session:
        """Restores a session: see `Policies.restore`."""
        content = read_snapshot(snapshot, key, newest)
        session = cls(
            policies.version(content["policy"]),
            facts=content["facts"],
            id=content["session"],
            permit_seconds=content["permit_seconds"],
            provenance_bytes=content.get("provenance_bytes", PROVENANCE_BYTES),
            principal=content.get("principal"),
            **options,
        )
        history = session._history
        history.conversation.load(content)
        history.halted, history.approved = content["halted"], content["approved"]
        take_over(history, content)
        history.settle_counters(call for call in history.conversation.calls if call.status is not None)
        history.follow()
        return session

    def fork(self) -> Session:
        """A copy for trial calls: they do not affect this session and have no permits."""
        with self._lock:
            self._history.lapse()
            counters = self._history.counters
            fork = Session(
                self.policies,
                facts=self._facts,
                id=f"{self.id}/{secrets.token_hex(4)}",
                permit_seconds=self._permit_seconds,
                counters=None if counters is None else counters.trial_store(),
                principal=self.principal,
                grants=self._history.grants,
                on_difference=False,
            )
            fork._history.become_fork_of(self._history)
            fork._conversation = fork._history.conversation
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
            calls, history = self._conversation.calls, self._history
            while history.trials and len(calls) > mark and calls[-1].status is None:
                if history.counters is not None:
                    history.counters.release(calls[-1])
                self._conversation.forget(history.trials.pop())
            return len(calls)

    # --- calls of other processes and programs

    def claimed(self, call_id: str) -> SessionCall | None:
        """The claimed call with this id."""
        return self._history.claimed(call_id)

    def settle_claimed(self, call_id: str, output: Any, failed: bool | None) -> ClaimSettlement:  # noqa: FBT001
        """Records the outcome of a claimed call, once.

        Raises:
            NotClaimedError: no claimed call has this id.
            ClaimConflictError: another outcome was recorded.
        """
        try:
            outcome, status = readable_copy(output), self.status_of(output, failed)
        except RecursionError:
            raise InputError("the output is nested too deeply; record it as a string") from None
        return self._history.settle_claimed(call_id, outcome, status)

    def withdraw_claimed(self, call_id: str, why: str) -> ClaimSettlement | None:
        """Withdraws a claimed call that never ran. An id that was never claimed cannot be claimed later.

        Raises:
            ClaimConflictError: an outcome was recorded.
        """
        return self._history.withdraw_claimed(call_id, why)

    def close(self, why: str) -> None:
        """Closes the conversation for all processes: no call is allowed from then on.

        Raises:
            SessionEndedError: it has ended.
        """
        history = self._history
        with self._lock:
            history.retried(lambda: history.halt(why), "the conversation goes on")

    @property
    def lock(self) -> threading.RLock:
        """Held while a call is judged or recorded."""
        return self._lock

    def catch_up(self) -> None:
        """Applies the history entries of other processes that share this session.

        Raises:
            SessionEndedError: another process ended the conversation.
            InputError: as for `Journal.news`.
        """
        self._history.catch_up()

    def retire(self) -> None:
        """Retires this session after another one took over: it denies every call from then on."""
        self._history.retire()

    @property
    def check_time(self) -> tuple[int, str | None] | None:
        """The time of the last check in microseconds, and the zone of the clock; None if the time is unknown."""
        try:
            moment, zone = self._conversation.context.reading()
        except ClockError:
            return None
        return None if moment is None else (moment, zone)


def _arguments(tool: Any, args: Any, facts: Any) -> Mapping[str, Any]:
    """The frozen arguments of a call, whose names or values are not plain JSON.

    Raises:
        InputError: the call has an invalid form.
    """
    value = args.value if type(args) is FrozenMapping else args
    if problem := call_problem(tool, value, facts):
        raise InputError(problem)
    frozen: Mapping[str, Any] = freeze(args) if value is args else value
    return frozen


def _label(call: SessionCall, action: str | None, decision: str | None, tags: Iterable[str]) -> None:
    """Labels a call.

    Raises:
        InputError: the labels are invalid.
    """
    tags = tags if isinstance(tags, str) else list(tags)
    if problem := label_problem(action, decision, tags):
        raise InputError(problem)
    call.labelled(action, decision, frozenset(tags))


def _unreadable(tool: str, error: Exception) -> str:
    """The problem of a call that cannot be copied, or whose principal is invalid."""
    if isinstance(error, RecursionError):
        return f"the arguments of {tool!r}, or the facts, are nested too deeply"
    return str(error)


def _reading_of(clock: Clock, event: Event) -> Reading:
    try:
        return clock.reading_of(event.time)
    except ValueError as error:
        raise InputError(f"the time of the event {event.tool!r} is invalid: {error}") from None


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
