"""Reports on the results of an audit: rules by week, near misses, telling traces, time, and repeated tasks.

    folder of an audit -> batches of verdicts -> figures -> one of `formats.FORMATS`

Memory grows with the rules, the weeks and, up to a limit, the tasks; not with the traces. This module has what needs
neither Arrow nor numpy: the manifest of an audit, the period of a report, and its content. `figures` computes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from guardagent._support.files import parse_json
from guardagent._support.requirements import require
from guardagent.errors import ContentError, InputError

if TYPE_CHECKING:
    from guardagent.policy.monitors.rule import RuleMetadata
    from guardagent.policy.policies import Policies

MANIFEST_FILE = "_audit.json"
MANIFEST_VERSION = 1
MAX_PARTITIONS = 65_536  # the partition of a trace comes from four hexadecimal digits
DAY = 86_400  # seconds
EPOCH = date(1970, 1, 1)
UNDATED = 4_000_000  # a day after the year 9999, so that it comes last
_ABOUT = ("version", "policies", "engine", "sources", "started", "ended")


def make_report(
    address: str, period: Period | None = None, *, top: int = 10, against: str | None = None
) -> AuditReport:
    """Reads the results of an audit, and of all of an earlier one; returns the figures: see `audit_report`.

    Raises:
        InputError: a package of the extra `arrow` is missing, the results cannot be read, or no trace remains.
    """
    require({"pyarrow": "17", "fsspec": "2024.6"}, "arrow")
    from guardagent.batch.report.figures import audit_report

    earlier = None if against is None else audit_report(against, top=0)
    return replace(audit_report(address, period, top=top), against=earlier)


@dataclass(frozen=True, slots=True)
class Period:
    """Days in UTC, both included; None is open."""

    since: date | None = None
    until: date | None = None

    @property
    def is_open(self) -> bool:
        return self.since is None and self.until is None

    def holds(self, times: Any) -> Any:
        """Whether each time of an array is in the period; an unknown time is in the open period only."""
        import numpy as np

        first = -np.inf if self.since is None else _midnight(self.since)
        end = np.inf if self.until is None else _midnight(self.until) + DAY
        return np.full(len(times), fill_value=True) if self.is_open else (times >= first) & (times < end)


def parse_period(since: str | None, until: str | None) -> Period:
    """Returns the period of two dates such as `2026-05-31`.

    Raises:
        InputError: one is not a date, or they are in the wrong order.
    """
    period = Period(_day("--since", since), _day("--until", until))
    if period.since and period.until and period.until < period.since:
        raise InputError(f"'--until' {until} is before '--since' {since}; expected a later day, or the same")
    return period


def _day(option: str, text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise InputError(f"'{option}' {text!r} is not a date; expected one such as 2026-05-31") from None


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def week_name(monday: int) -> str:
    """The ISO week of a Monday, such as `2026-W07`, or `undated`."""
    if monday == UNDATED:
        return "undated"
    year, week, _ = (EPOCH + timedelta(days=monday)).isocalendar()
    return f"{year:04}-W{week:02}"


@dataclass(frozen=True, slots=True)
class ManifestRule:
    """A rule of the audit. `order`: it asks for an earlier step."""

    id: str
    message: str
    order: bool


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts about an audit that its parts lack. `about` has the keys that are only shown."""

    partitions: int
    rules: tuple[ManifestRule, ...]
    about: Mapping[str, Any]


def parse_manifest(text: str, path: str) -> Manifest:
    """Returns the manifest of a JSON string.

    Raises:
        InputError: it is not JSON, or no manifest of this version.
    """
    values = parse_json(text, path)
    if not isinstance(values, dict) or "guardagent_audit" not in values:
        raise ContentError("is not a manifest; expected the file that 'guardagent audit --out' writes", path)
    if (version := values["guardagent_audit"]) != MANIFEST_VERSION:
        expected = f"expected {MANIFEST_VERSION}: use the same release as the audit"
        raise ContentError(f"has version {version!r}; {expected}", path)
    partitions, rules = values.get("partitions"), values.get("rules")
    if type(partitions) is not int or not 1 <= partitions <= MAX_PARTITIONS:
        raise ContentError(f"'partitions' is {partitions!r}; expected 1 to {MAX_PARTITIONS}", path)
    if not isinstance(rules, list):
        raise ContentError("lacks the list 'rules'; expected an object for each rule", path)
    about = {key: values[key] for key in _ABOUT if key in values}
    return Manifest(partitions, tuple(_manifest_rule(rule, path) for rule in rules), about)


def _manifest_rule(value: Any, path: str) -> ManifestRule:
    match value:
        case {"id": str(rule), "order": bool(order)}:
            return ManifestRule(rule, str(value.get("message") or ""), order)
    raise ContentError(f"the rule {value!r} lacks 'id' or 'order'; expected a string and true or false", path)


def rules_for_report(policies: Policies) -> list[dict[str, Any]]:
    """Returns a JSON object for each rule of a manifest: `id`, `message`, `on_violation`, and `order`.

    With them, a report is written without the policies. `order` is true if the rule asks for an earlier step: see
    `needs_earlier_step`.
    """
    from guardagent.policy.logic.semantics import needs_earlier_step  # a report loads no language of policies

    temporal = [_report_rule(rule.source, order=needs_earlier_step(rule)) for rule in policies.rules]
    return [*temporal, *(_report_rule(source, order=False) for source, _ in policies.requests)]


def _report_rule(source: RuleMetadata, *, order: bool) -> dict[str, Any]:
    message = source.message_line or source.default_message
    return {"id": source.id, "message": message, "on_violation": source.on_violation.value, "order": order}


@dataclass(slots=True)
class Totals:
    """Counts over all traces of the period.

    Attributes:
        traces, events: the judged traces, and their events.
        denied, unchecked: the judged traces with label 1, and those with errors.
        escalated: those of the denied ones that only needed approval.
        unknown_outcomes: those of the unchecked ones that depend on outcomes which their log does not have.
        undecided: those of the unchecked ones that are denied for that alone, and violate no rule.
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
    escalated: int = 0
    unknown_outcomes: int = 0
    undecided: int = 0
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
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule in all weeks, and a violating trace. `known`: the manifest has it. `share`: of the judged traces."""

    id: str
    message: str
    order: bool
    known: bool
    counts: RuleCounts
    share: float
    example: TellingTrace | None = None


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
    """A violation; `event` is None at the end of the trace. `call` is empty if the evidence has none."""

    rule: str
    event: int | None
    message: str
    call: str = ""


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
        sample: one task in this number counts; 1 unless there are too many tasks for the memory.
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
        against: the report on an earlier audit.
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
    against: AuditReport | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
