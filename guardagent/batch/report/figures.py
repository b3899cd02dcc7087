"""The figures of the report on an audit, computed in one pass over its verdicts.

Each class here adds up the batches so far, and its memory does not grow with the number of traces.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from math import comb
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent._support.files import parse_json
from guardagent.batch.report import (
    UNDATED,
    AuditReport,
    ListedViolation,
    Manifest,
    NearMisses,
    PassRate,
    PassRates,
    Period,
    Quantiles,
    RuleCounts,
    RuleRow,
    TellingTrace,
    Totals,
    WeekRow,
    week_name,
)
from guardagent.batch.report.results_folder import MAX_RULES, ResultsFolder, RuleCodes, VerdictBatch, column, integers
from guardagent.errors import ContentError, InputError
from guardagent.types import Decision, call_text

SHOWN_PARTS = 20


def audit_report(address: str, period: Period | None = None, *, top: int = 10) -> AuditReport:
    """Reads the results of an audit.

    Args:
        address: the folder, or its URL for fsspec.
        period: the days of the traces' last events; None for all.
        top: the number of telling traces.

    Raises:
        InputError: it is not a folder of results, a part is corrupt or has another schema, or no trace remains.
    """
    folder = ResultsFolder(address)
    summary = AuditSummary(folder.manifest, period or Period(), top)
    for path, rows in folder.batches():
        try:
            summary.add(rows)
        except InputError as error:
            raise ContentError(str(error), path) from None
    if not summary.totals.traces and not summary.totals.unreadable:
        left_out = f"; the period leaves out {summary.totals.outside:,} traces" if summary.totals.outside else ""
        raise InputError(f"{address}: holds no verdicts{left_out}; expected those of at least one trace")
    return summary.report(address, folder.missing)


class AuditSummary:
    """The figures of the verdicts so far."""

    def __init__(self, manifest: Manifest, period: Period, top: int) -> None:
        self._manifest, self._period = manifest, period
        self.totals = Totals()
        self._codes = RuleCodes(rule.id for rule in manifest.rules)
        self._weeks = RuleWeeks([rule.order for rule in manifest.rules])
        self._tasks, self._telling = TaskRuns(), TellingTraces(top)
        self._times = {name: Distribution() for name in ("trace_ms", "event_ms", "conversation_s")}

    def add(self, rows: pa.RecordBatch) -> None:
        judged = rows.filter(pc.is_null(rows["error"]))
        self.totals.unreadable += rows.num_rows - judged.num_rows
        inside = judged.filter(pa.array(self._period.holds(column(judged, "ended"))))
        self.totals.outside += judged.num_rows - inside.num_rows
        if not inside.num_rows:
            return
        batch = VerdictBatch(inside, self._codes)
        self._add_totals(batch)
        for part in (self._weeks, self._tasks, self._telling):
            part.add(batch)

    def _add_totals(self, batch: VerdictBatch) -> None:
        totals, rows = self.totals, batch.rows
        started, ended = column(rows, "started"), column(rows, "ended")
        events, elapsed = column(rows, "events"), column(rows, "elapsed_ms")
        totals.traces += len(batch)
        totals.events += int(np.nansum(events))
        totals.denied += pc.sum(rows["label"]).as_py() or 0
        totals.unchecked += int(batch.unchecked.sum())
        only_approval = pc.equal(rows["decision"], Decision.ESCALATE.value).to_numpy(zero_copy_only=False)
        totals.escalated += int((only_approval & ~batch.unchecked).sum())
        denied_for_that = (column(rows, "label") > 0) & (batch.per_row(batch.rules.rows) == 0)
        totals.undecided += int((batch.unchecked & denied_for_that).sum())
        totals.unknown_outcomes += len(np.unique(batch.unknown_outcomes))
        totals.undated += int((batch.weeks == UNDATED).sum())
        dated = batch.weeks != UNDATED
        totals.first = _extreme(min, totals.first, started[dated])
        totals.last = _extreme(max, totals.last, ended[dated])
        self._times["trace_ms"].add(elapsed)
        self._times["event_ms"].add(elapsed[events > 0] / events[events > 0])
        self._times["conversation_s"].add(ended - started)

    def report(self, address: str, missing: Sequence[int]) -> AuditReport:
        return AuditReport(
            results=address,
            complete=not missing,
            missing=len(missing),
            missing_parts=tuple(missing[:SHOWN_PARTS]),
            partitions=self._manifest.partitions,
            audit=self._manifest.about,
            since=None if self._period.since is None else self._period.since.isoformat(),
            until=None if self._period.until is None else self._period.until.isoformat(),
            totals=self.totals,
            rules=tuple(self._rule_rows()),
            weeks=tuple(self._week_rows()),
            near_misses=self._weeks.near_misses,
            times={name: times.quantiles() for name, times in self._times.items()},
            telling_traces=self._telling.selected(),
            pass_rates=self._tasks.rates(),
        )

    def _rule_rows(self) -> Iterator[RuleRow]:
        known = self._manifest.rules
        sums = [RuleCounts() for _ in self._codes.ids]
        for (_, at), cell in self._weeks.cells.items():
            sums[at].add(cell)
        for at, rule in enumerate(self._codes.ids):
            message, order = (known[at].message, known[at].order) if at < len(known) else ("", False)
            share, example = _share(sums[at], self.totals.traces), self._telling.examples.get(at)
            yield RuleRow(rule, message, order, at < len(known), sums[at], share, example)

    def _week_rows(self) -> Iterator[WeekRow]:
        for week, judged in sorted(self._weeks.judged.items()):
            for at, rule in enumerate(self._codes.ids):
                counts = self._weeks.cells.get((week, at), RuleCounts())
                yield WeekRow(week_name(week), rule, judged, counts, _share(counts, judged))


def _share(counts: RuleCounts, judged: int) -> float:
    return counts.traces / judged if judged else 0.0


def _extreme(choose: Any, known: float | None, times: Any) -> float | None:
    values = times[np.isfinite(times)]
    extremes = [*([] if known is None else [known]), *([float(choose(values))] if len(values) else [])]
    return choose(extremes) if extremes else None


Figure = Literal["traces", "violations", "pending", "near_misses", "unlisted"]


class RuleWeeks:
    """The violations, pending obligations and near misses by rule and week.

    Args:
        order: whether each rule of the manifest asks for an earlier step; other rules do not.

    Attributes:
        cells: (week, rule) -> its counts; both are numbers.
        judged: week -> its traces.
        near_misses: the events at which only rules of `order` are violated.
    """

    def __init__(self, order: Sequence[bool]) -> None:
        self.cells: dict[tuple[int, int], RuleCounts] = defaultdict(RuleCounts)
        self.judged: Counter[int] = Counter()
        self.near_misses = NearMisses()
        self._order = np.array([*order, False])

    def add(self, batch: VerdictBatch) -> None:
        self.judged.update(batch.weeks.tolist())
        self._sum("traces", batch, batch.rules.rows, batch.rules.rules)
        self._sum("violations", batch, batch.counts.rows, batch.counts.rules, batch.counts.values)
        self._sum("unlisted", batch, batch.counts.rows, batch.counts.rules, batch.counts.values)
        listed = batch.violations
        self._sum("unlisted", batch, listed.rows, listed.rules, -np.ones(len(listed.rows)))
        at_end = pc.is_null(pc.struct_field(listed.values, "event")).to_numpy(zero_copy_only=False)
        self._sum("pending", batch, listed.rows[at_end], listed.rules[at_end])
        self._add_near_misses(batch, ~at_end)

    def _add_near_misses(self, batch: VerdictBatch, at_event: Any) -> None:
        listed = batch.violations
        is_cut = batch.per_row(batch.counts.rows, batch.counts.values) > batch.per_row(listed.rows)
        skipped = (is_cut | batch.unchecked) & (batch.per_row(batch.rules.rows) > 0)
        self.near_misses.skipped += int(skipped.sum())
        kept = at_event & ~skipped[listed.rows]
        rows, rules = listed.rows[kept], listed.rules[kept]
        places, first = _numbered_pairs(rows, integers(listed.values, "event")[kept])
        others = np.bincount(places, weights=~self._order[np.minimum(rules, len(self._order) - 1)])
        near = others == 0
        self.near_misses.events += int(near.sum())
        self.near_misses.traces += len(np.unique(rows[first][near]))
        self._sum("near_misses", batch, rows[near[places]], rules[near[places]])

    def _sum(self, figure: Figure, batch: VerdictBatch, rows: Any, rules: Any, amounts: Any = None) -> None:
        """Adds amounts, or 1 for each entry, to a figure of the entries' weeks and rules."""
        keys, places = np.unique(batch.weeks[rows] * MAX_RULES + rules, return_inverse=True)
        for key, amount in zip(keys.tolist(), np.bincount(places, weights=amounts).tolist(), strict=True):
            cell = self.cells[divmod(key, MAX_RULES)]
            setattr(cell, figure, getattr(cell, figure) + int(amount))


