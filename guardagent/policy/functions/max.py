"""`max(a, b)`, `max(xs)`: the greatest of some numbers, or of a list of them."""

from __future__ import annotations

from guardagent.policy.functions._numbers import of_numbers

FUNCTION = of_numbers(max)
