"""Every tool node declares its tools."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.workflow.analysis.check_context import CheckContext, CheckDescription
from guardagent.workflow.analysis.report import GraphFinding

ORDER = 7
ABOUT = CheckDescription(
    "Every tool node declares its tools",
    "The tools of this node are unknown, so nothing can be proved about it.",
    "Declare the node's tools.",
)


def check(view: CheckContext) -> Iterator[GraphFinding]:
    nodes = view.graph.nodes
    for number, kind in enumerate(view.kinds):
        if kind == "tool" and not nodes[number].tools:
            node = nodes[number]
            message = f"the tool node {node.id!r} declares no tools"
            yield GraphFinding("tool_declarations", node.id, "error", message, view.reached.path(number))
