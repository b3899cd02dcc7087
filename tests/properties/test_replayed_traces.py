"""A replayed trace has the verdicts of a session that observes its events one by one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from guardagent.batch.audit import judge_traces
from guardagent.batch.records import Trace
from guardagent.batch.traces import TraceStep
from guardagent.policy.evaluation.operands import CompileError
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.load import compile_rules
from guardagent.policy.policies import Policies
from guardagent.session.session import Session
from guardagent.types import Decision, Event, Verdict
from tests.policy.data_cases import FUNCTIONS, TAGS, Case, Changed, Maker
from tests.policy.naive_data import Step
from tests.tiers import slow_after

RUNS, TRACES = 10, 150
TEMPORAL = [
    "G(tool:pay -> O tool:get)",
    "tool:refund -> F tool:note",
    "tool:get -> F[<=2] tool:pay",
    "(G !tool:refund) OR (F tool:pay)",
    "G(tool:note -> !urgent)",
    "after(pay(id=x), True, f:get(id=x), True)",
    "before(pay(id=x), True, f:get(id=x), output(f).k == 1)",
    "NOT (after(note(), True, get(), True))",
]


def policies_of(chance: Random, maker: Maker) -> tuple[Policies, list[str]]:
    """Some random data rules and some others, with or without a pattern of failed outputs."""
    while True:
        rules = [maker.rule() for _ in range(chance.randrange(3))] + chance.sample(TEMPORAL, chance.randrange(1, 4))
        try:
            return compile_rules(rules, functions=FUNCTIONS, tags=TAGS), rules
        except (CompileError, TemporalError):
            continue


def steps_of(chance: Random, case: Case) -> list[TraceStep]:
    steps, state = [], None
    for move in case.moves:
        if isinstance(move, Changed):
            state = move.state
        elif isinstance(move, Step):
            steps.append(TraceStep(_event(chance, move), state, move.facts or None))
            state = None
    return steps


def _event(chance: Random, step: Step) -> Event:
    labels: dict[str, Any] = {"tags": frozenset({"urgent"})} if chance.random() < 0.1 else {}
    tool = "search" if chance.random() < 0.3 else step.tool
    status = step.outcome if chance.random() < 0.9 else None
    return Event(tool, step.args, step.output, status, time=step.time if chance.random() < 0.8 else None, **labels)


def remarkable(session: Session, steps: Sequence[TraceStep]) -> list[tuple[int, Verdict]]:
    """The verdicts of `observe` that `replay` has to report."""
    verdicts = [(at, session.observe(step.event, step.state, step.facts)) for at, step in enumerate(steps)]
    return [(at, verdict) for at, verdict in verdicts if verdict.decision is not Decision.ALLOW]


def shown(verdict: Verdict) -> dict[str, Any]:
    return {**verdict.to_dict(explain=True), "elapsed_ms": 0}


@pytest.mark.parametrize("run", slow_after(1, range(RUNS)))
def test_a_replay_agrees_with_a_session(run: int) -> None:
    """With the same verdicts, the same end, the same history except for ignored events, and the same status."""
    clean = 0
    for seed in range(run * TRACES, (run + 1) * TRACES):
        chance, maker = Random(seed), Maker(seed)  # noqa: S311 - a fixed seed
        policies, rules = policies_of(chance, maker)
        if seed % 2:
            policies.warm_up()
        case = maker.case(" ".join(rules))
        steps = steps_of(chance, case)
        options: dict[str, Any] = {"clock": lambda: None, "principal": case.principal}
        session, other = (policies.session(case.state, case.facts, **options) for _ in range(2))
        expected, reported = remarkable(session, steps), list[tuple[int, Verdict]]()
        other.replay(steps, lambda at, verdict, into=reported: into.append((at, verdict)))  # type: ignore[misc]
        assert [(at, shown(verdict)) for at, verdict in reported] == [
            (at, shown(verdict)) for at, verdict in expected
        ], seed
        kept = [(event, same) for event, same in zip(other.history, session.history, strict=True) if event.tool]
        assert all(event == same for event, same in kept), "apart from gaps"
        assert other.status == session.status, seed
        end = session.finish()
        assert shown(other.finish()) == shown(end), seed
        if any(step.event.status not in ("ok", "failed") for step in steps):
            continue  # an audit leaves violations that depend on an unknown outcome unchecked
        trace = Trace(seed, tuple(steps), case.state, case.facts, session.principal)
        [verdict] = judge_traces(policies, [trace])
        verdicts = [*(verdict for _, verdict in expected), end]
        assert verdict.decision == max(verdict.decision for verdict in verdicts), seed
        assert verdict.details["violations"].keys() == {rule for verdict in verdicts for rule in verdict.rules}, seed
        assert len(verdict.violations) == sum(len(verdict.violations) for verdict in verdicts), seed
        assert bool(verdict.errors) == any(verdict.errors for verdict in verdicts), seed
        clean += verdict.decision is Decision.ALLOW
    assert clean > TRACES // 20
