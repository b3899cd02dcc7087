"""Numbers by their value, however they are written."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from guardagent.policy.language.values import Unknown
from guardagent.policy.provenance.amounts import amount_keys, card, is_telling, joined, number_key, opposite
from tests.policy.provenance.sessions import recorded, session_of, sources, user


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (7, "#7"), (-7, "#-7"), (0, "#0"), (98.7, "#98.7"), (Decimal("98.70"), "#98.7"),
        (4711, "4711"), (-4711, "-4711"), (Fraction(1, 2), "#0.5"), (1234.5, "1234.5"),
        (float("nan"), ""), (1e20, "100000000000000000000"),
    ],
)  # fmt: skip
def test_keys_of_numbers(value: Any, key: str) -> None:
    assert number_key(value) == key
    assert opposite(opposite(key)) == key


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("98.70", ("#98.7",)), ("$50.00", ("#50",)), ("50 EUR", ("#50",)), ("-5", ("#-5",)), ("1'234", ("1234",)),
        ("1_234", ("1234",)), ("12,34,567", ("1234567",)), ("1,234.50", ("1234.5",)), ("1.234", ("#1.234", "1234")),
        ("3 apples", ()), ("eve2024", ()), ("Eve 2024", ()), ("2024x", ()), ("", ()), ("9" * 60, ()),
    ],
)  # fmt: skip
def test_a_text_that_is_one_number(text: str, keys: tuple[str, ...]) -> None:
    assert {key.replace("#1.234", "1.234") for key in amount_keys(text)} == {
        key.replace("#1.234", "1.234") for key in keys
    }


def test_digits_in_groups() -> None:
    assert card("4111 1111 1111 1111 12/26") == joined("4111-1111-1111-1111") == "4111111111111111"
    assert joined("1 234") == "1234"
    assert card("2024-11-03 2024-11-04") == joined("10 20") == joined("1 " * 40) == ""


def test_numbers_that_say_something() -> None:
    assert all(map(is_telling, ("4711", "#815", "#98.7", "#-12.5")))
    assert not any(map(is_telling, ("#7", "#100", "#0.5", "#-20")))


MESSAGE = "Pay 50 EUR, 98.70 and 5kg, not -20; 1 234 567 for all."


@pytest.mark.parametrize("value", [50, "50", "50.00", "$50", 98.7, "98.70", "EUR 98.7", 5, -20, 1234567, "1,234,567"])
def test_a_number_of_the_user_is_found_by_its_value(value: Any) -> None:
    assert sources(session_of(messages=[user(MESSAGE)]), value) == {"user"}


@pytest.mark.parametrize("value", [51, "98.71", 8, 987, "0.5", 1234568])
def test_another_number_is_the_models(value: Any) -> None:
    assert sources(session_of(messages=[user(MESSAGE)]), value) == {"model"}


@pytest.mark.parametrize(("read", "value"), [(4711, -4711), (-4711, 4711), (98.7, -98.7), (-50, "50")])
def test_the_other_sign_leaves_the_label_open(read: Any, value: Any) -> None:
    session = recorded(session_of(), "get_balance", {"balance": read})
    assert isinstance(sources(session, value), Unknown)
    assert sources(session, read) == {"private"}


@pytest.mark.parametrize(
    ("args", "is_stopped"),
    [
        ({"amount": 98.7}, True),
        ({"amount": "98.70"}, True),
        ({"lines": [{"sum": 98.7}]}, True),
        ({"page": 7, "size": 100}, False),
        ({"page": "7"}, False),
        ({"text": "7 of 100 items"}, False),
        ({"amount": 98.6}, False),
    ],
)
def test_a_flow_sees_numbers_that_say_something(args: dict[str, Any], is_stopped: bool) -> None:
    session = recorded(session_of("flow(private -> pay())"), "get_balance", {"balance": 98.7, "page": 7, "size": 100})
    assert bool(session.check("pay", args).label) is is_stopped


def test_known_groups_in_another_order_are_no_known_card() -> None:
    session = session_of(messages=[user("cards 4111 1111 2222 2222 and 5555 5555 3333 3333")])
    assert isinstance(sources(session, "4111 5555 2222 3333"), Unknown)
    assert sources(session, "4111111122222222") == {"user"}
