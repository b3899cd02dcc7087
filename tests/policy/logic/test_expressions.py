"""Expressions are equal if their structures are."""

from __future__ import annotations

from guardagent.policy.logic.expressions import Expression, arithmetic, variable


def doubled(times: int, name: str = "n") -> Expression:
    total: Expression = variable("number", name)
    for _ in range(times):
        total = arithmetic(total, "+", total)
    return total


def test_copies_with_shared_parts_are_compared_soon() -> None:
    """Not part by part as often as they occur, which is 2 ** 200 times here."""
    assert doubled(200) == doubled(200)
    assert doubled(200) != doubled(200, "m")
    assert doubled(200) != doubled(199)
