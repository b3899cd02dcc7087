"""Teams of AutoGen AgentChat that are read from their source alone run as their graphs say, with random models."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from guardagent.workflow.model.graph import END, START, Graph
from guardagent.workflow.python_source.source_graphs import graph_of_source
from tests.frameworks.autogen.random_source import TOOLS, Writer
from tests.frameworks.program_files import load
from tests.frameworks.source_rules import broken_proofs
from tests.tiers import slow_after

pytest.importorskip("autogen_agentchat", reason="AutoGen AgentChat is not installed")
pytest.importorskip("autogen_ext.models.replay", reason="AutoGen's extensions are not installed")
pytestmark = pytest.mark.filterwarnings("ignore")


def run(program: Any) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """The speakers of one run with the tools that each called in its turn, and all tools that ran."""
    program.RAN.clear()
    turns: list[tuple[str, list[str]]] = []
    for message in asyncio.run(program.team.run(task="x")).messages:
        kind, name = type(message).__name__, message.source
        if name not in program.NAMES:
            continue
        if kind == "ToolCallExecutionEvent":
            turns.append((f"{name}:", [call.name for call in message.content if call.name in TOOLS]))
        elif kind in {"TextMessage", "ToolCallSummaryMessage", "HandoffMessage"}:
            tools = [tool for own, several in turns if own == f"{name}:" for tool in several]
            turns = [*(turn for turn in turns if not turn[0].endswith(":")), (name, tools)]
            if kind == "HandoffMessage" and message.target == "person":
                turns.append(("person", []))
    return turns, list(program.RAN)


def follows(graph: Graph, spoke: list[str]) -> bool:
    """Whether each speaker follows an earlier one."""
    seen = {START}
    for name in spoke:
        if not any(edge.source in seen and edge.target == name for edge in graph.edges):
            return False
        seen.add(name)
    return True


@pytest.mark.parametrize("seed", slow_after(10, range(200)))
def test_a_team_runs_as_its_source_says(seed: int, tmp_path: Path) -> None:
    """Each turn follows the one before it by an edge, calls only tools of its node, and breaks no proof."""
    code, path = Writer(seed).program(), tmp_path / f"program_{seed}.py"
    path.write_text(code)
    random.seed(seed)
    graph = graph_of_source(path, "team")
    edges = {(edge.source, edge.target) for edge in graph.edges}
    unclear = any(node.metadata.get("tools_unknown") for node in graph.nodes)
    for _ in range(3):
        turns, called = run(load(path))
        spoke = [name for name, _ in turns if name in graph.by_id or name != "person"]
        assert unclear or all(set(tools) <= {*graph.by_id[name].tools} for name, tools in turns if name != "person"), (
            path
        )
        is_path = set(pairwise([START, *spoke, END])) <= edges
        stopped = bool(spoke) and bool(graph.by_id[spoke[-1]].metadata.get("may_stop"))
        assert is_path or ((stopped or "GraphFlow(part" in code) and follows(graph, spoke)), (
            spoke,
            sorted(edges),
            path,
        )
        assert not (broken := broken_proofs(graph, called, TOOLS, is_path=is_path)), (broken, turns, path)
