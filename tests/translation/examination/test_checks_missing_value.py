"""Rules that allow a call as soon as a value is missing."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent.translation.drafts import Draft
from tests.translation.examination.shop import case, problems, rule


def found(temporal: str, **known: Any) -> list[str]:
    denied = case("denied", 1, ["refund_limit"], args={"order_id": "W1"}, **known)
    draft = Draft((2,), (rule(temporal, cases=(denied,)),))
    return [problem.message for problem in problems(draft, "missing_value")]


@pytest.mark.parametrize(
    ("temporal", "known", "name"),
    [
        ("forall(refund(), !known(state.open) || state.open == true)", {"state": {"open": False}}, "'state.open'"),
        ('forall(refund(), known(fact(user)) -> fact(user) == "a")', {"facts": {"user": "b"}}, "the fact 'user'"),
        (
            "forall(refund(order_id=o), !known(state.orders[o].paid) || state.orders[o].paid == true)",
            {"state": {"orders": {"W1": {"paid": False}}}},
            "'state.orders'",
        ),
    ],
)
def test_a_missing_value_that_allows_is_named(temporal: str, known: dict[str, Any], name: str) -> None:
    (message,) = found(temporal, **known)
    assert f"allows it if {name} is missing" in message


@pytest.mark.parametrize(
    "temporal",
    [
        "forall(refund(), state.open == true)",
        "forall(refund(), known(state.open) && state.open == true)",
        "forall(refund(amount=a), (!known(a) || a <= 5) && state.open == true)",
    ],
)
def test_a_rule_that_denies_without_the_value_is_right(temporal: str) -> None:
    """An optional argument may be missing."""
    assert found(temporal, state={"open": False}) == []
