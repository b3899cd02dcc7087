"""Denial messages for models: a line for each cause, and no value that the conversation has not seen."""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardagent import Decision, Policies, Session, ToolDenied, Verdict, enforce, guarded_chat, load_policies
from guardagent.policy.load import compile_rules
from guardagent.testing import ScriptedChat
from guardagent.types import Violation, rule_of_error
from tests.tiers import examples

pytest.importorskip("z3")
pytest.importorskip("jsonschema")

TOOLBOX = '''
def owner(state: dict, order: str) -> str | None:
    """Whose order it is."""
    return state["orders"].get(order, {}).get("owner")


def crash(state: dict, order: str) -> str:
    """Raises what nobody may read."""
    raise KeyError(str(state["orders"]["W2"]))


def odd(state: dict, order: str) -> object:
    """Gives what is not a value."""
    return {state["orders"]["W2"]["owner"]}
'''
OWN = "state.orders[o].owner == fact(user)"
CONDITIONS = [
    OWN,
    "state(owner(o)) == n",
    "n == state(owner(o)) || a <= state.orders[o].total",
    "!(state.orders[o].total > a) && state(owner(o)) != n",
    "a + 1 > state.orders[o].total * 2",
    "len(state.orders[o].items) == a",
    "n in state.orders[o].items",
    "state.orders[o].owner in [n, fact(user)]",
    "all(i in state.orders[o].items, i == n)",
    "any(i in state.orders[o].items, i == n && known(i.x))",
    "count(i in state.orders[o].items, i == n) > a",
    "state.orders[o].owner matches /x.*/",
    "state.orders[o].owner <= a",
    "state.orders[o].total == n",
    "state.orders[o].total.deep == n",
    "state.orders[state.current].owner == n",
    "state[state.orders[o].owner] == n",
    "state.orders[o].items[state.orders[o].total] == n",
    "state.orders[o].gone == n",
    "state.orders[o].owner",
    "-state.orders[o].owner < a",
    "len(state.orders[o].total) > 3",
    "all(i in state.orders[o].total, i == n)",
    "a % state.zero == state.orders[o].total",
    "state(crash(o)) == n",
    "state(odd(o)) == n",
    "state(owner(state.orders[o].owner)) == n",
    "output(last(f:look(order=o))).note == state.orders[o].owner",
    "output(first(f:look(), output(f).note != state.orders[o].owner)).note == n",
    "sum(f:look(order=o), true, state.orders[o].total) < a",
    "count(f:look(), args(f).order == state.orders[o].owner) > 0",
]
FORMS = [
    *[f"forall(act(order=o, amount=a, note=n), {condition})" for condition in CONDITIONS],
    *[f"NOT exists(act(order=o, amount=a, note=n), !({condition}))" for condition in CONDITIONS[:4]],
    f"forall(act(order=o, amount=a, note=n), {OWN}) AND G(tool:act -> O tool:look)",
    f"forall(act(order=o, amount=a, note=n), {OWN}) OR forall(act(amount=a), a == 0)",
    "before(act(order=o), state.orders[o].total > 0, look(order=o), state(owner(o)) == o)",
    "before(act(order=o), true, f:look(order=o), output(f).note == state(owner(o)))",
    "after(act(order=o), state.orders[o].total > 0, close(order=o), state(owner(o)) == o)",
    "after(act(order=o), state.orders[o].owner <= 5, close(order=o), true)",
    "exists(close(order=o), state(owner(o)) == o)",
    "seq(look(), close(), act())",
    "G(tool:act -> O tool:close) && G(tool:close -> O tool:look)",
]
SOLVERS = [
    ("(>= amount total)", "(declare-const total Int) ; worth {}\n(declare-const amount Int)", "total amount"),
    ("(and (<= amount total) (> amount 5))", "(declare-const total Int)\n(declare-const amount Int)", "total amount"),
    ("(= note owner)", "(declare-const note String)\n(declare-const owner String) ; of {}", "note owner"),
    ("(> total 3)", "(declare-const total Int)", "wrong"),
    ("(not (= free total))", "(declare-const free Int)\n(declare-const total Int)", "free total"),
    ("own", "(declare-const own Bool)", "own"),
]
SOURCES = {
    "total": "total: {from: 'state.orders[args.order].total'}",
    "wrong": "total: {from: 'state.orders[args.order].owner'}",
    "owner": "owner: {from: 'state(owner(args.order))'}",
    "amount": "amount: {from: args.amount}",
    "note": "note: {from: args.note}",
    "free": "free: {from: args.more, required: false}",
    "own": "own: {from: 'state(owner(args.order)) == fact(user)'}",
}


