"""Selects the traces that show most, in one pass and in memory that does not grow with their number.

The candidates are, for each rule, the traces that violate it and come first in this order: most violated rules, most
severe decision, most violations, smallest id. Of these, the selection repeatedly takes the trace with the most rules
that no trace before it shows; then the most severe one, the one with most violations, the one with the smallest id.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent.batch.report.figures import ListedViolation, TellingTrace
from guardagent.batch.report.verdict_batch import UNDATED, VerdictBatch

MAX_SHOWN = 20  # violations of a trace
Key = tuple[int, int, int, str]  # the number of rules, the severity and the number of violations, all negated; the id
_ORDER = [(name, "ascending") for name in ("rule", "rules", "severity", "violations", "trace")]


@dataclass(frozen=True, slots=True)
class RankedTrace:
    """A trace with its place in the order."""

    key: Key
    trace: TellingTrace


class TellingTraces:
    """The candidates of the batches so far.

    Args:
        number: the number of traces to select.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._first: dict[int, list[RankedTrace]] = defaultdict(list)

    def add(self, batch: VerdictBatch) -> None:
        found: dict[int, RankedTrace] = {}
        for rule, row, key in self._contenders(batch):
            first = self._first[rule]
            if len(first) < self._number or key < first[-1].key:
                if row not in found:
                    found[row] = RankedTrace(key, _trace(batch, row, -key[2]))
                insort(first, found[row], key=lambda one: one.key)
                del first[self._number :]

    def _contenders(self, batch: VerdictBatch) -> Iterator[tuple[int, int, Key]]:
        """Yields (rule, row, key) of the first traces of the batch for each rule."""
        entries = batch.rules
        if not len(entries.rows) or not self._number:
            return
        table = pa.table({
            "rule": entries.rules,
            "row": entries.rows,
            "rules": -batch.per_row(entries.rows)[entries.rows],
            "severity": -batch.severities[entries.rows],
            "violations": -batch.per_row(batch.counts.rows, batch.counts.values)[entries.rows],
            "trace": pc.fill_null(batch.rows["trace"], "").take(pa.array(entries.rows)),
        })  # fmt: skip
        ordered = table.take(pc.sort_indices(table, sort_keys=_ORDER))
        rules = ordered["rule"].to_numpy()
        ranks = np.arange(len(rules)) - np.searchsorted(rules, rules)
        for one in ordered.filter(pa.array(ranks < self._number)).to_pylist():
            yield one["rule"], one["row"], (one["rules"], one["severity"], one["violations"], one["trace"])

    def selected(self) -> tuple[TellingTrace, ...]:
        remaining = {one.key: one for first in self._first.values() for one in first}
        shown: set[str] = set()
        chosen: list[TellingTrace] = []
        while remaining and len(chosen) < self._number:
            best = min(remaining, key=lambda key: (-len({*remaining[key].trace.rules} - shown), *key[1:]))
            chosen.append(remaining.pop(best).trace)
            shown.update(chosen[-1].rules)
        return tuple(chosen)


def _trace(batch: VerdictBatch, row: int, total: int) -> TellingTrace:
    values: dict[str, Any] = batch.rows.slice(row, 1).to_pylist()[0]
    listed = sorted(values["violations"] or (), key=lambda one: (one["event"] is None, one["event"]))
    return TellingTrace(
        values["trace"],
        values["decision"],
        tuple(values["rules"]),
        total,
        tuple(ListedViolation(one["rule"], one["event"], one["message"] or "") for one in listed[:MAX_SHOWN]),
        values["task"],
        None if batch.weeks[row] == UNDATED else values["ended"],
    )
