"""Every tool node says which tools it has."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.analysis.view import About, View

ORDER = 7
ABOUT = About(
    "Every tool node says which tools it has",
    "What this node can call is not known, so that nothing can be proved of it.",
    "Declare the node's tools.",
)


def check(view: View) -> Iterator[GraphFinding]:
    nodes = view.graph.nodes
    for number, kind in enumerate(view.kinds):
        if kind == "tool" and not nodes[number].tools:
            node = nodes[number]
            message = f"{node.id} is a tool node and declares no tools"
            yield GraphFinding("tool_declarations", node.id, "error", message, view.reached.path(number))
