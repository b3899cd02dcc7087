"""Quantiles of a stream of numbers in constant memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from guardagent.batch.report.figures import Quantiles

EXACT = 100_000  # values up to which quantiles are exact
_BASE = np.log(1.01)  # the width of a bucket: its middle is within 0.5 % of each of its values
_SMALLEST = 1e-9  # smaller values count as zero


class Distribution:
    """Numbers from zero on: all of them up to a limit, then logarithmic buckets. Their order does not matter."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._buckets: Counter[int] = Counter()
        self._count = 0
        self._maximum: float | None = None

    def add(self, values: Any) -> None:
        """Adds the numbers of an array; skips negative ones and those that are no numbers."""
        known = values[np.isfinite(values) & (values >= 0)]
        if not len(known):
            return
        self._count += len(known)
        self._maximum = max(float(known.max()), self._maximum or 0.0)
        self._values.append(known)
        if self._count > EXACT:
            for one in self._values:
                self._fill(one)
            self._values = []

    def quantiles(self) -> Quantiles:
        if self._count and not self._buckets:
            median, p95 = (float(one) for one in np.quantile(np.concatenate(self._values), [0.5, 0.95]))
            return Quantiles(self._count, median, p95, self._maximum, exact=True)
        return Quantiles(self._count, self._estimate(0.5), self._estimate(0.95), self._maximum, exact=not self._count)

    def _fill(self, values: Any) -> None:
        places = np.floor(np.log(np.maximum(values, _SMALLEST)) / _BASE).astype(int)
        self._buckets.update(dict(zip(*(one.tolist() for one in np.unique(places, return_counts=True)), strict=True)))

    def _estimate(self, share: float) -> float | None:
        if self._maximum is None:
            return None
        rank, seen = share * (self._count - 1), 0
        for place, number in sorted(self._buckets.items()):
            seen += number
            if seen > rank:
                return min(float(np.exp((place + 0.5) * _BASE)), self._maximum)
        return self._maximum