def _solver(permit: str, smt: str, names: str) -> str:
    variables = ", ".join(SOURCES[name] for name in names.split())
    return f"{{smt: {json.dumps(smt)}, tools: {{act: {{permit: {json.dumps(permit)}, variables: {{{variables}}}}}}}}}"


RULES = [f"temporal: {json.dumps(form)}" for form in FORMS] + [f"solver: {_solver(*solver)}" for solver in SOLVERS]
MORE = ["", "message: Not this one.\n", "message: |\n      Two\n      lines.\n", "remedy: Call close, then look.\n"]
LEVELS = ["block", "block", "warn", "escalate", "halt"]
rules = st.tuples(st.sampled_from(RULES), st.sampled_from(MORE), st.sampled_from(LEVELS))


@lru_cache(20)  # each may hold a Z3 context, and what Z3 takes counts for the whole process
def policies_of(chosen: tuple[tuple[str, str, str], ...]) -> Policies:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "orders.py").write_text(TOOLBOX)
        text = "version: 1\ntoolbox: [orders.py]\npolicies:\n"
        for at, (rule, more, level) in enumerate(chosen):
            text += f"  - id: r{at}\n    {rule}\n    on_violation: {level}\n" + (f"    {more}" if more else "")
        Path(folder, "p.yaml").write_text(text)
        return load_policies(Path(folder, "p.yaml"))


SECRET_TEXTS = st.from_regex(r"[a-z]{3}secret[a-z]{3}", fullmatch=True)
SECRET_NUMBERS = st.integers(10**6, 10**9)
states = st.fixed_dictionaries(
    {
        "orders": st.fixed_dictionaries(
            {
                name: st.fixed_dictionaries(
                    {
                        "owner": SECRET_TEXTS,
                        "total": SECRET_NUMBERS,
                        "items": st.lists(SECRET_TEXTS | SECRET_NUMBERS, max_size=3),
                        "gone": st.none(),
                    }
                )
                for name in ("W1", "W2")
            }
        ),
        "current": st.sampled_from(["W1", "W2"]),
        "zero": st.just(0),
        "people": st.lists(SECRET_TEXTS),
    }
)
CALLS = st.fixed_dictionaries(
    {"order": st.sampled_from(["W1", "W2", "W9"]), "amount": st.integers(0, 99), "note": st.sampled_from(["x", "ann"])}
)
CLOSE = ("close", {"order": "W1"})
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "additionalProperties": True}}}
    for name in ("act", "look", "close")
]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from itertools.chain(value, *map(_strings, value.values()))
    elif isinstance(value, list | tuple):
        yield from itertools.chain.from_iterable(map(_strings, value))
    else:
        yield str(value)


def visible_text(verdict: Verdict) -> str:
    """Returns every part of a verdict that may reach a model, except for the time."""
    return json.dumps({**verdict.to_dict(), "elapsed_ms": 0}) + verdict.feedback()


def visible_texts(session: Session, args: Mapping[str, Any]) -> Iterator[str]:
    """Yields every string about a call that may reach a model, through every interface."""
    yield visible_text(session.check("act", args, reserve=False))
    yield from map(visible_text, session.fork().check_all([("act", args), CLOSE, ("act", args)]))
    trial = session.fork()
    yield from _strings(
        [enforce(lambda message: ("act", args), trial, 1).why, trial.obligations, visible_text(trial.finish())]
    )
    model = ScriptedChat([[("act", args), CLOSE], ("act", args), ("act", args)])
    turn = guarded_chat(model, [{"role": "user", "content": "hi"}], TOOLS, session, ending="question")
    yield from _strings([model.requests, turn.text, [visible_text(refusal.verdict) for refusal in turn.refusals]])
    for call in turn.calls:
        session.record("done", permit=call.permit)
    yield visible_text(session.finish())
    try:
        session.call(lambda **_: {"note": "x"}, "act", args)
    except ToolDenied as denied:
        yield f"{denied}{visible_text(denied.verdict)}"
    yield visible_text(session.finish())


