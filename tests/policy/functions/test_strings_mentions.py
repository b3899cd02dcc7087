"""`mentions` finds whole tokens at any depth."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from guardagent.policy.functions import rule_functions
from guardagent.policy.functions.strings import MAX_TRIED, escaped, has_match, has_token, token_edges
from guardagent.policy.language.values import Unknown

UNKNOWN = "unknown"


def mentions(value: Any, token: Any) -> Any:
    result = rule_functions()["mentions"].apply([value, token])
    return UNKNOWN if isinstance(result, Unknown) else result


@pytest.mark.parametrize(
    ("value", "token", "expected"),
    [
        ("Order W1.", "W1", True),
        ("id:W1,W2", "W2", True),
        ("(W1)", "W1", True),
        ("W10", "W1", False),
        ("aW1", "W1", False),
        ("aW1 W1", "W1", True),
        ("W1-2", "W1", False),
        ("W1_2", "W1", False),
        ("bob@shop.com", "bob", False),
        ("bob@shop.com", "shop.com", False),
        ("to bob@shop.com.", "bob@shop.com", True),
        ("abob@shop.com", "bob@shop.com", False),
        ("John's", "John", True),
        ("O'Brien", "Brien", False),
        ("C++ is", "C++", True),
        ("caf\u00e9", "caf", False),
        ("cafe\u0301", "cafe", False),
        ("1,100.50", "100", False),
        ("100.50", "100", False),
        ("12:30", "30", False),
        ("$100, paid", "100", True),
        ("-100", 100, False),
        ("total 100.", 100.0, True),
        ("pay the 98.70", 98.7, True),
        ("pay 1,234.00 now", 1234, True),
        ("1'234 and 12,34,567", 1234567, True),
        ("98.70", 98.71, False),
        ("v98.70", 98.7, False),
        ("5.00 EUR", 5, True),
        ("-5.00", 5, False),
        ("-5.00", -5, True),
        ("10.0.0.1", 10, False),
        ({"total": 100}, 100, True),
        ({"total": "100"}, 100, True),
        ({"total": 1000}, 100, False),
        ({"a": [{"b": "see W1"}]}, "W1", True),
        ({"W1": "a key"}, "W1", False),
        ('{"note": "line\\nW1"}', "W1", True),
        ('["{\\"note\\": \\"line\\\\nW1\\"}"]', "W1", True),
        ([None, True], "true", False),
        ([], "W1", False),
    ],
)
def test_a_token_is_whole(value: Any, token: Any, expected: Any) -> None:
    """It is no part of a longer word, number, e-mail address or identifier."""
    assert mentions(value, token) is expected


@pytest.mark.parametrize(
    ("value", "token"),
    [
        ("a", ""),
        ("a  b", " "),
        ("-", "-"),
        ("a", None),
        (None, "a"),
        ("a", ["a"]),
        ("a", True),
        ("a" * 2_000, "a" * 2_000),
        ("order w1", "W1"),
        ("order W\u200b1", "W1"),
        ("order \uff371", "W1"),
        ("John  Smith", "John Smith"),
        ("\u8ba2\u5355W1\u5df2\u53d1", "W1"),
        ({"total": 100}, "100"),
        (["a", b"a"], "b"),
        ("W1 \ud800", "W1"),
        ("\ud800bob x", "bob"),
        ("\ud800BOB x", "bob"),
        ("1", float("nan")),
        ("pay 1.234", 1234),
    ],
)
def test_what_nobody_can_know_is_unknown(value: Any, token: Any) -> None:
    """An empty token, a slip in case or spacing, and another kind."""
    assert mentions(value, token) == UNKNOWN


@pytest.mark.parametrize(
    ("value", "token"),
    [
        ("a" * 1_000_000, "a"),
        ("a ba ba b" * 100_000, "a ba ba b" * 100),
        ("[" * 1_000_000, "a"),
        ([["b"]] * 100_000, "a"),
        ("1.50 " * 200_000, 1.6),
    ],
)
def test_hostile_input_takes_linear_time(value: Any, token: Any) -> None:
    """Many places that nearly match."""
    start = time.perf_counter()
    assert mentions(value, token) is False
    assert time.perf_counter() - start < 5


def test_depth_is_no_limit() -> None:
    """The search needs no recursion."""
    value: Any = "W1"
    for _ in range(50_000):
        value = [value]
    assert mentions(value, "W1") is True


_PIECES = st.lists(
    st.sampled_from(["a", "A1", "1", ".", ",", "-", "'s", "\u2019s", "@", " ", "_", "é", "\u4e2d", "$", "\n"])
)


@given(_PIECES.map("".join), _PIECES.map("".join).filter(bool))
@example("1" * (MAX_TRIED + 5) + " 1", "1")
def test_the_characters_around_decide_as_one_regular_expression(whole: str, text: str) -> None:
    before, after = token_edges(text)
    assert has_token(whole, text) == has_match(whole, before + escaped(text) + after)
