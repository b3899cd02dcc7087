from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent import Toolbox

FUNCTIONS = Toolbox.load().functions
check_access, check_rule, granted = (FUNCTIONS[name] for name in ("check_access", "check_rule", "granted"))

names = st.sampled_from("abcd")
tables = st.dictionaries(names, st.lists(names, unique=True, max_size=3), max_size=4)


@given(tables, tables)
def test_access_is_denied_for_exactly_what_is_not_allowed(
    allowed: dict[str, list[str]], needed: dict[str, list[str]]
) -> None:
    """As the paper's Figure 17 has it: a missing database counts with all its columns."""
    denied, inaccessible = check_access(allowed, needed)
    pairs = {(database, column) for database in needed for column in needed[database]}
    may = {(database, column) for database in allowed for column in allowed[database]}
    assert {(d, c) for d, columns in inaccessible.items() for c in columns} == pairs - may
    assert denied == bool(inaccessible) == (bool(pairs - may) or not needed.keys() <= allowed.keys())


def test_a_star_is_covered_by_no_list() -> None:
    """All columns are more than those that anyone listed."""
    assert check_access({"lab": ["name", "result"]}, {"lab": ["*"]}) == (True, {"lab": ["*"]})


def rule(operator: str, value: Any, info: str | None = "x") -> dict[str, Any]:
    return {"r": {"info": info, "operator": operator, "value": value, "violation": "broken"}}


@pytest.mark.parametrize(
    ("operator", "actual", "value", "denied"),
    [
        ("==", True, True, False),
        ("==", False, True, True),
        ("!=", "a", "b", False),
        (">=", 18, 18, False),
        (">=", 17, 18, True),
        ("<", 17.5, 18, False),
        ("<=", 19, 18, True),
        (">", 18, 18, True),
    ],
)
def test_operators_compare(operator: str, actual: Any, value: Any, denied: bool) -> None:
    """The operators of the paper's rules, by a table and without eval."""
    assert check_rule(rule(operator, value), {"x": actual}) == (denied, {"r": "broken"} if denied else {})


@pytest.mark.parametrize(
    ("operator", "actual", "says"),
    [
        (">=", None, "is unknown"),
        (">=", "19", "cannot be compared"),
        (">=", True, "cannot be compared"),
        ("==", 1, "cannot be compared"),
        ("__import__('os').getcwd() or", True, "unknown operator"),
    ],
)
def test_what_cannot_be_compared_is_unknown(operator: str, actual: Any, says: str) -> None:
    """Neither kept nor broken: an error, which denies."""
    value = True if operator == "==" or "import" in operator else 18
    with pytest.raises(ValueError, match=says):
        check_rule(rule(operator, value), {"x": actual})
    with pytest.raises(ValueError, match="is unknown"):
        check_rule(rule(">=", 18), {})


def test_a_rule_that_requires_nothing_is_kept() -> None:
    """The paper's "other" action has no required user information."""
    assert check_rule(rule("==", None, info=None), {}) == (False, {})


def test_an_unknown_field_does_not_hide_a_known_violation() -> None:
    """The error names both."""
    rules = rule(">=", 18) | {"s": {"info": "y", "operator": "==", "value": True, "violation": "also broken"}}
    with pytest.raises(ValueError, match=r"is unknown.*also broken"):
        check_rule(rules, {"y": False})


def test_a_role_is_looked_up_in_any_case() -> None:
    """And an unknown one is an error that names those there are."""
    assert granted({"Nurse": {"lab": []}}, " nurse ") == {"lab": []}
    for role in ("cook", "", None, 5, ["nurse"]):
        with pytest.raises(ValueError, match="known: Nurse"):
            granted({"Nurse": {"lab": []}}, role)
    with pytest.raises(ValueError, match="2 times"):
        granted({"Nurse": {"lab": []}, "nurse ": {"lab": ["name"]}}, "nurse")


@pytest.mark.parametrize(
    ("allowed", "needed", "says"),
    [
        ({"lab": ["*"]}, {"lab": ["*"]}, "expected the names"),
        ({"lab": "name"}, {"lab": ["name"]}, "not a mapping"),
        ({"lab": [["name"]]}, {"lab": [["name"]]}, "not a mapping"),
        ({"lab": [None]}, {"lab": [None]}, "not a mapping"),
    ],
)
def test_tables_that_cannot_be_compared(allowed: Any, needed: Any, says: str) -> None:
    """A star in a role's columns, and what is no list of names, are mistakes."""
    with pytest.raises(ValueError, match=says):
        check_access(allowed, needed)


@pytest.mark.parametrize("change", [{"operater": "=="}, {"unless": "vip"}])
def test_a_rule_has_its_four_keys_and_no_other(change: dict[str, Any]) -> None:
    """A key that is not read could be what the author relied on."""
    with pytest.raises(ValueError, match="expected info, operator, value, violation"):
        check_rule({"r": rule(">=", 18)["r"] | change}, {"x": 20})
    with pytest.raises(ValueError, match="expected info, operator, value, violation"):
        check_rule({"r": {"info": "x"}}, {"x": 20})


@pytest.mark.parametrize(
    ("operator", "actual", "value"),
    [
        (">=", float("inf"), 18),
        ("!=", float("nan"), 18),
        ("!=", 18, float("nan")),
        (">=", "9", "18"),
        (">=", True, False),
        (">=", [2], [1]),
    ],
)
def test_what_has_no_order_is_unknown(operator: str, actual: Any, value: Any) -> None:
    """An endless age is no age, and the text "9" comes after "18"."""
    with pytest.raises(ValueError, match="cannot be ordered"):
        check_rule(rule(operator, value), {"x": actual})


def test_dates_and_long_numbers_have_an_order() -> None:
    """Texts of one length, and whole numbers of any length."""
    assert check_rule(rule(">=", "2026-01-31"), {"x": "2026-02-01"}) == (False, {})
    assert check_rule(rule("<", 10**400), {"x": 10**401}) == (True, {"r": "broken"})
    assert check_rule(rule("<=", float("inf")), {"x": 5}) == (False, {})
