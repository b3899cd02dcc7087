"""Replays a trace event by event as a session would judge it, including the obligations unmet at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace

from guardagent.batch.records import Trace
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.language.answer_step import ANSWER
from guardagent.policy.monitors.automaton import Standing
from guardagent.policy.monitors.product import ProductMonitor
from guardagent.policy.policies import Policies
from guardagent.session.counters import new_counters
from guardagent.session.session import Session
from guardagent.types import EMPTY, Decision, Event, Usage, Verdict, Violation, freeze

_UNCHECKED = "could not be checked: "
MAX_FINDINGS = 100  # violations of each policy, reasons and errors that one verdict lists


def judge_trace(policies: Policies, trace: Trace) -> Verdict:
    """Judges a whole trace: returns the most severe decision, and every violation with its place.

    The evidence of a violation has the index of its event under `event`; null stands for the end of the trace.
    Counters across conversations begin at zero: `counted_traces` replays traces that count together.
    `details` has the number of events, and the number of violations of each policy, including those not listed.
    """
    if _keeps_all_rules(policies, trace):
        return _TraceVerdict().verdict(len(trace.steps))
    steps = replay(
        policies.session(
            trace.state,
            trace.facts,
            clock=lambda: None,  # each event has its time
            counters=new_counters(policies),
            principal=trace.principal,
            on_difference=False,
        ),
        trace,
    )
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def replay(session: Session, trace: Trace) -> Generator[None, None, Verdict]:
    """Replays a trace in a new session: yields after each event, and returns the verdict on the trace."""
    summary = _TraceVerdict()
    for index, step in enumerate(trace.steps):
        verdict = session.replay(step.event, step.state, step.facts)
        if verdict is not None:  # most are allowed without a warning
            summary.add(verdict, index, f"events[{index}] ({_event_name(step.event)}): ")
        yield
    summary.add(session.finish(), None, "at the end: ")
    return summary.verdict(len(trace.steps))


def _keeps_all_rules(policies: Policies, trace: Trace) -> bool:
    """Whether the automata alone prove that all rules hold. Much faster than a session, which is needed for reasons."""
    if policies.product is None or policies.is_scoped:
        return False
    events = [step.event for step in trace.steps]
    if any(_needs_session(policies, *kind) for kind in _kinds(events)) or _is_too_deep(trace):
        return False
    monitor = ProductMonitor(policies.product)
    return not monitor.run(events) and all(standing >= Standing.MET for standing in monitor.standings)


def _kinds(events: Iterable[Event]) -> set[tuple[str, str | None, str | None, frozenset[str]]]:
    return {(event.tool, event.action, event.decision, event.tags) for event in events}


def _needs_session(
    policies: Policies, tool: str, action: str | None, decision: str | None, tags: frozenset[str]
) -> bool:
    """Whether other rules than temporal ones concern such an event, or not all of them do: a final answer."""
    if tool == ANSWER:
        return True
    return policies.applicability(SessionCall(tool, EMPTY).labelled(action, decision, tags)).needs_more_checks


def _is_too_deep(trace: Trace) -> bool:
    """Whether values of the trace are nested too deeply for a session."""
    try:
        freeze(trace.facts)
        for step in trace.steps:
            freeze(step.event.output)
    except RecursionError:
        return True
    return False


def _event_name(event: Event) -> str:
    return event.tool or event.action or event.decision or ", ".join(sorted(event.tags))


class _TraceVerdict:
    """Merges the verdicts of a trace. A repeated reason or error is listed once, with its first place."""

    def __init__(self) -> None:
        self._worst = Verdict(Decision.ALLOW, checked_by="policy")
        self._violations: list[Violation] = []
        self._counts: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}
        self._errors: dict[str, str] = {}
        self._usage = Usage()

    def add(self, verdict: Verdict, event: int | None, place: str) -> None:
        if verdict.decision > self._worst.decision:
            self._worst = verdict
        self._usage += verdict.usage
        for violation in verdict.violations:
            self._counts[violation.policy] += 1
            if self._counts[violation.policy] <= MAX_FINDINGS:
                self._violations.append(_with_event(violation, event, place))
        for strings, kept in ((verdict.reasons, self._reasons), (verdict.errors, self._errors)):
            for string in strings:
                if string not in kept:
                    kept[string] = _with_place(string, place)

    def verdict(self, events: int) -> Verdict:
        return replace(
            self._worst,
            reasons=_capped(self._reasons),
            violations=tuple(self._violations),
            errors=_capped(self._errors),
            details={"events": events, "violations": dict(self._counts)},
            usage=self._usage,
        )


def _with_event(violation: Violation, event: int | None, place: str) -> Violation:
    evidence = violation.evidence
    mapping = evidence if isinstance(evidence, Mapping) else {"evidence": evidence}
    return replace(violation, message=place + violation.message, evidence={"event": event, **mapping})


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
