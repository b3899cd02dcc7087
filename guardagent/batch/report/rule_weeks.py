"""Counts violations, pending obligations and near misses by rule and week."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow.compute as pc

from guardagent.batch.report.figures import NearMisses, RuleCounts
from guardagent.batch.report.verdict_batch import MAX_RULES, VerdictBatch, integers

Figure = Literal["traces", "violations", "pending", "near_misses", "unlisted"]


class RuleWeeks:
    """The counts of the batches so far.

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
        places, first = _numbered(rows, integers(listed.values, "event")[kept])
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


def _numbered(rows: Any, events: Any) -> tuple[Any, Any]:
    """(the number of the pair at each place, the first place of each pair)."""
    _, codes = np.unique(events, return_inverse=True)
    _, first, places = np.unique(rows * (len(codes) + 1) + codes, return_index=True, return_inverse=True)
    return places, first
