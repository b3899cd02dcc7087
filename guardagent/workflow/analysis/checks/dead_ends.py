"""Every node but an exit leads somewhere."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.workflow.analysis.check_context import CheckContext, CheckDescription
from guardagent.workflow.analysis.report import GraphFinding

ORDER = 3
ABOUT = CheckDescription(
    "Every node but an exit leads somewhere",
    "The workflow stops at this node without being at an exit.",
    "Add an edge to what comes next, or to the exit.",
)


def check(view: CheckContext) -> Iterator[GraphFinding]:
    ids, kinds = view.numbered.ids, view.kinds
    for node, targets in enumerate(view.successors):
        if not targets and kinds[node] != "exit":
            message = f"{ids[node]} leads nowhere, and is no exit"
            yield GraphFinding("dead_ends", ids[node], "error", message, view.reached.path(node))
