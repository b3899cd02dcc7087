"""Conditions over long histories have the values of their definitions while calls come, end, and are checked."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from guardagent import Session
from guardagent.policy.load import compile_rules
from guardagent.types import Event
from tests.policy.data_cases import FUNCTIONS, STATES, TAGS, Case, Ended, Move, TrialCheck
from tests.policy.naive_data import Step
from tests.policy.naive_values import Truth
from tests.properties.test_data_rules import ParallelRun
from tests.tiers import slow_after

CASES, RUNS = 6, 25
FACTS = {"sure": True, "context": {"limit": 2, "who": "a", "xs": ["a", "b"]}}
CHECKED = ["v", "v", "v", "n", "n", "args(p).n", "fact(context.who)", "fact(context.limit)", "state.level", "now"]
LISTS = ["xs", '[v, "b"]', "fact(context.xs)", "args(p).xs"]
OUTPUTS: list[Any] = [
    {"k": 1, "s": "a", "xs": ["a", "b"]},
    '{"k": 2, "s": "b", "xs": [{"k": 1, "s": "a"}, {"k": 2, "s": "b"}]}',
    '{"k": 3, "s": "a b-1", "xs": [{"k": 3, "s": "ab"}, {"k": 1, "s": "c"}]}',
    {"k": 1, "s": "ab", "xs": []},
    {"k": "1", "s": None, "xs": [1, "a"]},
    "Error: a was not found",
    None,
]
STATUSES: list[Any] = ["ok", "ok", "ok", "failed", "unknown"]


class Conditions:
    """Random conditions that compare a past call `f` with a check `p:pay(id=v, n=n, xs=xs)`."""

    def __init__(self, chance: Random) -> None:
        self._chance, self.pick = chance, chance.choice

    def _own(self, item: str) -> str:
        items = [item, f"{item}.k", f"{item}.s"] * 2 if item else []
        return self.pick(["output(f).s", "output(f).k", "args(f).id", "args(f).n", "time(f)", *items])

    def _atom(self, item: str) -> str:
        own, checked = self._own(item), self.pick(CHECKED)
        sign = self.pick(["==", "==", "!=", "<", "<=", ">", ">="])
        return self.pick(
            [
                f"{own} {sign} {checked}",
                f"{own} == {checked}",
                f"{checked} {sign} {own}",
                f"{checked} in output(f).xs",
                f"{own} in {self.pick(LISTS)}",
                f"{own} == {self.pick(['1', '3', '5' if own == 'time(f)' else repr('a')])}",
                f"now - time(f) {sign} {self.pick(['1m', '1h', 'n'])}",
                f"mentions({self.pick(['output(f)', own])}, v)",
                self.pick(["fact(sure)", "known(n)", "state(is_open())", f"known({own})", "!failed(f)"]),
                self.pick([f"state(more({own}, n))", "some(g:get(id=v), args(g).n == args(f).n)"]),
            ]
        ).replace("'a'", '"a"')

    def condition(self, depth: int, item: str = "") -> str:
        if depth == 0 or self._chance.random() < 0.3:
            return self._atom(item)
        first, second = (self.condition(depth - 1, item) for _ in range(2))
        each = f"x{depth} in {self.pick(['output(f).xs', 'args(f).xs'])}, {self.condition(depth - 1, f'x{depth}')}"
        joined = [f"({first} {sign} {second})" for sign in ("&&", "||", "->")]
        return self.pick([*joined, f"!({first})", f"any({each})", f"any({each})", f"all({each})", f"count({each}) > 0"])

    def term(self) -> str:
        pattern = self.pick(["f:get()", "f:get()", "f:get(id=v)", "f:get|note()", "f:get(n=n)", "f:get(id=v, n=n)"])
        condition, sign = self.condition(self.pick([1, 2, 2, 3])), self.pick(["==", "<=", ">="])
        within, number, end = self.pick(["", "", "", ", within 1h"]), self.pick("0123"), self.pick(["first", "last"])
        summed = self.pick(["args(f).n", "output(f).k", "args(f).n * n"])
        return self.pick(
            [
                f"some({pattern}, {condition}{within})",
                f"!some({pattern}, {condition}{within})",
                f"count({pattern}, {condition}{within}) {sign} {number}",
                f"sum({pattern}, {condition}, {summed}{within}) {sign} {number}",
                f"output({end}({pattern}, {condition})).k {sign} 1",
            ]
        )


def case_of(seed: int) -> Case:
    """A rule, and a history in which calls are observed, in flight, ended and checked; most outputs are sound."""
    chance = Random(seed)  # noqa: S311 - a fixed seed
    rule = f"forall(p:pay(id=v, n=n, xs=xs), {Conditions(chance).term()})"
    moves: list[Move] = []
    now, in_flight = 1_000_000, 0

    def step(tool: str, **options: Any) -> Step:
        lacks = chance.random() < 0.05
        args = {"id": chance.choice(["a", "b", "ab"]), "n": chance.choice([0, 1, 2, 3, 1.5])}
        xs = chance.choice([["a"], ["b", "ab"], [1, 2], []])
        return Step(tool, {"xs": xs} if lacks else {**args, "xs": xs}, time=now, **options)

    for _ in range(chance.choice([12, 20, 30])):
        now += chance.choice([0, 1, 60, 1800])
        output, status = chance.choice(OUTPUTS), chance.choice(STATUSES)
        tool = chance.choice(["get", "get", "get", "note"])
        moves.append(step(tool, output=output, status=status))
        if in_flight < 2 and chance.random() < 0.1:
            moves += [step(tool), TrialCheck(step("pay"))]
            in_flight += 1
        elif in_flight and chance.random() < 0.4:
            moves.append(Ended(output, status))
            in_flight -= 1
        if chance.random() < 0.2:
            moves.append(TrialCheck(step("pay")))
    return Case(rule, FACTS, STATES[0], moves, step("pay"))


@pytest.mark.parametrize("run", slow_after(1, range(RUNS)))
def test_long_histories_agree_with_the_definitions(run: int) -> None:
    """Also with calls in flight, in forks, and with checks between the records."""
    answers = Counter[Truth]()
    for seed in range(run * CASES, (run + 1) * CASES):
        case = case_of(seed)
        for question, expected, actual in ParallelRun(case, begun=seed % 3 > 0).play(case):
            assert actual is expected, f"{question}, seed {seed}: {case}"
            answers[expected] += question == "check"
    assert answers.total() > 4 * CASES


TERMS = [
    "some(f:get(), output(f).k {sign} n)",
    "some(f:get(), n {sign} output(f).k)",
    "some(f:get(), any(x in output(f).xs, x.k {sign} n))",
    "some(f:get(), !(output(f).s {sign} v))",
    "some(f:get(), output(f).k == 9 && args(f).n {sign} n)",
    "some(f:get(), now - time(f) {sign} n)",
    "count(f:get(), output(f).k {sign} n || output(f).s == v) > 3",
    "sum(f:get(), args(f).n {sign} n, args(f).n) > 9",
    "args(last(f:get(), output(f).k {sign} n)).n == 1",
]


@pytest.mark.parametrize("errors", [False, True])
@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("term", TERMS)
def test_each_comparison_agrees_with_its_definition(term: str, sign: str, *, errors: bool) -> None:
    """With values below, at and above those of the recorded calls, and of other kinds."""
    rule = f"forall(pay(id=v, n=n), {term.format(sign=sign)})"
    moves: list[Move] = []
    for number in range(20):
        output = {"k": number % 5, "s": "b", "xs": [{"k": number}, {"k": -number}]}
        output = OUTPUTS[number % 7] if number % 7 < 4 or errors else output
        args = {"id": "a", "n": number % 3}
        moves.append(Step("get", args, output, "ok", time=number))
    checks = [("pay", {"id": text, "n": n}) for text in ("a", "zz", 1) for n in (-1, 0, 2, 19, 50, "1", True)]
    moves += [TrialCheck(Step(tool, args, time=20)) for tool, args in checks]
    answers = ParallelRun(case := Case(rule, {}, None, moves, Step("note", {}, time=20)), screened=False).play(case)
    assert all(actual is expected for _, expected, actual in answers), answers


KEY = b"k" * 32
RULES = [
    "forall(pay(id=v), some(f:get(), any(x in output(f).xs, x.s == v)))",
    "forall(pay(id=v, n=n), count(f:get(), output(f).s == v || output(f).k > n) < 9)",
    "forall(pay(id=v), output(last(f:get(), mentions(output(f), v))).k == 1)",
]


@pytest.mark.parametrize("rule", RULES)
def test_a_restored_session_has_the_verdicts_of_the_original(rule: str) -> None:
    """And so has a session whose checks and records alternate; a fork changes nothing in it."""
    policies, chance = compile_rules([rule], functions=FUNCTIONS, tags=TAGS), Random(rule)  # noqa: S311 - fixed

    def after(*outputs: Any) -> Session:
        session = policies.session(clock=lambda: 1)
        for output in outputs:
            session.observe(Event("get", {}, output, "ok", time=1), judge=False)
        return session

    session, outputs = after(), list[Any]()
    for number in range(20):
        outputs.append(chance.choice(OUTPUTS))
        session.observe(Event("get", {}, outputs[-1], "ok", time=1), judge=False)
        actual, expected = verdicts(session), verdicts(after(*outputs))
        assert actual == expected
        if number % 8 == 7:
            fork = session.fork()
            fork.observe(Event("get", {}, OUTPUTS[1], "ok", time=1), judge=False)
            assert verdicts(fork) == verdicts(after(*outputs, OUTPUTS[1]))
            assert verdicts(session) == expected
    assert verdicts(policies.restore(session.snapshot(KEY), KEY, clock=lambda: 1)) == expected


def verdicts(session: Session) -> list[Any]:
    calls = [("pay", {"id": name, "n": n}) for name in ("a", "b", "zz") for n in (0, 2)]
    return [{**session.check(*call, reserve=False).to_dict(), "elapsed_ms": 0} for call in calls]
