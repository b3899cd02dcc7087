"""The figures of a report on an audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(slots=True)
class Totals:
    """Counts over all traces of the period.

    Attributes:
        traces, events: the judged traces, and their events.
        denied, unchecked: the judged traces with label 1, and those with errors.
        unreadable: the traces and rows without a verdict; they are in every period.
        undated: the judged traces without a time; a period leaves them out.
        outside: the judged traces that the period leaves out, including undated ones.
        first, last: the first and the last time of an event, in seconds since the epoch.
    """

    traces: int = 0
    events: int = 0
    denied: int = 0
    unchecked: int = 0
    unreadable: int = 0
    undated: int = 0
    outside: int = 0
    first: float | None = None
    last: float | None = None


@dataclass(slots=True)
class RuleCounts:
    """The figures of a rule, in one week or in all of them.

    Attributes:
        traces: the traces that violate it.
        violations: its violations.
        pending: its listed violations at the end of a trace.
        near_misses: its listed violations at events that are near misses.
        unlisted: its violations that are only counted: `pending` and `near_misses` do not see them.
    """

    traces: int = 0
    violations: int = 0
    pending: int = 0
    near_misses: int = 0
    unlisted: int = 0

    def add(self, other: RuleCounts) -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule in all weeks. `known`: the manifest has it. `share`: the share of the judged traces that violate it."""

    id: str
    message: str
    order: bool
    known: bool
    counts: RuleCounts
    share: float


@dataclass(frozen=True, slots=True)
class WeekRow:
    """A rule in the ISO week of the last event of its traces, in UTC. `judged`: the judged traces of the week."""

    week: str
    rule: str
    judged: int
    counts: RuleCounts
    share: float


@dataclass(slots=True)
class NearMisses:
    """The events at which only rules that ask for an earlier step are violated.

    Attributes:
        events, traces: these events, and the traces that have one.
        skipped: violating traces that are left out, since not all of their violations are listed or checked.
    """

    events: int = 0
    traces: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Quantiles of `count` values. `exact`: otherwise median and p95 are within 0.5 % of the value."""

    count: int
    median: float | None
    p95: float | None
    maximum: float | None
    exact: bool


@dataclass(frozen=True, slots=True)
class ListedViolation:
    """A violation; `event` is None at the end of the trace."""

    rule: str
    event: int | None
    message: str


@dataclass(frozen=True, slots=True)
class TellingTrace:
    """A trace that shows much. `violations` has the first ones in order, of `total`."""

    trace: str | None
    decision: str
    rules: tuple[str, ...]
    total: int
    violations: tuple[ListedViolation, ...]
    task: str | None
    ended: float | None


@dataclass(frozen=True, slots=True)
class PassRate:
    """pass^k: the chance that k runs of a task all succeed. joint^k: and that none of them violates a rule."""

    k: int
    tasks: int
    passed: float
    joint: float


@dataclass(frozen=True, slots=True)
class PassRates:
    """The rates for each k.

    Attributes:
        rates: for k = 1 to the largest number of runs of a task, at most 8.
        tasks, runs: the tasks with a run of known success, and these runs.
        unknown: the runs of a task without a known success; they are left out.
        sample: one in so many tasks counts; 1 unless there are too many tasks for the memory.
    """

    rates: tuple[PassRate, ...]
    tasks: int
    runs: int
    unknown: int
    sample: int


@dataclass(frozen=True, slots=True)
class AuditReport:
    """All figures.

    Attributes:
        complete: whether all parts are there.
        missing_parts: the numbers of the first missing parts, of `missing`.
        audit: the manifest without its rules.
        since, until: the first and the last day, or None.
        times: `trace_ms`, `event_ms` (the time that judging took) and `conversation_s` (from first to last event).
    """

    results: str
    complete: bool
    missing: int
    missing_parts: tuple[int, ...]
    partitions: int
    audit: Mapping[str, Any]
    since: str | None
    until: str | None
    totals: Totals
    rules: tuple[RuleRow, ...]
    weeks: tuple[WeekRow, ...]
    near_misses: NearMisses
    times: Mapping[str, Quantiles]
    telling_traces: tuple[TellingTrace, ...]
    pass_rates: PassRates

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
