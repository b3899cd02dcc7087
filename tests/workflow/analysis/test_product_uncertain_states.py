"""Rules on graphs with unknown tools: proved and violated only if that holds whatever the unknown calls are."""

from __future__ import annotations

import pytest

from guardagent.policy.load import compile_rules
from guardagent.workflow.model.graph import END, START, Graph, GraphBuilder
from guardagent.workflow.verify import verify


def _graph(*steps: tuple[str, str, bool]) -> Graph:
    """A sequence of nodes, each with its name, its tool and whether it has unknown tools."""
    builder, last = GraphBuilder("g", "json"), START
    for name, tool, unknown in steps:
        builder.node(name, "tool" if tool else "llm", tools=[tool] if tool else [])
        if unknown:
            builder.mark(name, "tools_unknown", "it is imported")
        builder.edge(last, name)
        last = name
    builder.edge(last, END)
    return builder.graph()


CASES = [
    ("a forbidden tool may be hidden", "G !tool:pay", [("a", "", True)], "undecidable"),
    ("a forbidden tool is called after it", "G !tool:pay", [("a", "", True), ("b", "pay", False)], "violated"),
    ("a forbidden tool is called by it", "G !tool:pay", [("a", "pay", True)], "violated"),
    ("it may discharge", "tool:pay -> F tool:log", [("a", "pay", False), ("b", "", True)], "undecidable"),
    ("it comes too early", "tool:pay -> F tool:log", [("a", "", True), ("b", "pay", False)], "violated"),
    ("it may be the missing one", "G(tool:pay -> O tool:log)", [("a", "", True), ("b", "pay", False)], "undecidable"),
    ("it comes too late", "G(tool:pay -> O tool:log)", [("a", "pay", False), ("b", "", True)], "violated"),
]


@pytest.mark.parametrize(("rule", "steps", "status"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_rule_holds_or_fails_only_for_every_unknown_call(
    rule: str, steps: list[tuple[str, str, bool]], status: str
) -> None:
    """Otherwise it is undecidable, and the message names the node."""
    (found,) = verify(_graph(*steps), compile_rules([rule])).rules
    assert found.status == status, found.message
    assert status != "undecidable" or "'a'" in found.message or "'b'" in found.message


def test_an_unknown_part_without_a_node_can_call_anything_anywhere() -> None:
    """A mark on the entry leaves an order open that the graph alone violates."""
    builder = GraphBuilder("g", "json")
    builder.node("a", "tool", tools=["pay"])
    builder.edge(START, "a")
    builder.edge("a", END)
    rule = compile_rules(["tool:pay -> F tool:log"])
    assert verify(builder.graph(), rule).rules[0].status == "violated"
    builder.mark(START, "tools_unknown", "not all nodes are known")
    assert verify(builder.graph(), rule).rules[0].status == "undecidable"


def test_a_strict_report_fails_on_unknown_parts() -> None:
    """Otherwise they are listed, and do not fail it."""
    graph = _graph(("a", "", True))
    assert verify(graph).passed
    report = verify(graph, strict=True)
    assert not report.passed
    assert report.to_dict()["unknown"] == [
        {"node": "a", "mark": "tools_unknown", "reason": "it is imported", "line": None}
    ]
