"""CrewAI programs that are read from their source alone run as their graphs say, with random models."""

from __future__ import annotations

import os
import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from guardagent.workflow.model.graph import END, START, Graph
from guardagent.workflow.python_source.source_graphs import graph_of_source
from tests.frameworks.crewai.random_source import TOOLS, Writer
from tests.frameworks.program_files import load
from tests.frameworks.source_rules import broken_proofs
from tests.tiers import slow_after

if find_spec("crewai") is None:  # before other tests would see the environment
    pytest.skip("CrewAI is not installed", allow_module_level=True)
os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("OTEL_SDK_DISABLED", "true")
pytestmark = pytest.mark.filterwarnings("ignore")


def run(program: Any) -> tuple[list[tuple[str, str]], bool]:
    """The steps and tools of one run in order, and whether it ended."""
    program.RAN.clear()
    try:
        program.work.kickoff()
    except Exception:  # noqa: BLE001 - a failed run has its steps, too
        return list(program.RAN), False
    return list(program.RAN), True


def check(seed: int, folder: Path) -> None:
    writer = Writer(seed)
    path = folder / f"program_{seed}.py"
    path.write_text(writer.program())
    random.seed(seed)
    graph = graph_of_source(path, "work")
    tools = {tool for node in graph.nodes for tool in node.tools}
    sure = not any(node.metadata.get("tools_unknown") for node in graph.nodes)
    for _ in range(4):
        program = load(path)
        ran, ended = run(program)
        called = [name for kind, name in ran if kind == "tool"]
        assert not sure or set(called) <= tools, (called, graph, path)
        steps = [nodes for kind, name in ran if kind == "step" and (nodes := nodes_of(graph, name))]
        assert each_follows_something(graph, steps), (ran, path)
        is_path = ended and is_path_of(graph, steps)
        assert is_path or writer.is_flow or side_by_side(graph) or not ended, (ran, path)
        assert not (broken := broken_proofs(graph, called, TOOLS, is_path=is_path)), (broken, ran, path)


def nodes_of(graph: Graph, name: str) -> set[str]:
    """The nodes of a step: a task has one in each method that runs its crew."""
    return {node.id for node in graph.nodes if node.id == name or node.id.endswith(f"/{name}")}


def each_follows_something(graph: Graph, steps: list[set[str]]) -> bool:
    seen = {START}
    for nodes in steps:
        if not (now := {edge.target for edge in graph.edges if edge.source in seen} & nodes):
            return False
        seen |= now
    return True


def is_path_of(graph: Graph, steps: list[set[str]]) -> bool:
    """Whether all steps follow each other by edges, so that nothing ran at the same time."""
    here = {START}
    for nodes in [*steps, {END}]:
        here = {edge.target for edge in graph.edges if edge.source in here} & nodes
    return bool(here)


def side_by_side(graph: Graph) -> bool:
    return any(edge.kind == "parallel" for edge in graph.edges)


@pytest.mark.parametrize("seed", slow_after(10, range(200)))
def test_a_program_runs_as_its_source_says(seed: int, tmp_path: Path) -> None:
    """Each step follows an earlier one by an edge, calls only tools of the graph, and breaks no proof."""
    check(seed, tmp_path)
