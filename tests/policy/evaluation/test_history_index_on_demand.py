"""Values that are made when they are used."""

from __future__ import annotations

from functools import partial

from guardagent.policy.evaluation.history_index import OnDemand


def test_a_value_is_made_once_and_only_what_is_there_is_changed() -> None:
    made: list[int] = []

    def make(number: int) -> list[int]:
        made.append(number)
        return [number]

    on_demand = OnDemand([partial(make, number) for number in range(3)])
    assert on_demand[1] is on_demand[1]
    assert made == [1]
    other = on_demand.changed(lambda number, value: [*value, number])
    assert other[1] == [1, 1]
    assert made == [1]
    assert other[2] == [2]
    assert 2 not in on_demand