@settings(max_examples=examples(60))
@given(st.lists(rules, min_size=1, max_size=3).map(tuple), states, CALLS, st.booleans())
def test_no_value_of_the_state_is_shown(
    chosen: tuple[tuple[str, str, str], ...], state: dict[str, Any], args: dict[str, Any], looked: bool
) -> None:
    """No state value leaks, whichever rule denies and whichever interface reports it."""
    session = policies_of(chosen).session(state=state, facts={"user": "ann"})
    if looked and (permit := session.check("look", {"order": args["order"]}).permit):
        session.record({"note": "x"}, permit=permit)
    for text in visible_texts(session, args):
        assert "secret" not in text
        assert not re.search(r"\d{6}", text)


def denied(*rules: str, args: Mapping[str, Any], **session: Any) -> Verdict:
    verdict = compile_rules(rules).session(**session).check("act", args)
    assert verdict.label == 1
    return verdict


def test_state_values_are_withheld_for_the_operator() -> None:
    """A guess in the arguments is not confirmed either."""
    state = {"orders": {"W1": {"owner": "bob_2"}}}
    args = {"order": "W1", "note": "ann_1 bob_2 eve_3", "user": "bob_2"}
    verdict = denied("forall(act(order=o), state.orders[o].owner == fact(user))", args=args, state=state)
    assert "state.orders" not in verdict.feedback()  # the fact is not known
    verdict = denied(
        "forall(act(order=o), state.orders[o].owner == fact(user))", args=args, state=state, facts={"user": "ann_1"}
    )
    assert verdict.violations[0].evidence["needed"] == 'state.orders["W1"].owner == fact(user) ("ann_1")'
    assert verdict.withheld == ('rule 1: state.orders["W1"].owner is "bob_2"',)
    assert "withheld" not in verdict.to_dict()
    assert verdict.to_dict(explain=True)["withheld"] == list(verdict.withheld)


def test_each_cause_is_one_line_and_the_call_appears_once(write: Any) -> None:
    """Names come with their values, and the author's message comes first, also if something is unknown."""
    text = """
        version: 1
        policies:
          - {id: small, message: "At most\\n100.", temporal: "forall(act(amount=a), a <= 100)"}
          - {id: sure, message: Ask first., temporal: "forall(act(order=o), fact(sure) == o)"}
          - {id: open, temporal: "forall(act(amount=x, order=o), x > 900 || count(f:act(order=o)) > 0)"}
        """
    verdict = load_policies(write("p.yaml", text)).session().check("act", {"order": "W1", "amount": 500})
    assert verdict.feedback().split("\n") == [
        'This is not allowed: act(order="W1", amount=500)',
        "- small: At most 100. (needed: amount (500) <= 100)",
        '- open: needed: (amount (500) > 900 or count(f:act(order="W1")) (0) > 0)',
        "- sure: could not be checked: the fact 'sure' is unknown (rule: Ask first.)",
    ]
    assert verdict.reasons[-1] == "could not be checked: the fact 'sure' is unknown (rule: Ask first.)"


def test_the_id_of_a_rule_may_have_a_colon() -> None:
    rules = [{"id": name, "message": "Ask.", "temporal": "forall(act(), fact(sure))"} for name in ("a", "a: b", "c: d")]
    verdict = load_policies(data={"version": 1, "policies": rules}).session().check("act", {})
    line = "could not be checked: the fact 'sure' is unknown (rule: Ask.)"
    assert verdict.feedback().split("\n")[1:] == [f"- {name}: {line}" for name in ("a", "a: b", "c: d")]
    assert [rule_of_error(error, ("a", "a: b")) for error in verdict.errors] == ["a", "a: b", ""]


def test_a_source_is_named_once_in_words() -> None:
    """With the author's message or without one; evidence of a program that has such a key is shown as it is."""
    flow = "flow(mail -> act())"
    rules = [{"id": "a", "temporal": flow}, {"id": "b", "temporal": flow, "message": "No."}]
    policies = load_policies(data={"version": 1, "labels": {"mail": ["read"]}, "policies": rules})
    session = policies.session()
    session.record("write to eve@evil.com", permit=session.check("read", {}).permit)
    _, plain, own = session.check("act", {"to": "eve@evil.com"}).feedback().split("\n")
    assert plain == """- a: needed: "mail" not in sources(args(act)) ("eve@evil.com" came from 'read' (call 1))"""
    assert own == """- b: No. ("eve@evil.com" came from 'read' (call 1)) (needed: "mail" not in sources(args(act)))"""
    foreign = Verdict(Decision.DENY, violations=(Violation("c", "No.", {"sources": 7}),))
    assert foreign.feedback().endswith('- c: No. (seen: {"sources": 7})')


