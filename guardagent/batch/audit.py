"""Replays a trace event by event as a session would judge it, including the obligations unmet at its end.

A quick proof that a trace keeps all rules saves the session, which is needed for everything else. The product of the
propositional rules follows the trace. The other rules hold if no event of the trace can begin a violation of them, and
if they hold for a conversation without calls.

If the policy counts calls across conversations, the events of all traces are replayed in the order of their times,
against counters that begin at zero. So each event needs a time, and one process has to see all of them.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any

from guardagent._support.execution import timed_verdict
from guardagent.batch.json_object import JsonObject, KeyType
from guardagent.batch.records import LineReader, Trace, open_bytes, read_trace
from guardagent.batch.traces import Status
from guardagent.errors import ContentError, InputError, error_text
from guardagent.policy.evaluation.history_index import OnDemand
from guardagent.policy.evaluation.monitor_interface import Monitor, RuleContext, SessionCall
from guardagent.policy.language import ANSWER
from guardagent.policy.monitors.automaton import Key, Parts, ProductLetter
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.policies import Policies
from guardagent.session.counters import CounterStore, new_counters
from guardagent.session.session import ALLOWED, Session
from guardagent.types import (
    ATOMS,
    EMPTY,
    NO_USAGE,
    Decision,
    Event,
    Verdict,
    Violation,
    freeze,
    quick_violation,
    unchecked_verdict,
)

# --- quick proof

MAX_KINDS = 50_000  # kinds of events that are kept; names and tags are unbounded


class QuickProof:
    """Proves that traces keep all rules of a policy."""

    def __init__(self, policies: Policies) -> None:
        others = [monitor for monitor in policies.monitors if not isinstance(monitor, PropositionalMonitor)]
        self._product = policies.product
        self._letters = _EventLetters(policies)
        self._is_possible = (
            not policies.is_scoped and policies.sources is None and all(map(_holds_without_calls, others))
        )

    def complies(self, trace: Trace) -> bool:
        """Whether the trace certainly keeps all rules, so that its verdict is a plain allowance."""
        if not self._is_possible:
            return False
        state, letters = self._product.start, self._letters
        for event, _, _, _ in trace.steps:
            letter = letters[event.tool, event.action, event.decision, event.tags, event.status == "ok"]
            if letter is None or (type(event.output) not in ATOMS and _is_too_deep(event.output)):
                return False
            state, violated = state[letter]
            if violated or event.principal is not None:
                return False
        return self._may_end(state.parts) and not _is_too_deep(trace.facts)

    def _may_end(self, states: Parts) -> bool:
        return all(
            automaton.accepting[state] for (_, automaton), state in zip(self._product.rules, states, strict=True)
        )


@lru_cache(8)
def quick_proof(policies: Policies) -> QuickProof:
    """The proof for a policy, with what it has learned about kinds of events."""
    return QuickProof(policies)


class _EventLetters(dict[Key, ProductLetter | None]):
    """The letter of each kind of event; None if such an event needs a session."""

    def __init__(self, policies: Policies) -> None:
        super().__init__()
        self._policies = policies

    def __missing__(self, key: Key) -> ProductLetter | None:
        tool, action, decision, tags, _ = key
        call = SessionCall(tool, EMPTY).labelled(action, decision, tags)
        letter = None if _needs_session(self._policies, call) else self._policies.product.letters[key]
        if len(self) < MAX_KINDS:
            self[key] = letter
        return letter


def _needs_session(policies: Policies, call: SessionCall) -> bool:
    """Whether such a call can begin a violation of another rule, or not all rules concern it: a final answer."""
    applicability = policies.applicability(call)
    return (
        call.tool == ANSWER
        or applicability.needs_more_checks
        or any(_begins_violation(monitor, call) for _, monitor in applicability.monitors)
    )


def _begins_violation(monitor: Monitor, call: SessionCall) -> bool:
    if isinstance(monitor, PropositionalMonitor):
        return monitor.reads_arguments(call)
    return monitor.reports(call)


def _holds_without_calls(monitor: Monitor) -> bool:
    """Whether a rule other than a propositional one holds at the end of a conversation without calls."""
    return monitor.ended(RuleContext(EMPTY, None, OnDemand(())), monitor.start()) is None


def _is_too_deep(value: Any) -> bool:
    """Whether a value is nested too deeply for a session."""
    try:
        freeze(value)
    except RecursionError:
        return True
    return False


# --- ignored tools: an audit needs only the number and the times of their calls

MAX_TOOLS = 10_000  # that are kept; names are unbounded


class IgnoredTools(dict[str, bool]):
    """Whether no rule looks at the calls of a tool, if they have no labels and no principal of their own."""

    def __init__(self, policies: Policies) -> None:
        super().__init__()
        self._policies = policies
        self._is_possible = not policies.is_scoped and policies.sources is None and not policies.counters

    def includes(self, event: Event) -> bool:
        """Whether no rule looks at a call."""
        is_plain = event.action is None and event.decision is None and not event.tags and event.principal is None
        return is_plain and self[event.tool]

    def __missing__(self, tool: str) -> bool:
        is_ignored = self._is_possible and self._policies.for_everyone(Event(tool)).ignored
        if len(self) < MAX_TOOLS:
            self[tool] = is_ignored
        return is_ignored


@lru_cache(8)
def ignored_tools(policies: Policies) -> IgnoredTools:
    """The ignored tools of a policy, with what has been learned about names."""
    return IgnoredTools(policies)


# --- one trace

_ID = "trace"  # of all sessions here, which nobody sees
_UNCHECKED = "could not be checked: "
MAX_FINDINGS = 100  # violations of each policy, reasons and errors that one verdict lists


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The assumptions of an audit about all traces.

    Attributes:
        ok: calls whose outcome is unknown succeeded.
        facts: the facts of the host at every call. Those of a trace override them.
        approved: trace -> the indices of the events that a reviewer approved; None stands for all of its events.
    """

    ok: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    approved: Mapping[str, frozenset[int | None]] = field(default_factory=dict)

    def applied(self, trace: Trace) -> Trace:
        """The trace with the assumed facts and outcomes."""
        trace = replace(trace, facts={**self.facts, **trace.facts}) if self.facts else trace
        return _with_outcomes(trace, "ok") if self.ok else trace

    @property
    def digest(self) -> str:
        """A string that changes with them; empty without any."""
        content = [
            self.ok,
            dict(self.facts),
            {name: sorted(map(str, events)) for name, events in self.approved.items()},
        ]
        return "" if self == NO_ASSUMPTIONS else sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


