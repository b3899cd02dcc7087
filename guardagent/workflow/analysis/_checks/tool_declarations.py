"""Every tool node declares its tools; a node whose tools are unknown is reported as such, not by this check."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.workflow.analysis.checks import CheckContext, CheckDescription
from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.model.unknown import unknown_tools

ORDER = 7
ABOUT = CheckDescription(
    "Every tool node declares its tools",
    "Without its tools, nothing can be proved about this node.",
    "Declare the node's tools.",
)


def check(view: CheckContext) -> Iterator[GraphFinding]:
    nodes = view.graph.nodes
    for number, kind in enumerate(view.kinds):
        if kind == "tool" and not nodes[number].tools and not unknown_tools(nodes[number]):
            node = nodes[number]
            message = f"the tool node {node.id!r} declares no tools"
            yield GraphFinding("tool_declarations", node.id, "error", message, view.reached.path(number))
