"""Every node except an exit has an outgoing edge."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.workflow.analysis.checks import CheckContext, CheckDescription
from guardagent.workflow.analysis.report import GraphFinding

ORDER = 3
ABOUT = CheckDescription(
    "Every node except an exit has an outgoing edge",
    "The workflow stops at this node, which is not an exit.",
    "Add an edge to the next node or to the exit.",
)


def check(view: CheckContext) -> Iterator[GraphFinding]:
    ids, kinds = view.numbered.ids, view.kinds
    for node, targets in enumerate(view.successors):
        if not targets and kinds[node] != "exit":
            message = f"{ids[node]!r} has no outgoing edge and is not an exit"
            yield GraphFinding("dead_ends", ids[node], "error", message, view.reached.path(node))
