"""Data rules in first-order logic agree with the evaluator, with a search over all values, and with known results."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from random import Random
from typing import Any

import pytest
import re2

from guardagent.errors import InputError
from guardagent.policy.evaluation.operands import folded_name
from guardagent.policy.load import compile_rules, load_policies
from guardagent.policy.logic.analysis import PolicyAnalysis
from guardagent.policy.logic.expressions import equal_folded, fixed, full_match
from guardagent.policy.logic.lowering import thread_solver
from guardagent.policy.logic.reasoner import Reasoner
from guardagent.policy.logic.search import OPEN, Open
from guardagent.session.counters import new_counters
from guardagent.session.session import Session
from guardagent.types import Event
from tests.policy.data_cases import FUNCTIONS, STATES, TAGS, Maker
from tests.policy.naive_data import Step
from tests.policy.naive_values import UNKNOWN, Truth
from tests.properties.test_data_rules import ParallelRun, answer, case_of
from tests.tiers import slow_after

TRIPLES = 100  # in each of the runs
RUNS = 12
DOMAIN: dict[str, tuple[Any, list[Any]]] = {
    "id": ({"enum": ["a", "b", "ab", "A"]}, ["a", "b", "ab", "A"]),
    "n": ({"type": "integer", "minimum": 0, "maximum": 3}, [0, 1, 2, 3]),
    "on": ({"type": "boolean"}, [True, False]),
}


class Played(ParallelRun):
    """A session after all moves of a case, and the proposed call."""

    session: Session
    call: Step

    def _ask(self, call: Step) -> None:
        self.session, self.call = self._session, call

    def verdict(self, args: Any) -> Truth:
        return answer(self.session.check(self.call.tool, args, facts=self.call.facts, reserve=False))


def played(seed: int) -> Played:
    run = Played(case := case_of(seed))
    run.play(case)
    return run


def session_of(*rules: str, state: Any = None, **facts: Any) -> Session:
    return compile_rules(rules, functions=FUNCTIONS).session(state, facts)


@pytest.mark.parametrize("run", slow_after(1, range(RUNS)))
def test_it_agrees_with_the_evaluator(run: int) -> None:
    """They agree on every rule, history and call; Z3 computes all, and each result is frequent enough."""
    seen = Counter[Truth]()
    for seed in range(run * TRIPLES, (run + 1) * TRIPLES):
        case = played(seed)
        expected = case.verdict(case.call.args)
        judged = Reasoner(case.session, FUNCTIONS).judge(case.call.tool, case.call.args, facts=case.call.facts)
        assert judged == {"rule 1": None if expected is UNKNOWN else expected}, f"seed {seed}"
        seen[expected] += 1
    assert min(seen[value] for value in (True, False, UNKNOWN)) >= 0.05 * TRIPLES


@pytest.mark.parametrize("run", slow_after(1, range(3)))
def test_a_possible_completion_is_found(run: int) -> None:
    """A call can comply exactly if some combination of all values complies."""
    counts = Counter[bool | None]()
    for seed in range(run * TRIPLES, (run + 1) * TRIPLES):
        case, names = played(seed), Random(seed).sample(sorted(DOMAIN), 1 + seed % 2)  # noqa: S311 - a fixed seed
        args = {name: value for name, value in case.call.args.items() if name not in names}
        every = product(*(DOMAIN[name][1] for name in names))
        possible = any(case.verdict({**args, **dict(zip(names, values, strict=True))}) is True for values in every)
        opened = {name: Open(DOMAIN[name][0]) for name in names}
        answer = Reasoner(case.session, FUNCTIONS).can_comply(case.call.tool, {**args, **opened}, facts=case.call.facts)
        assert answer in (possible, None), f"seed {seed}"
        counts[answer] += 1
    assert counts[None] <= 3
    assert min(counts[True], counts[False]) > 0.05 * TRIPLES


SHORT, SOME = Open({"type": "string", "maxLength": 3}), Open({"enum": ["a", "b"]})
# the rules, the arguments, the answer for them alone, and with more arguments added
COMPLETIONS: dict[str, tuple[list[str], dict[str, Any], bool | None, bool | None]] = {
    "no number is both": (["forall(pay(n=n), n > 5)", "forall(pay(n=n), n < 3)"], {"n": OPEN}, False, False),
    "one is between": (["forall(pay(n=n), n > 5.25)", "forall(pay(n=n), n < 5.5)"], {"n": OPEN}, True, True),
    "no whole one is": (["forall(pay(n=n), 5 < n && n < 6)"], {"n": Open({"type": "integer"})}, False, False),
    "two open ones": (["forall(pay(n=n, m=m), n + m == 1007)"], {"n": OPEN, "m": 3}, True, True),
    "a text": (["forall(pay(id=/x+y/), false)"], {"id": SHORT}, True, True),
    "the text that is wanted": (["forall(pay(id=i), i matches /x[0-9]{3,4}y/)"], {"id": OPEN}, True, True),
    "too short a text": (["forall(pay(id=i), len(i) > 3)"], {"id": SHORT}, False, False),
    "it is written out": (["forall(pay(n=n), n <= 2)"], {"n": 3}, False, False),
    "one is not there yet": (["forall(pay(n=n), n <= 2)"], {}, False, True),
    "what the state says": (['forall(pay(id=i), state(owner(i)) == "b")'], {"id": OPEN}, True, True),
    "what it never says": (["forall(pay(id=i), state(owner(i)) == 1)"], {"id": SOME}, False, False),
    "what is missing before": (["before(pay(id=i), true, get(id=i), true)"], {"id": OPEN}, False, False),
    "the order of steps": (["G !tool:pay"], {"id": OPEN}, False, False),
    "a schema that is not read": (['forall(pay(id=i), i > "x")'], {"id": Open({"pattern": "^x"})}, None, None),
}  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "args", "alone", "more"), [pytest.param(*completion, id=name) for name, completion in COMPLETIONS.items()]
)
def test_completions(rules: list[str], args: dict[str, Any], alone: bool | None, more: bool | None) -> None:
    """The reasoner completes open arguments, and arguments that are still missing."""
    reasoner = Reasoner(session_of(*rules, state=STATES[0]), FUNCTIONS)
    assert reasoner.can_comply("pay", args) is alone
    assert reasoner.can_comply("pay", args, more=True) is more


def test_a_witness_is_allowed() -> None:
    """It completes the proposed call, given the history."""
    session = session_of("before(pay(id=i, n=n), true, f:get(id=i), n <= output(f).k)", state=None)
    permit = session.check("get", {"id": "q"}).permit
    session.record({"k": 7.5}, permit=permit)
    witness = Reasoner(session).witness("pay", {"id": OPEN, "n": Open({"type": "number", "minimum": 7.25})})
    assert witness is not None
    assert witness["id"] == "q"
    assert 7.25 <= witness["n"] <= 7.5


def test_a_remedy_is_minimal() -> None:
    """It changes one argument if that is enough, and none if the call is allowed; without a solution there is none."""
    reasoner = Reasoner(session_of('forall(pay(n=n, id=i), n <= 500 && i != "x")', "forall(get(), false)"))
    assert reasoner.remedy("pay", {"n": 700, "id": "y", "note": "z"}) == {"n": 500}
    assert set(reasoner.remedy("pay", {"n": 700, "id": "x"}) or ()) == {"n", "id"}
    assert reasoner.remedy("pay", {"n": 7, "id": "y"}) == {}
    assert reasoner.remedy("get", {"id": "y"}) is None


def test_every_outcome_of_calls_in_flight_is_considered() -> None:
    """A call complies only if it does so for every outcome."""
    session = session_of("forall(pay(n=n), n > 1 && (failed(last(get())) -> n < 4) && (!failed(last(get())) -> n > 2))")
    session.check("get")
    witness = Reasoner(session).witness("pay", {"n": Open({"type": "integer"})})
    assert witness == {"n": 3}


def test_a_call_in_flight_leaves_some_open() -> None:
    """With few calls in flight, and with more than all of their outcomes can be tried."""
    for number in (1, 8):
        session = session_of("forall(pay(), !some(get(), true))")
        for _ in range(number):
            session.check("get")
        assert answer(session.check("pay", {}, reserve=False)) is False
        assert Reasoner(session, FUNCTIONS).judge("pay", {}) == {"rule 1": False}


def test_unusual_input_is_answered() -> None:
    """An invalid call does not comply; a non-JSON value is unknown; a part of an argument cannot be open."""

    def fails() -> Any:
        raise OSError

    reasoner = Reasoner(session_of("forall(f:pay(n=n), n < 5 && state(owner(args(f).id)) == 1)", state=fails))
    assert reasoner.can_comply("pay", {"id": OPEN}) is False
    assert reasoner.judge("pay", {"n": float("nan"), "id": "\ud800"}) == {"rule 1": None}
    assert reasoner.judge("pay", {"n": 2**70, "id": None}) == {"rule 1": False}
    assert reasoner.can_comply(5, {}) is False  # type: ignore[arg-type]
    assert reasoner.remedy("pay", []) is None  # type: ignore[arg-type]
    with pytest.raises(InputError, match="argument 'xs' contains 'Open'"):
        reasoner.can_comply("pay", {"xs": [OPEN]})


def test_patterns_match_as_in_the_evaluator() -> None:
    """Z3 matches like RE2, and treats case and space as the language does."""
    z3, chance = thread_solver(), Random(1)  # noqa: S311 - a fixed seed
    pieces = ["a", "[a-c]", "[^a]", r"\d", r"\W", ".", "(ab|c)", "(?:b|)", r"\.", r"[\s_-]", "é"]
    counts = ["", "", "*", "+", "?", "{2}", "{0,1}", "{1,}", "*?"]
    for _ in range(150):
        regex = "".join(chance.choice(pieces) + chance.choice(counts) for _ in range(chance.choice([1, 2, 3])))
        for _ in range(4):
            text = "".join(chance.choice("abc1. \n_-é\\") for _ in range(chance.choice([0, 1, 2, 3, 4])))
            expected = re2.fullmatch(regex, text) is not None
            assert z3.evaluate(full_match(fixed("text", text), regex)) is expected, (regex, text)
    for text in (" STRASSE", "straße ", "Strase", "\u017ftrasse", "\u00a0strasse\u2003", "st rasse"):
        same = folded_name(text) == "strasse"
        assert z3.evaluate(equal_folded(fixed("text", text), "strasse")) is same, text


# rules with a tool that can never be called, and a corrected version
NEVER: dict[str, tuple[list[str], list[str]]] = {
    "numbers": (["forall(pay(n=a), a < 3 && a > 5)"], ["forall(pay(n=a), a < 5 && a > 3)"]),
    "kinds": (["forall(pay(n=a), a > 1)", 'forall(pay(n=a), a != "x")'], ["forall(pay(n=a), a > 1)"]),
    "texts": (["forall(pay(i=/a.*/), false)", "forall(pay(i=i), i matches /a+/)"], ["forall(pay(i=/a.*/), false)"]),
    "facts": (["forall(pay(), fact(a.b) && !fact(a.b))"], ["forall(pay(), fact(a.b) && !fact(a.c))"]),
    "a partner that there cannot be": (
        ["before(pay(i=i), true, f:get(i=i), output(f).k > 3 && output(f).k <= 3)"],
        ["before(pay(i=i), true, f:get(i=i), output(f).k > 3 || output(f).k < 3)"],
    ),
    "in a circle": (
        ["before(pay(), true, get(), true)", "before(get(), true, pay(), true)"],
        ["before(pay(), true, get(), true)"],
    ),
    "counted": (
        ["before(pay(), true, get(), true)", "forall(pay(), count(get()) == 0)"],
        ["before(pay(), true, get(), true)", "forall(pay(), count(get()) == 1)"],
    ),
    "asked of the state": (
        ["forall(pay(i=i), state(owner(i)) == 1)", 'forall(pay(i=i), state(owner(i)) == "a")'],
        ["forall(pay(i=i), state(owner(i)) == 1)", 'forall(pay(i=i, j=j), state(owner(j)) == "a")'],
    ),
    "steps": (["G(tool:pay -> O tool:get)", "forall(get(), false)"], ["G(tool:pay -> O tool:get)"]),
    "selected": (["forall(pay(), failed(last(f:get(), !failed(f))))"], ["forall(pay(), failed(last(f:get())))"]),
    "starts and ends": (
        ['forall(pay(i=i), starts_with(i, "a") && starts_with(i, "b"))', "forall(get(), true)"],
        ['forall(pay(i=i), starts_with(i, "a") && ends_with(i, "b"))'],
    ),
    "joined": (['forall(pay(i=i), i + "b" == "xa")', "forall(get(), true)"], ['forall(pay(i=i), i + "b" == "xb")']),
    "least and greatest": (
        ["forall(pay(n=n), min(n, 3) > 1 && max(n, 1) < 1.5 && abs(n) > 2)"],
        ["forall(pay(n=n), min(n, 3) > 1 && max(n, 1) < 2.5 && abs(n) > 2)"],
    ),
    "bounds of a count": (
        ["forall(get(), false)", "forall(pay(), count(f:get(), output(f).ok == true) > 0)"],
        ["forall(pay(), count(f:get(), output(f).ok == true) > 0)"],
    ),
    "bounds that are not known": (
        ["forall(pay(), count(f:get(), output(f).ok == true) < 0)"],
        ["forall(pay(), count(f:get(), output(f).ok) < 2 && !known(count(f:get(), output(f).ok)))"],
    ),
    "keys": (["forall(pay(m=m), starts_with(m, 5 + m))"], ['forall(pay(m=m), "a" in keys(m))']),
    "some": (
        ["forall(pay(), some(get(), true))", "forall(pay(), !some(f:get(), true))"],
        ["forall(pay(), some(get(), true))", "forall(pay(), !some(f:get(), output(f).k == 1))"],
    ),
    "alternatives": (["NOT (exists(pay()))"], ["(forall(pay(), false)) OR (forall(get(), true))"]),
}


@pytest.mark.parametrize(("faulty", "right"), [pytest.param(*pair, id=name) for name, pair in NEVER.items()])
def test_a_tool_that_can_never_be_called_is_proved(faulty: list[str], right: list[str]) -> None:
    """The contradiction is proved, but not for the corrected version."""
    assert PolicyAnalysis(compile_rules(faulty, functions=FUNCTIONS)).is_never_allowed("pay")
    assert not PolicyAnalysis(compile_rules(right, functions=FUNCTIONS)).is_never_allowed("pay")


@pytest.mark.parametrize(
    ("faulty", "right"),
    [
        ("forall(pay(n=a), a > 3 || a <= 3)", "forall(pay(n=a), a > 3 || a < 3)"),
        ("forall(pay(n=a), a > 5 -> a > 3)", "forall(pay(n=a), a > 3 -> a > 5)"),
        ("forall(pay(), count(get()) >= 0)", "forall(pay(), count(get()) > 0)"),
        ("before(pay(n=n), n > 3 && n < 2, get(), true)", "before(pay(n=n), n < 3 && n > 2, get(), true)"),
        ("after(pay(n=n), n > 3 && n < 2, get(), true)", "after(pay(n=n), n < 3 && n > 2, get(), true)"),
    ],
)
def test_a_vacuous_rule_is_proved(faulty: str, right: str) -> None:
    """The rule that no call violates is proved to be vacuous, but not the corrected version."""
    policies = compile_rules([faulty, right])
    assert [PolicyAnalysis(policies).is_never_violated(rule) for rule in policies.rules] == [True, False]


@pytest.mark.parametrize(
    ("stronger", "weaker"),
    [
        ("forall(pay(n=n), n <= 100)", "forall(pay(n=n), n <= 200)"),
        ("before(pay(), true, get(), true)", "before(pay(), true, get|find(), true)"),
        ("before(pay(i=i), true, f:get(i=i), output(f).k > 3)", "before(pay(i=i), true, f:get(i=i), output(f).k > 2)"),
        ("(after(pay(), true, get(), true)) AND (forall(pay(), false))", "after(pay(), true, get(), true)"),
    ],
)
def test_an_implied_rule_is_proved(stronger: str, weaker: str) -> None:
    """The stronger rule implies the weaker one, but not the other way round."""
    policies = compile_rules([stronger, weaker])
    first, second = policies.rules
    abstract = PolicyAnalysis(policies)
    assert abstract.implies(first, second)
    assert not abstract.implies(second, first)


def test_an_example_names_the_conditions() -> None:
    """It describes a call that one rule allows and the other denies."""
    policies = compile_rules(
        ["forall(pay(n=n), n <= fact(limit))", "before(pay(n=n), n > 5, f:get(), output(f).k == n)"]
    )
    first, second = policies.rules
    example = PolicyAnalysis(policies).example("pay", satisfied=[second], violated=[first])
    assert example is not None
    assert example.description.startswith(f"pay(n={json.dumps(example.args['n'], ensure_ascii=False)}")
    assert "fact(limit) is " in example.description


@pytest.mark.parametrize("batch", slow_after(1, range(3)))
def test_proofs_hold_in_sessions(batch: int) -> None:
    """Every proof for a generated rule holds in the sessions that are tried."""
    for seed in range(20 * batch, 20 * batch + 20):
        rule = case_of(seed).rule
        policies = compile_rules([rule], functions=FUNCTIONS, tags=TAGS)
        always = PolicyAnalysis(policies).is_never_violated(policies.rules[0])
        for other in range(3):
            run = Played(case := Maker(1000 * seed + other).case(rule))
            run.play(case)
            assert not (always and run.verdict(run.call.args) is False), f"seed {seed}, {other}"


COUNTED = """
version: 1
counters:
  spent: {on: pay(to=k, amount=a), key: k, sum: a}
