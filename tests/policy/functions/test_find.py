"""`find` lists the matches of a regular expression."""

from __future__ import annotations

import time
from typing import Any

import pytest

from guardagent.policy.functions import function
from guardagent.policy.language.values import Unknown


def find(text: str, regex: str) -> Any:
    found = function("find")
    assert found is not None
    return found.apply([text, regex])


@pytest.mark.parametrize(
    ("text", "regex", "found"),
    [
        ("a1 b22", "[a-z][0-9]+", ["a1", "b22"]),
        ("a1 b22", "[a-z]([0-9]+)", ["1", "22"]),
        ("a1 b22", "([a-z])([0-9]+)", ["a", "b"]),
        ("ab", "(a)|b", ["a", None]),
        ("\u00e9a\u00e9", "\u00e9", ["\u00e9", "\u00e9"]),
        ("bab", "a*", ["a"]),
        ("", "a", []),
    ],
)
def test_matches_are_listed_in_order(text: str, regex: str, found: list[Any]) -> None:
    """The first group, if there is one; null if it takes no part, so that a rule about it is unknown."""
    assert find(text, regex) == found


@pytest.mark.parametrize("text", ["a" * 1_001, "b" * 1_000_001, "a\ud800"])
def test_too_much_is_unknown(text: str) -> None:
    """No match is left out silently."""
    assert isinstance(find(text, "a"), Unknown)


def test_a_hostile_text_takes_linear_time() -> None:
    """A backtracking engine would need years."""
    start = time.perf_counter()
    assert find("a" * 100_000, "(a+)+b") == []
    assert time.perf_counter() - start < 5
