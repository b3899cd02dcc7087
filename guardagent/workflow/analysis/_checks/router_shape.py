"""Every edge that leaves a router is conditional."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.workflow.analysis.checks import CheckContext, CheckDescription
from guardagent.workflow.analysis.report import GraphFinding
from guardagent.workflow.model.graph import Edge

ORDER = 4
ABOUT = CheckDescription(
    "Every edge that leaves a router is conditional",
    "An unconditional edge is taken whatever the router decides.",
    "Make the edge conditional, or change the kind of the node.",
)


def check(view: CheckContext) -> Iterator[GraphFinding]:
    edges, kinds = view.graph.edges, view.kinds
    for at, source in enumerate(view.numbered.sources):
        if kinds[source] == "router" and edges[at].kind != "conditional":
            yield _unconditional(view, edges[at], source, view.numbered.targets[at])


def _unconditional(view: CheckContext, edge: Edge, source: int, target: int) -> GraphFinding:
    message = f"the router {edge.source!r} has a {edge.kind} edge to {edge.target!r}; expected a conditional edge"
    return GraphFinding("router_shape", edge.source, "error", message, view.reached.path(source, target))
