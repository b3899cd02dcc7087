"""Pairs of drafts, and whether they say the same."""

from __future__ import annotations

from typing import Any


def solver(permit: str, declared: str, variables: dict[str, str], *, tool: str = "refund") -> dict[str, Any]:
    """Returns a solver rule."""
    sources = {name: {"from": source} for name, source in variables.items()}
    return {"id": "s", "solver": {"smt": declared, "tools": {tool: {"permit": permit, "variables": sources}}}}


def rule(text: str, **keys: Any) -> dict[str, Any]:
    """Returns a rule with more keys."""
    return {"id": "r", "temporal": text, **keys}


def each(*texts: str) -> list[dict[str, Any]]:
    """Returns a draft of several rules."""
    return [rule(text, id=f"r{at}") for at, text in enumerate(texts)]


_AMOUNT = {"amount": "args.amount"}
_REAL = "(declare-const amount Real)"
_DERIVED = f"{_REAL}\n(declare-const fine Bool)\n(assert (= fine (<= amount 500)))"
_CABIN = "(declare-datatypes ((Cabin 0)) (((basic) (economy) (business))))\n(declare-const cabin Cabin)"
_PAID = "before(refund(order_id=o), true, f:get_order(order_id=o), output(f).paid == true)"
_LIMIT = "forall(refund(amount=a), a <= 500)"
_ADMIN = 'forall(export(), "admin" in principal.roles)'
_LOGIN = "G(tool:refund -> O tool:login)"

SAME: list[tuple[Any, Any]] = [
    (_LOGIN, "before(refund(), true, login(), true)"),
    (_LOGIN, "forall(refund(), some(login()))"),
    (_LOGIN, "(!tool:refund) W tool:login"),
    (_LOGIN, "forall(refund(), some(f:login(), !failed(f)))"),
    ("G !tool:delete", "forall(delete(), false)"),
    ("G !tool:delete", "NOT exists(delete(), true)"),
    ("G(!tool:a && !tool:b)", each("G !tool:a", "G !tool:b")),
    ("G(tool:b -> O tool:a) AND G(tool:c -> O tool:b)", each("G(tool:c -> O tool:b)", "G(tool:b -> O tool:a)")),
    ("G(tool:b -> O tool:a) AND G(tool:c -> O tool:b)", each("seq(a(), b(), c())", "forall(b(), some(a()))")),
    ("F tool:summary", "exists(summary(), true)"),
    ("G(tool:refund -> F tool:notify)", "after(refund(), true, notify(), true)"),
    ("G(tool:x -> X F tool:y)", "after(x(), true, y(), true)"),
    ("after(refund(id=i), true, notify(id=i), true)", "after(refund(id=x), true, f:notify(id=x), true)"),
    (_LIMIT, "forall(refund(amount=x), !(x > 500))"),
    (_LIMIT, "NOT exists(refund(amount=a), a > 500)"),
    (_LIMIT, "forall(f:refund(), args(f).amount <= 500)"),
    (_LIMIT, "forall(refund(amount=a), a * 2 <= 1000)"),
    (_LIMIT, "forall(refund(amount=a), a <= 500 || a == 500)"),
    ('forall(refund(amount=a, reason=r), a <= 500 && r != "")', each(_LIMIT, 'forall(refund(reason=r), r != "")')),
    ("forall(pay(n=n), n in [1, 2])", "forall(pay(n=n), n == 1 || n == 2)"),
    ("forall(pay(n=n), fact(vip) -> n < 9)", "forall(pay(n=n), !fact(vip) || n < 9)"),
    (_PAID, "forall(refund(order_id=i), some(g:get_order(order_id=i), output(g).paid == true))"),
    (_PAID, "before(refund(order_id=o), true, f:get_order(order_id=o), true == output(f).paid)"),
    (_PAID, "before(refund(order_id=o), true, f:get_order(order_id=o), output(f).paid != false)"),
    ("forall(pay(), some(login(), within 30m))", "forall(pay(), some(f:login(), within 1800s))"),
    ("forall(pay(), count(f:pay(), !failed(f)) < 3)", "forall(pay(), !(count(g:pay(), !failed(g)) >= 3))"),
    ("forall(pay(), count(f:pay(), !failed(f)) < 3)", "forall(pay(), count(f:pay(), !failed(f)) <= 2)"),
    ("forall(cancel(), now - fact(booked_at) <= 24h)", "forall(cancel(), fact(booked_at) >= now - 24h)"),
    (_ADMIN, rule(_ADMIN, message="Only admins export.")),
    (rule("G !tool:x", applies_to={"roles": ["guest"]}), rule("forall(x(), false)", applies_to={"roles": ["guest"]})),
    (_LIMIT, solver("(<= amount 500)", _REAL, _AMOUNT)),
    (solver("fine", _DERIVED, _AMOUNT), solver("(<= amount 500)", _REAL, _AMOUNT)),
    (
        solver("(or (= cabin economy) (= cabin business))", _CABIN, {"cabin": "fact(cabin)"}, tool="change"),
        solver("(not (= cabin basic))", _CABIN, {"cabin": "fact(cabin)"}, tool="change"),
    ),
    ("forall(pay(amount=a), sum(f:pay(), true, args(f).amount) + a <= 9)",
     "forall(pay(amount=a), a + sum(g:pay(), true, args(g).amount) <= 9)"),
]  # fmt: skip

