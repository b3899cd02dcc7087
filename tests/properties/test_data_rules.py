"""The evaluator of data rules agrees with a second one that follows the definitions literally."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from guardagent.policy.evaluation.operands import CompileError
from guardagent.policy.functions import rule_functions
from guardagent.policy.language import ast
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.language.parser import read_rule
from guardagent.policy.load import compile_rules
from guardagent.types import Event, Verdict
from tests.policy.data_cases import FUNCTIONS, STATES, TAGS, Case, Changed, Ended, Maker, TrialCheck
from tests.policy.naive_data import ZONE, Naive, Step
from tests.policy.naive_values import UNKNOWN, Truth
from tests.tiers import slow_after

TRIPLES = 250  # in each of the runs
RUNS = 8
RULES = 800  # enough for every function to occur
LEAST = 0.06  # the minimum share of each answer in each run
Answers = list[tuple[str, Truth, Truth]]  # (the question, the naive answer, the session's)


class ParallelRun:
    """A session and the naive evaluator, side by side."""

    def __init__(self, case: Case, *, begun: bool = True, screened: bool = True) -> None:
        self._begun = begun
        self._facts, self._state, self._principal = case.facts, case.state, case.principal
        policies = compile_rules([case.rule], functions=FUNCTIONS, tags=TAGS)
        if screened:
            policies.warm_up()
        self._time: Any = None
        self._session = policies.session(
            state=lambda: self._state,
            facts=case.facts,
            clock=lambda: self._time,
            zone=ZONE,
            permit_seconds=10**9,
            principal=case.principal,
            messages=case.messages,
        )
        self._permits: dict[int, Any] = {}  # of the calls in flight, by their places
        self._naive = Naive(read_rule(case.rule), FUNCTIONS, TAGS, messages=case.messages)
        self._history: list[Step] = []
        self._reported = False
        self._records = not judges_later(self._naive)
        self.answers: Answers = []

    def play(self, case: Case) -> Answers:
        for move in case.moves:
            match move:
                case Changed(state) if not self._permits:
                    self._state = state
                case Ended() if self._records:
                    self._end(move)
                case TrialCheck(call):
                    self._check(call)
                case Step(status=None):
                    self._start(move)
                case Step():
                    self._observe(move)
        self._ask(case.call)
        return self.answers

    def _now(self, step: Step) -> Step:
        return replace(step, facts={**self._facts, **step.facts}, state=self._state, principal=self._principal)

    def _start(self, step: Step) -> None:
        """Records an allowed call as in flight."""
        expected, self._time = self._naive.check(self._history, self._now(step)), step.time
        verdict = self._session.check(step.tool, step.args, facts=step.facts)
        self.answers.append(("in flight", expected, answer(verdict)))
        if not verdict.label:
            if self._begun:
                self._session.use(verdict.permit)
            self._permits[len(self._history)] = verdict.permit
            self._history.append(replace(self._now(step), begun=self._begun))

    def _observe(self, step: Step) -> None:
        if not self._naive.conjunctive and self._naive.check(self._history, self._now(step)) is False:
            self._reported = True
        status: Any = step.status
        event, self._time = Event(step.tool, step.args, step.output, status, time=step.time), None
        self._session.observe(event, facts=step.facts, judge=False)
        self._history.append(self._now(step))

    def _end(self, end: Ended) -> None:
        if self._permits:
            at = min(self._permits)
            failed = {"ok": False, "failed": True}.get(end.status)
            self._session.record(end.output, failed=failed, permit=self._permits.pop(at))
            self._history[at] = replace(self._history[at], output=end.output, status=end.status)

    def _check(self, call: Step) -> None:
        """Asserts that a fork gives the same verdict as the session."""
        expected, self._time = self._naive.check(self._history, self._now(call)), call.time
        for session in (self._session, self._session.fork()):
            verdict = session.check(call.tool, call.args, facts=call.facts, reserve=False)
            self.answers.append(("check", expected, answer(verdict)))

    def _ask(self, call: Step) -> None:
        self._check(call)
        expected = self._naive.end(self._history, reported=self._reported)
        self.answers.append(("end", expected, answer(self._session.finish())))


def answer(verdict: Verdict) -> Truth:
    """Returns false for a violation; an undecided rule appears only in the errors."""
    assert bool(verdict.label) == bool(verdict.violations or verdict.errors)
    if not verdict.label:
        return True
    assert bool(verdict.rules) != bool(verdict.errors)
    return False if verdict.rules else UNKNOWN


def case_of(seed: int) -> Case:
    """Generates a case; retries rules that are refused, such as a NOT exists(...) with an outcome."""
    maker = Maker(seed)
    while True:
        rule = maker.rule()
        try:
            compile_rules([rule], functions=FUNCTIONS, tags=TAGS)
        except (CompileError, TemporalError):
            continue
        return maker.case(rule)


def judges_later(naive: Naive) -> bool:
    """Whether a rule refers to other calls when it judges an earlier call in retrospect.

    A call that was in flight then may have ended, and the definitions do not say which state counts.
    """
    rule = naive.rule
    history = *ast.OF_HISTORY, ast.Before
    speaks = any(isinstance(node, history) for node in ast.walk(rule))
    later = any(isinstance(node, ast.Exists | ast.After | ast.Not | ast.AnyOf) for node in ast.walk(rule))
    return speaks and later


@pytest.mark.parametrize("run", slow_after(1, range(RUNS)))
def test_both_evaluators_agree(run: int) -> None:
    """They agree on every rule, history and call, and each result is frequent enough."""
    seen = {"check": Counter[Truth](), "end": Counter[Truth](), "in flight": Counter[Truth]()}
    for seed in range(run * TRIPLES, (run + 1) * TRIPLES):
        case = case_of(seed)
        for question, expected, actual in ParallelRun(case, begun=seed % 3 > 0, screened=seed % 2 > 0).play(case):
            assert actual is expected, f"{question}, seed {seed}: {case}"
            seen[question][expected] += 1
    for counted in (seen["check"], seen["end"]):
        assert min(counted[value] for value in (True, False, UNKNOWN)) > LEAST * counted.total()


@pytest.mark.slow
def test_random_rules_have_every_function() -> None:
    nodes = (node for seed in range(RULES) for node in ast.walk(read_rule(case_of(seed).rule)))
    assert {node.function for node in nodes if isinstance(node, ast.Apply)} == {*rule_functions()}


def done(tool: str, status: Any = "ok", output: Any = None, **args: Any) -> Step:
    return Step(tool, args, output, status, time=0)


def in_flight(tool: str, **args: Any) -> Step:
    return Step(tool, args, time=0)


OTHER = done("other")


def difference(rule: str, *history: Step, call: Step = OTHER, kept: Truth = True, ended: Truth = True) -> Any:
    """The rule, what happened, the call that is proposed, the expected results for the call and for the end."""
    return rule, list(history), call, kept, ended


FOUND = {
    "a call is not earlier than itself": difference("NOT (before(pay(), True, pay(), True))", done("pay")),
    "a call does not count itself": difference("exists(pay(), count(pay()) == 0)", done("pay")),
    "nor is it the last one": difference("exists(pay(), !failed(last(pay())))", done("pay"), ended=UNKNOWN),
    "nor does a partner count itself": difference(
        "after(pay(), True, get(), count(get()) == 0)", done("pay"), done("get")
    ),
    "an alternative that was broken stays so": difference(
        "(G !tool:note) OR (forall(pay(), false))", done("note"), call=done("pay"), kept=False
    ),
    "and is not a way out at the end": difference("(G !tool:note) OR (exists(pay()))", done("note"), ended=False),
    "a known obligation stays known": difference(
        'after(pay(id="a"), True, get(), True)', done("pay", id="a"), done("pay"), ended=False
    ),
    "a partner is judged by what it gave": difference(
        "NOT (after(pay(), True, f:get(), output(f).k == 1))", done("pay"), done("get", output={"k": 2})
    ),
    "what is not known in one way is not known": difference(
        'after(pay(id="a"), failed(last(get())), note(), True)', in_flight("get"), call=done("pay"), kept=UNKNOWN
    ),
    "a partner in flight is one where it ends well": difference(
        "before(pay(), !failed(last(get())), get(), True)", in_flight("get"), call=done("pay")
    ),
    "a call in flight may end well": difference(
        "NOT (before(note(), True, get(), some(get())))", in_flight("get"), done("note"), ended=UNKNOWN
    ),
    "a proposed call has a tool": difference('NOT (exists(f:pay(), tool(f) == "pay"))', call=done("pay"), kept=False),
    "a number that is none mentions nothing for sure": difference(
        'forall(f:pay(), mentions(args(f).xs, "a"))', call=done("pay", xs=[float("nan")]), kept=UNKNOWN
    ),
    "in every way it is known whether a call failed": difference(
        "before(pay(), known(failed(last(get()))), note(), True)", in_flight("get"), call=done("pay"), kept=False
    ),
    "what comes out whole is a whole number": difference(
        "forall(f:pay(), state(more(args(f).n * 2.5, 4)))", call=done("pay", n=2)
    ),
}


# Disagreements: if one of these fails, the library is wrong.
@pytest.mark.parametrize(
    ("rule", "history", "call", "kept", "ended"), [pytest.param(*fields, id=name) for name, fields in FOUND.items()]
)
def test_small_differences_count(rule: str, history: list[Step], call: Step, kept: Truth, ended: Truth) -> None:
    """The evaluators once disagreed on these cases."""
    answers = ParallelRun(case := Case(rule, {}, STATES[0], history, call)).play(case)
    assert [(question, *values) for question, *values in answers[-3:]] == [
        ("check", kept, kept),
        ("check", kept, kept),
        ("end", ended, ended),
    ]
