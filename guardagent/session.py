"""A session: one conversation of an agent, whose calls are judged before they run.

    check    a call is proposed; where it is allowed it takes its place, and is in flight from then on
    record   its outcome is known
    finish   the conversation ends: what is still owed

What is judged is what is recorded here. A session may be used by several threads; what they ask is answered one after the
other.
"""

from __future__ import annotations

import functools
import inspect
import json
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any, Self

from guardagent.errors import GuardError, InputError, ToolDenied
from guardagent.permit import Permit
from guardagent.policy.findings import Call, Finding, Status, Trace
from guardagent.policy.policies import Concern, Policies
from guardagent.policy.terms import StateFunctionError
from guardagent.policy.values import Unknown
from guardagent.types import EMPTY, Context, Decision, Event, Verdict, Violation, freeze, thaw

PERMIT_SECONDS = 300.0
MAX_ORDERED = 6  # calls proposed together of which every order is judged
_NO_TAGS: frozenset[str] = frozenset()


class _Grant:
    """An allowed call, and the session that allowed it."""

    __slots__ = ("call", "session")

    def __init__(self, session: Session, call: Call) -> None:
        self.session, self.call = session, call

    def permit(self) -> Permit | None:
        return self.session._permit(self.call)  # noqa: SLF001 - a part of the session


class _Judgement:
    """What was found of a proposed call."""

    __slots__ = ("concern", "errors", "found", "requests", "violated")

    def __init__(self, concern: Concern) -> None:
        self.concern = concern
        self.found: list[Any] = []  # per rule: what each part found
        self.violated: list[tuple[Any, Finding]] = []  # (where the rule comes from, why)
        self.errors: list[str] = []
        self.requests: list[Verdict] = []

    def decision(self, lifted: Decision | None = None) -> Decision:
        """The most severe one; an approval lifts what it was asked for."""
        decision = Decision.DENY if self.errors else Decision.ALLOW
        for source, _ in self.violated:
            if source.on_violation > decision and source.on_violation is not lifted:
                decision = source.on_violation
        return decision