DIFFERENT: list[tuple[Any, Any]] = [
    (rule(_LIMIT), rule(_LIMIT, on_violation="escalate")),
    (_LIMIT, "forall(refund(amount=a), a < 500)"),
    (_LIMIT, "forall(refund(amount=a), a <= 600)"),
    (_LIMIT, "forall(refund(amount=a), a <= 500 && fact(confirmed))"),
    (_LIMIT, "forall(refund(amount=a), known(a) && a <= 500)"),
    (_LIMIT, "forall(refund(amount=a), a <= 500 || !known(a))"),
    (_LIMIT, "forall(refund|pay(amount=a), a <= 500)"),
    (_LIMIT, rule(_LIMIT, on_violation="warn")),
    (_LIMIT, rule(_LIMIT, applies_to={"roles": ["guest"]})),
    (_LIMIT, solver("(< amount 500)", _REAL, _AMOUNT)),
    (_LIMIT, solver("(<= amount 500)", "(declare-const amount Int)", _AMOUNT)),
    (solver("fine", _DERIVED, _AMOUNT), solver("(<= amount 499)", _REAL, _AMOUNT)),
    (
        solver("(= cabin business)", _CABIN, {"cabin": "fact(cabin)"}, tool="change"),
        solver("(not (= cabin basic))", _CABIN, {"cabin": "fact(cabin)"}, tool="change"),
    ),
    (_PAID, "before(refund(order_id=o), true, get_order(order_id=o), true)"),
    (_PAID, "before(refund(), true, f:get_order(), output(f).paid == true)"),
    (_PAID, "forall(refund(order_id=o), output(last(f:get_order(order_id=o))).paid == true)"),
    ("before(refund(order_id=o), true, get_order(order_id=o), true)", "before(refund(), true, get_order(), true)"),
    ("forall(refund(), some(login()))", "forall(refund(), count(login()) > 0)"),
    (_LOGIN, "G(tool:refund -> Y tool:login)"),
    (_LOGIN, "G(tool:refund -> O tool:verify)"),
    (_LOGIN, "tool:refund -> O tool:login"),
    (_LOGIN, "G(tool:refund -> O(tool:login || tool:verify))"),
    (_LOGIN, "G(tool:refund -> (!tool:logout S tool:login))"),
    (_LOGIN, each(_LOGIN, "G(tool:refund -> O tool:verify)")),
    ("G(tool:refund -> F tool:notify)", "tool:refund -> F tool:notify"),
    ("G(tool:refund -> F tool:notify)", "tool:refund -> F[<=2] tool:notify"),
    ("G(tool:refund -> F tool:notify)", "after(refund(), true, notify(), true) AND (F tool:notify)"),
    ("after(refund(id=i), true, notify(id=i), true)", "after(refund(), true, notify(), true)"),
    ("exists(summary(), true)", "exists(f:summary(), output(f).ok == true)"),
    ("forall(pay(), some(login(), within 30m))", "forall(pay(), some(login(), within 1h))"),
    ("forall(pay(), some(login(), within 30m))", "forall(pay(), now - time(last(f:login(), !failed(f))) < 30m)"),
    ("forall(pay(), count(f:pay(), !failed(f)) < 3)", "forall(pay(), count(f:pay(), !failed(f)) <= 3)"),
    ("forall(pay(), count(f:pay(), !failed(f)) < 3)", "forall(pay(), count(pay()) < 3)"),
    ("forall(pay(to=t), count(f:pay(to=t)) < 2)", "forall(pay(), count(pay()) < 2)"),
    ("forall(pay(amount=a), sum(f:pay(), !failed(f), args(f).amount) + a <= 500)",
     "forall(pay(amount=a), sum(f:pay(), !failed(f), args(f).amount) + a < 500)"),
    ("forall(cancel(), now - fact(booked_at) <= 24h)", "forall(cancel(), now - fact(booked_at) < 24h)"),
    ("forall(pay(), hour(now) >= 9 && hour(now) < 17)", "forall(pay(), hour(now) >= 9 && hour(now) <= 17)"),
    ("forall(pay(), weekday(now) <= 5)", "forall(pay(), weekday(now) < 5)"),
    (_ADMIN, 'forall(export(), "manager" in principal.roles)'),
    (_ADMIN, 'forall(export(), "admin" in principal.roles || "manager" in principal.roles)'),
    (_ADMIN, rule("G !tool:export", applies_to={"not": {"roles": ["admin"]}})),
    ("forall(cancel(), fact(user_confirmed))", "forall(cancel(), known(fact(user_confirmed)))"),
    ("forall(edit(owner=o), o == fact(user))", "forall(edit(owner=o), o == principal.id)"),
    ('forall(send(to=t), ends_with(t, "@example.com"))', 'forall(send(to=t), "example.com" in t)'),
    ('forall(set(status=s), s in ["open", "closed"])', 'forall(set(status=s), s in ["open"])'),
    ('forall(change(), fact(cabin) != "basic")', 'forall(change(), fact(cabin) == "business")'),
    ("G !tool:delete", rule("G !tool:delete", on_violation="warn")),
    ("(G !tool:a) OR (G !tool:b)", each("G !tool:a", "G !tool:b")),
]  # fmt: skip
