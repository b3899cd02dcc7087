"""Quantiles of many numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.batch.report.figures import MAX_EXACT, Distribution


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