NO_ASSUMPTIONS = Assumptions()
_APPROVED = {
    "trace": KeyType(object, "the id of a trace"),
    "event": KeyType(int, "the index of an event: a whole number"),
}


def read_approved(path: str) -> dict[str, frozenset[int | None]]:
    """Reads the approved events: objects such as `{"trace": "c1", "event": 3}`, one in each line.

    Raises:
        InputError: the file cannot be read, or a line is not such an object.
    """
    approved: dict[str, frozenset[int | None]] = {}
    with open_bytes(path) as file:
        for line in (line for chunk in LineReader(file).chunks() for line in chunk.lines):
            values = JsonObject.of_line(line.text(path), path, line.number, _APPROVED).values
            if type(values.get("trace")) not in (str, int):
                raise ContentError("has no 'trace'; expected the id of a trace, and an 'event'", path, line.number)
            if "event" in values and values["event"] is None:  # left out, it would stand for all events
                raise ContentError("'event' is null; expected the index of an event, or no 'event'", path, line.number)
            name = str(values["trace"])
            approved[name] = approved.get(name, frozenset()) | {values.get("event")}
    return approved


def judge_traces(
    policies: Policies, traces: Iterable[Trace], assumptions: Assumptions = NO_ASSUMPTIONS
) -> list[Verdict]:
    """Judges each trace as `audit_trace` does. A trace that cannot be judged is denied, with the cause in `errors`."""
    return [
        timed_verdict(partial(audit_trace, policies, trace, assumptions)).changed(checked_by="policy")
        for trace in traces
    ]


UNKNOWN_OUTCOME = "the outcome of "  # begins what is said of a call whose log does not say how it ended


def audit_trace(policies: Policies, trace: Trace, assumptions: Assumptions = NO_ASSUMPTIONS) -> Verdict:
    """Judges a trace as `judge_trace` does. A violation that depends on an unknown outcome is an error.

    It does if the trace keeps the rule when each call with an unknown outcome succeeded, or when each failed.
    """

    def judged(rules: Policies, traces: Sequence[Trace]) -> list[Verdict]:
        return [judge_trace(rules, trace, assumptions.approved.get(str(trace.id), ())) for trace in traces]

    return _decided(policies, [assumptions.applied(trace)], judged)[0]


