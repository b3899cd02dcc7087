"""LangGraph programs that are read from their source alone run as their graphs say, with random models."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from guardagent.workflow.model.graph import END, START, Graph
from guardagent.workflow.python_source.source_graphs import graph_of_source
from tests.frameworks.langgraph.random_source import TOOLS, Writer
from tests.frameworks.program_files import load
from tests.frameworks.source_rules import broken_proofs
from tests.tiers import slow_after

pytest.importorskip("langgraph", reason="LangGraph is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")


class Run(NamedTuple):
    """One run: its nodes in order, the tools called while each ran, whether it ended, and whether some ran at once."""

    nodes: list[str]
    calls: list[tuple[str, str]]
    ended: bool
    side_by_side: bool


def run(program: Any) -> Run:
    """Plays the program once."""
    program.RAN.clear()
    tasks: dict[tuple[tuple[str, ...], int], list[str]] = {}
    order: list[str] = []
    calls: list[tuple[str, str]] = []
    ended = True
    inputs = {"n": random.randrange(3), "word": random.choice(TOOLS), "messages": []}  # noqa: S311 - no secret
    try:
        events = program.graph.stream(inputs, {"recursion_limit": 14}, stream_mode="debug", subgraphs=True)
        for where, event in events:
            names = tuple(part.partition(":")[0] for part in where)
            if event["type"] != "task":
                continue
            full = "/".join([*names, event["payload"]["name"]])
            tasks.setdefault((where, event["step"]), []).append(full)
            order.append(full)
    except Exception:  # noqa: BLE001 - a failed run has its steps, too
        ended = False
    calls = [("", name) for name in program.RAN]
    return Run(order, calls, ended, any(len(some) > 1 for some in tasks.values()))


def problem(graph: Graph, done: Run) -> str:
    """The first step that the graph does not allow; empty if it allows all."""
    edges = {(edge.source, edge.target) for edge in graph.edges}
    steps = with_returns(graph, [name for name in done.nodes if name in graph.by_id], ended=done.ended)
    unknown = [name for name in done.nodes if name not in graph.by_id and not inside(graph, name)]
    if unknown:
        return f"{unknown[0]} is not a node"
    if not done.side_by_side:
        whole = [START, *steps, *([END] if done.ended else [])]
        missing = [(a, b) for a, b in pairwise(whole) if (a, b) not in edges]
        return f"{missing[0]} is not an edge" if missing else ""
    before = {START}
    for name in steps:
        if not any((node, name) in edges for node in before):
            return f"nothing leads to {name}"
        before.add(name)
    return ""


def with_returns(graph: Graph, steps: list[str], *, ended: bool) -> list[str]:
    """The steps with those nodes again whose function has run a graph when the steps of that graph are done."""
    visited = list[str]()
    for name in [*steps, *([END] if ended else [])]:
        while visited and (owner := owner_of(graph, visited[-1])) and not name.startswith(f"{owner}/"):
            visited.append(owner)
        visited.append(name)
    return [name for name in visited if name != END]


def owner_of(graph: Graph, name: str) -> str:
    """The innermost node whose function runs the graph of a node; empty if there is none."""
    parts = name.split("/")
    above = ("/".join(parts[:size]) for size in range(len(parts) - 1, 0, -1))
    return next((ancestor for ancestor in above if ancestor in graph.by_id), "")


def inside(graph: Graph, name: str) -> bool:
    """Whether a task is a graph of which the nodes are in the graph, or a step within a node."""
    return any(node_id.startswith(f"{name}/") or name.startswith(f"{node_id}/") for node_id in graph.by_id)


def check(seed: int, folder: Path, runs: int = 6) -> None:
    code = Writer(seed).program()
    path = folder / f"program_{seed}.py"
    path.write_text(code)
    random.seed(seed)
    graph = graph_of_source(path, "graph")
    program = load(path)
    for _ in range(runs):
        done = run(program)
        assert not problem(graph, done), (problem(graph, done), done.nodes, path)
        called = [name for _, name in done.calls]
        visited = [graph.by_id[name] for name in done.nodes if name in graph.by_id]
        unknown = any(node.metadata.get("tools_unknown") for node in visited)
        assert unknown or set(called) <= {tool for node in visited for tool in node.tools}, (called, done.nodes, path)
        is_path = done.ended and not done.side_by_side
        assert not (broken := broken_proofs(graph, called, TOOLS, is_path=is_path)), (broken, called, done.nodes, path)


@pytest.mark.parametrize("seed", slow_after(10, range(60)))
def test_a_program_runs_as_its_source_says(seed: int, tmp_path: Path) -> None:
    """Each step follows the one before it by an edge, calls only tools of its node, and breaks no proof."""
    check(seed, tmp_path)
