"""A human takes part: as a node, or by approving a tool."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.workflow.analysis.checks import CheckContext, CheckDescription
from guardagent.workflow.analysis.report import GraphFinding

ORDER = 5
ABOUT = CheckDescription(
    "A human takes part",
    "The workflow runs from its entry to its exit without human approval.",
    "Add a human node, or require approval before a tool runs.",
)


def check(view: CheckContext) -> Iterator[GraphFinding]:
    graph = view.graph
    if not view.require_human or "human" in view.kinds or any(node.gated_tools for node in graph.nodes):
        return
    numbers = view.numbered.numbers
    end = next((exit_id for exit_id in graph.exit_ids if numbers[exit_id] in view.reached), graph.entry_id)
    message = "no human takes part: the graph has no human node and no tool that needs approval"
    yield GraphFinding("human_presence", None, "error", message, view.reached.path(numbers[end]))