def _decided(
    policies: Policies, traces: Sequence[Trace], judge: Callable[[Policies, Sequence[Trace]], Sequence[Verdict]]
) -> list[Verdict]:
    """Judges traces that count together, with an error in place of each violation that depends on an outcome."""
    verdicts = list(judge(policies, traces))
    ignored, events = ignored_tools(policies.current), (step.event for trace in traces for step in trace.steps)
    open_events = [event for event in events if event.tool and event.status == "unknown"]
    if not any(verdict.violations for verdict in verdicts) or all(map(ignored.includes, open_events)):
        return verdicts
    unknown = {event.tool for event in open_events}
    offline = _without_models(policies.current)
    outcomes: tuple[Status, ...] = ("ok", "failed")
    readings = [judge(offline, [_with_outcomes(trace, outcome) for trace in traces]) for outcome in outcomes]
    for at, verdict in enumerate(verdicts):
        certain = set(verdict.rules).intersection(*(reading[at].rules for reading in readings))
        if unsure := set(verdict.rules).intersection(offline.ids) - certain:
            verdicts[at] = _undecided(policies.current, traces[at], verdict, unsure, unknown)
    return verdicts


def _without_models(policies: Policies) -> Policies:
    """The policy without the requests that ask a model: another answer costs, and may differ."""
    if not policies.asks_models:
        return policies
    offline = copy(policies)
    offline.versions = None  # it is its own current version
    offline.requests = tuple(request for request in policies.requests if not getattr(request[1], "asks_model", False))
    return offline


def _with_outcomes(trace: Trace, status: Status) -> Trace:
    """The trace with a status for each call whose outcome is unknown."""
    steps = (
        step._replace(event=replace(step.event, status=status)) if step.event.status == "unknown" else step
        for step in trace.steps
    )
    return replace(trace, steps=tuple(steps))


def _undecided(policies: Policies, trace: Trace, verdict: Verdict, unsure: set[str], unknown: set[str]) -> Verdict:
    """The verdict without the violations of rules that depend on unknown outcomes, and with an error in their place."""
    judged = {violation.evidence["event"] for violation in verdict.violations if violation.policy in unsure} - {None}
    earlier = unknown.difference(trace.steps[event].event.tool for event in judged)
    mentioned = [rule.mentioned_tools for rule in policies.rules if rule.id in unsure]
    tools = {tool for names in mentioned for tool in names & earlier or names & unknown} or unknown
    error = f"{UNKNOWN_OUTCOME}{', '.join(map(repr, sorted(tools)[:3]))} is unknown; set 'failed_output' in the policy"
    error += " or '--assume ok'"
    dropped = {violation.message for violation in verdict.violations if violation.policy in unsure}
    counts = {rule: count for rule, count in verdict.details["violations"].items() if rule not in unsure}
    return verdict.changed(
        decision=Decision.HALT if Decision.HALT in map(policies.responses.get, counts) else Decision.DENY,
        reasons=tuple(reason for reason in verdict.reasons if reason not in dropped)
        or (f"could not be fully checked: {error}",),
        violations=tuple(violation for violation in verdict.violations if violation.policy not in unsure),
        errors=(*verdict.errors, error),
        details={**verdict.details, "violations": counts},
    )


def judge_trace(policies: Policies, trace: Trace, approved: Collection[int | None] = ()) -> Verdict:
    """Judges a whole trace: returns the most severe decision, and every violation with its place.

    A trace that breaks a blocking rule is denied, also if it breaks one that escalates: no approval would allow it.
    A reviewer approved the events with the indices `approved`; None stands for all events.
    The evidence of a violation has the index of its event under `event`; null stands for the end of the trace.
    Counters across conversations begin at zero: `judge_together` replays traces that count together.
    `details` has the number of events, and the number of violations of each policy, including those not listed.
    """
    if quick_proof(policies.current).complies(trace):
        return _TraceVerdict(trace, policies).verdict()
    summary = _TraceVerdict(trace, policies, approved)
    judge_events(policies, trace, summary.add)
    return summary.verdict()


def judge_events(policies: Policies, trace: Trace, add: Callable[[int | None, Verdict], None]) -> None:
    """Judges each event of a trace, and its end: calls `add` with the event's index, or None, and the verdict."""
    session = policies.session(
        trace.state,
        trace.facts,
        id=_ID,
        clock=_no_time,  # each event has its time
        counters=new_counters(policies),
        principal=trace.principal,
        on_difference=False,
    )
    session.replay(trace.steps, add)
    add(None, session.finish())


