"""The model backends, one per file, and prices: US dollars per million prompt tokens, and completion tokens."""

from __future__ import annotations

import math

from guardagent.errors import InputError


def checked_prices(prices: tuple[float, float] | None) -> tuple[float, float] | None:
    """Returns two valid prices, or None.

    Raises:
        InputError: they are not two numbers, or negative.
    """
    if prices is None:
        return None
    try:
        first, second = map(float, prices)
    except (TypeError, ValueError):
        first = second = math.nan
    if not (0 <= first < math.inf and 0 <= second < math.inf):
        raise InputError(f"'prices' is {prices!r}; expected US dollars per million prompt tokens and completion tokens")
    return first, second


def cost_of(prices: tuple[float, float] | None, prompt: int | None, completion: int | None) -> float | None:
    """Returns US dollars; None if a price or a count is unknown."""
    if prices is None or prompt is None or completion is None:
        return None
    return (prices[0] * prompt + prices[1] * completion) / 1_000_000
