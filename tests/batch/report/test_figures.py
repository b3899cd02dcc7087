"""The figures of a report: totals, rules by week, near misses, times, and the period."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.batch.arrow.schema import VERDICTS
from guardagent.batch.audit import UNKNOWN_OUTCOME
from guardagent.batch.report import AuditReport, Manifest, ManifestRule, PassRates, Period, RuleCounts, make_report
from guardagent.batch.report.figures import MAX_EXACT, AuditSummary, Distribution, TaskRuns
from guardagent.batch.report.formats import render
from guardagent.batch.report.results_folder import RuleCodes, VerdictBatch
from guardagent.errors import InputError
from tests.batch.report.results import MONDAY, RULES, results, unreadable, verdict

WEEK = 7 * 86_400


def counts_of(report: AuditReport, week: str) -> dict[str, RuleCounts]:
    return {week_row.rule: week_row.counts for week_row in report.weeks if week_row.week == week}


def test_totals_tell_denied_unreadable_and_unchecked_apart(tmp_path: Path) -> None:
    """An unreadable row is no denied trace, and a trace with errors is judged."""
    rows = [verdict("a"), verdict("b", ("receipt", None)), verdict("c", decision="deny", errors=["no state"])]
    totals = make_report(str(results(tmp_path / "out", rows, [unreadable(), verdict("d", ended=None)]))).totals
    assert (totals.traces, totals.events, totals.denied, totals.unchecked, totals.unreadable) == (4, 16, 2, 1, 1)
    assert (totals.undated, totals.first, totals.last) == (1, MONDAY, MONDAY + 60)


def test_approvals_and_unknown_outcomes_are_counted_apart(tmp_path: Path) -> None:
    """An escalated trace with an error may be denied, too."""
    unknown = ["a: slow", f"{UNKNOWN_OUTCOME}'refund' is unknown", f"{UNKNOWN_OUTCOME}'buy' is unknown"]
    rows = [
        verdict("a", ("limit", 0), decision="escalate"),
        verdict("b", ("limit", 0), decision="escalate", errors=unknown),
        verdict("c", decision="deny", errors=["slow"]),
    ]
    totals = make_report(str(results(tmp_path / "out", rows))).totals
    assert (totals.denied, totals.escalated, totals.unchecked, totals.unknown_outcomes) == (3, 1, 2, 1)


def test_a_week_is_that_of_the_last_event_in_utc(tmp_path: Path) -> None:
    """From Monday to Sunday; a time that is no date is undated."""
    times = [MONDAY - 1, MONDAY, MONDAY + WEEK - 1, None, float("nan"), 1e300, 1_798_761_600.0]  # the last: 2027-01-01
    rows = [verdict(str(at), ("receipt", None), ended=time) for at, time in enumerate(times)]
    report = make_report(str(results(tmp_path / "out", rows)))
    json.loads(render(report, "json"), parse_constant=pytest.fail)  # a time that is no number is not in JSON either
    judged = {week.week: week.judged for week in report.weeks}
    assert judged == {"2026-W18": 1, "2026-W19": 2, "2026-W53": 1, "undated": 3}
    assert counts_of(report, "2026-W19")["receipt"] == RuleCounts(traces=2, violations=2, pending=2)


def test_near_misses_are_events_at_which_only_order_is_violated(tmp_path: Path) -> None:
    """Not the end of a trace, nor an event at which another rule is violated too."""
    rows = [
        verdict("a", ("login_first", 0), ("lookup_first", 0), ("login_first", 2), ("small_refunds", 2)),
        verdict("b", ("login_first", 3), ("receipt", None), ("lookup_first", None)),
        verdict("c", ("unknown", 1)),
    ]
    report = make_report(str(results(tmp_path / "out", rows)))
    assert (report.near_misses.events, report.near_misses.traces, report.near_misses.skipped) == (2, 2, 0)
    by_rule = {rule.id: (rule.known, rule.counts.near_misses, rule.counts.pending) for rule in report.rules}
    assert by_rule == {
        "login_first": (True, 2, 0), "lookup_first": (True, 1, 1), "small_refunds": (True, 0, 0),
        "receipt": (True, 0, 1), "unknown": (False, 0, 0),
    }  # fmt: skip


def test_a_trace_that_is_not_listed_or_checked_as_a_whole_has_no_near_misses(tmp_path: Path) -> None:
    """A rule whose violations are cut could be violated at the same event, and so could one that was not checked."""
    cut = verdict("a", ("login_first", 0), ("small_refunds", 1))
    cut["counts"][1]["count"] = 500
    rows = [cut, verdict("b", ("login_first", 0), errors=["events[0]: no state"]), verdict("c", errors=["no state"])]
    report = make_report(str(results(tmp_path / "out", rows)))
    assert (report.near_misses.events, report.near_misses.skipped) == (0, 2)
    small = next(rule.counts for rule in report.rules if rule.id == "small_refunds")
    assert (small.violations, small.unlisted) == (500, 499)


def test_times_are_of_judging_and_of_conversations(tmp_path: Path) -> None:
    """The time of an event is the mean of its trace; unknown and negative durations are left out."""
    rows = [
        verdict("a", elapsed_ms=1.0, events=2), verdict("b", elapsed_ms=3.0, events=0, started=None),
        verdict("c", elapsed_ms=None, ended=MONDAY - 5),
    ]  # fmt: skip
    times = make_report(str(results(tmp_path / "out", rows))).times
    trace, event, conversation = times["trace_ms"], times["event_ms"], times["conversation_s"]
    assert (trace.count, trace.median, trace.maximum, trace.exact) == (2, 2.0, 3.0, True)
    assert (event.count, event.median) == (1, 0.5)
    assert (conversation.count, conversation.median) == (1, 60.0)


def test_a_period_has_both_of_its_days(tmp_path: Path) -> None:
    """Undated traces are outside, unreadable rows are in every period."""
    rows = [verdict(str(day), ended=MONDAY + 86_400 * day + 5) for day in range(5)]
    out = str(results(tmp_path / "out", [*rows, verdict("undated", ended=None), unreadable()]))
    totals = make_report(out, Period(date(2026, 5, 5), date(2026, 5, 6))).totals
    assert (totals.traces, totals.outside, totals.unreadable) == (2, 4, 1)


def test_a_report_without_traces_is_an_error(tmp_path: Path) -> None:
    """Nothing judged must not look like nothing violated."""
    with pytest.raises(InputError, match="holds no verdicts; expected"):
        make_report(str(results(tmp_path / "empty", [])))
    with pytest.raises(InputError, match="the period leaves out 1 traces"):
        make_report(str(results(tmp_path / "out", [verdict("a")])), Period(since=date(2030, 1, 1)))


FOUND = st.tuples(st.sampled_from([*(rule for rule, _ in RULES), "other"]), st.none() | st.integers(0, 3))
ROWS = st.lists(
    st.builds(
        lambda violations, week, task, success, bad: (list(violations), week, task, success, bad),
        st.sets(FOUND, max_size=5), st.integers(0, 2), st.sampled_from([None, "t", "u"]),
        st.sampled_from([None, True, False]), st.booleans(),
    ), min_size=1, max_size=12,
)  # fmt: skip


def rows_of(drawn: Any) -> list[dict[str, Any]]:
    return [
        verdict(
            f"t{at}", *violations, ended=MONDAY + week * WEEK, task=task, success=success, errors=["x"] if bad else []
        )
        for at, (violations, week, task, success, bad) in enumerate(drawn)
    ]


@given(ROWS)
def test_figures_are_those_of_a_plain_count(drawn: Any) -> None:
    """Counted trace by trace, from the violations alone."""
    rows = rows_of(drawn)
    order = {rule for rule, asks in RULES if asks}
    expected: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        week = f"2026-W{19 + int((row['ended'] - MONDAY) // WEEK)}"
        violations = [(violation["rule"], violation["event"]) for violation in row["violations"]]
        for rule, event in violations:
            near = (
                event is not None and {other for other, at in violations if at == event} <= order and not row["errors"]
            )
            expected[week, rule, "violations"] += 1
            expected[week, rule, "pending"] += event is None
            expected[week, rule, "near_misses"] += near
        expected.update((week, rule, "traces") for rule in row["rules"])
    report = summarized(rows, len(rows))
    figures = ("traces", "violations", "pending", "near_misses")
    found_counts = {
        (week.week, week.rule, name): getattr(week.counts, name) for week in report.weeks for name in figures
    }
    assert {key: number for key, number in found_counts.items() if number} == dict(+expected)


@given(ROWS, st.integers(1, 4), st.randoms(use_true_random=False))
def test_neither_the_order_nor_the_size_of_batches_matters(drawn: Any, size: int, random: Any) -> None:
    """All figures are the same, and so are the selected traces."""
    rows = rows_of(drawn)
    shuffled = random.sample(rows, len(rows))
    assert summarized(rows, len(rows)) == summarized(shuffled, size)


def summarized(rows: list[dict[str, Any]], size: int) -> AuditReport:
    """The report on rows in batches of a size."""
    manifest = Manifest(1, tuple(ManifestRule(rule, "", asks) for rule, asks in RULES), {})
    summary = AuditSummary(manifest, Period(), 3)
    for at in range(0, len(rows), size):
        summary.add(pa.RecordBatch.from_pylist(rows[at : at + size], VERDICTS))
    return summary.report("out", [])


# --- quantiles of many numbers


def test_few_numbers_have_exact_quantiles() -> None:
    """Numbers that are none, and negative ones, do not count."""
    times = Distribution()
    assert times.quantiles().median is None
    times.add(np.array([1.0, 2.0, 4.0, np.nan, np.inf, -1.0]))
    quantiles = times.quantiles()
    assert (quantiles.count, quantiles.median, quantiles.maximum, quantiles.exact) == (3, 2.0, 4.0, True)


@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_many_numbers_have_close_ones(seed: int, batches: int) -> None:
    """Within half a percent, whatever the batches are; the maximum is exact."""
    values = np.random.default_rng(seed).lognormal(0, 3, MAX_EXACT + 10)
    times = Distribution()
    for batch in np.array_split(values, batches):
        times.add(batch)
    quantiles = times.quantiles()
    exact = np.quantile(values, [0.5, 0.95], method="lower")
    assert (quantiles.median, quantiles.p95) == pytest.approx(tuple(exact), rel=0.0051)
    assert (quantiles.count, quantiles.maximum, quantiles.exact) == (len(values), values.max(), False)


def test_zeros_stay_small() -> None:
    """A clock that ticks rarely gives many of them."""
    times = Distribution()
    times.add(np.zeros(MAX_EXACT + 1))
    quantiles = times.quantiles()
    assert (quantiles.median, quantiles.maximum) == (0.0, 0.0)


# --- pass^k and joint^k


def rates_of(rows: list[dict[str, Any]], limit: int = 1000) -> PassRates:
    runs = TaskRuns(limit)
    runs.add(VerdictBatch(pa.RecordBatch.from_pylist(rows, VERDICTS), RuleCodes([])))
    return runs.rates()


RUNS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), min_size=1, max_size=14)


@given(RUNS)
def test_the_rates_are_means_over_all_choices_of_runs(drawn: Any) -> None:
    """Without replacement, over the tasks with enough runs."""
    rows = [
        verdict(str(at), *([] if clean else [("rule", 1)]), task=task, success=success)
        for at, (task, success, clean) in enumerate(drawn)
    ]
    for rate in rates_of(rows).rates:
        tasks = [[run for run in drawn if run[0] == task] for task in "abc"]
        choices = [list(combinations(runs, rate.k)) for runs in tasks if len(runs) >= rate.k]
        passed = [mean(all(run[1] for run in chosen) for chosen in choice) for choice in choices]
        joint = [mean(all(run[1] and run[2] for run in chosen) for chosen in choice) for choice in choices]
        assert rate.tasks == len(choices)
        assert rate.passed == pytest.approx(mean(passed))
        assert rate.joint == pytest.approx(mean(joint))
    assert len(rates_of(rows).rates) == min(8, max(sum(run[0] == task for run in drawn) for task in "abc"))


def test_runs_of_unknown_success_are_counted_apart(tmp_path: Path) -> None:
    """Traces without a task are no runs; a run with errors is no run without violations."""
    rows = [
        verdict("a", task="t", success=True), verdict("b", task="t", success=True, errors=["no state"]),
        verdict("c", task="t"), verdict("d", success=True), verdict("e"),
    ]  # fmt: skip
    pass_rates = make_report(str(results(tmp_path / "out", rows))).pass_rates
    assert (pass_rates.tasks, pass_rates.runs, pass_rates.unknown, pass_rates.sample) == (1, 2, 1, 1)
    assert [(rate.k, rate.passed, rate.joint) for rate in pass_rates.rates] == [(1, 1.0, 0.5), (2, 1.0, 0.0)]


def test_too_many_tasks_become_a_sample_of_whole_tasks() -> None:
    """Each task that is left has all of its runs."""
    rows = [verdict(f"{task} {run}", task=f"t{task}", success=True) for run in range(3) for task in range(200)]
    rates = rates_of(rows, limit=50)
    assert rates.sample >= 4
    assert 0 < rates.tasks <= 50
    assert rates.runs == 3 * rates.tasks


# --- the selection of traces


def selected(folder: Path, *rows: dict[str, object], top: int = 10) -> list[str | None]:
    return [telling_trace.trace for telling_trace in make_report(str(results(folder, rows)), top=top).telling_traces]


def test_each_trace_shows_as_many_new_rules_as_possible(tmp_path: Path) -> None:
    """Then severity, the number of violations, and the id decide."""
    rows = [
        verdict("two", ("login_first", 0), ("small_refunds", 1)),
        verdict("new", ("receipt", None)),
        verdict("severe", ("login_first", 0), decision="halt"),
        verdict("often", *(("login_first", at) for at in range(4))),
        verdict("b", ("login_first", 0)),
        verdict("a", ("login_first", 0)),
        verdict("clean"),
    ]
    assert selected(tmp_path / "all", *rows) == ["two", "new", "severe", "often", "a", "b"]
    assert selected(tmp_path / "first", *rows, top=2) == ["two", "new"]
    assert selected(tmp_path / "none", *rows, top=0) == []


def test_violations_are_in_order_and_the_first_ones(tmp_path: Path) -> None:
    """The end of the trace comes last."""
    violations = [("receipt", None), ("login_first", 7), *(("small_refunds", at) for at in range(30))]
    out = results(tmp_path / "out", [verdict("a", *violations)])
    (trace,) = make_report(str(out)).telling_traces
    assert (trace.total, len(trace.violations)) == (32, 20)
    assert [violation.event for violation in trace.violations[:10]] == [0, 1, 2, 3, 4, 5, 6, 7, 7, 8]
    (short,) = make_report(str(results(tmp_path / "short", [verdict("a", *violations[:2])]))).telling_traces
    assert [(violation.rule, violation.event) for violation in short.violations] == [
        ("login_first", 7),
        ("receipt", None),
    ]