def _numbered_pairs(rows: Any, events: Any) -> tuple[Any, Any]:
    """(the number of the pair at each place, the first place of each pair)."""
    _, codes = np.unique(events, return_inverse=True)
    _, first, places = np.unique(rows * (len(codes) + 1) + codes, return_index=True, return_inverse=True)
    return places, first


MAX_LISTED = 20  # violations of a trace
# The number of rules, the severity and the number of violations, all negated; the id.
TraceKey = tuple[int, int, int, str]
RankedTrace = tuple[TraceKey, TellingTrace]
_TRACE_ORDER = [(name, "ascending") for name in ("rule", "rules", "severity", "violations", "trace")]


class TellingTraces:
    """Selects the traces that show most, in one pass.

    The candidates are, for each rule, the traces that violate it and come first in this order: most violated rules,
    most severe decision, most violations, smallest id. Of these, the selection repeatedly takes the trace with the most
    rules that no trace before it shows; then the most severe one, the one with most violations, the one with the
    smallest id.

    Args:
        number: the number of traces to select.

    Attributes:
        examples: the first candidate of each rule, with its first violation of the rule.
    """

    def __init__(self, number: int) -> None:
        self._number, self._kept = number, max(number, 1)
        self._first: dict[int, list[RankedTrace]] = defaultdict(list)
        self.examples: dict[int, TellingTrace] = {}

    def add(self, batch: VerdictBatch) -> None:
        ranked_traces: dict[int, RankedTrace] = {}
        for rule, row, key in self._contenders(batch):
            first = self._first[rule]
            if not first or key < first[0][0]:
                self.examples[rule] = _telling_trace(batch, row, -key[2], batch.codes.ids[rule])
            if len(first) < self._kept or key < first[-1][0]:
                if row not in ranked_traces:
                    ranked_traces[row] = (key, _telling_trace(batch, row, -key[2]))
                insort(first, ranked_traces[row], key=itemgetter(0))
                del first[self._kept :]

    def _contenders(self, batch: VerdictBatch) -> Iterator[tuple[int, int, TraceKey]]:
        """Yields (rule, row, key) of the first traces of the batch for each rule."""
        entries = batch.rules
        if not len(entries.rows):
            return
        table = pa.table({
            "rule": entries.rules,
            "row": entries.rows,
            "rules": -batch.per_row(entries.rows)[entries.rows],
            "severity": -batch.severities[entries.rows],
            "violations": -batch.per_row(batch.counts.rows, batch.counts.values)[entries.rows],
            "trace": pc.fill_null(batch.rows["trace"], "").take(pa.array(entries.rows)),
        })  # fmt: skip
        ordered = table.take(pc.sort_indices(table, sort_keys=_TRACE_ORDER))
        rules = ordered["rule"].to_numpy()
        ranks = np.arange(len(rules)) - np.searchsorted(rules, rules)
        for row in ordered.filter(pa.array(ranks < self._kept)).to_pylist():
            yield row["rule"], row["row"], (row["rules"], row["severity"], row["violations"], row["trace"])

    def selected(self) -> tuple[TellingTrace, ...]:
        remaining = {key: trace for first in self._first.values() for key, trace in first}
        shown: set[str] = set()
        chosen: list[TellingTrace] = []
        while remaining and len(chosen) < self._number:
            best = min(remaining, key=lambda key: (-len({*remaining[key].rules} - shown), *key[1:]))
            chosen.append(remaining.pop(best))
            shown.update(chosen[-1].rules)
        return tuple(chosen)


