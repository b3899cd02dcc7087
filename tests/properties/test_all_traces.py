"""Automata agree with the definitions on every trace of up to five successful steps, over three atoms."""

from __future__ import annotations

import json
import operator
import random
from collections.abc import Callable, Iterable
from functools import cache, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from guardagent.policy.language import formula as temporal
from guardagent.policy.monitors.automaton import Alphabet, compile_formula
from tests.policy.naive import holds

Truths = NDArray[np.bool_]  # for each trace

LETTERS = Alphabet(["a", "b", "c"]).letters[1::2]
LONGEST = 5
FORMS = [
    "G !a",
    "a -> F b",
    "a -> F[<=2] b",
    "a -> F b -> F c",
    "a U b",
    "(a -> F b) AND (G !c)",
    "(a -> F[<=3] b) OR (b U c)",
]
ONE: list[Callable[[temporal.Formula], temporal.Formula]] = [
    temporal.negation,
    temporal.globally,
    temporal.finally_,
    temporal.once,
    temporal.historically,
    temporal.Next,
    temporal.Previous,
    lambda body: temporal.Next(body, strong=False),
    lambda body: temporal.Previous(body, strong=False),
    lambda body: temporal.Within(1, body),
    lambda body: temporal.Within(3, body),
]
TWO: list[Callable[[temporal.Formula, temporal.Formula], temporal.Formula]] = [
    temporal.Until,
    temporal.Release,
    temporal.Since,
    temporal.TriggerFormula,
    temporal.implies,
    temporal.weak_until,
    lambda left, right: temporal.all_of([left, right]),
    lambda left, right: temporal.any_of([left, right]),
]


def nested(chance: random.Random, depth: int) -> temporal.Formula:
    if depth == 0 or chance.random() < 0.1:
        return temporal.Literal(chance.choice("abc"))
    if chance.random() < 0.4:
        return chance.choice(ONE)(nested(chance, depth - 1))
    return chance.choice(TWO)(nested(chance, depth - 1), nested(chance, depth - 1))


def some_formulas() -> list[temporal.Formula]:
    """Two hundred different ones of depth up to four, over two atoms or three."""
    chance = random.Random(5)  # noqa: S311 - a fixed seed
    formulas: dict[temporal.Formula, None] = {}
    while len(formulas) < 200:
        formula = nested(chance, 4)
        if len(temporal.atoms(formula)) > 1:
            formulas[formula] = None
    return list(formulas)


def accepted(formula: temporal.Formula, length: int) -> Truths:
    """Returns which traces of a length the automaton accepts; the last step changes fastest."""
    automaton = compiled(formula)
    states = np.zeros(1, np.intp)
    for _ in range(length):
        states = np.array(automaton.table)[states].ravel()
    return np.array(automaton.accepting)[states]


compiled = cache(lambda formula: compile_formula(formula, LETTERS))


class Naive:
    """`naive.holds` for all traces of a length at once, with arrays of truth values.

    The empty trace is included: no atom holds in it, and it has no previous or next step.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self.traces = np.indices((len(LETTERS),) * length).reshape(length, -1) if length else np.empty((0, 1), int)
        self._known: dict[tuple[temporal.Formula, int], Truths] = {}

    def holds(self, formula: temporal.Formula, at: int = 0) -> Truths:
        if (formula, at) not in self._known:
            self._known[formula, at] = np.broadcast_to(self._holds(formula, at), self.traces.shape[1])
        return self._known[formula, at]

    def _holds(self, formula: temporal.Formula, at: int) -> Any:  # noqa: C901 - a case for each kind
        now, end = self.holds, self.length
        match formula:
            case temporal.TruthConstant(value):
                return value
            case temporal.Literal(name, positive):
                truths = np.array([(name in letter.ok) == positive for letter in LETTERS])
                return truths[self.traces[at]] if end else not positive
            case temporal.Conjunction(parts):
                return every(now(part, at) for part in parts)
            case temporal.Disjunction(parts):
                return some(now(part, at) for part in parts)
            case temporal.Next(body, strong):
                return now(body, at + 1) if at + 1 < end else not strong
            case temporal.Previous(body, strong):
                return now(body, at - 1) if at else not strong
            case temporal.Within(steps, body):
                return some(now(body, step) for step in range(at, min(end, at + steps + 1)))
            case temporal.Until(left, right):
                return some(now(right, i) & every(now(left, j) for j in range(at, i)) for i in range(at, end))
            case temporal.Release(left, right):
                return every(now(right, i) | some(now(left, j) for j in range(at, i)) for i in range(at, end))
            case temporal.Since(left, right):
                before = range(min(end, at + 1))
                return some(now(right, i) & every(now(left, j) for j in range(i + 1, at + 1)) for i in before)
            case temporal.TriggerFormula(left, right):
                before = range(min(end, at + 1))
                return every(now(right, i) | some(now(left, j) for j in range(i + 1, at + 1)) for i in before)
        raise AssertionError(formula)


def every(truths: Iterable[Any]) -> Any:
    return reduce(operator.and_, truths, True)  # noqa: FBT003 - what `all` says of nothing


def some(truths: Iterable[Any]) -> Any:
    return reduce(operator.or_, truths, False)  # noqa: FBT003 - what `any` says of nothing


@pytest.fixture(scope="module", params=[pytest.param(at, id=f"{at} steps") for at in range(LONGEST + 1)])
def naive(request: pytest.FixtureRequest) -> Naive:
    return Naive(request.param)


def test_each_form_accepts_what_it_should(naive: Naive) -> None:
    """The seven forms of Agentproof."""
    for text in FORMS:
        formula = temporal.read_temporal(text)
        assert np.array_equal(accepted(formula, naive.length), naive.holds(formula)), text


@pytest.mark.slow
def test_nested_formulas_accept_what_they_should(naive: Naive) -> None:
    """Two hundred formulas, including past operators."""
    for formula in some_formulas():
        assert np.array_equal(accepted(formula, naive.length), naive.holds(formula)), formula


def test_truth_for_all_traces_is_truth_for_each() -> None:
    """The evaluator of all traces at once agrees with the one that is written for a single trace."""
    chance, naive = random.Random(6), Naive(4)  # noqa: S311 - a fixed seed
    for formula in some_formulas():
        at = chance.randrange(8**4)
        trace = [LETTERS[letter] for letter in naive.traces[:, at]]
        assert naive.holds(formula)[at] == holds(formula, trace), formula


def test_agentproofs_policies_compile(shared: Path) -> None:
    """All fifteen rules; each can be satisfied and violated."""
    policies = json.loads((shared / "workflows" / "temporal_policies.json").read_text())
    assert len(policies) == 15
    for policy in policies:
        formula = temporal.read_temporal(policy["dsl"])
        automaton = compile_formula(formula, Alphabet(temporal.atoms(formula)).letters)
        assert set(automaton.accepting) == {True, False}
