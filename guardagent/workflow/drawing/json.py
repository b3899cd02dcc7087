"""A graph as JSON: the format that `verify` and `graph` read again."""

from __future__ import annotations

from guardagent.workflow.drawing._lines import in_lines
from guardagent.workflow.model.graph import Graph

SUFFIX = ".json"


def render(graph: Graph) -> str:
    """One JSON object, in the public key order, with a line for each node and each edge."""
    return in_lines(graph.to_dict())
