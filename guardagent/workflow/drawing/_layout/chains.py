"""The layered graph: each link is a chain with a joint in every layer that it passes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from guardagent.workflow.drawing._layout.shapes import LayoutLink, Size


class Chains:
    """Nodes and joints by index: first the nodes in their original order, then the joints.

    Attributes:
        count: the number of nodes.
        sizes: the sizes of nodes and joints; a joint with a label has the size of the label.
        layer_of: the layer of each node and joint.
        above, below: the neighbours in the adjacent layers.
        chains: for each link its nodes and joints from top to bottom; empty for a link from a node to itself.
        labelled: for each link the joint with its label.
        back: the back links, which lead up.
    """

    def __init__(
        self, nodes: Sequence[Size], links: Sequence[LayoutLink], back: Collection[int], layers: Sequence[int]
    ) -> None:
        self.count = len(nodes)
        self.back = back
        self.sizes = list(nodes)
        self.layer_of = list(layers)
        self.above: list[list[int]] = [[] for _ in nodes]
        self.below: list[list[int]] = [[] for _ in nodes]
        self.labelled: dict[int, int] = {}
        self.chains = [self._chain(index, link) for index, link in enumerate(links)]

    def is_joint(self, index: int) -> bool:
        return index >= self.count

    def _chain(self, index: int, link: LayoutLink) -> list[int]:
        if link.source == link.target:
            return []
        upper, lower = (link.target, link.source) if index in self.back else (link.source, link.target)
        layers = range(self.layer_of[upper] + 1, self.layer_of[lower])
        # A condition belongs to the source: its label is next to it, however long the link is.
        label_layer = layers[-1] if index in self.back else layers[0]
        chain = [upper, *(self._joint(layer) for layer in layers), lower]
        if link.label.width:
            self.labelled[index] = joint = chain[label_layer - layers[0] + 1]
            self.sizes[joint] = link.label
        for one, other in pairwise(chain):
            self.below[one].append(other)
            self.above[other].append(one)
        return chain

    def _joint(self, layer: int) -> int:
        self.sizes.append(Size(0, 0))
        self.layer_of.append(layer)
        self.above.append([])
        self.below.append([])
        return len(self.sizes) - 1
