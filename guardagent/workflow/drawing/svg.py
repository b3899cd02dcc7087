"""A graph as a self-contained SVG picture, without fonts or network access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from guardagent.errors import InputError
from guardagent.workflow.drawing.boxes import (
    FONT,
    LINE,
    PAPER,
    Arrow,
    ArrowLabel,
    NodeBox,
    NodeMark,
    arrows,
    box,
    element,
    escaped,
    label,
    style_sheet,
)
from guardagent.workflow.drawing.layout import GraphLayout, LayoutLink, Point, Route, Size, lay_out
from guardagent.workflow.model.graph import EdgeKind, Graph
from guardagent.workflow.model.targets import GraphListing

MOST_NODES, MOST_ARROWS = 600, 1_800
"""The limits of a picture: nobody can read a larger one."""

_MARGIN = 16.0
_LOOP = 30.0  # the width of an arrow from a node to itself
LINES: dict[EdgeKind, tuple[str | None, float]] = {
    "direct": (None, 1.4),
    "conditional": ("6 4", 1.4),
    "parallel": (None, 3.0),
    "loop": ("2 4", 1.8),
}


def render(graph: Graph) -> str:
    """Returns the picture, light or dark like the screen of the reader.

    Raises:
        InputError: the graph has too many nodes or arrows for a readable picture.
    """
    size, content = picture(graph)
    title = element("title", f"{escaped(graph.name)}: workflow graph")
    return element(
        "svg", title + element("style", style_sheet()) + content,
        xmlns="http://www.w3.org/2000/svg", viewBox=view_box(size), width=round(size.width), height=round(size.height),
        font_family=FONT, role="img",
    )  # fmt: skip


def only_picture(listing: GraphListing) -> str:
    """Returns the picture of the only graph of a target.

    Raises:
        InputError: the target has several graphs; or as `render`.
    """
    return render(listing.single())


def picture(graph: Graph, marks: Mapping[str, NodeMark] | None = None) -> tuple[Size, str]:
    """Returns the size and the content of the picture; `view_box(size)` is its part of the plane.

    Node number i is the group `n<i>`, and arrow number i of `arrows(graph)` the group `e<i>`.

    Args:
        graph: the graph.
        marks: the marks of nodes, by their ids.

    Raises:
        InputError: the graph has too many nodes or arrows for a readable picture.
    """
    drawn = arrows(graph)
    _check_size(graph, drawn)
    boxes = [box(node) for node in graph.nodes]
    labels = [label(arrow.conditions) for arrow in drawn]
    layout = _layout(graph, boxes, drawn, labels)
    lines = [
        _arrow(index, arrow, labels[index], boxes[arrow.source], layout.nodes[arrow.source], layout.routes[index])
        for index, arrow in enumerate(drawn)
    ]
    nodes = [box.draw(index, layout.nodes[index], (marks or {}).get(box.node.id)) for index, box in enumerate(boxes)]
    size = Size(layout.size.width + 2 * _MARGIN, layout.size.height + 2 * _MARGIN)
    return size, "".join([_background(size), *lines, *nodes])


def view_box(size: Size) -> str:
    """Returns the part of the plane that a picture of this size covers."""
    return f"{-_MARGIN:.0f} {-_MARGIN:.0f} {size.width:.0f} {size.height:.0f}"


def _check_size(graph: Graph, drawn: Sequence[Arrow]) -> None:
    if len(graph.nodes) > MOST_NODES or len(drawn) > MOST_ARROWS:
        raise InputError(
            f"the graph has {len(graph.nodes):,} nodes and {len(drawn):,} arrows; a picture has at most "
            f"{MOST_NODES:,} and {MOST_ARROWS:,}; use '--format json', 'dot' or 'mermaid'"
        )


def _layout(
    graph: Graph, boxes: Sequence[NodeBox], drawn: Sequence[Arrow], labels: Sequence[ArrowLabel]
) -> GraphLayout:
    beside = [0.0] * len(boxes)
    for arrow, arrow_label in zip(drawn, labels, strict=True):
        if arrow.source == arrow.target:
            beside[arrow.source] = max(beside[arrow.source], _LOOP + arrow_label.size.width)
    sizes = [Size(box.size.width + 2 * room, box.size.height) for box, room in zip(boxes, beside, strict=True)]
    links = [
        LayoutLink(arrow.source, arrow.target, arrow_label.size)
        for arrow, arrow_label in zip(drawn, labels, strict=True)
    ]
    number = {node.id: index for index, node in enumerate(graph.nodes)}
    return lay_out(sizes, links, first=number[graph.entry_id], last=[number[exit_id] for exit_id in graph.exit_ids])


def _arrow(index: int, arrow: Arrow, arrow_label: ArrowLabel, source: NodeBox, at: Point, route: Route) -> str:
    dashes, width = LINES[arrow.kind]
    looped = arrow.source == arrow.target
    outline = _loop(source.size, at) if looped else _curve(route.points)
    middle = Point(at.x + source.size.width / 2 + _LOOP + arrow_label.size.width / 2, at.y) if looped else route.label
    line = element(
        "path", class_="line", d=outline, stroke_dasharray=dashes, stroke_width=width, marker_end="url(#tip)"
    )
    content = line + (arrow_label.draw(middle) if middle else "")
    return element("g", content, id=f"e{index}", class_=f"arrow {arrow.kind}", stroke=LINE, fill="none")


def _curve(points: Sequence[Point]) -> str:
    parts = [f"M{points[0].x:.1f} {points[0].y:.1f}"]
    for number, (point, other) in enumerate(pairwise(points)):
        middle = (point.y + other.y) / 2
        if number % 2 and abs(point.x - other.x) >= 1:
            parts.append(f"C{point.x:.1f} {middle:.1f} {other.x:.1f} {middle:.1f} {other.x:.1f} {other.y:.1f}")
        elif abs(point.y - other.y) > 0.1:  # a segment of length zero gives the arrow head no direction
            parts.append(f"L{other.x:.1f} {other.y:.1f}")
    return "".join(parts)


def _loop(size: Size, at: Point) -> str:
    x, reach = at.x + size.width / 2, _LOOP - 4
    return f"M{x:.1f} {at.y - 9:.1f}c{reach} -14 {reach} 32 3 18"


def _background(size: Size) -> str:
    """Returns the arrow head and the background."""
    tip = element(
        "marker", element("path", class_="tip", d="M0 0L9 4.5L0 9Z", fill=LINE),
        id="tip", markerWidth=9, markerHeight=9, refX=8.2, refY=4.5, orient="auto", markerUnits="userSpaceOnUse",
    )  # fmt: skip
    paper = element("rect", class_="paper", x=-_MARGIN, y=-_MARGIN, width=size.width, height=size.height, fill=PAPER)
    return element("defs", tip) + paper
