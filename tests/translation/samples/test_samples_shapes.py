"""Shapes of values: a mapping whose keys are data has one entry."""

from __future__ import annotations

from typing import Any

from guardagent.translation.samples import Shape


def test_keys_that_look_like_words_are_data_if_few_values_have_each() -> None:
    def record(key: str) -> dict[str, Any]:
        return {key: {"owner": "ann", "open": True}}

    orders = Shape()
    for key in ("ABCDEF", "GHIJKL", "MNOPQR", "STUVWX", "YZABCD"):
        orders.add(record(key))
    assert [path.path for path in orders.paths("orders")][1:] == ["orders.*", "orders.*.owner", "orders.*.open"]
    addresses = Shape()
    for _ in range(5):
        addresses.add({**record("home"), **record("work"), **record("billing"), **record("gift")})
    assert "orders.home.owner" in [path.path for path in addresses.paths("orders")]
