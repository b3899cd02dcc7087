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
EQUAL: list[tuple[Draft, Draft]] = [
    ("forall(book(guests=g), all(x in g, x.age >= 18))", "forall(book(guests=g), !any(x in g, x.age < 18))"),
    ('forall(book(guests=g), all(x in g, !(x.name == "")))', 'forall(book(guests=g), !any(x in g, x.name == ""))'),
    ("forall(book(guests=g), len(g) <= 4)", "forall(book(guests=g), !(len(g) > 4))"),
    (
        'forall(book(payments=p), count(x in p, starts_with(x.id, "cert")) <= 1)',
        'forall(book(payments=p), count(x in p, starts_with(x.id, "cert")) < 2)',
    ),
    (
        "forall(book(payments=p), all(x in p, x.amount > 0))",
        "forall(book(payments=p), count(x in p, x.amount <= 0) == 0)",
    ),
    (
        "forall(book(payments=p), !any(x in p, x.amount > 100))",
        "forall(book(payments=p), count(x in p, x.amount > 100) < 1)",
    ),
    ('forall(book(room=r), r in ["single","double"])', 'forall(book(room=r), r == "single" || r == "double")'),
    ('forall(book(room=r), r in ["double","single"])', 'forall(book(room=r), r in ["single","double"])'),
    ("forall(book(nights=n), n >= 1 && n <= 14)", "forall(book(nights=n), !(n < 1 || n > 14))"),
    ("forall(pay(amount=a), fact(vip) == true || a <= 100)", "forall(pay(amount=a), a > 100 -> fact(vip) == true)"),
    ("forall(pay(amount=a), fact(vip) || a <= 100)", "forall(pay(amount=a), a > 100 -> fact(vip))"),
    (
        'forall(cancel(booking=b), state.bookings[b].status == "open")',
        'forall(cancel(booking=b), "open" == state.bookings[b].status)',
    ),
    (
        'forall(cancel(booking=b), state.bookings[b].status != "used")',
        'forall(cancel(booking=b), !(state.bookings[b].status == "used"))',
    ),
    (
        'forall(cancel(booking=b), all(x in state.bookings[b].items, x.status != "used"))',
        'forall(cancel(booking=b), !any(i in state.bookings[b].items, i.status == "used"))',
    ),
    (
        "before(cancel(booking=b), True, f:read_user(user=.*), true)",
        "forall(cancel(booking=b), count(f:read_user(user=.*), !failed(f)) >= 1)",
    ),
    ("G(tool:cancel -> O tool:read_user)", "before(cancel(), True, f:read_user(), true)"),
    ('forall(cancel(reason=r), r in ["change","other"] && r != "other")', 'forall(cancel(reason=r), r == "change")'),
    (["forall(pay(amount=a), a <= 100)", "forall(pay(amount=a), a > 0)"], "forall(pay(amount=a), a > 0 && a <= 100)"),
    (
        "forall(pay(amount=a, user=u), a <= state.users[u].limit)",
        "forall(pay(amount=a, user=u), state.users[u].limit >= a)",
    ),
    (
        "forall(pay(amount=a, user=u), any(k in state.users[u].cards, k.limit >= a))",
        "forall(pay(amount=a, user=u), count(k in state.users[u].cards, a <= k.limit) > 0)",
    ),
    (
        "forall(book(guests=g, payments=p), len(g) > 1 -> all(x in p, x.amount > 10))",
        "forall(book(guests=g, payments=p), len(g) <= 1 || !any(x in p, x.amount <= 10))",
    ),
    (
        (
            "forall(cancel(booking=b), time(state.now) - time(state.bookings[b].created) <= 24h || "
            'state.bookings[b].insured == "yes")'
        ),
        (
            'forall(cancel(booking=b), state.bookings[b].insured != "yes" -> time(state.now) - '
            "time(state.bookings[b].created) <= 24h)"
        ),
    ),
    (
        "forall(book(user=u, payments=p), all(x in p, x.id in state.users[u].methods))",
        "forall(book(user=u, payments=p), !any(x in p, !(x.id in state.users[u].methods)))",
    ),
    ("forall(cancel(), fact(user_confirmed) == true)", "forall(cancel(), fact(user_confirmed))"),
    ("forall(pay(amount=a), a * 2 <= 100)", "forall(pay(amount=a), 100 >= 2 * a)"),
    (
        'forall(book(guests=g), all(x in g, x.name != "" && x.age > 0))',
        'forall(book(guests=g), all(x in g, x.name != "") && all(y in g, y.age > 0))',
    ),
    (
        'forall(book(guests=g), !any(x in g, x.name == "" || x.age < 0))',
        'forall(book(guests=g), !any(x in g, x.name == "") && !any(y in g, y.age < 0))',
    ),
    (
        'forall(book(user=u, payments=p), count(x in p, state.users[u].methods[x.id].source == "card") <= 1)',
        'forall(book(user=u, payments=p), !(count(y in p, "card" == state.users[u].methods[y.id].source) > 1))',
    ),
    (
        'forall(cancel(booking=b), state.users[state.bookings[b].owner].tier in ["gold","silver"])',
        (
            'forall(cancel(booking=b), state.users[state.bookings[b].owner].tier == "gold" || '
            'state.users[state.bookings[b].owner].tier == "silver")'
        ),
    ),
]
DIFFERENT: list[tuple[Draft, Draft]] = [
    (
        'forall(book(user=u, payments=p), count(x in p, state.users[u].methods[x.id].source == "card") <= 1)',
        'forall(book(user=u, payments=p), count(y in p, "card" == state.users[u].methods[y.id].source) < 1)',
    ),
    (
        'forall(cancel(booking=b), state.users[state.bookings[b].owner].tier in ["gold","silver"])',
        'forall(cancel(booking=b), state.users[state.bookings[b].owner].tier == "gold")',
    ),
    (
        "forall(cancel(booking=b), len(state.bookings[b].guests) <= 4)",
        "forall(cancel(booking=b), len(state.bookings[b].guests) < 4)",
    ),
    (
        'forall(pay(user=u, amount=a), state.users[u].tier != "regular" || a <= 50)',
        'forall(pay(user=u, amount=a), state.users[u].tier != "regular" || a < 50)',
    ),
    (
        "forall(pay(user=u, amount=a), a == 100 * len(state.bookings[fact(booking)].guests))",
        "forall(pay(user=u, amount=a), a <= 100 * len(state.bookings[fact(booking)].guests))",
    ),
    (
        'forall(book(guests=g), all(x in g, x.name != "" && x.age > 0))',
        'forall(book(guests=g), all(x in g, x.name != "" || x.age > 0))',
    ),
    (
        "forall(cancel(booking=b), all(x in state.bookings[b].items, time(x.date) > time(state.now)))",
        "forall(cancel(booking=b), all(x in state.bookings[b].items, time(x.date) >= time(state.now)))",
    ),
    ("forall(book(guests=g), all(x in g, x.age >= 18))", "forall(book(guests=g), !any(x in g, x.age <= 18))"),
    ("forall(book(guests=g), all(x in g, x.age >= 18))", "forall(book(guests=g), any(x in g, x.age >= 18))"),
    ("forall(book(guests=g), len(g) <= 4)", "forall(book(guests=g), len(g) < 4)"),
    (
        'forall(book(payments=p), count(x in p, starts_with(x.id, "cert")) <= 1)',
        'forall(book(payments=p), count(x in p, starts_with(x.id, "cert")) < 1)',
    ),
    ("forall(book(payments=p), all(x in p, x.amount > 0))", "forall(book(payments=p), all(x in p, x.amount >= 0))"),
    ('forall(book(room=r), r in ["single","double"])', 'forall(book(room=r), r in ["single","suite"])'),
    ("forall(pay(amount=a), fact(vip) == true || a <= 100)", "forall(pay(amount=a), fact(vip) == true && a <= 100)"),
    (
        'forall(cancel(booking=b), all(x in state.bookings[b].items, x.status != "used"))',
        'forall(cancel(booking=b), any(x in state.bookings[b].items, x.status != "used"))',
    ),
    (
        'forall(cancel(booking=b), all(x in state.bookings[b].items, x.status == "open"))',
        'forall(cancel(booking=b), all(x in state.bookings[b].items, x.status != "used"))',
    ),
    (
        (
            "forall(cancel(booking=b), time(state.now) - time(state.bookings[b].created) <= 24h || "
            'state.bookings[b].insured == "yes")'
        ),
        (
            "forall(cancel(booking=b), time(state.now) - time(state.bookings[b].created) < 24h || "
            'state.bookings[b].insured == "yes")'
        ),
    ),
    (
        "forall(book(user=u, payments=p), all(x in p, x.id in state.users[u].methods))",
        "forall(book(user=u, payments=p), any(x in p, x.id in state.users[u].methods))",
    ),
    (
        "forall(pay(amount=a, user=u), any(k in state.users[u].cards, k.limit >= a))",
        "forall(pay(amount=a, user=u), all(k in state.users[u].cards, k.limit >= a))",
    ),
    (
        "before(cancel(booking=b), True, f:read_user(user=.*), true)",
        'before(cancel(booking=b), True, f:read_user(user=.*), output(f) != "")',
    ),
    ("G(tool:cancel -> O tool:read_user)", "G(tool:cancel -> Y tool:read_user)"),
    (
        'forall(cancel(reason=r), r in ["change","other"])',
        'forall(cancel(reason=r), r in ["change","other"] && fact(insured) == true)',
    ),
    (["forall(pay(amount=a), a <= 100)", "forall(pay(amount=a), a > 0)"], "forall(pay(amount=a), a >= 0 && a <= 100)"),
]


def policies(draft: Draft) -> Policies:
    rules = [draft] if isinstance(draft, str) else draft
    written = [{"id": f"r{at}", "temporal": one} for at, one in enumerate(rules)]
    return load_policies(data={"version": 1, "unlisted": "allow", "policies": written})


@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_other_words_are_no_difference(first: Draft, second: Draft) -> None:
    found = compare_rules(policies(first), policies(second), tools=TOOLS, seconds=60)
    assert isinstance(found, Same) or (isinstance(found, Different) and found.labels_only)


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_a_difference_is_found(first: Draft, second: Draft) -> None:
    found = compare_rules(policies(first), policies(second), tools=TOOLS, seconds=60)
    assert isinstance(found, Different)
    assert "allowed" in found.outcomes


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
    both = [policies(f"forall(act(xs=xs), {one})") for one in pair]
    verdicts = [one.session().check("act", {"xs": items}, reserve=False) for one in both]
    assert len({(one.label, tuple(one.rules), bool(one.errors)) for one in verdicts}) == 1
    assert isinstance(compare_rules(*both), Same)
