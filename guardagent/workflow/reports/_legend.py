"""The legend of a picture: a small example of each kind of node and arrow in it."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.workflow.drawing.boxes import LINE, PALETTES, element, outline
from guardagent.workflow.drawing.layout import Size
from guardagent.workflow.drawing.svg import LINES
from guardagent.workflow.model.graph import EDGE_KINDS, NODE_KINDS, Graph

_SIZE = Size(48, 18)


def legend(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yields the name of each sign, and the sign as the content of an SVG element of 58 by 28 around the origin."""
    kinds = {node.kind for node in graph.nodes}
    for kind in NODE_KINDS:
        if kind in kinds:
            look = PALETTES[kind]
            sign = outline(kind, _SIZE)
            yield kind, element("g", sign, class_=f"node {kind}", fill=look.fill, stroke=look.stroke, stroke_width=1.4)
    edges = {edge.kind for edge in graph.edges}
    for way in EDGE_KINDS:
        if way in edges:
            dashes, width = LINES[way]
            line = element(
                "path", class_="line", d="M-24 0H22",
                stroke_dasharray=dashes, stroke_width=width, marker_end="url(#tip)",
            )  # fmt: skip
            yield f"{way} edge", element("g", line, class_="arrow", stroke=LINE, fill="none")
