"""Dogwood: conditions on earlier calls decide as its interpreter does, and the report names each difference."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from guardagent.translation.imports.dogwood import FORMAT
from guardagent.translation.imports.report import NO_OPTIONS, ImportReport
from tests.translation.imports import dogwood_traces as traces

ANN, BOB = {"user": "ann", "n": 3}, {"user": "bob", "n": 3}
SAME = "input.user: context.input.user"


def event(name: str, fields: str = SAME, kind: str = "request") -> str:
    return f'D::Action::"{name}"::{kind}{{ {fields} }}'


def total(what: str, window: str, of: str, limit: str) -> str:
    return f"exists (k: Long). (({what} where (formerly within {window} ({of} && tp(t)))) == k && k {limit})"


# Conditions, each with a history and the decision on its last call.
LOGIN = (0, "Login", ANN, True)
LOGOUT = (60, "Logout", ANN, True)
FILES: dict[str, tuple[str, list[traces.Call], bool]] = {
    "a read after a login": (f"formerly within 1h {event('Login')}", [LOGIN, (3600, "Check", ANN, True)], True),
    "too late": (f"formerly within 1h {event('Login')}", [LOGIN, (3601, "Check", ANN, True)], False),
    "of another user": (f"formerly within 1h {event('Login')}", [LOGIN, (60, "Check", BOB, True)], False),
    "a login that succeeded": (
        f"formerly within 1h {event('Login', f'{SAME}, output.result: true', 'response')}",
        [(0, "Login", ANN, False), (60, "Check", ANN, True)],
        False,
    ),
    "the call before": (
        f"previous within 1h {event('Login', SAME, 'response')}",
        [LOGIN, LOGOUT, (61, "Check", ANN, True)],
        False,
    ),
    "an open session": (
        f"!{event('Logout')} since within 24h {event('Login')}",
        [LOGIN, LOGOUT, (61, "Check", ANN, True)],
        False,
    ),
    "an absence": (f"!(formerly within 1h {event('Logout')})", [LOGIN, (61, "Check", ANN, True)], True),
    "a rate, with this call": (
        total("count for (t: Timepoint).", "1h", event("Pay", "input.user: _"), "> 2"),
        [(0, "Pay", ANN, True), (1, "Pay", BOB, True), (2, "Pay", ANN, True)],
        True,
    ),
    "a total": (
        total("sum a for (a: Long), (t: Timepoint).", "1h", event("Pay", "input.n: a", "response"), "> 6"),
        [(0, "Pay", ANN, True), (1, "Pay", BOB, True), (2, "Check", ANN, True)],
        False,
    ),
    "the same user in two calls": (
        (
            "exists (u: String). (formerly within 1h "
            f"{event('Login', 'input.user: u')} && formerly within 1h {event('Logout', 'input.user: u')})"
        ),
        [LOGIN, (60, "Logout", BOB, True), (61, "Check", ANN, True)],
        False,
    ),
}


def read(text: str) -> ImportReport:
    return FORMAT.read(text, "x.dw", NO_OPTIONS)


@pytest.mark.parametrize(("condition", "history", "expected"), FILES.values(), ids=list(FILES))
def test_a_condition_decides_as_documented(condition: str, history: list[traces.Call], expected: bool) -> None:
    report = read(traces.policy(condition))
    assert {rule.status for rule in report.rules} == {"same"}
    assert traces.ours(report.load(), history) is expected


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 2060), marks=pytest.mark.slow)])
def test_random_histories_get_the_decision_of_the_interpreter(seeds: range) -> None:
    """Histories of one session in which no call was denied: there is no difference."""
    pytest.importorskip("dogwood")
    for seed in seeds:
        random = Random(seed)  # noqa: S311 - the same every time
        text, history = traces.policy(traces.condition(random)), traces.calls(random)
        assert traces.ours(read(text).load(), history) == traces.theirs(text, history), (text, history)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (f"previous within 1h {event('Login')}", "'previous' of a request"),
        (f"{event('Login')} since within 1h {event('Login')}", "'since' without a negation"),
        (f"formerly within 1h {event('Login', SAME, 'attempt')}", "the kind 'attempt'"),
        (f"formerly within 1h {event('Login', 'sessionId: _, other.x: 1')}", "the field 'other.x'"),
        ("exists (u: String). " + event("Login", "input.user: u"), "'exists' of 'u'"),
        (
            f"exists (k: Long). ((count for (u: String). where (formerly within 1h {event('Login', 'input.user: u')})) == k && k > 1)",  # noqa: E501 - a rule on one line
            "a count or a sum of other things",
        ),
    ],
)
def test_nothing_is_dropped(condition: str, reason: str) -> None:
    """A permit permits nothing then, and a policy that forbids concerns each call of its tools."""
    report = read(traces.policy(condition).replace("permit", "forbid", 1))
    differences: Any = [difference for rule in report.rules[:2] for difference in rule.differences]
    assert [(status, reason in text) for status, text in differences] == [("not translated", True)] * 2
    session = report.load().session(facts={"context": {"free": True}})
    assert [session.check(tool, ANN, reserve=False).label for tool in ("Check", "Pay", "Login")] == [1, 0, 0]
    assert session.check("Pay", ANN, facts={"context": {}}, reserve=False).label == 1


def test_a_sum_of_requests_includes_the_call() -> None:
    """In a policy of their action alone; in another one the amount would be unknown."""
    condition = total("sum a for (a: Long), (t: Timepoint).", "1h", event("Pay", "input.n: a"), "<= 6")
    text = f'permit(principal, action == D::Action::"Pay", resource) when temporal {{ {condition} }};'
    session = read(text).load().session()
    labels = [session.check("Pay", {"n": amount}).label for amount in (3, 4, 3, 1)]
    assert labels == [0, 1, 0, 1]
    assert (
        read(text.replace("==", "in [", 1).replace('"Pay"', '"Pay", D::Action::"Check"]', 1)).rules[0].status
        == "not translated"
    )
