"""Random temporal conditions of Dogwood and histories for them."""

from __future__ import annotations

import datetime as dt
from random import Random
from typing import Any

from guardagent.policy.policies import Policies

SCHEMA = (
    "namespace D { entity User; entity Agent;"
    + "".join(
        f' action "{name}" appliesTo {{ principal: [User], resource: [Agent], context: '
        "{ input: { user: String, n: Long }, output?: { result: Bool }, free?: Bool } };"
        for name in ("Login", "Logout", "Pay", "Check")
    )
    + " }"
)
START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
WINDOWS = ["10s", "1m", "5m", "1h"]
Call = tuple[int, str, dict[str, Any], bool]


def event(random: Random, more: str = "", kind: str = "") -> str:
    pick = random.choice
    kind = kind or pick(["request", "response"])
    fields = [pick(["input.user: context.input.user", 'input.user: "ann"', "input.user: _"]), *([more] if more else [])]
    fields += ["output.result: true"] if kind == "response" and random.random() < 0.5 else []
    return f'D::Action::"{pick(["Login", "Logout", "Pay"])}"::{kind}{{ {", ".join(fields)} }}'


def condition(random: Random) -> str:
    """Returns a condition that Dogwood accepts."""
    pick, window = random.choice, f"within {random.choice(WINDOWS)}"
    limit = f"{pick(['>', '>=', '<', '<='])} {random.randrange(5)}"
    forms = [
        f"formerly {window} {event(random)}",
        f"previous {window} {event(random, kind='response')}",
        f"!{event(random, kind='request')} since {window} {event(random)}",
        f"exists (a: Long). (formerly {window} {event(random, 'input.n: a')} && a {limit})",
        f"exists (k: Long). ((count for (t: Timepoint). where (formerly {window} ({event(random)} && tp(t)))) == k && k {limit})",  # noqa: E501 - a rule on one line
        (
            f"exists (k: Long). ((sum a for (a: Long), (t: Timepoint). where (formerly {window} "
            f"({event(random, 'input.n: a', 'response')} && a > 1 && tp(t)))) == k && k {limit})"
        ),
        f"exists (a: Long). (formerly {window} {event(random, 'input.n: a')} && formerly {window} {event(random, 'input.n: a')})",  # noqa: E501 - a rule on one line
    ]
    first = pick(forms)
    if first.startswith("exists"):
        return first
    return first if random.random() < 0.7 else f"{pick(['', '!'])}({first}) && !(formerly {window} {event(random)})"


def calls(random: Random) -> list[Call]:
    """Returns a history, whose last call is to be judged: its time, the tool, the arguments, and the result."""
    time, history = 0, []
    for _ in range(random.randrange(1, 7)):
        time += random.choice([1, 5, 10, 60, 290, 3600])
        arguments = {"user": random.choice(["ann", "bob"]), "n": random.randrange(4)}
        history.append((time, random.choice(["Login", "Logout", "Pay"]), arguments, random.random() < 0.5))
    last = history.pop()
    return [*history, (last[0], random.choice(["Check", "Pay"]), *last[2:])]


def policy(text: str) -> str:
    """Returns policies whose decision on each call of `Check` and `Pay` is that of a condition."""
    others = "permit(principal, action, resource) when { context has free };"
    return (
        "".join(
            f'permit(principal, action == D::Action::"{name}", resource) when temporal {{ {text} }};'
            for name in ("Check", "Pay")
        )
        + others
    )


def ours(policies: Policies, history: list[Call]) -> bool:
    """Returns whether the last call is allowed, after a history in which each call was."""
    now = [START]
    session = policies.session(clock=lambda: now[0])
    for time, tool, arguments, result in history[:-1]:
        now[0] = START + dt.timedelta(seconds=time)
        verdict = session.check(tool, arguments, facts={"context": {"free": True}})
        session.record({"result": result}, failed=False, permit=verdict.permit)
    now[0] = START + dt.timedelta(seconds=history[-1][0])
    return session.check(history[-1][1], history[-1][2], facts={"context": {}}).label == 0


def theirs(text: str, history: list[Call]) -> bool:
    """Returns the decision of Dogwood's interpreter on the last call."""
    from dogwood import native

    lines = []
    for time, tool, arguments, result in history:
        written = ", ".join(
            f'{name}: "{value}"' if isinstance(value, str) else f"{name}: {value}" for name, value in arguments.items()
        )
        begin = f'@{time} scope(principal: D::User::"a", resource: D::Agent::"g") request_context(input: {{ {written} }}) D::Action::"{tool}"::'  # noqa: E501 - a rule on one line
        end = f'callerPrincipal: D::User::"a", callerResource: D::Agent::"g", requestId: "r{time}")'
        lines.append(f"{begin}request(input: {{ {written} }}, {end}")
        lines.append(f"{begin}response(input: {{ {written} }}, output: {{ result: {str(result).lower()} }}, {end}")
    answer = native.replay(text, SCHEMA, "\n".join(lines[:-1]) + "\n").strip().splitlines()[-1]
    return str(answer).endswith("true")