def replay(session: Session, trace: Trace, approved: Collection[int | None] = ()) -> Generator[None, None, Verdict]:
    """Replays a trace in a new session: yields after each event, and returns the verdict on the trace."""
    summary = _TraceVerdict(trace, session.policies, approved)
    for index, step in enumerate(trace.steps):
        session.replay([step], partial(summary.add_at, index))
        yield
    summary.add(None, session.finish())
    return summary.verdict()


def _no_time() -> None:
    """A clock that does not know the time."""


def _event_name(event: Event) -> str:
    return event.tool or event.action or event.decision or ", ".join(sorted(event.tags))


class _TraceVerdict:
    """Merges the verdicts of a trace. A repeated reason or error is listed once, with its first place."""

    def __init__(self, trace: Trace, policies: Policies, approved: Collection[int | None] = ()) -> None:
        self._steps = trace.steps
        self._responses, self._approved, self._is_blocked = policies.current.responses, approved, False
        self._worst = ALLOWED
        self._violations: list[Violation] = []
        self._counts: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}
        self._errors: dict[str, str] = {}
        self._usage = NO_USAGE

    def add_at(self, start: int, offset: int, verdict: Verdict) -> None:
        """Adds the verdict on an event at an offset from another one."""
        self.add(start + offset, verdict)

    def add(self, event: int | None, verdict: Verdict) -> None:
        """Adds the verdict on an event, or on the end."""
        place = "at the end: " if event is None else f"events[{event}] ({_event_name(self._steps[event].event)}): "
        if event is not None and (event in self._approved or None in self._approved):
            verdict = self._lifted(verdict)
        self._is_blocked = self._is_blocked or bool(verdict.errors) or Decision.DENY in self._decisions(verdict)
        if verdict.decision > self._worst.decision:
            self._worst = verdict
        if verdict.usage is not NO_USAGE:
            self._usage += verdict.usage
        for violation in verdict.violations:
            self._counts[violation.policy] += 1
            if self._counts[violation.policy] <= MAX_FINDINGS:
                self._violations.append(_with_event(violation, event, place))
        for strings, kept in ((verdict.reasons, self._reasons), (verdict.errors, self._errors)):
            for string in strings:
                if string not in kept:
                    kept[string] = _with_place(string, place)

    def _decisions(self, verdict: Verdict) -> list[Decision]:
        return [self._responses.get(violation.policy, Decision.DENY) for violation in verdict.violations]

    def _lifted(self, verdict: Verdict) -> Verdict:
        """The verdict on an event that a reviewer approved: without the violations that escalate."""
        kept = [
            violation
            for violation, decision in zip(verdict.violations, self._decisions(verdict), strict=True)
            if decision is not Decision.ESCALATE
        ]
        lifted = {violation.message for violation in verdict.violations} - {violation.message for violation in kept}
        rest = verdict.changed(violations=tuple(kept))
        least = Decision.DENY if verdict.errors else Decision.ALLOW
        return rest.changed(
            decision=max([least, *self._decisions(rest)]),
            reasons=tuple(reason for reason in verdict.reasons if reason not in lifted),
        )

    def verdict(self) -> Verdict:
        decision = self._worst.decision
        return self._worst.changed(
            decision=Decision.DENY if decision is Decision.ESCALATE and self._is_blocked else decision,
            reasons=_capped(self._reasons),
            violations=tuple(self._violations),
            errors=_capped(self._errors),
            details={"events": len(self._steps), "violations": dict(self._counts)},
            usage=self._usage,
        )


def _with_event(violation: Violation, event: int | None, place: str) -> Violation:
    evidence = violation.evidence
    mapping = evidence if isinstance(evidence, Mapping) else {"evidence": evidence}
    evidence = {"event": event, **mapping}
    return quick_violation(violation.policy, place + violation.message, evidence, violation.remedy)


def _with_place(text: str, place: str) -> str:
    """Inserts the place after the common prefix of reasons."""
    head = _UNCHECKED if text.startswith(_UNCHECKED) else ""
    rest = text.removeprefix(head)
    return head + (rest if rest.startswith(place) else place + rest)


def _capped(strings: Mapping[str, str]) -> tuple[str, ...]:
    """The first strings, and the number of the others."""
    first = list(strings.values())[:MAX_FINDINGS]
    more = len(strings) - len(first)
    return (*first, f"and {more:,} more") if more else tuple(first)


# --- traces of a file


