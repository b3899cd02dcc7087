"""A graph as JSON, which `verify` and `graph` can read."""

from __future__ import annotations

from guardagent.workflow.drawing._pretty_json import pretty_json
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.model.listing import GraphListing

SUFFIX = ".json"


def render(graph: Graph) -> str:
    """Returns one JSON object in the public key order, with a line for each node and each edge."""
    return pretty_json(graph.to_dict())


def render_all(listing: GraphListing) -> str:
    """Returns one JSON object with a line for each graph and each unread place."""
    return pretty_json(listing.to_dict())
