"""Each function in a rule: a call that the rule allows, one that it denies, and one for which it is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.policy.functions import rule_functions
from guardagent.policy.load import compile_rules
from guardagent.types import Decision

ROWS: list[tuple[str, Any, Any, Any]] = [
    ('"ann@x.example" in tokens(x)', "mail ann@x.example", "mail eve@x.example", 5),
    ('lower(x) == "ab"', "AB", "b", 5),
    ('starts_with(x, "a")', "ab", "ba", ["a"]),
    ('ends_with(x, "b")', "ab", "ba", None),
    ("min(x, 3) == 2", 2, 1, "2"),
    ("min(x) == 1", [2, 1], [2], []),
    ("max(x, 3, 1) <= 4", 4, 5, True),
    ("max(x) == 2.5", [1, 2.5], [3], [1, "2.5"]),
    ("abs(x) <= 1", -1, -1.5, "1"),
    ('x + "b" == "ab"', "a", "b", 1),
    ('x + "b" + x == "aba"', "a", "", ["a"]),
    ('keys(x) == ["a"]', {"a": None}, {"b": 1}, ["a"]),
    ('has(x, "a")', {"a": None}, {"A": 1}, ["a"]),
    ('has(x, "a")', '{"a": {"b": 1}}', '{"b": {"a": 1}}', "a"),
    ('"a" in keys(x)', '{"a": 1}', {"b": 1}, "[1]"),
    ("all(y in values(x), y > 0)", {"a": 1}, {"a": 1, "b": 0}, {"a": None}),
    ("find(x, /n[0-9]/) == []", "n", "n1", 1),
    ('find(x, /n([0-9])/) == ["1", "2"]', "n1, n2", "n2, n1", "n1 \ud800"),
    ("number(x) == 1234.5", "1,234.50", "1,234.51", "1.234,50"),
    (r"all(l in links(x), l matches /https:\/\/shop\.com\/.*/)", "at https://shop.com.", "http://shop.com@x.y", 5),
    ('emails(x) == ["a@shop.com"]', "to <A@Shop.com>", "a@shop.co", {}),
    ("x[1:3] == [2, 3]", [1, 2, 3, 4], [2, 3], "[2]"),
    ('date(x, "MM/DD/YYYY") == "2026-01-31"', "01/31/2026", "02/01/2026", "1/31/2026"),
    ('add_months(x, 1) == "2026-02-28"', "2026-01-31", "2026-01-01", "01/31/2026"),
    ('add_days(x, -1) == "2024-02-29"', "2024-03-01", "2023-03-01", "2023-02-29"),
    ('money(x).amount <= 500 && money(x).currency == "$"', "$499.99", "$1,000.00", "$1,000"),
    ("x[k = 1].s == 2", [{"k": 1, "s": 2}, {"k": 2}], [{"k": 1, "s": 3}], [{"k": 2}]),
    ("x[k = 1].s == 2", [{"k": 1, "s": 2}], [{"k": 1, "s": 3}, {"k": 0}], [{"k": 1, "s": 2}, {"k": 1, "s": 2}]),
    ("x[k = 1].s == 2", '[{"k": 1, "s": 2}]', [{"k": 1, "s": 3}], [{"k": 1, "s": 2}, {"s": 3}]),
    ("x[-1:] == [1] && x[:1] == [2]", [2, 1], [1], {"a": 1}),
    (
        'all(c in commands(x), c.argv[0:2] in [["git", "log"], ["npm", "test"]])',
        "cd w && npm run test",
        "git log; ls",
        "git $X",
    ),
    ('all(c in commands(x), c.name == "git" && c.cwd == "w")', "cd w; git log $X", "git log", "cd w; $X"),
    (
        'all(s in statements(x), s.kind == "select" && s.tables == ["t"])',
        "select 1 from t",
        "delete from t",
        "select from where",
    ),
    ('!any(s in statements(x, "mysql"), s.every_row)', 'delete from t where id = "a"', "update t set a = 1", "vacuum"),
    ("mentions(args(f).doc, x)", "W1", "W2", ""),
]


def decisions(rule: str, values: tuple[Any, ...]) -> list[str]:
    session = compile_rules([f"forall(f:t(x=x), {rule})"]).session()
    decisions = []
    for value in values:
        verdict = session.check("t", {"x": value, "doc": {"id": [{"of": "order W1"}]}}, reserve=False)
        assert (verdict.decision is Decision.ALLOW) is not bool(verdict.rules or verdict.errors)
        decisions.append("unknown" if verdict.errors else verdict.decision.value)
    return decisions


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_function_decides_a_call(row: tuple[str, Any, Any, Any]) -> None:
    """A missing argument is unknown, too; and so is the negation of unknown."""
    rule, *values = row
    assert decisions(rule, tuple(values)) == ["allow", "deny", "unknown"]
    assert decisions(f"!({rule})", tuple(values)) == ["deny", "allow", "unknown"]
    assert compile_rules([f"forall(t(x=x), {rule.replace('args(f).doc', 'x')})"]).session().check("t", {}).errors


def test_every_function_has_a_row() -> None:
    """So that a new one is tried in a rule."""
    untried = ("time", "hour", "minute", "weekday", "date", "[:]", "[=]")
    timeless = [name for name in rule_functions() if name not in untried]
    assert [name for name in timeless if not any(f"{name}(" in rule for rule, *_ in ROWS)] == []


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("lower(x, x) == x", "wrong number of arguments for 'lower': 2; expected 1"),
        ("min() == 1", "wrong number of arguments for 'min': 0; expected at least 1"),
        ("lower(5) == x", "argument 1 of 'lower' is a number; expected a string"),
        ("mentions(x, true)", "argument 2 of 'mentions' is a boolean; expected a string or a number"),
        ('find(x, "a") == []', "argument 2 of 'find' is a string; expected a regular expression between slashes"),
        ("lower(/a/) == x", "argument 1 of 'lower' is a value"),
        ("find(x, /(/) == []", "invalid regular expression"),
        ("lowr(x) == x", "unknown function 'lowr'; did you mean 'lower'?"),
    ],
)
def test_a_wrong_argument_is_an_error_at_load(rule: str, problem: str) -> None:
    """The message says what is expected."""
    with pytest.raises(InputError) as error:
        compile_rules([f"forall(t(x=x), {rule})"])
    assert problem in str(error.value)


def test_the_result_of_an_unknown_number_has_no_bounds() -> None:
    """An unknown count between 0 and 1 says nothing about what is computed from it."""
    unknown = "count(x in [0], x == args(f).none)"
    for term in (f"abs({unknown} - 1)", f"[5][{unknown}]", f"len({unknown})", f"min([{unknown}])", f"[{unknown}]"):
        assert compile_rules([f"forall(f:t(), {term} < 100)"]).session().check("t", {}).errors, term