@dataclass(slots=True)
class TraceJudge:
    """Judges the traces of a file one by one, or together if the policy has counters.

    Attributes:
        path: the file.
        assumptions: what it assumes of all traces.
    """

    path: str
    assumptions: Assumptions = NO_ASSUMPTIONS
    _verdicts: deque[Verdict] = field(default_factory=deque)

    def __call__(self, policies: Policies, trace: Trace) -> Verdict:
        return self._verdicts.popleft() if policies.counters else audit_trace(policies, trace, self.assumptions)

    def prepare(self, policies: Policies, *, workers: int = 1, resume: bool = False) -> None:
        """Judges all traces, if the policy has counters.

        Raises:
            InputError: the traces cannot be replayed together; with the cause.
        """
        if not policies.counters:
            return
        for option, unfit in (("--workers", workers > 1), ("--resume", resume), ("-", self.path == "-")):
            if unfit:
                raise InputError(f"{_names(policies)}, so all traces are replayed together: {_ADVICE[option]}")
        self._verdicts = deque(judge_together(policies, list(self._traces(policies)), self.assumptions))

    def _traces(self, policies: Policies) -> Iterator[Trace]:
        """Yields the readable traces. The run itself reports the others."""
        with open_bytes(self.path) as file:
            for chunk in LineReader(file).chunks():
                for line in chunk.lines:
                    try:
                        trace = read_trace(line.text(self.path), self.path, line.number, policies.failed_output)
                    except (InputError, RecursionError):
                        continue
                    require_times(policies, trace, f"{self.path}:{line.number}")
                    yield trace


# --- traces together

_ADVICE = {
    "--workers": "run it without '--workers'",
    "--resume": "run it without '--resume'",
    "-": "expected a file, since standard input can be read only once",
}


def judge_together(
    policies: Policies, traces: Sequence[Trace], assumptions: Assumptions = NO_ASSUMPTIONS
) -> list[Verdict]:
    """Judges traces whose events have times, in the order of these times; returns their verdicts, as `audit_trace`."""
    judge = partial(_judge_together, approved=assumptions.approved)
    return _decided(policies, [assumptions.applied(trace) for trace in traces], judge)


def _judge_together(
    policies: Policies, traces: Sequence[Trace], approved: Mapping[str, Collection[int | None]]
) -> list[Verdict]:
    store, now = new_counters(policies), [0.0]
    verdicts: list[Verdict | None] = [None] * len(traces)
    replays = [_TraceReplay(policies, trace, store, now, approved.get(str(trace.id), ())) for trace in traces]
    waiting = [(replay.next_time, at) for at, replay in enumerate(replays)]
    heapq.heapify(waiting)
    while waiting:
        now[0], at = heapq.heappop(waiting)
        verdicts[at] = replays[at].step()
        if verdicts[at] is None:
            heapq.heappush(waiting, (replays[at].next_time, at))
    return [verdict for verdict in verdicts if verdict is not None]


class _TraceReplay:
    """One trace, replayed step by step."""

    def __init__(
        self,
        policies: Policies,
        trace: Trace,
        store: CounterStore | None,
        now: Sequence[float],
        approved: Collection[int | None],
    ) -> None:
        session = policies.session(
            trace.state,
            trace.facts,
            counters=store,
            clock=lambda: now[0],
            principal=trace.principal,
            on_difference=False,
        )
        self._times = deque(step.time or 0.0 for step in trace.steps)
        self._steps = replay(session, trace, approved)

    @property
    def next_time(self) -> float:
        return self._times[0] if self._times else 0.0

    def step(self) -> Verdict | None:
        """Replays the next event; returns the verdict after the last one."""
        try:
            next(self._steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        except Exception as error:  # noqa: BLE001 - what crashes is denied
            return unchecked_verdict(error_text(error), checked_by="policy")
        last = self._times.popleft()
        if not self._times:
            self._times.append(last)  # the end of the trace
        return None


def require_times(policies: Policies, trace: Trace, place: str) -> None:
    last = float("-inf")
    for index, step in enumerate(trace.steps):
        if step.time is None:
            raise InputError(
                f"{place}: events[{index}] has no 'time'; {_names(policies)}, which are replayed in the order of time: "
                "add the time of each call's check, in seconds since the epoch"
            )
        if step.time < last:
            raise InputError(
                f"{place}: the 'time' of events[{index}] is earlier than that of the event before it; "
                f"{_names(policies)}, which are replayed in the order of time: correct the times"
            )
        last = step.time


def _names(policies: Policies) -> str:
    names = ", ".join(repr(counter.name) for counter in policies.counters)
    return f"the policy has counters across conversations ({names})"