policies:
  - {id: most, temporal: 'forall(pay(to=k, amount=a), counter(spent, k) + a <= 10)'}
  - {id: least, temporal: 'forall(pay(to=k), counter(spent, k) >= 3 || k == "new")'}
"""


def test_counters_agree_with_the_evaluator() -> None:
    """With and without calls in flight in another conversation, whose amounts are only bounds."""
    policies = load_policies(text=COUNTED)
    store = new_counters(policies)
    session, other = policies.session(counters=store), policies.session(counters=store)
    session.observe(Event("pay", {"to": "x", "amount": 2}, status="ok"))
    seen = Counter[bool | None]()
    for in_flight in (0, 3, 5):
        other.observe(Event("pay", {"to": "x", "amount": 0.5}, status="ok"))
        other.check("pay", {"to": "x", "amount": in_flight})
        for to, amount in product(["x", "X", "new", None], [0, 2, 5, 7.5, 11, -1, "2"]):
            args = {"to": to, "amount": amount}
            verdict = session.check("pay", args, reserve=False)
            judged = Reasoner(session).judge("pay", args)
            for rule, truth in judged.items():
                unknown = any(error.startswith(f"{rule}:") for error in verdict.errors)
                assert truth is (None if unknown else rule not in verdict.rules), (in_flight, args, rule)
                seen[truth] += 1
    assert min(seen[value] for value in (True, False, None)) > 10


def test_a_completion_stays_within_a_counter() -> None:
    policies = load_policies(text=COUNTED)
    session = policies.session(counters=new_counters(policies))
    session.observe(Event("pay", {"to": "x", "amount": 8}, status="ok"))
    reasoner = Reasoner(session)
    assert reasoner.can_comply("pay", {"to": "x", "amount": 3}) is False
    assert (reasoner.witness("pay", {"to": "x", "amount": OPEN}) or {})["amount"] <= 2


def test_a_call_that_ended_with_an_unknown_outcome_is_no_success() -> None:
    """So a rule about such a call can be violated, as a session shows."""
    policies = compile_rules(["forall(pay(), !(count(f:get(), !known(failed(f))) >= 1 && !some(f:get(), true)))"])
    session: Session = policies.session()
    session.observe(Event("get", {}, None, "unknown"), judge=False)
    assert session.check("pay").rules == ("rule 1",)
    assert not PolicyAnalysis(policies).is_never_violated(policies.rules[0])
