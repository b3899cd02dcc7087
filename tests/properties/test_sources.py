"""The sources of values agree with a second implementation, and with the logic."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from guardagent import Event, load_policies
from guardagent.policy.language.declarations import Declarations
from guardagent.policy.language.parser import read_rule
from guardagent.policy.logic.reasoner import Reasoner
from tests.policy.naive_data import Naive, Step
from tests.policy.naive_sources import Labels
from tests.policy.naive_values import UNKNOWN, Truth
from tests.properties.test_data_rules import answer
from tests.tiers import slow_after

CASES = 200  # in each of the runs
RUNS = 10
LABELS: Labels = {"red": [("get", ())], "blue": [("list", ("*", "to")), ("get", ("to",))], "grey": [("note", ("to",))]}
WRITTEN = {"red": "get", "blue": ["list[*].to", "get.to"], "grey": "note.to"}
DECLARED = Declarations(labels=frozenset(LABELS))
LEAVES: list[Any] = [
    *("ann@example.com", "eve@evil.com", "to ann@example.com and eve@evil.com", "Ann Lee", "ANN  lee", "see 4711"),
    *(4711, "4711", 7, True, None, "ab", "", "order 815", 20_000),
]


class Maker:
    """Generates random cases; equal seeds give equal cases."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)  # noqa: S311 - a fixed seed

    def _often(self, share: float) -> bool:
        return self._chance.random() < share

    def value(self, depth: int = 2) -> Any:
        if depth == 0 or self._often(0.4):
            return self._chance.choice(LEAVES)
        if self._often(0.5):
            return [self.value(depth - 1) for _ in range(self._chance.choice([0, 1, 2]))]
        values = {name: self.value(depth - 1) for name in ("to", "text") if self._often(0.7)}
        return json.dumps(values) if self._often(0.3) else values

    def step(self) -> Step:
        tool = self._chance.choice(["get", "list", "note", "other"])
        if tool == "list" and self._often(0.5):
            output: Any = [{"to": self.value(0)} for _ in range(self._chance.choice([0, 1, 2]))]
        else:
            output = {"to": self.value(0), "text": self.value(1)} if self._often(0.4) else self.value()
        args = {"q": self._chance.choice(LEAVES)}
        status = self._chance.choice(["ok", "ok", "failed", "unknown"])
        return Step(tool, args) if self._often(0.1) else Step(tool, args, output, status)  # type: ignore[arg-type]

    def condition(self, depth: int = 2) -> str:
        if depth and self._often(0.5):
            condition, other = self.condition(depth - 1), self.condition(depth - 1)
            return self._chance.choice([f"({condition} && {other})", f"({condition} || {other})", f"!({condition})"])
        label = self._chance.choice([*LABELS, "model"])
        return self._chance.choice(
            [
                f'"{label}" in {self._set()}',
                f'"{label}" in {self._set()}',
                f"{self._set()} {self._chance.choice(['<=', '>=', '==', '!=', '<'])} {self._some()}",
                f"seen({self._chance.choice(list(LABELS))})",
                f"len({self._set()}) {self._chance.choice(['==', '<='])} {self._chance.choice([0, 1])}",
                f"known({self._set()})",
            ]
        )

    def _set(self) -> str:
        sources = f"sources({self._chance.choice(['x', 'x', 'y', 'args(p)'])})"
        return f"({sources} {self._chance.choice('|&')} {self._some()})" if self._often(0.25) else sources

    def _some(self) -> str:
        labels = self._chance.sample([*LABELS, "model"], self._chance.choice([1, 2, 2, 3]))
        return "{" + ", ".join(f'"{label}"' for label in labels) + "}"


def check(seed: int) -> tuple[Truth, Truth, Any]:
    """(the naive answer, that of the session, that of the logic) for one case."""
    maker = Maker(seed)
    rule = f"forall(p:pay(x=x, y=y), {maker.condition()})"
    steps = [maker.step() for _ in range(seed % 5)]
    policies = load_policies(data={"version": 1, "labels": WRITTEN, "policies": [{"id": "rule 1", "temporal": rule}]})
    session = policies.session()
    for step in steps:
        if step.status is None:
            session.use(session.check(step.tool, step.args).permit)
        else:
            session.observe(Event(step.tool, step.args, step.output, step.outcome), judge=False)
    args = {"x": maker.value(), "y": maker.value(0)}
    expected = Naive(read_rule(rule, DECLARED), {}, {}, LABELS).check(steps, Step("pay", args))
    actual = answer(session.check("pay", args, reserve=False))
    return expected, actual, Reasoner(session, {}).judge("pay", args)["rule 1"]


@pytest.mark.parametrize("run", slow_after(1, range(RUNS)))
def test_all_implementations_agree(run: int) -> None:
    """On every history and value; and each answer is frequent enough."""
    counted = Counter[Truth]()
    for seed in range(run * CASES, (run + 1) * CASES):
        expected, actual, logical = check(seed)
        assert actual is expected, f"seed {seed}"
        assert logical == (None if expected is UNKNOWN else expected), f"seed {seed}, in the logic"
        counted[expected] += 1
    assert min(counted[value] for value in (True, False, UNKNOWN)) > 0.05 * CASES
