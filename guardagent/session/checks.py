"""Checks of proposed calls: a call is judged, and in flight if it is allowed."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from guardagent._support.arguments import bind_arguments, call_problem, label_problem
from guardagent.errors import InputError, ToolDenied
from guardagent.policy.evaluation.monitor_interface import ClockError, SessionCall
from guardagent.policy.language.answer_step import ANSWER, answer_arguments
from guardagent.policy.language.values import MICROSECONDS
from guardagent.policy.monitors.conversation import Judgement
from guardagent.session.calls import NO_TIME, OpenCalls
from guardagent.session.claimed_calls import ClaimedCalls
from guardagent.session.permit import Permit
from guardagent.session.session_verdicts import NO_USAGE, refused
from guardagent.session.shared_history import HistoryChangedError
from guardagent.session.state import MAX_TRIES
from guardagent.types import EMPTY, Decision, FrozenMapping, Verdict, freeze, new, quick_verdict
from guardagent.types.values import SessionPrincipal

_NO_TAGS: frozenset[str] = frozenset()

ALLOW = Decision.ALLOW  # the members of an enumeration are slow to look up
WARN, ESCALATE, HALT = Decision.WARN, Decision.ESCALATE, Decision.HALT
ALLOWED = Verdict(Decision.ALLOW, checked_by="policy")
"""The verdict on an allowed call with `reserve=False`: one shared value, without timing."""


class _Grant:
    """An allowed or escalated call and its session."""

    __slots__ = ("call", "session")

    session: OpenCalls
    call: SessionCall

    def permit(self) -> Permit | None:
        self.call.permit_requested = True
        return self.session.permit_of(self.call)


class Checks(ClaimedCalls):
    """Judges calls before they run, and runs them."""

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
            conversation = self._conversation
            if conversation.context.in_flight:
                self._lapse()
            frozen = None
            if type(args) is FrozenMapping:
                args = frozen = args.value
            call: SessionCall = new(SessionCall)
            call.tool, call.args, call.place = tool, args, len(conversation.calls) + 1
            if problem := call_problem(tool, args, facts):
                return refused(problem, started)
            try:
                call.facts = self._facts if facts is None else freeze({**self._facts, **facts})
                call.agent = agent
                call.principal = self._principal if principal is None else self._principal_of(principal)
                if reserve:
                    call.args, call.id = freeze(args) if frozen is None else frozen, id
            except (InputError, RecursionError) as error:
                return refused(_unreadable(tool, error), started)
            if (action is not None or decision is not None or tags is not _NO_TAGS) and (
                problem := _label(call, action, decision, tags)
            ):
                return refused(problem, started)
            if claim is not None and (known := self.claimed_verdict(call, claim, started)) is not None:
                return known
            call.applicability = applicability = self.policies.applicability(call)
            if self._halted is None and (self._counters is None or not reserve):  # the common case
                judgement = conversation.judge(call, applicability)
            else:
                judgement = self._judge_and_count(call) if reserve else self._judge(call, applicability)
            if reserve:
                return self._answer(call, judgement, started)
            return self._trial_verdict(call, judgement, started)

    def _trial_verdict(self, call: SessionCall, judgement: Judgement | None, started: float) -> Verdict:
        """The verdict on a call that is only judged."""
        if judgement is None and not self._conversation.context.in_flight:
            return ALLOWED
        judgement = Judgement() if judgement is None else judgement
        return self._verdict(call, judgement, judgement.decision(), started)

    def _judge_and_count(self, call: SessionCall, lifted: Decision | None = None) -> Judgement | None:
        """Judges a call and, if it is allowed, reserves its amounts in the counters."""

        def judge() -> Judgement | None:
            return self._judge(call, call.applicability)

        return judge() if self._counters is None else self._counters.judged(call, judge, lifted)

    def _answer(
        self, call: SessionCall, judgement: Judgement | None, started: float, lifted: Decision | None = None
    ) -> Verdict:
        """The verdict on a call. An allowed call is recorded as in flight."""
        if (
            judgement is None and not self._is_followed and self._mementos is None and call.claim is None
        ):  # the common case
            return self._granted(call, started)
        decision = ALLOW if judgement is None else judgement.decision(lifted)
        if decision is HALT and judgement is not None:
            self._halt(", ".join(repr(source.id) for source, _ in judgement.broken))
        allowed = decision is ALLOW or decision is WARN
        if allowed:
            try:
                self._stamp(call)
            except ClockError as error:
                return refused(str(error), started)
        grant: _Grant | None = None
        if allowed or decision is ESCALATE:
            grant = new(_Grant)
            grant.session, grant.call = self, call
        verdict = self._verdict(call, judgement, decision, started, grant, lifted)
        if self._shadow is not None and lifted is None:
            self._shadow.check(call, verdict, self._conversation.context.state_now)
        if allowed:
            if self._mementos is not None:
                self._mementos.append(self._conversation.memento(call))
            self._reserve_claimed(call, judgement, verdict)
        if self._shadow is not None:
            self._follow()
        return verdict

    def _granted(self, call: SessionCall, started: float) -> Verdict:
        """As `_answer`, for a call that passes every check of a session that nothing else follows."""
        conversation = self._conversation
        try:
            self._stamp(call)
        except ClockError as error:
            return refused(str(error), started)
        grant: _Grant = new(_Grant)
        grant.session, grant.call = self, call
        notes, details = self._notes() if conversation.context.in_flight else ((), EMPTY)
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
            raise ToolDenied(tool, refused(str(error), time.perf_counter())) from None
        verdict = self.check(tool, arguments, **options)
        if verdict.permit is None:
            raise ToolDenied(tool, verdict)
        return verdict.permit  # type: ignore[no-any-return]


def _label(call: SessionCall, action: str | None, decision: str | None, tags: Iterable[str]) -> str | None:
    """Labels a call. Returns the problem of invalid labels, which are not set."""
    tags = tags if isinstance(tags, str) else list(tags)
    problem = label_problem(action, decision, tags)
    if problem is None:
        call.labelled(action, decision, frozenset(tags))
    return problem


def _unreadable(tool: str, error: Exception) -> str:
    """The problem of a call that cannot be copied, or whose principal is invalid."""
    if isinstance(error, RecursionError):
        return f"the arguments of {tool!r}, or the facts, are nested too deeply"
    return str(error)
