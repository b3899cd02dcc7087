"""Rules in other words are proved equal; rules that nearly say the same differ on a call that real sessions judge."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.policy.equivalence import Different, Same, compare_rules
from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies

pytest.importorskip("z3")

Draft = str | list[str]


def tool(name: str, required: list[str], **arguments: Any) -> dict[str, Any]:
    return {"name": name, "parameters": {"type": "object", "properties": arguments, "required": required}}


def pair(row: str) -> tuple[str, str]:
    pattern, _, conditions = row.partition(": ")
    for name, meaning in WORDS.items():
        conditions = conditions.replace(name, meaning)
    first, second = (f"forall({pattern}, {condition})" for condition in conditions.split(" ~ "))
    return first, second


TEXT, NUMBER = {"type": "string"}, {"type": "number"}
GUESTS = {"type": "array", "items": {"type": "object", "properties": {"name": TEXT, "age": {"type": "integer"}}}}
PAYMENTS = {"type": "array", "items": {"type": "object", "properties": {"id": TEXT, "amount": NUMBER}}}
TOOLS = [
    tool(
        "book",
        ["guests", "user", "room"],
        guests=GUESTS,
        payments=PAYMENTS,
        user=TEXT,
        nights=NUMBER,
        room={"type": "string", "enum": ["single", "double", "suite"]},
    ),
    tool("cancel", ["booking"], booking=TEXT, reason=TEXT),
    tool("read_user", ["user"], user=TEXT),
    tool("pay", ["amount", "user"], amount=NUMBER, user=TEXT),
]
WORDS = {
    "AGE": "time(state.now) - time(BOOKING.created)",
    "TIER": "state.users[BOOKING.owner].tier",
    "BOOKING": "state.bookings[b]",
    "METHODS": "state.users[u].methods",
}
# a pattern, and two conditions on its calls
SAME_CONDITIONS = """
book(guests=g): all(x in g, x.age >= 18) ~ !any(x in g, x.age < 18)
book(guests=g): all(x in g, !(x.name == "")) ~ !any(x in g, x.name == "")
book(guests=g): len(g) <= 4 ~ !(len(g) > 4)
book(payments=p): count(x in p, starts_with(x.id, "cert")) <= 1 ~ count(x in p, starts_with(x.id, "cert")) < 2
book(payments=p): all(x in p, x.amount > 0) ~ count(x in p, x.amount <= 0) == 0
book(payments=p): !any(x in p, x.amount > 100) ~ count(x in p, x.amount > 100) < 1
book(room=r): r in ["single","double"] ~ r == "single" || r == "double"
book(room=r): r in ["double","single"] ~ r in ["single","double"]
book(nights=n): n >= 1 && n <= 14 ~ !(n < 1 || n > 14)
pay(amount=a): fact(vip) == true || a <= 100 ~ a > 100 -> fact(vip) == true
pay(amount=a): fact(vip) || a <= 100 ~ a > 100 -> fact(vip)
cancel(booking=b): BOOKING.status == "open" ~ "open" == BOOKING.status
cancel(booking=b): BOOKING.status != "used" ~ !(BOOKING.status == "used")
cancel(booking=b): all(x in BOOKING.items, x.status != "used") ~ !any(i in BOOKING.items, i.status == "used")
cancel(reason=r): r in ["change","other"] && r != "other" ~ r == "change"
pay(amount=a, user=u): a <= state.users[u].limit ~ state.users[u].limit >= a
pay(amount=a, user=u): any(k in state.users[u].cards, k.limit >= a) ~ count(k in state.users[u].cards, a <= k.limit) > 0
book(guests=g, payments=p): len(g) > 1 -> all(x in p, x.amount > 10) ~ len(g) <= 1 || !any(x in p, x.amount <= 10)
cancel(booking=b): AGE <= 24h || BOOKING.insured == "yes" ~ BOOKING.insured != "yes" -> AGE <= 24h
book(user=u, payments=p): all(x in p, x.id in METHODS) ~ !any(x in p, !(x.id in METHODS))
cancel(): fact(user_confirmed) == true ~ fact(user_confirmed)
pay(amount=a): a * 2 <= 100 ~ 100 >= 2 * a
book(guests=g): all(x in g, x.name != "" && x.age > 0) ~ all(x in g, x.name != "") && all(y in g, y.age > 0)
book(guests=g): !any(x in g, x.name == "" || x.age < 0) ~ !any(x in g, x.name == "") && !any(y in g, y.age < 0)
cancel(booking=b): TIER in ["gold","silver"] ~ TIER == "gold" || TIER == "silver"
"""
OTHER_CONDITIONS = """
cancel(booking=b): TIER in ["gold","silver"] ~ TIER == "gold"
cancel(booking=b): len(BOOKING.guests) <= 4 ~ len(BOOKING.guests) < 4
pay(user=u, amount=a): state.users[u].tier != "regular" || a <= 50 ~ state.users[u].tier != "regular" || a < 50
book(guests=g): all(x in g, x.name != "" && x.age > 0) ~ all(x in g, x.name != "" || x.age > 0)
book(guests=g): all(x in g, x.age >= 18) ~ !any(x in g, x.age <= 18)
book(guests=g): all(x in g, x.age >= 18) ~ any(x in g, x.age >= 18)
book(guests=g): len(g) <= 4 ~ len(g) < 4
book(payments=p): count(x in p, starts_with(x.id, "cert")) <= 1 ~ count(x in p, starts_with(x.id, "cert")) < 1
book(payments=p): all(x in p, x.amount > 0) ~ all(x in p, x.amount >= 0)
book(room=r): r in ["single","double"] ~ r in ["single","suite"]
pay(amount=a): fact(vip) == true || a <= 100 ~ fact(vip) == true && a <= 100
cancel(booking=b): all(x in BOOKING.items, x.status != "used") ~ any(x in BOOKING.items, x.status != "used")
cancel(booking=b): all(x in BOOKING.items, x.status == "open") ~ all(x in BOOKING.items, x.status != "used")
cancel(booking=b): AGE <= 24h || BOOKING.insured == "yes" ~ AGE < 24h || BOOKING.insured == "yes"
book(user=u, payments=p): all(x in p, x.id in state.users[u].methods) ~ any(x in p, x.id in state.users[u].methods)
pay(amount=a, user=u): any(k in state.users[u].cards, k.limit >= a) ~ all(k in state.users[u].cards, k.limit >= a)
cancel(reason=r): r in ["change","other"] ~ r in ["change","other"] && fact(insured) == true
"""
EQUAL: list[tuple[Draft, Draft]] = [
    *map(pair, SAME_CONDITIONS.strip().splitlines()),
    (
        "before(cancel(booking=b), True, f:read_user(user=.*), true)",
        "forall(cancel(booking=b), count(f:read_user(user=.*), !failed(f)) >= 1)",
    ),
    ("G(tool:cancel -> O tool:read_user)", "before(cancel(), True, f:read_user(), true)"),
    (["forall(pay(amount=a), a <= 100)", "forall(pay(amount=a), a > 0)"], "forall(pay(amount=a), a > 0 && a <= 100)"),
    (
        'forall(book(user=u, payments=p), count(x in p, state.users[u].methods[x.id].source == "card") <= 1)',
        'forall(book(user=u, payments=p), !(count(y in p, "card" == state.users[u].methods[y.id].source) > 1))',
    ),
]
DIFFERENT: list[tuple[Draft, Draft]] = [
    *map(pair, OTHER_CONDITIONS.strip().splitlines()),
    (
        "before(cancel(booking=b), True, f:read_user(user=.*), true)",
        'before(cancel(booking=b), True, f:read_user(user=.*), output(f) != "")',
    ),
    ("G(tool:cancel -> O tool:read_user)", "G(tool:cancel -> Y tool:read_user)"),
    (["forall(pay(amount=a), a <= 100)", "forall(pay(amount=a), a > 0)"], "forall(pay(amount=a), a >= 0 && a <= 100)"),
    (
        'forall(book(user=u, payments=p), count(x in p, state.users[u].methods[x.id].source == "card") <= 1)',
        'forall(book(user=u, payments=p), count(y in p, "card" == state.users[u].methods[y.id].source) < 1)',
    ),
    (
        "forall(pay(user=u, amount=a), a == 100 * len(state.bookings[fact(booking)].guests))",
        "forall(pay(user=u, amount=a), a <= 100 * len(state.bookings[fact(booking)].guests))",
    ),
    (
        "forall(cancel(booking=b), all(x in state.bookings[b].items, time(x.date) > time(state.now)))",
        "forall(cancel(booking=b), all(x in state.bookings[b].items, time(x.date) >= time(state.now)))",
    ),
]


def policies(draft: Draft) -> Policies:
    rules = [draft] if isinstance(draft, str) else draft
    written = [{"id": f"r{at}", "temporal": rule} for at, rule in enumerate(rules)]
    return load_policies(data={"version": 1, "unlisted": "allow", "policies": written})


@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_other_words_are_no_difference(first: Draft, second: Draft) -> None:
    comparison = compare_rules(policies(first), policies(second), tools=TOOLS, seconds=60)
    assert isinstance(comparison, Same) or (isinstance(comparison, Different) and comparison.labels_only)


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_a_difference_is_found(first: Draft, second: Draft) -> None:
    comparison = compare_rules(policies(first), policies(second), tools=TOOLS, seconds=60)
    assert isinstance(comparison, Different)
    assert "allowed" in comparison.outcomes


VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, 1, 2, "a", True, {}, [], {"n": 1}, {"n": 2}, {"n": "a"}, {"n": None}, {"m": 1}]
)
REWRITTEN = [
    ("all(x in xs, x.n >= 1)", "!any(y in xs, y.n < 1)"),
    ("count(x in xs, x.n == 1) > 0", "any(x in xs, x.n == 1)"),
    ("1 > count(x in xs, x.n == 1)", "all(x in xs, x.n != 1)"),
    ("any(x in xs, x.n == 1 || x.m == 1)", "any(x in xs, x.n == 1) || any(x in xs, x.m == 1)"),
    ("all(x in xs, x.n > 0 && x.m > 0)", "all(x in xs, x.n > 0) && all(x in xs, x.m > 0)"),
]


@given(pair=st.sampled_from(REWRITTEN), items=st.lists(VALUES, max_size=3) | VALUES)
def test_what_is_proved_equal_has_the_same_verdict(pair: tuple[str, str], items: Any) -> None:
    """Also where values are missing or of another type."""
    both = [policies(f"forall(act(xs=xs), {condition})") for condition in pair]
    verdicts = [compiled.session().check("act", {"xs": items}, reserve=False) for compiled in both]
    assert len({(verdict.label, tuple(verdict.rules), bool(verdict.errors)) for verdict in verdicts}) == 1
    assert isinstance(compare_rules(*both), Same)
