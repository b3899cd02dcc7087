"""`number` reads a strict notation."""

from __future__ import annotations

from fractions import Fraction

import pytest

from guardagent.policy.functions import function
from guardagent.policy.language.values import Unknown


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        (" -0.50\n", Fraction(-1, 2)),
        ("+7", 7),
        ("007", 7),
        ("1,234.50", Fraction(2469, 2)),
        ("-1,234,567", -1234567),
        ("0.1", Fraction(1, 10)),
        ("1" * 400, int("1" * 400)),
        *(
            (text, None)
            for text in ("", " ", "1,234", "12,34", "1,23,456", "1234,567.0", "1.234,50", "1e5", "0x1", ".5", "5.")
        ),
        *((text, None) for text in ("--5", "1 000", "$5", "5 EUR", "\uff15", "\u0665", "NaN", "inf", "1_0", "1" * 401)),
    ],
)
def test_a_number_is_exact_or_unknown(text: str, number: int | Fraction | None) -> None:
    """A single comma is ambiguous."""
    found = function("number")
    assert found is not None
    result = found.apply([text])
    assert isinstance(result, Unknown) if number is None else result == number
