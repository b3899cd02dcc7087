"""Pairs of rules that contradict each other, each beside a near twin that does not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tests.policy.tables import paragraphs

Found = tuple[str, str | None, str | None]  # the kind, the policy and the tool of a finding
Rules = list[str | dict[str, Any]]


@dataclass(frozen=True)
class Pair:
    """Rules `r0`, `r1`, … that contradict each other, what lint finds, and rules that do not."""

    name: str
    rules: Rules
    findings: set[Found]
    twin: Rules
    head: dict[str, Any] = field(default_factory=dict)

    def file(self, rules: Rules) -> dict[str, Any]:
        """The content of the policy file."""
        policies = [{"temporal": rule} if isinstance(rule, str) else rule for rule in rules]
        numbered = [{"id": f"r{at}", **policy} for at, policy in enumerate(policies)]
        return {"version": 1, "unlisted": "allow", **self.head, "policies": numbered}


def rule(text: str) -> dict[str, Any]:
    """A rule; the words in brackets before it are roles, or `escalate`."""
    written = re.fullmatch(r"(?:\[(not )?(.*?)\] )?(.*)", text)
    assert written
    words = (written[2] or "").split(", ")
    roles = {"roles": [word for word in words if word not in ("escalate", "")]}
    keys: dict[str, Any] = {"on_violation": "escalate"} if "escalate" in words else {}
    if roles["roles"]:
        keys["applies_to"] = {"not": roles} if written[1] else roles
    return {"temporal": written[3], **keys}


def contradictory(text: str) -> set[Found]:
    """Findings, as `policy tool, policy tool`."""
    findings = [finding.split() for finding in text.split(", ")]
    return {("contradictory", policy, None if tool == "-" else tool) for policy, tool in findings}


def pairs(text: str) -> list[Pair]:
    """Pairs as `name: the policy and the tool of each finding`, and rules; behind `~` is the rule of the twin."""
    made = []
    for title, *lines in paragraphs(text):
        name, _, expected = title.rpartition(": ")
        rows = [line.partition(" ~ ") for line in lines]
        twin: Rules = [rule(other or first) for first, _, other in rows]
        made.append(Pair(name, [rule(first) for first, _, _ in rows], contradictory(expected), twin))
    return made


def at_least(amount: int) -> dict[str, Any]:
    tools = {"pay": {"permit": f"(>= amount {amount})", "variables": {"amount": {"from": "args.amount"}}}}
    return {"solver": {"smt": "(declare-const amount Real)", "tools": tools}}


def of_agents(text: str, *agents: str) -> dict[str, Any]:
    return {"temporal": text, "applies_to": {"agents": list(agents)}}


AT_MOST_100 = "forall(pay(amount=a), a <= 100)"
LIMITS = {"constants": {"small": 100, "large": 200}, "define": {"tiny(x)": "x <= small"}}
PAY = contradictory("r1 pay")

BANS = """
a ban and a window: r1 refund
  G !tool:refund
  forall(refund(date=d), now - d <= 30d) ~ forall(credit(date=d), now - d <= 30d)
forall false and a window: r1 refund
  forall(refund(), false) ~ forall(refund(date=d), d > 0)
  forall(refund(date=d), now - d <= 30d)
a ban and a precondition: r1 refund
  G !tool:refund
  before(refund(), true, login(), true) ~ before(pay(), true, login(), true)
a ban of two, a limit of one: r1 refund
  forall(refund|credit(), false) ~ G !tool:refund
  forall(refund(date=d), now - d <= 30d) ~ forall(refund|credit(amount=a), a <= 9)
two bans, a limit of both: r2 -
  G !tool:refund
  G !tool:credit ~ G !tool:void
  forall(refund|credit(amount=a), a <= 9)
a ban and an obligation: r1 refund
  G !tool:refund
  after(refund(), true, notify(), true) ~ after(order(), true, notify(), true)
a ban and a role: r1 export
  G !tool:export ~ [not admin] G !tool:export
  forall(export(), "admin" in principal.roles)
a ban and a scope: r1 export
  G !tool:export ~ [not admin] G !tool:export
  [admin] forall(export(), true)
a scoped ban and its scope: r1 export
  [admin] G !tool:export ~ [intern] G !tool:export
  [admin] forall(export(as=f), f == "csv")
"""
REQUIRED = """
a required argument is forbidden: r0 open
  after(f:open(), true, notify(to=t), t == "owner")
  forall(notify(to=t), t != "owner") ~ forall(notify(to=t), t != "guest")
a required step is over: r1 open
  tool:open -> F tool:close
  G(tool:open -> G !tool:close) ~ G(tool:open -> G !tool:delete)
two things are next: r1 a
  G(tool:a -> F[<=1] tool:b) ~ G(tool:a -> F[<=2] tool:b)
  G(tool:a -> F[<=1] tool:c) ~ G(tool:a -> F[<=2] tool:c)
a required amount: r0 order
  after(order(), true, pay(amount=a), a >= 100)
  forall(pay(amount=a), a < 100) ~ forall(pay(amount=a), a <= 100)
a required report: r0 -
  exists(report(kind="full"))
  forall(report(kind=k), k == "short") ~ forall(report(kind=k), k in ["short", "full"])
a required end after a start: r0 open
  after(open(handle=h), true, close(handle=h), true)
  forall(close(), !some(open())) ~ forall(close(), some(open()))
an earlier payment: r0 ship
  before(ship(), true, pay(amount=a), a >= 100)
  forall(pay(amount=a), a < 100) ~ forall(pay(amount=a), a <= 100)
an obligation from one tool to itself: r0 a
  after(a(n=1), true, a(n=2), true)
  forall(a(n=n), n != 2) ~ forall(a(n=n), n != 3)