def _telling_trace(batch: VerdictBatch, row: int, total: int, rule: str | None = None) -> TellingTrace:
    """The trace with its first violations, or with the first one of a rule."""
    values: dict[str, Any] = batch.rows.slice(row, 1).to_pylist()[0]
    listed = [violation for violation in values["violations"] or () if rule in (None, violation["rule"])]
    listed.sort(key=lambda violation: (violation["event"] is None, violation["event"]))
    return TellingTrace(
        values["trace"],
        values["decision"],
        tuple(values["rules"]),
        total,
        tuple(
            ListedViolation(violation["rule"], violation["event"], violation["message"] or "", _call(violation))
            for violation in listed[: 1 if rule else MAX_LISTED]
        ),
        values["task"],
        None if batch.weeks[row] == UNDATED else values["ended"],
    )


def _call(violation: dict[str, Any]) -> str:
    """The call, or at the end of a trace the one that was to be followed by another."""
    match parse_json(violation["evidence"] or "{}", "the evidence of a violation"):
        case {"call": {"tool": str(tool), "args": dict(args)}} | {
            "obliged by": {"tool": str(tool), "args": dict(args)}
        }:
            return call_text(tool, args)
    return ""


MAX_K = 8
MAX_TASKS = 500_000
Runs = tuple[int, int, int]  # runs, successes, successes without a violation


