"""Steps with arguments in formulas: calls with constants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.batch.audit import judge_traces
from guardagent.batch.records import Trace
from guardagent.batch.traces import TraceStep
from guardagent.errors import GuardError
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.language.ast import Temporal
from guardagent.policy.language.parser import read_rule, rule_text
from guardagent.policy.language.values import Truth, Unknown
from guardagent.policy.load import compile_rules, load_policies
from guardagent.policy.monitors.automaton import Letter
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.types import Event
from tests.policy.naive import holds

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


def test_many_arguments_are_an_error_at_once_unless_they_exclude_each_other() -> None:
    """A call can match any of the independent ones."""
    steps = [[f'login(a{at}="x")' for at in range(count)] for count in (8, 20)]
    compile_rules([f"G(tool:pay -> O ({' || '.join(steps[0])}))"])
    with pytest.raises(GuardError, match="20 calls of the same tool with different arguments; expected at most 256"):
        compile_rules([f"G(tool:pay -> O ({' || '.join(steps[1])}))"])
    users = " || ".join(f'login(user="u{at}")' for at in range(100))
    session = compile_rules([f"G(tool:pay -> O ({users}))"]).session()
    session.observe(Event("login", {"user": "u99"}, "x", "ok"))
    assert session.check("pay", {}).label == 0


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


# --- unknown arguments of earlier steps


@pytest.mark.parametrize("user", [5, None, "Admin", {}])
@pytest.mark.parametrize(
    "rule",
    [
        'G(tool:pay -> H !login(user="admin"))',
        'G(tool:pay -> Y login(user="admin"))',
        'G(tool:pay -> (!tool:logout S login(user="admin")))',
        'G(login(user="admin") -> X !tool:pay)',
        'login(user="admin") -> F[<=1] tool:done',
        '(G !login(user="admin")) OR G !tool:pay',
    ],
)
def test_an_unknown_argument_of_an_earlier_step(rule: str, user: Any) -> None:
    """The rule is unknown: it denies whatever `on_violation` is, and is not among the violated rules."""
    policy = {"id": "a", "temporal": rule, "on_violation": "warn"}
    session = load_policies(data={"version": 1, "policies": [policy]}).session()
    args = {} if user == {} else {"user": user}
    session.observe(Event("login", args, "x", "ok"))
    first = session.check("pay", {}, reserve=False)
    session.observe(Event("pay", {}, "x", "ok"))
    verdict = first if first.label else session.finish()
    assert (verdict.label, verdict.rules, len(verdict.errors)) == (1, (), 1)
    assert verdict.errors[0].startswith("a: the earlier 'login': argument 'user'")


CALLS = ['login(user="a")', 'login(user="b")', "tool:pay"]
VALUES: dict[Any, tuple[str, ...]] = {"a": ("a",), "c": ("c",), 5: ("a", "b", "c"), "B": ("b", "c")}


def formulas() -> st.SearchStrategy[str]:
    unary, binary = (
        st.sampled_from(["!", "O", "H", "Y", "X", "G", "F", "F[<=1]"]),
        st.sampled_from(["S", "U", "&&", "||", "->"]),
    )
    leaves = st.sampled_from([*CALLS, *(f"!{call}" for call in CALLS)])
    parts = st.recursive(
        leaves,
        lambda inner: (
            st.builds("{} ({})".format, unary, inner) | st.builds("({}) {} ({})".format, inner, binary, inner)
        ),
        max_leaves=4,
    )
    return parts.map("G ({})".format) | parts


STEPS = st.tuples(
    st.sampled_from(["login", "login", "pay"]),
    st.sampled_from([*VALUES]),
    st.sampled_from(["ok", "ok", "error", "withdrawn"]),
    st.booleans(),  # whether it has started
    st.integers(0, 3),  # the number of calls before it ends
)


def kinds_of(monitor: PropositionalMonitor, steps: Sequence[Any], users: Sequence[Any]) -> list[str]:
    """Judges calls that overlap, and the end."""
    memory, kinds, calls = monitor.start(), list[str](), list[SessionCall]()
    context: Any = None  # the monitor reads none
    for at, (tool, _, _, started, delay) in enumerate(steps):
        call = SessionCall(tool, {"user": users[at]})
        call.place, call.used = at + 1, started
        calls.append(call)
        result = monitor.judge(context, call, memory)
        kinds.append(kind(True if result is None else result.value))
        if delay or memory.unsettled:
            monitor.reserved(context, call, memory, result)
        for earlier, (_, _, status, _, its_delay) in enumerate(steps[: at + 1]):
            if earlier + its_delay == at:
                calls[earlier].status = status
                settle = monitor.settled if calls[earlier] in memory.unsettled else monitor.observed
                settle(context, calls[earlier], memory)
        kinds.append(kind(monitor.satisfiable(memory)))
        memory = monitor.loaded(json.loads(json.dumps(monitor.dumped(memory))), calls)
    ended = monitor.ended(context, memory)
    return [*kinds, kind(True if ended is None else ended.value)]


def kind(value: Truth) -> str:
    return "unknown" if isinstance(value, Unknown) else str(value)


@given(formulas(), st.lists(STEPS, min_size=1, max_size=5))
def test_unknown_arguments_are_unknown_where_their_values_would_decide(rule: str, steps: list[Any]) -> None:
    """A verdict is certain if it is the same for all values; with known values, the end is that of the definition."""
    read = read_rule(rule)
    assert isinstance(read, Temporal)
    monitor = PropositionalMonitor(read.formula, {})
    worlds = list(product(*(VALUES[value] for _, value, *_ in steps)))
    each = [kinds_of(monitor, steps, users) for users in worlds]
    expected = [values[0] if len(set(values)) == 1 else "unknown" for values in zip(*each, strict=True)]
    assert kinds_of(monitor, steps, [value for _, value, *_ in steps]) == expected
    for users, kinds in zip(worlds, each, strict=True):
        letters = letters_of(steps, users)
        all_ended = all(at + delay < len(steps) for at, (*_, delay) in enumerate(steps))
        if letters and all_ended and set(kinds[:-1]) == {"True"}:
            assert kinds[-1] == str(holds(read.formula, letters))


def letters_of(steps: Sequence[Any], users: Sequence[str]) -> list[Letter]:
    letters = []
    for (tool, _, status, *_), user in zip(steps, users, strict=True):
        atom = frozenset(["tool:pay" if tool == "pay" else f'call:login(user="{user}")'])
        if status != "withdrawn":
            letters.append(Letter(atom if status == "ok" else frozenset(), atom))
    return letters


def test_snapshots_before_unknown_steps_load() -> None:
    """They have a single state after the settled calls, and effects without alternatives."""
    read = read_rule("G(tool:pay -> O tool:login)")
    assert isinstance(read, Temporal)
    monitor, (open_call, login) = PropositionalMonitor(read.formula, {}), map(SessionCall, ["other", "login"], [{}, {}])
    context: Any = None
    memory = monitor.start()
    for place, call in enumerate([open_call, login], 1):
        call.place = place
        monitor.reserved(context, call, memory, None)
    login.status = "ok"
    monitor.settled(context, login, memory)
    dumped = monitor.dumped(memory)
    ((base,), broken, late), ((possible, doubtful, _),) = dumped["base"][0], dumped["worlds"]
    since = [entry if isinstance(entry, int) else entry[0] for entry in dumped["since"]]
    older = json.loads(json.dumps([base, since, possible, broken, doubtful, late]))
    assert monitor.dumped(monitor.loaded(older, [open_call, login])) == dumped
