"""A human approval on one branch covers that branch only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from guardagent import verify
from guardagent.workflow.python_source.source_graphs import graph_of_source
from tests.workflow.graphs import graph_of

PROGRAM = """
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
@tool
def refund(x: int) -> str: "r"
def ask(): return interrupt("?")
def review(s):
    BODY
def route(s):
    ROUTE
    return "pay"
g = StateGraph(MessagesState)
g.add_node("review", review)
g.add_node("pay", ToolNode([refund]))
g.add_edge(START, "review")
WAY
g.add_edge("pay", END)
graph = g.compile()
"""
EDGE, ROUTED, COMMAND = 'g.add_edge("review", "pay")', 'g.add_conditional_edges("review", route, {"pay": "pay"})', ""


@pytest.mark.parametrize(
    ("body", "way", "covered"),
    [
        ("ask()", EDGE, True),
        ("if s['large']: ask()", EDGE, False),
        ("if not s['large']: return {}\n    ask()", EDGE, False),
        ("ok = s['large'] and ask()", EDGE, False),
        ("for one in s['all']: ask()", EDGE, False),
        ("return Command(goto='pay' if ask() else END)", COMMAND, True),
        ("if s['large']: return Command(goto='pay' if ask() else END)\n    return Command(goto=END)", COMMAND, True),
        ("if s['large']: return Command(goto='pay' if ask() else END)\n    return Command(goto='pay')", COMMAND, False),
        (
            "if s['large']: return Command(goto='pay' if ask() else END)\n    return Command(goto=s['to'])",
            COMMAND,
            False,
        ),
        ("if s['large']: return Command(goto='pay' if ask() else END)\n    return {}", EDGE, False),
    ],
)
def test_a_tool_behind_an_approval_node(body: str, way: str, covered: bool, tmp_path: Path) -> None:
    """The approval covers the tool if every run that reaches the tool passes it."""
    assert passes(PROGRAM.replace("BODY", body).replace("WAY", way).replace("ROUTE", "pass"), tmp_path) is covered


@pytest.mark.parametrize(("route", "covered"), [("ask()", True), ("if s['large']: ask()", False)])
def test_a_condition_that_requests_approval(route: str, covered: bool, tmp_path: Path) -> None:
    """It covers the tool as a node with approval does."""
    program = PROGRAM.replace("BODY", "return {}").replace("WAY", ROUTED).replace("ROUTE", route)
    assert passes(program, tmp_path) is covered


def passes(program: str, folder: Path) -> bool:
    path = folder / "program.py"
    path.write_text(program)
    report = verify(graph_of_source(path, "graph"), sensitive_tools=["refund"])
    assert {finding.check for finding in report.findings} <= {"human_coverage"}
    return report.passed


@pytest.mark.parametrize(
    ("metadata", "covered"),
    [
        ({}, True),
        ({"asks": "always"}, True),
        ({"asks": "sometimes"}, False),
        ({"asks": "sometimes", "interrupt": "before"}, True),
        ({"asks_about": ("other",)}, False),
        ({"asks": "sometimes", "asked_before": ("pay",)}, True),
        ({"asks": "sometimes", "asked_before": ("nobody",)}, False),
        ({"asks": "sometimes", "asked_before": 7}, False),
    ],
)
def test_approvals_in_the_metadata_of_a_graph(metadata: dict[str, object], covered: bool) -> None:
    """An approval that may be skipped covers a node only if the metadata says so."""
    graph = graph_of("start>h h>pay pay>end", kinds={"h": "human"}, tools={"pay": ["refund"]})
    nodes = tuple(replace(node, metadata=metadata) if node.id == "h" else node for node in graph.nodes)
    assert verify(replace(graph, nodes=nodes), sensitive_tools=["refund"]).passed is covered