class TaskRuns:
    """The runs of each task. If there are too many tasks, a sample of them by hash: each is in it as a whole.

    pass^k is the chance that k runs of a task all succeed (tau-bench, arXiv 2406.12045). With c successes in n runs,
    C(c, k) / C(n, k) estimates it without bias: the share of all choices of k runs that succeed. It is averaged over
    the tasks with at least k runs. joint^k is the same for runs that succeed and violate nothing.
    """

    def __init__(self, limit: int = MAX_TASKS) -> None:
        self._runs: dict[int, Runs] = {}
        self._unknown = 0
        self._level, self._limit = 0, limit

    def add(self, batch: VerdictBatch) -> None:
        success = batch.rows["success"]
        clean = (batch.per_row(batch.rules.rows) == 0) & ~batch.unchecked
        known = pc.and_(pc.is_valid(batch.rows["task"]), pc.is_valid(success))
        self._unknown += pc.sum(pc.and_not(pc.is_valid(batch.rows["task"]), pc.is_valid(success))).as_py() or 0
        passed = pc.fill_null(success, False)  # noqa: FBT003 - a value
        table = pa.table({
            "task": batch.rows["task"],
            "run": pa.array(np.ones(len(batch), dtype=np.int64)),
            "passed": passed.cast(pa.int64()),
            "joint": pc.and_(passed, pa.array(clean)).cast(pa.int64()),
        }).filter(known)  # fmt: skip
        grouped = table.group_by("task").aggregate([("run", "sum"), ("passed", "sum"), ("joint", "sum")])
        names = ("task", "run_sum", "passed_sum", "joint_sum")
        for task, *runs in zip(*(grouped[name].to_pylist() for name in names), strict=True):
            self._add(task, runs)

    def _add(self, task: str, more: list[int]) -> None:
        key = int.from_bytes(blake2b(task.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        if key & ((1 << self._level) - 1):
            return
        runs, passed, joint = self._runs.get(key, (0, 0, 0))
        self._runs[key] = (runs + more[0], passed + more[1], joint + more[2])
        while len(self._runs) > self._limit:
            self._level += 1
            mask = (1 << self._level) - 1
            self._runs = {key: runs for key, runs in self._runs.items() if not key & mask}

    def rates(self) -> PassRates:
        kinds = Counter(self._runs.values())
        most = min(MAX_K, max((runs for runs, _, _ in kinds), default=0))
        return PassRates(
            tuple(_rate(kinds, k) for k in range(1, most + 1)),
            len(self._runs),
            sum(runs * tasks for (runs, _, _), tasks in kinds.items()),
            self._unknown,
            1 << self._level,
        )


def _rate(kinds: Counter[Runs], k: int) -> PassRate:
    enough = [(*kind, number) for kind, number in sorted(kinds.items()) if kind[0] >= k]
    tasks = sum(number for *_, number in enough)
    passed = sum(number * comb(passed, k) / comb(runs, k) for runs, passed, _, number in enough)
    joint = sum(number * comb(joint, k) / comb(runs, k) for runs, _, joint, number in enough)
    return PassRate(k, tasks, passed / tasks, joint / tasks)


MAX_EXACT = 100_000  # values up to which quantiles are exact
_BUCKET = np.log(1.01)  # the width of a bucket: its middle is within 0.5 % of each of its values
_SMALLEST = 1e-9  # smaller values count as zero


class Distribution:
    """Quantiles of numbers from zero on: of all of them up to a limit, then of logarithmic buckets.

    The order of the numbers does not matter.
    """

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._buckets: Counter[int] = Counter()
        self._count = 0
        self._maximum: float | None = None

    def add(self, values: Any) -> None:
        """Adds the numbers of an array; skips negative ones and those that are not numbers."""
        known = values[np.isfinite(values) & (values >= 0)]
        if not len(known):
            return
        self._count += len(known)
        self._maximum = max(float(known.max()), self._maximum or 0.0)
        self._values.append(known)
        if self._count > MAX_EXACT:
            for array in self._values:
                self._fill(array)
            self._values = []

    def quantiles(self) -> Quantiles:
        if self._count and not self._buckets:
            median, p95 = (float(quantile) for quantile in np.quantile(np.concatenate(self._values), [0.5, 0.95]))
            return Quantiles(self._count, median, p95, self._maximum, exact=True)
        return Quantiles(self._count, self._estimate(0.5), self._estimate(0.95), self._maximum, exact=not self._count)

    def _fill(self, values: Any) -> None:
        places = np.floor(np.log(np.maximum(values, _SMALLEST)) / _BUCKET).astype(int)
        self._buckets.update(
            dict(zip(*(tool_schema.tolist() for tool_schema in np.unique(places, return_counts=True)), strict=True))
        )

    def _estimate(self, share: float) -> float | None:
        if self._maximum is None:
            return None
        rank, seen = share * (self._count - 1), 0
        for place, number in sorted(self._buckets.items()):
            seen += number
            if seen > rank:
                return min(float(np.exp((place + 0.5) * _BUCKET)), self._maximum)
        return self._maximum