def test_a_value_that_is_not_a_list_is_named(write: Any) -> None:
    """The message has its path in the rule, and not its value."""
    state = {"orders": {"W1": {"items": "none"}}}
    verdict = denied("forall(act(order=o), all(i in state.orders[o].items, i == 1))", args={"order": "W1"}, state=state)
    assert verdict.errors == ('rule 1: state.orders["W1"].items is not a list',)


# --- remedies ---------------------------------------------------------------------------------------------------------

LOOK = "before(act(order=o), true, look(order=o), true)"


@pytest.mark.parametrize(
    ("rules", "remedy"),
    {
        "a call that is allowed": ([LOOK], "call 'look(order=\"W2\")' first"),
        "one that is denied for this order": ([LOOK, "forall(look(order=o), o != 'W2')"], None),
        "one that is denied for another": (
            [LOOK, "forall(look(order=o), o != 'W1')"],
            "call 'look(order=\"W2\")' first",
        ),
        "one of which that is not known": ([LOOK, "forall(look(order=o), fact(zz) == o)"], None),
        "one that needs an argument": ([LOOK, "forall(look(why=w), w != '')"], "call 'look(order=\"W2\")' first"),
        "one of two": (["before(act(), true, look|peek(), true)", "G !tool:look"], "call 'peek' first"),
        "both": (["before(act(), true, look|peek(), true)"], "call 'look' or 'peek' first"),
        "steps": (["G(tool:act -> O tool:b) && G(tool:b -> O tool:a)"], "call 'a', then 'b' first"),
        "steps of which one is denied": (["G(tool:act -> O tool:b) && G(tool:b -> O tool:a)", "G !tool:b"], None),
        "another way": (["G(tool:act -> (O tool:a || O tool:b))", "G !tool:a"], "call 'b' first"),
    }.values(),
)
def test_a_remedy_is_a_call_that_the_rules_allow(rules: list[str], remedy: str | None) -> None:
    """A remedy is checked before it is suggested."""
    violation = denied(*rules, args={"order": "W2"}).violations[0]
    assert violation.remedy == remedy


@given(st.lists(rules, min_size=1, max_size=3).map(tuple), states, CALLS)
def test_a_remedy_can_be_followed(
    chosen: tuple[tuple[str, str, str], ...], state: dict[str, Any], args: dict[str, Any]
) -> None:
    """The session allows each call that a remedy names."""
    session = policies_of(chosen).session(state=state, facts={"user": "ann"})
    verdict = session.check("act", args, reserve=False)
    for violation in verdict.violations:
        remedy = violation.remedy or ""
        steps = [(tool, {"order": args["order"]}) for tool in re.findall(r"call '(\w+)", remedy)[:1]]
        changed = re.search(r"with: amount is (\d+)", remedy)
        steps += [("act", {**args, "amount": int(changed[1])})] if changed else []
        for step in steps:
            assert session.check(*step, reserve=False).label == 0


def test_the_authors_remedy_is_left_out_if_the_call_it_names_is_denied(write: Any) -> None:
    """A remedy that names no tool, or only the denied one, is kept."""
    text = """
        version: 1
        policies:
          - {id: own, temporal: "forall(look(order=o), o == 'W1')", remedy: Ask whose it is.}
          - {id: looked, temporal: "before(act(order=o), true, look(order=o), true)", remedy: Use look first.}
          - {id: sure, temporal: "forall(act(), fact(sure) == true)", remedy: "Ask, then act again."}
        """
    session = load_policies(write("p.yaml", text)).session(facts={"sure": False})
    remedies = [
        [violation.remedy for violation in session.check("act", {"order": order}).violations] for order in ("W1", "W2")
    ]
    assert remedies == [["Use look first.", "Ask, then act again."], [None, "Ask, then act again."]]
    assert session.check("look", {"order": "W2"}).violations[0].remedy == "Ask whose it is."


def test_a_halted_session_suggests_no_call(write: Any) -> None:
    """No call is allowed any more."""
    rule = "before(act(), true, look(), true)"
    text = f"version: 1\npolicies: [{{id: a, temporal: '{rule}', on_violation: halt}}]"
    verdict = load_policies(write("p.yaml", text)).session().check("act")
    assert (verdict.decision, verdict.violations[0].remedy) == (Decision.HALT, None)
