"""Dates in a format, months, and amounts of money."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.policy.functions import rule_functions
from guardagent.policy.language.values import Unknown
from guardagent.policy.load import load_policies


def result(name: str, *values: Any) -> Any:
    value = rule_functions()[name].apply([*values])
    return None if isinstance(value, Unknown) else value


@pytest.mark.parametrize(
    ("text", "form", "date"),
    [
        ("03/04/2026", "MM/DD/YYYY", "2026-03-04"),
        ("03/04/2026", "DD/MM/YYYY", "2026-04-03"),
        ("3.4.2026", "D.M.YYYY", "2026-04-03"),
        ("31 Jan 2026", "DD MMM YYYY", "2026-01-31"),
        ("may 5, 2026", "MMMM D, YYYY", "2026-05-05"),
        ("20260131", "YYYYMMDD", "2026-01-31"),
        ("3/4/2026", "MM/DD/YYYY", None),
        ("13/01/2026", "MM/DD/YYYY", None),
        ("02/29/2026", "MM/DD/YYYY", None),
        ("03/04/26", "MM/DD/YY", None),
        ("03/04/2026", "MM/YYYY", None),
        ("03/04/2026x", "MM/DD/YYYY", None),
        ("\u0660\u0663/04/2026", "MM/DD/YYYY", None),
        ("03x04x2026", "MM.DD.YYYY", None),
    ],
)
def test_a_date_is_read_in_its_format(text: str, form: str, date: str | None) -> None:
    """The whole string, and nothing else."""
    assert result("date", text, form) == date


@pytest.mark.parametrize(
    ("date", "months", "later"),
    [
        ("2026-01-31", 1, "2026-02-28"),
        ("2024-01-31", 1, "2024-02-29"),
        ("2026-01-31", 2, "2026-03-31"),
        ("2026-12-15", 1, "2027-01-15"),
        ("2026-03-31", -1, "2026-02-28"),
        ("2026-01-15", -13, "2024-12-15"),
        ("2026-01-15", Fraction(1, 2), None),
        ("9999-12-01", 1, None),
        ("2026-1-15", 1, None),
    ],
)
def test_months_end_where_the_month_does(date: str, months: Any, later: str | None) -> None:
    """A month later than the end of January is the end of February."""
    assert result("add_months", date, months) == later


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [
        ("$842.15", "842.15", "$"), ("US$ 5", "5", "US$"), ("1.234,50 €", "1234.5", "€"), ("€1,234.50", "1234.5", "€"),
        ("1 234,5 EUR", "1234.5", "EUR"), ("CHF 1'234.05", "1234.05", "CHF"), ("1\u202f234\u202f567 €", "1234567", "€"),
        ("$1,234,567", "1234567", "$"), ("1.234.567 €", "1234567", "€"), ("-$5", "-5", "$"), ("$-5.00", "-5", "$"),
        ("£0.500", "0.5", "£"), ("¥1234567", "1234567", "¥"), ("$1234.567", "1234.567", "$"), (" $7 ", "7", "$"),
    ],
)  # fmt: skip
def test_money_is_read_exactly(text: str, amount: str, currency: str) -> None:
    """Whatever separates groups and decimals, if it can only be read in one way."""
    assert result("money", text) == {"amount": Fraction(amount), "currency": currency}


@pytest.mark.parametrize(
    "text",
    ["$1,234", "1.234 €", "5", "$", "$5 USD", "--$5", "-$-5", "($5)", "$1,23,456", "$1,234,56", "$1.234.56",
     "$12,34,567", "five dollars", "$5 and $6", "$1e5", "$.5", "$5.", "Dollar 5", "$ \u0665", "$01,234"],
)  # fmt: skip
def test_an_amount_that_is_not_clear_is_unknown(text: str) -> None:
    """Ambiguous, without a currency or with two, or in another form."""
    assert result("money", text) is None


@pytest.mark.parametrize(
    ("term", "problem"),
    [
        ('date(t, "MM/DD/YY") == "a"', "'MM/DD/YY' is neither a format of dates nor a time zone"),
        ('time(t, "Europe/Berln") > now', "there is no time zone 'Europe/Berln'"),
        ('statements(t, "postgress") == []', "'postgress' is not a dialect of SQL; did you mean 'postgres'?"),
    ],
)
def test_a_wrong_constant_is_an_error_at_load(term: str, problem: str) -> None:
    """With its place: such a rule could only ever deny."""
    data = {"version": 1, "policies": [{"id": "a", "temporal": f"forall(pay(t=t), {term})"}]}
    with pytest.raises(InputError, match=re.escape(problem)) as error:
        load_policies(data=data)
    assert "^" in str(error.value)
