"""No run of LangGraph does what a proof about parallel branches excludes."""

from __future__ import annotations

import operator
import random
from dataclasses import replace
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph")

from langgraph.errors import GraphRecursionError, InvalidUpdateError
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from guardagent.policy.load import compile_rules
from guardagent.workflow.analysis.proofs import rule_results
from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import Graph
from tests.tiers import slow_after
from tests.workflow.host_runs import is_kept, monitor_of
from tests.workflow.random_cases import SETS, Maker

RUNS = 8
LETTERS = {"n0": "a", "n1": "b", "n2": "c", "n3": "a"}


class State(TypedDict):
    """The state of the graph."""

    calls: Annotated[list[str], operator.add]


def step(letter: str) -> Any:
    def node(_state: State) -> dict[str, list[str]]:
        return {"calls": [letter]}

    return node


def chooser(targets: list[str], chance: random.Random) -> Any:
    def choose(_state: State) -> str:
        return chance.choice(targets)

    return choose


def lister(targets: list[str], chance: random.Random) -> Any:
    def choose(_state: State) -> list[str]:
        return chance.sample(targets, chance.randrange(1, 3))

    return choose


def sender(target: str, chance: random.Random) -> Any:
    def send(state: State) -> list[Send]:
        return [Send(target, state) for _ in range(chance.randrange(3))]

    return send


def random_graph(chance: random.Random) -> Any:
    """A compiled graph of four nodes, with fan-outs, barriers, branches and sends."""
    graph: Any = StateGraph(State)
    names = list(LETTERS)
    for name in names:
        graph.add_node(name, step(LETTERS[name]), defer=chance.random() < 0.1)
    graph.add_edge(START, names[0])
    if chance.random() < 0.3:
        graph.add_edge(START, names[1])
    for at, name in enumerate(names):
        later = [*names[at + 1 :], END]
        shape = chance.random()
        if shape < 0.4:
            for target in chance.sample(later, min(len(later), chance.randrange(1, 3))):
                graph.add_edge(name, target)
        elif shape < 0.7:
            targets = chance.sample([*later, chance.choice(names)], 2)
            choose = chooser if chance.random() < 0.5 else lister
            graph.add_conditional_edges(name, choose(targets, chance), list(dict.fromkeys(targets)))
        elif later[:-1]:
            graph.add_conditional_edges(name, sender(later[0], chance), [later[0]])
    if chance.random() < 0.4:
        graph.add_edge(["n0", "n1"], chance.choice(["n2", "n3"]))
    return graph.compile()


def with_calls(graph: Graph) -> Graph:
    """The graph, each of whose nodes calls the tool of its letter."""
    nodes = [
        replace(node, kind="tool", tools=(LETTERS[node.id],), metadata={**node.metadata, "tools_unknown": None})
        if node.id in LETTERS
        else node
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))


@pytest.mark.parametrize("part", slow_after(1, range(6)))
def test_no_run_does_what_a_proof_excludes(part: int) -> None:
    proved = ended = 0
    for seed in range(part * 60, part * 60 + (60 if part else 25)):
        chance = random.Random(seed)  # noqa: S311 - a fixed seed
        application = random_graph(chance)
        graph, maker = with_calls(extract(application, "any")), Maker(seed)
        rules = [maker.formula() for _ in range(12)] + ["F tool:a", "F tool:c", "G !(tool:c && X F tool:c)"]
        results = rule_results(graph, compile_rules(rules, tags=SETS))
        holds = [result.status == "proved" for result in results]
        proved += sum(holds)
        for _ in range(RUNS):
            try:
                calls = application.invoke({"calls": []}, {"recursion_limit": 12})["calls"]
            except (GraphRecursionError, InvalidUpdateError):
                continue
            ended += 1
            for rule, is_proved in zip(rules, holds, strict=True):
                assert not is_proved or is_kept(monitor_of(rule), calls, has_ended=True), (seed, rule, calls)
    assert proved > 20 < ended
