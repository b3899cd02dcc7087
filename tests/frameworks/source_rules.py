"""Random rules over the tools of a recorded run, which no proof on the graph of its source may contradict."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from guardagent.policy.language import ast
from guardagent.policy.language.formula import Formula
from guardagent.policy.load import compile_rules
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.verify import verify
from tests.workflow.analysis.test_proofs import keeps

FORMS = (
    "G !tool:{}", "G(tool:{} -> O tool:{})", "tool:{} -> F tool:{}", "F tool:{}", "G(tool:{} -> F tool:{})",
    "G(tool:{} -> !(Y O tool:{}))", "G(tool:{} -> H !tool:{})", "(!tool:{}) W tool:{}", "G(tool:{} -> X !tool:{})",
)  # fmt: skip


def broken_proofs(graph: Graph, calls: Sequence[str], tools: Sequence[str], *, is_path: bool) -> list[str]:
    """The rules that a proof claims and a run breaks.

    Args:
        graph: the graph of the source.
        calls: the tools that ran, in order.
        tools: the names for rules.
        is_path: the run took one path to its end, so that a proof for the graph as drawn speaks of it, too.
    """
    rules = list(dict.fromkeys(_rules(tools, len(calls))))
    policies = compile_rules(rules)
    done = [(call, False) for call in calls]
    return [
        f"{text}: proved{' for every run' if result.every_run.status == 'proved' else ''}"
        for text, rule, result in zip(rules, policies.rules, verify(graph, policies).rules, strict=True)
        if (is_path and result.status == "proved") or result.every_run.status == "proved"
        if not keeps(_formula(rule.rules[0]), done)
    ]


def _formula(rule: object) -> Formula:
    assert isinstance(rule, ast.Temporal)
    return rule.formula


def _rules(tools: Sequence[str], seed: int) -> Iterator[str]:
    chance = random.Random(seed)  # noqa: S311 - no secret
    yield from (f"G !tool:{tool}" for tool in tools)
    yield from (chance.choice(FORMS).format(chance.choice(tools), chance.choice(tools)) for _ in range(10))
