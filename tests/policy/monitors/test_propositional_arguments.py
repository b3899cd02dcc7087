"""Steps with arguments in formulas: calls with constants."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent.batch.audit import judge_traces
from guardagent.batch.records import Trace
from guardagent.batch.traces import TraceStep
from guardagent.errors import GuardError
from guardagent.policy.language.parser import read_rule, rule_text
from guardagent.policy.load import compile_rules, load_policies
from guardagent.types import Event

LOGIN = 'G(tool:pay -> O login(user="admin"))'
RULES = [
    LOGIN,
    'pay(n=5) -> F notify(channel="ops")',
    "G !deploy(env=/prod.*/, force=true)",
    "G(tool:pay -> X @checks(ok=.*))",
    "NOT F(pay(n=-2) && X pay(n=0.5))",
    'G("send mail"("reply to"="a\\"b/") -> Y tool:draft)',
]


@pytest.mark.parametrize("rule", RULES)
def test_the_text_of_a_formula_reads_back(rule: str) -> None:
    """Its calls are steps with their arguments."""
    read = read_rule(rule)
    assert read_rule(rule_text(read)) == read
    assert read_rule("G(login() -> F a|b())") == read_rule("G(tool:login -> F (tool:a || tool:b))")


@pytest.mark.parametrize(
    ("rule", "call", "outcome"),
    [
        (LOGIN, ("pay", {}), "deny"),
        ("F(pay(n=1)) OR G !tool:x", ("x", {}), "allow"),
        ("G !pay(n=1)", ("pay", {"n": 1.0}), "deny"),
        ("G !pay(n=1)", ("pay", {"n": 2}), "allow"),
        ("G !pay(n=1)", ("pay", {"n": None}), "unknown"),
        ("G !pay(n=1)", ("pay", {}), "unknown"),
        ("G !pay(n=1, m=2)", ("pay", {"n": 2}), "allow"),
        ('G !pay(to="x")', ("pay", {"to": " X"}), "unknown"),
        ("G !pay(to=.*)", ("pay", {"to": 1}), "deny"),
        ("G !pay(to=/a+/)", ("pay", {"to": 1}), "unknown"),
        ("(G !pay(n=1)) AND (G !tool:pay)", ("pay", {}), "deny"),
    ],
)
def test_an_unknown_argument_matters_where_it_decides(rule: str, call: tuple[str, Any], outcome: str) -> None:
    """A missing one, null or one of another kind is unknown, as in a rule over data."""
    verdict = compile_rules([rule]).session().check(*call, reserve=False)
    assert ("unknown" if verdict.errors else "deny" if verdict.label else "allow") == outcome


def test_logs_are_judged_as_sessions() -> None:
    """A quick proof by the names of the calls does not stand for their arguments."""
    policies = compile_rules([LOGIN])
    for user, label in (("admin", 0), ("bob", 1), (None, 1)):
        events = [Event("login", {"user": user}, "ok", "ok"), Event("pay", {}, "ok", "ok")]
        (result,) = judge_traces(policies, [Trace("t", tuple(TraceStep(event, None, None) for event in events))])
        assert result.label == label


def test_a_remedy_has_the_arguments() -> None:
    """Those that the step states."""
    (violation,) = compile_rules([LOGIN]).session().check("pay", {}).violations
    assert violation.remedy == "call 'login(user=\"admin\")' first"


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("G !login(user=u)", "an argument in a temporal formula is constant"),
        ("G !login(user=fact(u))", "an argument in a temporal formula is constant"),
        ("G !*(user=1)", "expected the name of a tool"),
        ('G !login(usr="a")', "unknown argument of login 'usr'; did you mean 'user'"),
        ('G !lgin(user="a")', "unknown tool 'lgin'; did you mean 'login'"),
    ],
)
def test_a_wrong_step_is_an_error_at_load(rule: str, problem: str) -> None:
    """As for the calls of a rule over data."""
    with pytest.raises(GuardError, match=problem.replace("*", r"\*")):
        load_policies(data={"version": 1, "tools": {"login": ["user"]}, "policies": [{"id": "a", "temporal": rule}]})
