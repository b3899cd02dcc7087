"""Makes the report on an audit, in one pass over its verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent.batch.report.distribution import Distribution
from guardagent.batch.report.figures import AuditReport, RuleCounts, RuleRow, Totals, WeekRow
from guardagent.batch.report.manifest import Manifest
from guardagent.batch.report.period import Period
from guardagent.batch.report.results_folder import ResultsFolder
from guardagent.batch.report.rule_weeks import RuleWeeks
from guardagent.batch.report.task_runs import TaskRuns
from guardagent.batch.report.telling_traces import TellingTraces
from guardagent.batch.report.verdict_batch import UNDATED, RuleCodes, VerdictBatch, column, week_name
from guardagent.errors import ContentError, InputError

SHOWN_PARTS = 20


def audit_report(address: str, period: Period | None = None, *, top: int = 10) -> AuditReport:
    """Reads the results of an audit.

    Args:
        address: the folder, or its URL for fsspec.
        period: the days of the traces' last events; None for all.
        top: the number of telling traces.

    Raises:
        InputError: it is no folder of results, a part is corrupt or has another schema, or no trace remains.
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
            since=_iso(self._period.since),
            until=_iso(self._period.until),
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
            yield RuleRow(rule, message, order, at < len(known), sums[at], _share(sums[at], self.totals.traces))

    def _week_rows(self) -> Iterator[WeekRow]:
        for week, judged in sorted(self._weeks.judged.items()):
            for at, rule in enumerate(self._codes.ids):
                counts = self._weeks.cells.get((week, at), RuleCounts())
                yield WeekRow(week_name(week), rule, judged, counts, _share(counts, judged))


def _iso(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


def _share(counts: RuleCounts, judged: int) -> float:
    return counts.traces / judged if judged else 0.0


def _extreme(choose: Any, known: float | None, times: Any) -> float | None:
    values = times[np.isfinite(times)]
    found = [*([] if known is None else [known]), *([float(choose(values))] if len(values) else [])]
    return choose(found) if found else None
