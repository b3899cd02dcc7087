"""A graph as JSON, which `verify` and `graph` can read."""

from __future__ import annotations

from guardagent.workflow.drawing._pretty_json import pretty_json
from guardagent.workflow.model.listing import GraphListing


def graph_json(listing: GraphListing) -> str:
    """Returns one JSON object in the public key order, with a line for each node and each edge.

    Several graphs have a line each, and so has each unread place.
    """
    return pretty_json(listing.to_dict())
