"""Lays out a directed graph in layers, top to bottom, for drawings of up to some hundred nodes (Sugiyama's method).

Ours, since the libraries that exist either call an external program or know neither the sizes of nodes nor labels. Each
step is a file: `acyclic` turns a few links around so that none leads back, `layers` gives each node its layer, `chains`
has a joint for each layer that a link passes, `order` finds an order within the layers with few crossings, `place` how
far to the right each stands, and `route` the lines. The same graph always gives the same drawing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from guardagent.workflow.drawing._layout.back_links import back_links
from guardagent.workflow.drawing._layout.chains import Chains
from guardagent.workflow.drawing._layout.layers import layers_of
from guardagent.workflow.drawing._layout.ordering import ordered_layers
from guardagent.workflow.drawing._layout.positions import x_positions
from guardagent.workflow.drawing._layout.route import routes
from guardagent.workflow.drawing._layout.shapes import GraphLayout, LayoutLink, Point, Route, Size

__all__ = ["GraphLayout", "LayoutLink", "Point", "Route", "Size", "lay_out"]


def lay_out(
    nodes: Sequence[Size], links: Sequence[LayoutLink], *, first: int, last: Collection[int] = ()
) -> GraphLayout:
    """Where each node and each link of a graph goes.

    Args:
        nodes: the size of each node's box.
        links: between indices of `nodes`, with the size of each one's label. One from a node to itself takes no part
            in the layout and has no route: the box has to be wide enough for it.
        first: the node to begin with, which goes to the top where it can.
        last: nodes that go to the bottom.
    """
    ways = [(link.source, link.target) for link in links]
    back = back_links(len(nodes), ways, first)
    chains = Chains(nodes, links, back, layers_of(len(nodes), ways, back, last))
    layers = ordered_layers(chains)
    return routes(chains, layers, x_positions(chains, layers))
