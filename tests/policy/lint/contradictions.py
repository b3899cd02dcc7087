"""Pairs of rules that contradict each other, each beside a near twin that does not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Found = tuple[str, str | None, str | None]  # the kind, the policy and the tool of a finding
Rules = list[str | dict[str, Any]]


@dataclass(frozen=True)
class Pair:
    """Rules `r0`, `r1`, … that contradict each other, what lint finds, and rules that do not."""

    name: str
    rules: Rules
    found: set[Found]
    twin: Rules
    head: dict[str, Any] = field(default_factory=dict)

    def file(self, rules: Rules) -> dict[str, Any]:
        """The content of the policy file."""
        policies = [{"temporal": one} if isinstance(one, str) else one for one in rules]
        numbered = [{"id": f"r{at}", **one} for at, one in enumerate(policies)]
        return {"version": 1, "unlisted": "allow", **self.head, "policies": numbered}


def rule(text: str, **keys: Any) -> dict[str, Any]:
    return {"temporal": text, **keys}


def within(role: str, text: str) -> dict[str, Any]:
    return rule(text, applies_to={"roles": [role]})


def outside(role: str, text: str) -> dict[str, Any]:
    return rule(text, applies_to={"not": {"roles": [role]}})


def escalated(text: str) -> dict[str, Any]:
    return rule(text, on_violation="escalate")


def at_least(amount: int) -> dict[str, Any]:
    tools = {"pay": {"permit": f"(>= amount {amount})", "variables": {"amount": {"from": "args.amount"}}}}
    return {"solver": {"smt": "(declare-const amount Real)", "tools": tools}}


WINDOW = "forall(refund(date=d), now - d <= 30d)"
BAN = "G !tool:refund"
AT_MOST_100 = "forall(pay(amount=a), a <= 100)"
OWNER = 'after(f:open(), true, notify(to=t), t == "owner")'
MANAGERS_ONLY = 'forall(x(), "manager" in principal.roles)'
LIMITS = {"constants": {"small": 100, "large": 200}, "define": {"tiny(x)": "x <= small"}}
DEAD: set[Found] = {("contradictory", "r1", "refund")}
EXPORT: set[Found] = {("contradictory", "r1", "export")}
PAY: set[Found] = {("contradictory", "r1", "pay")}
DEPLOY: set[Found] = {("contradictory", "r1", "deploy")}
X: set[Found] = {("contradictory", "r1", "x")}
POINTLESS: set[Found] = {("contradictory", "r0", "pay")}

BANS = [
    Pair("a ban and a window", [BAN, WINDOW], DEAD, [BAN, WINDOW.replace("refund", "credit")]),
    Pair(
        "forall false and a window",
        ["forall(refund(), false)", WINDOW],
        DEAD,
        ["forall(refund(date=d), d > 0)", WINDOW],
    ),
    Pair(
        "a ban and a precondition",
        [BAN, "before(refund(), true, login(), true)"],
        DEAD,
        [BAN, "before(pay(), true, login(), true)"],
    ),
    Pair(
        "a ban of two, a limit of one",
        ["forall(refund|credit(), false)", WINDOW],
        DEAD,
        [BAN, "forall(refund|credit(amount=a), a <= 9)"],
    ),
    Pair(
        "two bans, a limit of both",
        [BAN, "G !tool:credit", "forall(refund|credit(amount=a), a <= 9)"],
        {("contradictory", "r2", None)},
        [BAN, "G !tool:void", "forall(refund|credit(amount=a), a <= 9)"],
    ),
    Pair(
        "a ban and a solver rule",
        ["G !tool:pay", at_least(9)],
        {("contradictory", "r1", "pay")},
        ["G !tool:refund", at_least(9)],
    ),
    Pair(
        "a ban and an obligation",
        [BAN, "after(refund(), true, notify(), true)"],
        {("contradictory", "r1", "refund")},
        [BAN, "after(order(), true, notify(), true)"],
    ),
    Pair(
        "a ban and a role",
        ["G !tool:export", 'forall(export(), "admin" in principal.roles)'],
        EXPORT,
        [outside("admin", "G !tool:export"), 'forall(export(), "admin" in principal.roles)'],
    ),
    Pair(
        "a ban and a scope",
        ["G !tool:export", within("admin", "forall(export(), true)")],
        EXPORT,
        [outside("admin", "G !tool:export"), within("admin", "forall(export(), true)")],
    ),
    Pair(
        "a scoped ban and its scope",
        [within("admin", "G !tool:export"), within("admin", 'forall(export(as=f), f == "csv")')],
        EXPORT,
        [within("intern", "G !tool:export"), within("admin", 'forall(export(as=f), f == "csv")')],
    ),
]

REQUIRED = [
    Pair(
        "a required argument is forbidden",
        [OWNER, 'forall(notify(to=t), t != "owner")'],
        {("contradictory", "r0", "open")},
        [OWNER, 'forall(notify(to=t), t != "guest")'],
    ),
    Pair(
        "a required step is over",
        ["tool:open -> F tool:close", "G(tool:open -> G !tool:close)"],
        {("contradictory", "r1", "open")},
        ["tool:open -> F tool:close", "G(tool:open -> G !tool:delete)"],
    ),
    Pair(
        "two things are next",
        ["G(tool:a -> F[<=1] tool:b)", "G(tool:a -> F[<=1] tool:c)"],
        {("contradictory", "r1", "a")},
        ["G(tool:a -> F[<=2] tool:b)", "G(tool:a -> F[<=2] tool:c)"],
    ),
    Pair(
        "a required amount",
        ["after(order(), true, pay(amount=a), a >= 100)", "forall(pay(amount=a), a < 100)"],
        {("contradictory", "r0", "order")},
        ["after(order(), true, pay(amount=a), a >= 100)", AT_MOST_100],
    ),
    Pair(
        "a required report",
        ['exists(report(kind="full"))', 'forall(report(kind=k), k == "short")'],
        {("contradictory", "r0", None)},
        ['exists(report(kind="full"))', 'forall(report(kind=k), k in ["short", "full"])'],
    ),
    Pair(
        "a required end after a start",
        ["after(open(handle=h), true, close(handle=h), true)", "forall(close(), !some(open()))"],
        {("contradictory", "r0", "open")},
        ["after(open(handle=h), true, close(handle=h), true)", "forall(close(), some(open()))"],
    ),
    Pair(
        "an earlier payment",
        ["before(ship(), true, pay(amount=a), a >= 100)", "forall(pay(amount=a), a < 100)"],
        {("contradictory", "r0", "ship")},
        ["before(ship(), true, pay(amount=a), a >= 100)", AT_MOST_100],
    ),
    Pair(
        "an obligation from one tool to itself",
        ["after(a(n=1), true, a(n=2), true)", "forall(a(n=n), n != 2)"],
        {("contradictory", "r0", "a")},
        ["after(a(n=1), true, a(n=2), true)", "forall(a(n=n), n != 3)"],
    ),
]

LIMIT_PAIRS = [
    Pair(
        "an empty range",
        [AT_MOST_100, "forall(pay(amount=a), a > 100)"],
        PAY,
        [AT_MOST_100, "forall(pay(amount=a), a >= 100)"],
    ),
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
    Pair("solver and data", [AT_MOST_100, at_least(200)], PAY, [AT_MOST_100, at_least(50)]),
    Pair(
        "lengths",
        ["forall(pay(to=t), len(t) <= 2)", "forall(pay(to=t), len(t) >= 3)"],
        PAY,
        ["forall(pay(to=t), len(t) <= 3)", "forall(pay(to=t), len(t) >= 3)"],
    ),
    Pair(
        "durations",
        [WINDOW, "forall(refund(date=d), now - d > 60d)"],
        {("contradictory", "r1", "refund")},
        [WINDOW, "forall(refund(date=d), now - d > 20d)"],
    ),
    Pair(
        "weekdays",
        ["forall(deploy(), weekday(now) <= 5)", "forall(deploy(), weekday(now) in [6, 7])"],
        DEPLOY,
        ["forall(deploy(), weekday(now) <= 5)", "forall(deploy(), weekday(now) in [1, 7])"],
    ),
    Pair(
        "hours",
        ["forall(deploy(), hour(now) >= 9)", "forall(deploy(), hour(now) < 9)"],
        DEPLOY,
        ["forall(deploy(), hour(now) >= 9)", "forall(deploy(), hour(now) < 17)"],
    ),
    Pair(
        "an approved amount",
        [
            "before(pay(amount=a), true, approve(amount=a), true)",
            "forall(approve(amount=a), a <= 10)",
            "forall(pay(amount=a), a > 10)",
        ],
        {("contradictory", "r2", "pay")},
        [
            "before(pay(amount=a), true, approve(amount=a), true)",
            "forall(approve(amount=a), a <= 10)",
            "forall(pay(amount=a), a > 5)",
        ],
    ),
    Pair(
        "a case of a pattern",
        ['forall(ship(mode="air"), fact(paid) == true)', 'forall(ship(mode="air"), fact(paid) == false)'],
        {("contradictory", "r0", "ship")},
        ['forall(ship(mode="air"), fact(paid) == true)', 'forall(ship(mode="sea"), fact(paid) == false)'],
    ),
    Pair(
        "a case of a condition",
        [
            'forall(pay(amount=a), a > 100 -> fact(kind) == "gold")',
            'forall(pay(amount=a), a > 50 -> fact(kind) == "basic")',
        ],
        {("contradictory", "r0", "pay")},
        [
            'forall(pay(amount=a), a > 100 -> fact(kind) == "gold")',
            'forall(pay(amount=a), a <= 50 -> fact(kind) == "basic")',
        ],
    ),
]

ORDERS = [
    Pair(
        "each after the other",
        ["G(tool:a -> O tool:b)", "G(tool:b -> O tool:a)"],
        {("contradictory", "r1", "a"), ("contradictory", "r1", "b")},
        ["G(tool:a -> O tool:b)", "G(tool:b -> O tool:c)"],
    ),
    Pair(
        "the same, over data",
        ["before(a(id=i), true, b(id=i), true)", "before(b(id=i), true, a(id=i), true)"],
        {("contradictory", "r0", "a"), ("contradictory", "r1", "b")},
        ["before(a(id=i), true, b(id=i), true)", "before(b(id=i), true, c(id=i), true)"],
    ),
    Pair("two first calls", ["tool:a", "tool:b"], {("contradictory", "r1", None)}, ["tool:a", "G(tool:c -> O tool:b)"]),
    Pair(
        "two calls immediately before",
        ["G(tool:x -> Y tool:a)", "G(tool:x -> Y tool:b)"],
        X,
        ["G(tool:x -> Y tool:a)", "G(tool:y -> Y tool:b)"],
    ),
]

ROLES = [
    Pair(
        "managers only, and not managers",
        [MANAGERS_ONLY, 'forall(x(), !("manager" in principal.roles))'],
        X,
        [MANAGERS_ONLY, 'forall(x(), !("intern" in principal.roles))'],
    ),
    Pair(
        "the same in scopes",
        [outside("manager", "G !tool:x"), within("manager", "G !tool:x")],
        X,
        [outside("manager", "G !tool:x"), within("intern", "G !tool:x")],
    ),
    Pair(
        "one of them in a scope",
        [MANAGERS_ONLY, within("manager", "G !tool:x")],
        X,
        [MANAGERS_ONLY, within("intern", "G !tool:x")],
    ),
    Pair(
        "limits of a role",
        [AT_MOST_100, within("manager", "forall(pay(amount=a), a >= 200)")],
        PAY,
        [AT_MOST_100, within("manager", "forall(pay(amount=a), a >= 50)")],
    ),
    Pair(
        "limits of two scopes",
        [
            within("admin", AT_MOST_100),
            rule("forall(pay(amount=a), a >= 200)", applies_to={"roles": ["admin", "clerk"]}),
        ],
        PAY,
        [within("admin", AT_MOST_100), within("clerk", "forall(pay(amount=a), a >= 200)")],
    ),
    Pair(
        "facts",
        ["forall(x(), fact(vip) == true)", "forall(x(), fact(vip) == false)"],
        X,
        ["forall(x(), fact(vip) == true)", "forall(x(), fact(blocked) == false)"],
    ),
    Pair(
        "agents",
        [
            rule(AT_MOST_100, applies_to={"agents": ["a"]}),
            rule("forall(pay(amount=a), a > 100)", applies_to={"agents": ["a", "b"]}),
        ],
        PAY,
        [
            rule(AT_MOST_100, applies_to={"agents": ["a"]}),
            rule("forall(pay(amount=a), a > 100)", applies_to={"agents": ["b"]}),
        ],
    ),
]

APPROVALS = [
    Pair(
        "a stricter limit blocks",
        [escalated(AT_MOST_100), "forall(pay(amount=a), a <= 50)"],
        POINTLESS,
        [escalated(AT_MOST_100), "forall(pay(amount=a), a <= 500)"],
    ),
    Pair(
        "a ban blocks",
        [escalated("G(tool:pay -> O tool:login)"), "G !tool:pay"],
        POINTLESS,
        [escalated("G(tool:pay -> O tool:login)"), "G !tool:wire"],
    ),
    Pair(
        "the same step blocks",
        [escalated("G(tool:pay -> O tool:login)"), "G(tool:pay -> O tool:login)"],
        POINTLESS,
        [escalated("G(tool:pay -> O tool:login)"), "G(tool:pay -> O tool:review)"],
    ),
    Pair(
        "a wider scope blocks",
        [rule(AT_MOST_100, on_violation="escalate", applies_to={"roles": ["a"]}), "forall(pay(amount=a), a <= 50)"],
        POINTLESS,
        [escalated(AT_MOST_100), within("a", "forall(pay(amount=a), a <= 50)")],
    ),
]

PAIRS = [*BANS, *REQUIRED, *LIMIT_PAIRS, *ORDERS, *ROLES, *APPROVALS]
