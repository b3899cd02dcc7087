"""Lays out a directed graph in layers, top to bottom, for drawings of up to some hundred nodes (Sugiyama's method).

Existing libraries call an external program, or ignore the sizes of nodes and labels. Each step is a module:
`back_links` finds links to reverse so that no cycle is left, `layers` assigns each node a layer, `chains` adds a joint
for each layer that a link passes, `ordering` orders the layers with few crossings, `positions` assigns the x
coordinates, and `route` draws the lines. The same graph always has the same drawing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from guardagent.workflow.drawing._layout.back_links import back_links
from guardagent.workflow.drawing._layout.chains import Chains
from guardagent.workflow.drawing._layout.layers import layers_of
from guardagent.workflow.drawing._layout.ordering import ordered_layers
from guardagent.workflow.drawing._layout.route import routes
from guardagent.workflow.drawing._layout.shapes import GraphLayout, LayoutLink, Point, Route, Size
from guardagent.workflow.drawing.layout import x_positions

__all__ = ["GraphLayout", "LayoutLink", "Point", "Route", "Size", "lay_out"]


def lay_out(
    nodes: Sequence[Size], links: Sequence[LayoutLink], *, first: int, last: Collection[int] = ()
) -> GraphLayout:
    """Returns the positions of the nodes and links of a graph.

    Args:
        nodes: the size of each node's box.
        links: links between indices of `nodes`, with the sizes of their labels. A link from a node to itself is not
            part of the layout and has no route: its box has to be wide enough for it.
        first: the node to begin with, at the top if possible.
        last: the nodes at the bottom.
    """
    ways = [(link.source, link.target) for link in links]
    back = back_links(len(nodes), ways, first)
    chains = Chains(nodes, links, back, layers_of(len(nodes), ways, back, last))
    layers = ordered_layers(chains)
    return routes(chains, layers, x_positions(chains, layers))
