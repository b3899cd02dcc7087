"""Every reachable node can reach an exit, so there is no livelock."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.workflow.analysis.checks import CheckContext, CheckDescription
from guardagent.workflow.analysis.report import GraphFinding

ORDER = 2
ABOUT = CheckDescription(
    "Every reachable node can reach an exit",
    "Once the workflow is at this node, it can never end.",
    "Add an edge out of the cycle or the dead end that the path leads into.",
)


def check(view: CheckContext) -> Iterator[GraphFinding]:
    ids, to_end = view.numbered.ids, view.can_end.parents
    for node in view.reached.order:
        if to_end[node] is None:
            message = f"{ids[node]!r} cannot reach any exit"
            yield GraphFinding("reverse_reachability", ids[node], "error", message, view.reached.path(node))
