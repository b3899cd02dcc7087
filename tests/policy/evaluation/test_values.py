"""Values of data rules: equality, order and unknown results."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from guardagent.policy.language import values
from guardagent.policy.load import compile_rules

NAN, INFINITY = float("nan"), float("inf")
UNKNOWN = "unknown"
DEEP = "[" * 100_000


def outcome(value: Any) -> Any:
    return UNKNOWN if isinstance(value, values.Unknown) else value


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (0.1, Decimal("0.1"), True),
        (0.1, Fraction(1, 10), True),
        (1, 1.0, True),
        (0, -0.0, True),
        (10**22, 1e22, True),
        (2**53 + 1, float(2**53), False),
        (5e-324, Decimal("5e-324"), True),
        (Decimal("1e400"), 10**400, True),
        (1, True, UNKNOWN),
        (0, False, UNKNOWN),
        ("500", 500, UNKNOWN),
        ("true", True, UNKNOWN),
        (None, None, UNKNOWN),
        (NAN, NAN, UNKNOWN),
        (INFINITY, INFINITY, UNKNOWN),
        (Decimal("1e999999999"), 1, UNKNOWN),
        (b"a", "a", UNKNOWN),
        ({1}, {1}, UNKNOWN),
        ("a", "A", False),
        ("e\u0301", "\u00e9", False),
        ([1, 0.5], (1.0, Decimal("0.50")), True),
        ([1], [True], UNKNOWN),
        ([1, None], [2, None], False),
        ([1, None], [1, None], UNKNOWN),
        ([1], [1, None], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": None}, {"a": 1}, UNKNOWN),
        ([], {}, UNKNOWN),
    ],
)
def test_values_are_equal_in_kind_and_exactly(left: Any, right: Any, same: Any) -> None:
    """Numbers are compared as printed, booleans are not numbers, strings are not coerced; equality is symmetric."""
    assert outcome(values.equal(left, right)) == outcome(values.equal(right, left)) == same
    hash_key, other = values.hash_key(left), values.hash_key(right)
    if None not in (hash_key, other):
        assert (hash_key == other) == (same is True)


@pytest.mark.parametrize(
    ("left", "right", "before"),
    [
        (0.1, Decimal("0.10000000000000001"), True),
        (2**53, 2**53 + 1, True),
        (10**400, 1e308, False),
        ("a", "b", True),
        ("a", "B", False),
        ("9", 10, UNKNOWN),
        (False, True, UNKNOWN),
        ([1], [2], UNKNOWN),
        (NAN, 1, UNKNOWN),
        (None, 1, UNKNOWN),
    ],
)
def test_order_is_of_numbers_and_of_texts(left: Any, right: Any, before: Any) -> None:
    """Other values have no order."""
    assert outcome(values.less(left, right)) == before


@pytest.mark.parametrize(
    ("left", "operator", "right", "result"),
    [
        (0.1, "+", 0.2, Fraction(3, 10)),
        (1, "/", 3, Fraction(1, 3)),
        (6, "/", 3, 2),
        (-7, "%", 3, 2),
        (5.5, "%", 2, Fraction(3, 2)),
        (10**30, "-", 1, 10**30 - 1),
        (1, "/", 0.0, UNKNOWN),
        (1, "%", 0, UNKNOWN),
        (True, "+", 1, UNKNOWN),
        ("1", "+", "1", "11"),
        ("1", "-", "1", UNKNOWN),
        ("1", "+", 1, UNKNOWN),
        (NAN, "*", 0, UNKNOWN),
        (None, "-", 1, UNKNOWN),
    ],
)
def test_arithmetic_is_exact(left: Any, operator: str, right: Any, result: Any) -> None:
    """Results are unknown unless both operands are numbers, or strings to join."""
    assert outcome(values.arithmetic(left, operator, right)) == result


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 0.1}', {"a": Decimal("0.1")}),
        ('"a"', "a"),
        ('{"a": 1, "a": 1}', UNKNOWN),
        ('[{"a": {"b": 1, "b": 2}}]', UNKNOWN),
        ("NaN", UNKNOWN),
        ("[1,]", UNKNOWN),
        ("", UNKNOWN),
        (DEEP, UNKNOWN),
        ('{"a":' * 100_000, UNKNOWN),
        ("1" * 5000, UNKNOWN),
        ("[" + "1," * 2_000_000 + "1]", UNKNOWN),
    ],
)
def test_a_text_is_json_or_unknown(text: str, value: Any) -> None:
    """Duplicate keys, JavaScript constants, and text that is too deep or too long are not JSON."""
    assert outcome(values.parsed(text)) == value


@pytest.mark.parametrize(
    ("value", "index", "expected"),
    [
        ([1, 2], 1, 2),
        ([1, 2], 1.0, 2),
        ([1, 2], -1, 2),
        ([1, 2], 0.5, UNKNOWN),
        ([1, 2], True, UNKNOWN),
        ([1, 2], 2, UNKNOWN),
        ([1, 2], 10**30, UNKNOWN),
        ([None], 0, UNKNOWN),
        ("[1, 2]", 0, 1),
        ("abc", 0, UNKNOWN),
        ({"a": 1}, "a", 1),
        ('{"a": {"b": 1}}', "a", {"b": 1}),
        ({"1": 1}, 1, UNKNOWN),
        (5, 0, UNKNOWN),
    ],
)
def test_items(value: Any, index: Any, expected: Any) -> None:
    """Items are read by index or key; a string is parsed as JSON."""
    assert outcome(values.item_of(value, index)) == expected


def test_fields() -> None:
    """A null field and a missing field are unknown."""
    assert values.field_of('{"a": "{}"}', "a") == "{}"
    without: list[Any] = [{"a": None}, {}, "[]", '{"a": null}', [], 5, None]
    assert [outcome(values.field_of(value, "a")) for value in without] == [UNKNOWN] * 7


@pytest.mark.parametrize(
    ("item", "whole", "inside"),
    [
        (1, [2, 1.0], True),
        (1, [2, "1"], UNKNOWN),
        (1, [1, "1"], UNKNOWN),
        (1, [1, [2]], UNKNOWN),
        ([1], [[2], [1]], True),
        ([1], [[2], [1, None]], False),
        ([1], [[2], [None]], UNKNOWN),
        ("a", [["a"]], UNKNOWN),
        (1, [1, None], True),
        (1, [2, None], UNKNOWN),
        (1, [True], UNKNOWN),
        (True, [True, False], True),
        (1, [2, 3], False),
        (None, [], False),
        ("b", "abc", True),
        (1, "1", UNKNOWN),
        ("a", {"a": None}, UNKNOWN),
        ("b", {"a": None}, UNKNOWN),
        ("a", 5, UNKNOWN),
        ("a", None, UNKNOWN),
    ],
)
def test_what_is_in_what(item: Any, whole: Any, inside: Any) -> None:
    """An item in a list of scalars of one kind or of lists, a string in a string; nothing in a mapping."""
    assert outcome(values.contains(item, whole)) == inside


def test_lengths() -> None:
    """The length of a string is its number of characters, even if it contains JSON."""
    measured: list[Any] = ["[1]", "é", [1], {}, 5, True, None]
    assert [outcome(values.length(value)) for value in measured] == [3, 1, 1, 0, UNKNOWN, UNKNOWN, UNKNOWN]


# Disagreement: a float is no place for it (OverflowError), and the violation becomes an error.
def test_a_fraction_is_shown_however_great_it_is() -> None:
    """A known violation is reported with evidence."""
    assert values.shown(Fraction(10**400, 3))
    session = compile_rules(["forall(f:pay(), args(f).n / 3 == 5)"]).session()
    assert session.check("pay", {"n": 10**400}, reserve=False).rules == ("rule 1",)


# Disagreement: Python writes no integers of more than 4300 digits (ValueError).
def test_a_verdict_on_a_great_number_can_be_written() -> None:
    """As JSON, and as what goes back to the model."""
    session = compile_rules(["forall(f:pay(), args(f).n < 5)"]).session()
    verdict = session.check("pay", {"n": 10**5000}, reserve=False)
    assert verdict.rules == ("rule 1",)
    assert verdict.to_json()
    assert verdict.feedback()
