"""The content of a report for people: sections with notes and tables, which each format lays out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from guardagent._support.sections.section import Quoted, ReportSection, ReportTable, percent
from guardagent.batch.report.figures import AuditReport, Quantiles, RuleCounts, RuleRow, TellingTrace

WEEKS = 12  # the last weeks of the table; the plot and the Parquet file have all of them
NEAR_MISS = (
    "A near miss is an event at which every violated rule asks for an earlier step: the call itself violated no other "
    "rule, and the step that should have come first was missing. Each event counts once, and once for each of these "
    "rules."
)
TELLING = (
    "Candidates are, for each rule, the traces that violate it and come first by the number of violated rules, the "
    "severity of the decision, the number of violations and the id. Of these, the next one is always the trace with "
    "the most rules not shown so far; then the most severe, then the one with most violations, then the smallest id."
)
_HEAD = ("traces", "violations", "pending at the end", "near misses")
REPEATED = (
    "pass^k is the chance that k runs of a task all succeed; joint^k is the chance that they all succeed and violate "
    "nothing. A run with errors is no run without violations. Both are means over the tasks with at least k runs, of "
    "the unbiased estimate C(c, k) / C(n, k) for c such runs of n."
)


def warning(report: AuditReport) -> str:
    """The sentence on missing parts; empty for a complete audit."""
    if report.complete:
        return ""
    numbers = ", ".join(map(str, report.missing_parts)) + (", …" if report.missing > len(report.missing_parts) else "")
    return (
        f"INCOMPLETE: {report.missing:,} of {report.partitions:,} parts are missing ({numbers}). No figure below has "
        "their traces; resume the audit."
    )


def sections(report: AuditReport) -> Iterator[ReportSection]:
    """Yields the sections below the title and the warning."""
    yield _head(report)
    yield _rules(report)
    yield _weeks(report)
    yield _near_misses(report)
    yield _times(report)
    yield from _telling_traces(report)
    yield _tasks(report)


def _head(report: AuditReport) -> ReportSection:
    totals, about = report.totals, report.audit
    period = f"{report.since or 'the beginning'} to {report.until or 'the end'}"
    notes: list[tuple[str, ...]] = [("Results: ", Quoted(report.results))]
    policies: Any = about.get("policies")
    digest = policies.get("digest", "unknown") if isinstance(policies, dict) else "unknown"
    notes.append(("Policies: ", Quoted(digest), ", engine: ", Quoted(about.get("engine", "unknown"))))
    notes.append(("Audit: ", Quoted(_moment(about.get("started"))), " to ", Quoted(_moment(about.get("ended")))))
    if report.since or report.until:
        left_out = f"; {totals.outside:,} other traces are left out, including undated ones. Unreadable ones count."
        notes.append((f"Only traces whose last event is from {period}{left_out}",))
    rows = (
        ("traces", f"{totals.traces:,}"),
        ("events", f"{totals.events:,}"),
        ("first event", _moment(totals.first)),
        ("last event", _moment(totals.last)),
        ("denied", _of(totals.denied, totals.traces)),
        ("not fully checked", _of(totals.unchecked, totals.traces)),
        ("unreadable, without a verdict", f"{totals.unreadable:,}"),
        ("undated", f"{totals.undated:,}"),
    )
    return ReportSection("Overview", tuple(notes), ReportTable(("figure", "value"), rows))


def _rules(report: AuditReport) -> ReportSection:
    rows = tuple(
        (Quoted(one.id), _message(one), percent(one.share), *_numbers(one.counts, report)) for one in report.rules
    )
    head = ("rule", "message", "share of traces", *_HEAD)
    return ReportSection("Rules", _listing_notes(report), ReportTable(head, rows, 2), "rules")


def _message(rule: RuleRow) -> str:
    return Quoted(rule.message) if rule.known else "not in the manifest"


def _numbers(counts: RuleCounts, report: AuditReport) -> tuple[str, ...]:
    pending = f"{'≥ ' if counts.unlisted else ''}{counts.pending:,}"
    near_misses = f"{'≥ ' if report.near_misses.skipped else ''}{counts.near_misses:,}"
    return f"{counts.traces:,}", f"{counts.violations:,}", pending, near_misses


def _listing_notes(report: AuditReport) -> tuple[tuple[str, ...], ...]:
    unlisted = sum(one.counts.unlisted for one in report.rules)
    if not unlisted:
        return ()
    note = (
        f"A verdict lists at most 100 violations of a rule, and counts the others: {unlisted:,} violations are not "
        "listed. Traces and violations are complete; numbers with ≥ are of listed violations only."
    )
    return ((note,),)


def _weeks(report: AuditReport) -> ReportSection:
    names = list(dict.fromkeys(one.week for one in report.weeks))
    kept = set(names[-WEEKS:])
    rows = tuple(
        (one.week, Quoted(one.rule), f"{one.judged:,}", percent(one.share), *_numbers(one.counts, report))
        for one in report.weeks
        if one.week in kept and one.counts.traces
    )
    note = "ISO weeks of the last event of each trace, in UTC. Rows are of rules that a trace of the week violates."
    more = f" These are the last {WEEKS} of {len(names):,} weeks; Parquet has all." if len(names) > WEEKS else ""
    head = ("week", "rule", "traces of the week", "share", *_HEAD)
    return ReportSection("Weeks", ((note + more,),), ReportTable(head, rows, 2), "weeks")


def _near_misses(report: AuditReport) -> ReportSection:
    found = report.near_misses
    skipped = (
        f" {found.skipped:,} violating traces are left out, since not all of their violations are listed or not all of "
        "their events could be checked."
        if found.skipped
        else ""
    )
    order = [one for one in report.rules if one.order]
    rows = tuple((Quoted(one.id), f"{one.counts.near_misses:,}") for one in order)
    note = f"{found.events:,} events in {found.traces:,} traces. {NEAR_MISS}{skipped}"
    table = ReportTable(("rule that asks for an earlier step", "near misses"), rows)
    return ReportSection("Near misses", ((note,),), table)


def _times(report: AuditReport) -> ReportSection:
    names = {
        "trace_ms": "judging a trace (ms)",
        "event_ms": "judging an event, mean of its trace (ms)",
        "conversation_s": "conversation, first to last event (s)",
    }
    rows = tuple((names[name], *_quantiles(times)) for name, times in report.times.items())
    rounded = any(not one.exact for one in report.times.values())
    notes = (("Median and p95 are within 0.5 % of the value.",),) if rounded else ()
    return ReportSection("Time", notes, ReportTable(("duration", "traces", "median", "p95", "max"), rows))


def _quantiles(times: Quantiles) -> tuple[str, ...]:
    return f"{times.count:,}", *map(_number, (times.median, times.p95, times.maximum))


def _telling_traces(report: AuditReport) -> Iterator[ReportSection]:
    yield ReportSection("Telling traces", ((TELLING,),) if report.telling_traces else (("No trace violates a rule.",),))
    for one in report.telling_traces:
        yield _telling_trace(one)


def _telling_trace(one: TellingTrace) -> ReportSection:
    decision = f"{one.decision}; {one.total:,} violations of {len(one.rules):,} rules; last event {_moment(one.ended)}"
    notes: list[tuple[str, ...]] = [(decision,)]
    if one.task is not None:
        notes.append(("Task: ", Quoted(one.task)))
    if one.total > len(one.violations):
        notes.append((f"The first {len(one.violations):,} of {one.total:,} violations:",))
    rows = tuple(
        ("at the end" if found.event is None else str(found.event), Quoted(found.rule), Quoted(found.message))
        for found in one.violations
    )
    title = Quoted(one.trace if one.trace is not None else "a trace without an id")
    return ReportSection(title, tuple(notes), ReportTable(("event", "rule", "message"), rows, 3), level=3)


def _tasks(report: AuditReport) -> ReportSection:
    found = report.pass_rates
    about = f"{found.runs:,} runs of {found.tasks:,} tasks."
    unknown = f" {found.unknown:,} runs of a task without a known success are left out." if found.unknown else ""
    sample = f" There are too many tasks: this is a sample of one in {found.sample:,}." if found.sample > 1 else ""
    rows = tuple((str(one.k), f"{one.tasks:,}", percent(one.passed), percent(one.joint)) for one in found.rates)
    note = f"{about}{unknown}{sample} {REPEATED}" if rows else f"No run of a task says whether it succeeded.{unknown}"
    table = ReportTable(("k", "tasks", "pass^k", "joint^k"), rows, 0)
    return ReportSection("Repeated tasks", ((note,),), table, "tasks")


def _of(part: int, whole: int) -> str:
    return f"{part:,} ({percent(part / whole)})" if whole else f"{part:,}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _moment(value: Any) -> str:
    if not isinstance(value, int | float):
        return "unknown" if value is None else str(value)
    try:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "unknown"