class Session:
    """One conversation, under the rules of a policy.

    Args:
        policies: the rules.
        state: what `state(...)` looks at: a live mapping or object, or a callable that gives it as it is now.
        facts: what the host knows of the whole conversation.
        id: a name for it; a random one where none is given.
        permit_seconds: how long a permit is good for.
        clock: gives seconds since the epoch.
    """

    def __init__(
        self,
        policies: Policies,
        state: Any = None,
        facts: Mapping[str, Any] = EMPTY,
        *,
        id: str | None = None,  # noqa: A002 - the name that the public contract has
        permit_seconds: float = PERMIT_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(facts, Mapping):
            raise InputError(f"facts is a {type(facts).__name__}; expected a mapping of names to values")
        self.policies = policies
        self.id = id or secrets.token_hex(8)
        self._facts: Mapping[str, Any] = freeze(facts)
        self._trace = Trace(self._facts, state, policies.views())
        self._memories = [rule.start() for rule in policies.rules]
        self._calls: list[Call] = []
        self._halted: str | None = None
        self._permit_seconds = permit_seconds
        self._clock = clock
        self._lock = threading.RLock()
        self._speculative = False
        self._marks: list[tuple[int, Any]] = []

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
        reserve: bool = True,
    ) -> Verdict:
        """Judges a call before it runs. An allowed one takes its place in the history and is in flight.

        Args:
            tool, args: the call, exactly as the tool will get it.
            facts: what the host knows at this call, over what it knows of the conversation.
            action, decision, tags: what else the call is, for rules that speak of it.
            agent: which agent of the session proposes it.
            reserve: false only asks: nothing is placed, and there is no permit.
        """
        started = time.perf_counter()
        with self._lock:
            call = Call(tool, args, len(self._calls) + 1, action, decision, tags if tags is _NO_TAGS else frozenset(tags))
            problem = _malformed(call, facts)
            if problem:
                return self._refused(problem, started)
            call.facts = self._facts if facts is None else {**self._facts, **facts}
            call.agent = agent
            if reserve:
                call.args = freeze(args)
            judged = self._judge(call)
            return self._answer(call, judged, started, reserve=reserve)

    def check_all(self, calls: Sequence[tuple[str, Mapping[str, Any]]], **options: Any) -> list[Verdict]:
        """Judges calls that are proposed together and may run in any order.

        A call is allowed if it and those allowed before it keep the rules in whatever order they come; of more than six
        calls, only the given order is judged. The allowed ones take their places in the given order.
        """
        with self._lock:
            if len(calls) > MAX_ORDERED or len(calls) < 2:
                return [self.check(tool, args, **options) for tool, args in calls]
            base = self._copy(id=self.id)
            allowed: list[tuple[str, Mapping[str, Any]]] = []
            verdicts = []
            for call in calls:
                denied = base._in_some_order([*allowed, call], options)  # noqa: SLF001 - of the same class
                verdict = denied or self.check(*call, **options)
                allowed += [call] if verdict.label == 0 else []
                verdicts.append(verdict)
            return verdicts

    def _in_some_order(self, calls: Sequence[Any], options: Mapping[str, Any]) -> Verdict | None:
        """The denial that some order of calls meets. The order in which they were proposed is judged by `check`."""
        orders = permutations(range(len(calls)))
        next(orders)
        for order in orders:
            trial = self._copy(id=self.id)
            for at in order:
                tool, args = calls[at]
                verdict = trial.check(tool, args, **options)
                if verdict.label:
                    said = f"proposed together, {' then '.join(calls[one][0] for one in order)} would not be allowed"
                    return replace(verdict, reasons=(*verdict.reasons, said), grant=None)
        return None

    def approve(self, verdict: Verdict) -> Verdict:
        """A person has approved a call that was escalated: it is judged again as it was proposed.

        The approval lifts the violations that escalated, and no others. It counts once, and only while nothing else has
        happened in the session.

        Raises:
            InputError: this verdict is no open escalation of this session.
        """
        started = time.perf_counter()
        with self._lock:
            grant = verdict.grant
            if not isinstance(grant, _Grant) or grant.session is not self or verdict.decision is not Decision.ESCALATE:
                raise InputError("there is nothing to approve; expected the verdict of a call that this session escalated")
            call = grant.call
            if call.used or call.place != len(self._calls) + 1:
                raise InputError("this approval is void: it was used, or other calls came since; check the call again")
            call.used = True
            again = self._fresh(call)
            return self._answer(again, self._judge(again), started, reserve=True, lifted=Decision.ESCALATE)

    def _fresh(self, call: Call) -> Call:
        again = Call(call.tool, call.args, len(self._calls) + 1, call.action, call.decision, call.tags, call.facts)
        again.agent = call.agent
        return again

    def _judge(self, call: Call) -> _Judgement:
        policies = self.policies
        concern = policies.concern(call)
        judged = _Judgement(concern)
        if self._halted:
            judged.errors.append(f"the session was halted: {self._halted}")
            return judged
        if concern.problem or (policies.unlisted == "deny" and not concern.listed):
            judged.errors.append(concern.problem or f"no rule concerns {call.tool!r}; the policy denies unlisted calls")
        trace, memories = self._trace, self._memories
        trace.now(call.facts)
        for at, rule in concern.rules:
            try:
                finding, found = rule.judge(trace, call, memories[at])
            except Exception as error:  # noqa: BLE001 - whatever a rule runs into, the call is denied
                judged.errors.append(_failure(rule.id, error))
                judged.found.append(None)
                continue
            judged.found.append(found)
            if finding is None:
                continue
            if finding.value is False:
                judged.violated.append((rule.source, finding))
            elif isinstance(finding.value, Unknown):
                judged.errors.append(_not_known(rule.id, finding.value))
        if policies.requests:
            self._judge_requests(call, judged)
        return judged

    def _judge_requests(self, call: Call, judged: _Judgement) -> None:
        """The guard programs see what is known so far, and the call."""
        context = Context(self.history, facts=call.facts)
        event = call.event()
        for source, check in self.policies.requests:
            try:
                verdict = check(event, context)
            except Exception as error:  # noqa: BLE001 - as above
                judged.errors.append(_failure(source.id, error))
                continue
            judged.requests.append(verdict)
            judged.errors += [f"{source.id}: {error}" for error in verdict.errors]
            if verdict.label and not verdict.errors:
                said = "; ".join(verdict.reasons)
                judged.violated.append((source, Finding(value=False, evidence={"reasons": [said]} if said else {})))

    def _answer(
        self, call: Call, judged: _Judgement, started: float, *, reserve: bool, lifted: Decision | None = None
    ) -> Verdict:
        decision = judged.decision(lifted)
        open_calls = self._trace.in_flight
        grant = None
        if reserve:
            if decision is Decision.HALT and not self._halted:
                self._halted = ", ".join(source.id for source, _ in judged.violated)
            if decision <= Decision.WARN:
                notes, details = self._notes()
                self._place(call, judged)
                grant = _Grant(self, call)
                return self._verdict(call, judged, decision, started, grant, notes, details)
            if decision is Decision.ESCALATE:
                grant = _Grant(self, call)
        if not open_calls and not judged.violated and not judged.errors:
            if not judged.requests:
                return Verdict(decision, checked_by="policy", elapsed_ms=(time.perf_counter() - started) * 1000)
        return self._verdict(call, judged, decision, started, grant, *self._notes())

    def _notes(self) -> tuple[tuple[str, ...], Mapping[str, Any]]:
        """What a host is told that has calls in flight."""
        open_calls = self._trace.in_flight
        if not open_calls:
            return (), EMPTY
        shown = [{"call": call.place, **call.shown()} for call in open_calls]
        notes = tuple(f"{call.tool} (call {call.place}) is in flight: record its outcome" for call in open_calls)
        return notes, {"in_flight": shown}

    def _verdict(
        self,
        call: Call,
        judged: _Judgement,
        decision: Decision,
        started: float,
        grant: _Grant | None,
        notes: tuple[str, ...],
        details: Mapping[str, Any],
    ) -> Verdict:
        violations = tuple(_violation(source, finding, call) for source, finding in judged.violated)
        errors = tuple(judged.errors)
        reasons = tuple([violation.message for violation in violations])
        if errors:
            reasons += tuple(f"could not be checked: {error}" for error in errors)
        usage = [verdict.usage for verdict in judged.requests]
        verdict = Verdict(
            decision,
            reasons + notes,
            violations,
            errors,
            details,
            checked_by="policy",
            elapsed_ms=(time.perf_counter() - started) * 1000,
            grant=grant,
        )
        return replace(verdict, usage=functools.reduce(lambda one, other: one + other, usage)) if usage else verdict

    def _refused(self, problem: str, started: float) -> Verdict:
        return Verdict(
            Decision.DENY,
            (f"could not be checked: {problem}",),
            errors=(problem,),
            checked_by="policy",
            elapsed_ms=(time.perf_counter() - started) * 1000,
        )

    # --- a call takes its place

    def _place(self, call: Call, judged: _Judgement) -> None:
        if self._speculative:
            self._marks.append((len(self._calls), self._memento()))
        call.place = len(self._calls) + 1
        call.speculative = self._speculative
        call.expires = self._clock() + self._permit_seconds
        trace = self._trace
        for (at, rule), found in zip(judged.concern.rules, judged.found, strict=True):
            memory = self._memories[at]
            if found is not None:
                rule.placed(trace, call, memory, found)
        for source, _ in judged.violated:
            self._said(source.id)
        self._calls.append(call)
        trace.in_flight.append(call)

    def _said(self, rule_id: str) -> None:
        for at, rule in enumerate(self.policies.rules):
            if rule.id == rule_id:
                rule.said(self._memories[at])

    def _permit(self, call: Call) -> Permit | None:
        with self._lock:
            if call not in self._trace.in_flight or self._speculative:
                return None
            if call.permit is None:
                call.permit = Permit(
                    call.tool, call.args, self.policies.digest, self.id, call.place, call.expires, secrets.token_hex(16)
                )
            return call.permit  # type: ignore[no-any-return]

    def use(self, permit: Permit, tool: str | None = None, args: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Uses a permit, just before its call runs: once, in time, and for exactly what was judged.

        Args:
            tool, args: what is about to run, where the host wants it compared.

        Returns:
            The arguments that were judged, as plain values.

        Raises:
            InputError: the permit is void.
        """
        with self._lock:
            call = self._call_of(permit)
            if call.used:
                raise InputError(f"the permit of {call.tool} (call {call.place}) was used already")
            if self._clock() > call.expires:
                raise InputError(f"the permit of {call.tool} (call {call.place}) has expired; check the call again")
            if (tool is not None and tool != call.tool) or (args is not None and freeze(args) != call.args):
                raise InputError(f"the permit is for another call: {call.tool} with the arguments that were judged")
            call.used = True
            return thaw(call.args)  # type: ignore[no-any-return]

    def _call_of(self, permit: Any) -> Call:
        for call in self._trace.in_flight:
            if call.permit is not None and call.permit == permit:
                return call
        raise InputError("this permit names no call that is in flight in this session; nothing was recorded")

    # --- after a call

    def record(self, output: Any = None, failed: bool | None = False, permit: Permit | None = None) -> None:  # noqa: FBT001, FBT002
        """Records the outcome of a call in flight.

        Args:
            output: what the tool gave back.
            failed: whether the call failed; None where that is not known. An output that matches the policy's
                `failed_output` failed whatever is said here.
            permit: which call; needed when several are in flight.

        Raises:
            InputError: no such call is in flight.
        """
        with self._lock:
            call = self._call_of(permit) if permit is not None else self._only_call()
            self._settle(call, freeze(output), self._status(output, failed))

    def _only_call(self) -> Call:
        in_flight = self._trace.in_flight
        if len(in_flight) == 1:
            return in_flight[0]
        if not in_flight:
            raise InputError("no call is in flight, so that there is nothing to record; check the call first")
        names = ", ".join(f"{call.tool} (call {call.place})" for call in in_flight)
        raise InputError(f"several calls are in flight: {names}; expected the permit of the one that is recorded")

    def _status(self, output: Any, failed: bool | None) -> Status:
        pattern = self.policies.failed_output
        if pattern is not None and output is not None and pattern.search(_text(output)):
            return "failed"
        return "unknown" if failed is None else "failed" if failed else "ok"

    def _settle(self, call: Call, output: Any, status: Status) -> None:
        trace = self._trace
        call.output, call.status = output, status
        trace.in_flight.remove(call)
        trace.now(call.facts)
        concern = self.policies.concern(call)
        for at in concern.views:
            trace.views[at].add(trace, call)
        for at, rule in concern.rules:
            rule.settled(trace, call, self._memories[at])

    def call(self, fn: Callable[..., Any], tool: str, args: Mapping[str, Any] = EMPTY, **options: Any) -> Any:
        """Checks a call, runs it with the arguments that were judged, and records what came of it.

        What `fn` raises passes through, the call recorded as failed. A call that is interrupted stays in flight.

        Raises:
            ToolDenied: the call may not run; with the verdict.
        """
        call_args, verdict = self._permitted(fn, tool, args, options)
        try:
            output = fn(**call_args)
        except Exception as error:
            self.record(f"{type(error).__name__}: {error}", failed=True, permit=verdict.permit)
            raise
        self.record(output, permit=verdict.permit)
        return output

    async def acall(
        self, fn: Callable[..., Awaitable[Any]], tool: str, args: Mapping[str, Any] = EMPTY, **options: Any
    ) -> Any:
        """As `call`, of a coroutine function."""
        call_args, verdict = self._permitted(fn, tool, args, options)
        try:
            output = await fn(**call_args)
        except Exception as error:
            self.record(f"{type(error).__name__}: {error}", failed=True, permit=verdict.permit)
            raise
        self.record(output, permit=verdict.permit)
        return output

    def _permitted(
        self, fn: Callable[..., Any], tool: str, args: Mapping[str, Any], options: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Verdict]:
        try:
            bound = _bound(fn, tool, args)
        except InputError as error:
            raise ToolDenied(tool, self._refused(str(error), time.perf_counter())) from None
        verdict = self.check(tool, bound, **options)
        if verdict.label:
            raise ToolDenied(tool, verdict)
        return self.use(verdict.permit), verdict

    def observe(
        self, event: Event, state: Any = None, facts: Mapping[str, Any] | None = None, *, judge: bool = True
    ) -> Verdict:
        """Takes in a call that has happened, whatever is said of it.

        Args:
            event: the call, with its outcome; a status that is not there is unknown.
            state: what `state(...)` looks at from this call on; None leaves it.
            facts: what the host knows at this call, over what it knows of the conversation.
            judge: false only places it.
        """
        started = time.perf_counter()
        with self._lock:
            if state is not None:
                self._trace.source = state
            call = Call(event.tool, event.args, len(self._calls) + 1, event.action, event.decision, event.tags)
            call.facts = self._facts if facts is None else {**self._facts, **facts}
            call.agent, call.id = event.agent, event.id
            judged = self._judge(call)
            verdict = self._verdict(call, judged, judged.decision(), started, None, (), EMPTY) if judge else _PLACED
            self._place(call, judged)
            self._settle(call, event.output, event.status or "unknown")
            return verdict

    # --- the end, and in between

    def finish(self) -> Verdict:
        """The conversation ends: what is still owed is violated. Calls in flight may have ended in any way."""
        started = time.perf_counter()
        with self._lock:
            violations, errors = self._owed()
            notes, details = self._notes()
            decision = max(
                [Decision.ALLOW, *(source.on_violation for source, _ in violations), *([Decision.DENY] if errors else [])],
                key=lambda one: one.severity,
            )
            found = tuple(_violation(source, finding, None) for source, finding in violations)
            reasons = tuple(f"at the end: {violation.message}" for violation in found)
            reasons += tuple(f"could not be checked: {error}" for error in errors)
            elapsed = (time.perf_counter() - started) * 1000
            return Verdict(
                decision, reasons + notes, found, tuple(errors), details, checked_by="policy", elapsed_ms=elapsed
            )

    def _owed(self) -> tuple[list[tuple[Any, Finding]], list[str]]:
        violations: list[tuple[Any, Finding]] = []
        errors: list[str] = []
        for rule, memory in zip(self.policies.rules, self._memories, strict=True):
            try:
                finding = rule.ended(self._trace, memory)
            except Exception as error:  # noqa: BLE001 - as in a check
                errors.append(_failure(rule.id, error))
                continue
            if finding is not None and finding.value is False:
                violations.append((rule.source, finding))
            elif finding is not None and isinstance(finding.value, Unknown):
                errors.append(_not_known(rule.id, finding.value))
        return violations, errors

    @property
    def obligations(self) -> dict[str, str]:
        """What is still owed: the id of each rule that would be violated if the conversation ended now -> what to do."""
        with self._lock:
            violations, _ = self._owed()
            return {source.id: finding.remedy or source.message or source.text for source, finding in violations}

    @property
    def history(self) -> tuple[Event, ...]:
        """The calls that took their places, in order; those in flight have no status yet."""
        with self._lock:
            return tuple(call.event() for call in self._calls)

    @property
    def in_flight(self) -> tuple[Permit, ...]:
        """The permits of the calls whose outcome has not been recorded."""
        with self._lock:
            return tuple(permit for call in self._trace.in_flight if (permit := self._permit(call)))

    @property
    def halted(self) -> bool:
        return self._halted is not None

    # --- trying things out

    def fork(self) -> Session:
        """A copy to try calls in: what is placed there never happened, and its calls have no permits."""
        with self._lock:
            copy = self._copy(id=f"{self.id}/{secrets.token_hex(4)}")
            copy._speculative = True
            return copy

    def mark(self) -> int:
        """A point to which a fork can be rolled back."""
        return len(self._calls)

    def rollback(self, mark: int = 0) -> int:
        """Takes back calls that were tried in a fork, the newest first, down to a mark.

        It stops at the first call that was recorded, or that is in flight in the session itself: what happened is never
        taken back.

        Returns:
            How many calls there are now.
        """
        with self._lock:
            while len(self._calls) > mark and self._marks and self._calls[-1].speculative and not self._calls[-1].status:
                _, memento = self._marks.pop()
                self._trace.in_flight.remove(self._calls.pop())
                self._memories, self._halted = memento
            return len(self._calls)

    def _memento(self) -> Any:
        return self._copied_memories({}), self._halted

    def _copied_memories(self, calls: Mapping[Call, Call]) -> list[Any]:
        return [rule.copied(memory, calls) for rule, memory in zip(self.policies.rules, self._memories, strict=True)]

    def _copy(self, **options: Any) -> Self:
        copy = type(self)(
            self.policies, self._trace.source, permit_seconds=self._permit_seconds, clock=self._clock, **options
        )
        calls = {call: call.copied() for call in self._trace.in_flight}
        copy._facts = copy._trace.facts = self._facts
        copy._calls = [calls.get(call, call) for call in self._calls]
        copy._trace.in_flight = list(calls.values())
        copy._trace.views = [view.copied() for view in self._trace.views]
        copy._memories = self._copied_memories(calls)
        copy._halted = self._halted
        return copy


_PLACED = Verdict(Decision.ALLOW, checked_by="policy")


def _malformed(call: Call, facts: Any) -> str | None:
    """What is wrong with the form of a call."""
    if type(call.tool) is not str or not call.tool:
        return f"the tool is {call.tool!r}; expected the name of one"
    if type(call.args) is not dict and not isinstance(call.args, Mapping):
        return f"the arguments of {call.tool} are a {type(call.args).__name__}; expected a mapping of names to values"
    for name in call.args:
        if type(name) is not str:
            return f"an argument of {call.tool} is named {name!r}; expected a text"
    if facts is not None and not isinstance(facts, Mapping):
        return f"facts is a {type(facts).__name__}; expected a mapping of names to values"
    return None


def _violation(source: Any, finding: Finding, call: Call | None) -> Violation:
    evidence = {"call": call.shown(), **finding.evidence} if call is not None else finding.evidence
    message = source.message or f"{source.id}: {' '.join(source.text.split())}"
    return Violation(source.id, message, evidence, source.remedy or finding.remedy)


def _failure(rule_id: str, error: Exception) -> str:
    said = str(error) if isinstance(error, GuardError | StateFunctionError) else f"{type(error).__name__}: {error}"
    return f"{rule_id}: {said}"


def _not_known(rule_id: str, unknown: Unknown) -> str:
    return f"{rule_id}: not known: {'; '.join(unknown.why)}"


def _text(output: Any) -> str:
    if isinstance(output, str):
        return output
    return json.dumps(thaw(output), ensure_ascii=False, default=str)


def _bound(fn: Callable[..., Any], tool: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments as the function will get them, with its defaults.

    Raises:
        InputError: they do not fit the function.
    """
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # a built-in function
        return args
    try:
        bound = signature.bind(**args)
    except TypeError as error:
        raise InputError(f"the arguments of {tool}: {error}") from None
    bound.apply_defaults()
    kinds = {name: one.kind for name, one in signature.parameters.items()}
    others = next((name for name, kind in kinds.items() if kind is inspect.Parameter.VAR_KEYWORD), "")
    named = {name: value for name, value in bound.arguments.items() if kinds[name] not in _VARIADIC}
    return {**named, **bound.arguments.get(others, {})}


_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