"""
LIMIT_PAIRS = """
an empty range: r1 pay
  forall(pay(amount=a), a <= 100)
  forall(pay(amount=a), a > 100) ~ forall(pay(amount=a), a >= 100)
lengths: r1 pay
  forall(pay(to=t), len(t) <= 2) ~ forall(pay(to=t), len(t) <= 3)
  forall(pay(to=t), len(t) >= 3)
durations: r1 refund
  forall(refund(date=d), now - d <= 30d)
  forall(refund(date=d), now - d > 60d) ~ forall(refund(date=d), now - d > 20d)
weekdays: r1 deploy
  forall(deploy(), weekday(now) <= 5)
  forall(deploy(), weekday(now) in [6, 7]) ~ forall(deploy(), weekday(now) in [1, 7])
hours: r1 deploy
  forall(deploy(), hour(now) >= 9)
  forall(deploy(), hour(now) < 9) ~ forall(deploy(), hour(now) < 17)
an approved amount: r2 pay
  before(pay(amount=a), true, approve(amount=a), true)
  forall(approve(amount=a), a <= 10)
  forall(pay(amount=a), a > 10) ~ forall(pay(amount=a), a > 5)
a case of a pattern: r0 ship
  forall(ship(mode="air"), fact(paid) == true)
  forall(ship(mode="air"), fact(paid) == false) ~ forall(ship(mode="sea"), fact(paid) == false)
a case of a condition: r0 pay
  forall(pay(amount=a), a > 100 -> fact(kind) == "gold")
  forall(pay(amount=a), a > 50 -> fact(kind) == "basic") ~ forall(pay(amount=a), a <= 50 -> fact(kind) == "basic")
"""
ORDERS = """
each after the other: r1 a, r1 b
  G(tool:a -> O tool:b)
  G(tool:b -> O tool:a) ~ G(tool:b -> O tool:c)
the same, over data: r0 a, r1 b
  before(a(id=i), true, b(id=i), true)
  before(b(id=i), true, a(id=i), true) ~ before(b(id=i), true, c(id=i), true)
two first calls: r1 -
  tool:a
  tool:b ~ G(tool:c -> O tool:b)
two calls immediately before: r1 x
  G(tool:x -> Y tool:a)
  G(tool:x -> Y tool:b) ~ G(tool:y -> Y tool:b)
"""
ROLES = """
managers only, and not managers: r1 x
  forall(x(), "manager" in principal.roles)
  forall(x(), !("manager" in principal.roles)) ~ forall(x(), !("intern" in principal.roles))
the same in scopes: r1 x
  [not manager] G !tool:x
  [manager] G !tool:x ~ [intern] G !tool:x
one of them in a scope: r1 x
  forall(x(), "manager" in principal.roles)
  [manager] G !tool:x ~ [intern] G !tool:x
limits of a role: r1 pay
  forall(pay(amount=a), a <= 100)
  [manager] forall(pay(amount=a), a >= 200) ~ [manager] forall(pay(amount=a), a >= 50)
limits of two scopes: r1 pay
  [admin] forall(pay(amount=a), a <= 100)
  [admin, clerk] forall(pay(amount=a), a >= 200) ~ [clerk] forall(pay(amount=a), a >= 200)
facts: r1 x
  forall(x(), fact(vip) == true)
  forall(x(), fact(vip) == false) ~ forall(x(), fact(blocked) == false)
"""
APPROVALS = """
a stricter limit blocks: r0 pay
  [escalate] forall(pay(amount=a), a <= 100)
  forall(pay(amount=a), a <= 50) ~ forall(pay(amount=a), a <= 500)
a ban blocks: r0 pay
  [escalate] G(tool:pay -> O tool:login)
  G !tool:pay ~ G !tool:wire
the same step blocks: r0 pay
  [escalate] G(tool:pay -> O tool:login)
  G(tool:pay -> O tool:login) ~ G(tool:pay -> O tool:review)
a wider scope blocks: r0 pay
  [escalate, a] forall(pay(amount=a), a <= 100) ~ [escalate] forall(pay(amount=a), a <= 100)
  forall(pay(amount=a), a <= 50) ~ [a] forall(pay(amount=a), a <= 50)
"""
WITH_OTHER_KEYS = [
    Pair("a ban and a solver rule", ["G !tool:pay", at_least(9)], PAY, ["G !tool:refund", at_least(9)]),
    Pair("solver and data", [AT_MOST_100, at_least(200)], PAY, [AT_MOST_100, at_least(50)]),
    Pair(
        "constants",
        ["forall(pay(amount=a), a <= small)", "forall(pay(amount=a), a >= large)"],
        PAY,
        ["forall(pay(amount=a), a <= large)", "forall(pay(amount=a), a >= small)"],
        LIMITS,
    ),
    Pair(
        "definitions",
        ["forall(pay(amount=a), tiny(a))", "forall(pay(amount=a), !tiny(a))"],
        PAY,
        ["forall(pay(amount=a), tiny(a))", "forall(pay(amount=a, fee=f), !tiny(f))"],
        LIMITS,
    ),
    Pair(
        "agents",
        [of_agents(AT_MOST_100, "a"), of_agents("forall(pay(amount=a), a > 100)", "a", "b")],
        PAY,
        [of_agents(AT_MOST_100, "a"), of_agents("forall(pay(amount=a), a > 100)", "b")],
    ),
]

PAIRS = [
    pair for text in (BANS, REQUIRED, LIMIT_PAIRS, ORDERS, ROLES, APPROVALS) for pair in pairs(text)
] + WITH_OTHER_KEYS
