"""Replays a trace event by event as a session would judge it, including the obligations unmet at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial

from guardagent._support.execution import timed_verdict
from guardagent.batch.quick_proof import quick_proof
from guardagent.batch.records import Trace
from guardagent.policy.policies import Policies
from guardagent.session.counters import new_counters
from guardagent.session.session import ALLOWED, Session
from guardagent.session.state import NO_USAGE
from guardagent.types import Event, Verdict, Violation, quick_violation

_ID = "trace"  # of all sessions here, which nobody sees
_UNCHECKED = "could not be checked: "
MAX_FINDINGS = 100  # violations of each policy, reasons and errors that one verdict lists


def judge_traces(policies: Policies, traces: Iterable[Trace]) -> list[Verdict]:
    """Judges each trace as `judge_trace` does. A trace that cannot be judged is denied, with the cause in `errors`."""
    return [timed_verdict(partial(judge_trace, policies, trace)).changed(checked_by="policy") for trace in traces]


def judge_trace(policies: Policies, trace: Trace) -> Verdict:
    """Judges a whole trace: returns the most severe decision, and every violation with its place.

    The evidence of a violation has the index of its event under `event`; null stands for the end of the trace.
    Counters across conversations begin at zero: `counted_traces` replays traces that count together.
    `details` has the number of events, and the number of violations of each policy, including those not listed.
    """
    if quick_proof(policies.current).complies(trace):
        return _TraceVerdict(trace).verdict()
    summary = _TraceVerdict(trace)
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


def replay(session: Session, trace: Trace) -> Generator[None, None, Verdict]:
    """Replays a trace in a new session: yields after each event, and returns the verdict on the trace."""
    summary = _TraceVerdict(trace)
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

    def __init__(self, trace: Trace) -> None:
        self._steps = trace.steps
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

    def verdict(self) -> Verdict:
        return self._worst.changed(
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
