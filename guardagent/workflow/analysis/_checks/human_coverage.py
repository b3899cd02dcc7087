"""No path leads to a sensitive tool without human approval."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.workflow.analysis.checks import CheckContext, CheckDescription
from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.model.graph import Node

ORDER = 6
ABOUT = CheckDescription(
    "No path leads to a sensitive tool without human approval",
    "The sensitive tool can run without human approval.",
    "Require approval on every path to the tool, or for the tool itself.",
)


def check(view: CheckContext) -> Iterator[GraphFinding]:
    sensitive = set(view.sensitive_tools)
    if not sensitive:
        return
    nodes = view.graph.nodes
    people = [
        number for number, kind in enumerate(view.kinds) if kind == "human" and not _can_be_bypassed(nodes[number])
    ]
    unattended = view.unattended(people)
    for number, node in enumerate(nodes):
        if node.tools and not sensitive.isdisjoint(node.tools) and number in unattended:
            for tool in _ungated(node, sensitive):
                message = f"{node.id!r} can call {tool!r} on a path without human approval"
                yield GraphFinding("human_coverage", node.id, "error", message, unattended.path(number))


def _can_be_bypassed(node: Node) -> bool:
    """Whether a run can pass a node without approval: the node asks only on a branch, or about some tools."""
    metadata = node.metadata
    return bool(metadata.get("asks_about")) or (metadata.get("asks") == "sometimes" and not metadata.get("interrupt"))


def _ungated(node: Node, sensitive: set[str]) -> list[str]:
    return [tool for tool in node.tools if tool in sensitive and tool not in node.gated_tools]
