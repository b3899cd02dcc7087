"""A graph as a self-contained SVG picture, without fonts or network access.

A box has the size of its text, wrapped into lines. The text of a node is the same in every format (`card`). Each kind
of node has distinct colours and a distinct shape, so either is enough. The style sheet of a picture is for dark
screens; light screens and paper use the attributes of its elements. There is one arrow for all edges between the same
nodes, with all their conditions as its label.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Literal

from guardagent._terminal import single_line
from guardagent.errors import InputError
from guardagent.workflow.drawing.layout import GraphLayout, LayoutLink, Point, Route, Size, lay_out
from guardagent.workflow.model.graph import EdgeKind, Graph, Node, NodeKind
from guardagent.workflow.model.targets import GraphListing

# --- the boxes of nodes, with their texts, outlines and colours

# Widths of the widest common sans-serif font (DejaVu Sans), in tenths of the font size, so that text fits its box.
_WIDTHS = {
    **dict.fromkeys("ijl'|", 2.9),
    **dict.fromkeys(" .,:;!()[]{}/\\-`", 3.7),
    **dict.fromkeys('frtI"*', 4.2),
    **dict.fromkeys("_", 5.0),
    **dict.fromkeys("mwMW@%—→", 9.6),
}
_LOWER, _OTHER, _UPPER, _WIDE = 6.2, 6.6, 7.6, 10.2
_BREAKS = re.compile(r"(?<=[\s_./:,;|-])|(?<=[a-z0-9])(?=[A-Z])")


def width_of(text: str, size: float) -> float:
    """Returns the maximum width of a string, in pixels."""
    return sum(map(_char_width, text)) * size / 10


def _char_width(char: str) -> float:
    if known := _WIDTHS.get(char):
        return known
    if unicodedata.east_asian_width(char) in "WF":
        return _WIDE
    if unicodedata.combining(char):
        return 0.0
    return _LOWER if char.islower() else _UPPER if char.isupper() else _OTHER


def wrapped(text: str, size: float, width: float, lines: int) -> list[str]:
    """Wraps a string between the words of names, to at most `lines` lines; ends a truncated string with `…`."""
    done: list[str] = []
    rest = text
    while rest and len(done) < lines:
        line, rest = _first_line(rest, size, width)
        done.append(line.strip())
    if rest:
        done[-1] = _cut(done[-1], size, width)
    return done


def _first_line(text: str, size: float, width: float) -> tuple[str, str]:
    if width_of(text, size) <= width:
        return text, ""
    ends = [match.end() for match in _BREAKS.finditer(text)]
    fitting = [end for end in ends if 0 < end < len(text) and width_of(text[:end].rstrip(), size) <= width]
    if not fitting:
        end = next((end for end in range(2, len(text)) if width_of(text[:end], size) > width), len(text)) - 1
        return text[:end], text[end:]
    return text[: fitting[-1]], text[fitting[-1] :]


def _cut(line: str, size: float, width: float) -> str:
    while line and width_of(f"{line}…", size) > width:
        line = line[:-1]
    return f"{line}…"


def escaped(text: object) -> str:
    """Returns a string as the content of an XML element."""
    return escape(single_line(text), quote=False)


def element(tag: str, content: str = "", /, **attributes: object) -> str:
    """Returns an XML element with XML `content`; escapes attributes, reads `_` in names as `-`, and skips None."""
    known = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items() if value is not None}
    head = " ".join([tag, *(f'{name}="{escape(_plain(value))}"' for name, value in known.items())])
    return f"<{head}>{content}</{tag}>" if content else f"<{head}/>"


def _plain(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Palette:
    """The light and dark colours of a kind of node."""

    fill: str
    stroke: str
    ink: str
    dark_fill: str
    dark_stroke: str
    dark_ink: str


PALETTES: dict[NodeKind, Palette] = {
    "entry": Palette("#334155", "#334155", "#ffffff", "#cbd5e1", "#cbd5e1", "#0f172a"),
    "exit": Palette("#f1f5f9", "#334155", "#0f172a", "#1e293b", "#cbd5e1", "#f1f5f9"),
    "tool": Palette("#e3eeff", "#1d5fc4", "#0b2a5b", "#13294b", "#6ea8fe", "#dbe9ff"),
    "llm": Palette("#f0e8ff", "#7c3aed", "#34136f", "#2b1c4d", "#b794f6", "#eee5ff"),
    "router": Palette("#fff2cf", "#a85a00", "#5a2f00", "#3d2c08", "#f2b53c", "#ffedc2"),
    "human": Palette("#dbf6e5", "#0b7a4b", "#06432a", "#0d3526", "#4fd18f", "#d3f8e3"),
    "subgraph": Palette("#def4f7", "#0e7490", "#083f4f", "#0c333d", "#4cc3dc", "#d3f3fa"),
    "passthrough": Palette("#f4f4f5", "#6b7280", "#27272a", "#27272a", "#a1a1aa", "#f4f4f5"),
}

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
PAPER, LINE, LABEL = "#ffffff", "#52606d", "#333f4a"
GATED = "#0b7a4b"
_DARK_PAPER, _DARK_LINE, _DARK_LABEL, _DARK_GATED = "#0f1720", "#a3b1bf", "#d5dee7", "#4fd18f"

TEXT_STYLE = """
.node .kind { font-size: 10px; letter-spacing: .03em; opacity: .82; }
.node .name { font-size: 13.5px; font-weight: 600; }
.node .id { font-size: 10.5px; font-style: italic; }
.node .tool, .node .gated { font-size: 11.5px; }
.node .gated { font-weight: 600; }
"""


def dark_style(scope: str = "") -> str:
    """Returns the rules for dark screens, for pictures below a selector."""
    rules = [
        f"{scope} .paper {{ fill: {_DARK_PAPER}; }}",
        f"{scope} .arrow path {{ stroke: {_DARK_LINE}; }}",
        f"{scope} .tip {{ fill: {_DARK_LINE}; }}",
        f"{scope} .arrow text {{ fill: {_DARK_LABEL}; stroke: {_DARK_PAPER}; }}",
    ]
    for kind, look in PALETTES.items():
        rules += [
            f"{scope} .{kind} .body {{ fill: {look.dark_fill}; stroke: {look.dark_stroke}; }}",
            f"{scope} .{kind} .trim {{ stroke: {look.dark_stroke}; }}",
            f"{scope} .{kind} text {{ fill: {look.dark_ink}; }}",
        ]
    rules += [f"{scope} .node .gated {{ fill: {_DARK_GATED}; }}", f"{scope} .node .lock {{ stroke: {_DARK_GATED}; }}"]
    return "\n".join(rules)


def style_sheet() -> str:
    """Returns the whole style sheet of a stand-alone picture."""
    return f"{TEXT_STYLE}@media screen and (prefers-color-scheme: dark) {{\n{dark_style()}\n}}"


_BAR = 7.0  # the bars at the sides of a tool
_POINT = 16.0  # the points of a router
_SLANT = 14.0  # the sides of a human node
_STACK = 4.0  # the shape behind a subgraph
MARGINS: dict[NodeKind, float] = {"tool": _BAR, "router": _POINT, "human": _SLANT, "subgraph": _STACK}
"""The margin between a shape and its text, on each side."""


def outline(kind: NodeKind, size: Size) -> str:
    """Returns SVG elements: the first has the class `body`, the others `trim`."""
    width, height = size
    return _OUTLINES[kind](width / 2, height / 2)


def halo(size: Size) -> str:
    """Returns the outline around a node with a finding, or around the current node of a walk."""
    width, height = size.width + 14, size.height + 14
    return _rectangle(width / 2, height / 2, 13, class_="halo", fill="none", stroke="none")


def _rectangle(x: float, y: float, radius: float, **attributes: str) -> str:
    return element("rect", x=-x, y=-y, width=2 * x, height=2 * y, rx=radius, **attributes)


def _pill(x: float, y: float) -> str:
    return _rectangle(x, y, y, class_="body")


def _double_pill(x: float, y: float) -> str:
    return _rectangle(x, y, y, class_="body") + _rectangle(x - 3.5, y - 3.5, y - 3.5, class_="trim", fill="none")


def _barred(x: float, y: float) -> str:
    bars = f"M{-x + _BAR:.1f} {-y:.1f}V{y:.1f}M{x - _BAR:.1f} {-y:.1f}V{y:.1f}"
    return _rectangle(x, y, 2, class_="body") + element("path", class_="trim", d=bars, fill="none")


def _rounded(x: float, y: float) -> str:
    return _rectangle(x, y, 11, class_="body")


def _pointed(x: float, y: float) -> str:
    corners = ((-x, 0.0), (-x + _POINT, -y), (x - _POINT, -y), (x, 0.0), (x - _POINT, y), (-x + _POINT, y))
    return _polygon(*corners)


def _slanted(x: float, y: float) -> str:
    return _polygon((-x + _SLANT, -y), (x - _SLANT, -y), (x, y), (-x, y))


def _stacked(x: float, y: float) -> str:
    behind = f"M{-x + _STACK:.1f} {-y:.1f}v{-_STACK}h{2 * x:.1f}v{2 * y:.1f}h{-_STACK}"
    return _rectangle(x, y, 3, class_="body") + element("path", class_="trim", d=behind, fill="none")


def _dashed(x: float, y: float) -> str:
    return _rectangle(x, y, 3, class_="body", stroke_dasharray="5 3")


def _polygon(*corners: tuple[float, float]) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return element("polygon", class_="body", points=points, stroke_linejoin="round")


_OUTLINES: dict[NodeKind, Callable[[float, float], str]] = {
    "entry": _pill,
    "exit": _double_pill,
    "tool": _barred,
    "llm": _rounded,
    "router": _pointed,
    "human": _slanted,
    "subgraph": _stacked,
    "passthrough": _dashed,
}

_MOST_TOOLS = 6


@dataclass(frozen=True, slots=True)
class ToolLabel:
    """The name of a tool, and whether it needs approval."""

    name: str
    gated: bool


@dataclass(frozen=True, slots=True)
class NodeCard:
    """The text of a node.

    Attributes:
        name: the label.
        id: the id; empty if it equals the label.
        kind: the kind, with remarks.
        tools: the tools that fit, gated ones first.
        more: the number of other tools, as text.
    """

    name: str
    id: str
    kind: str
    tools: tuple[ToolLabel, ...]
    more: str


def card(node: Node) -> NodeCard:
    """Returns the text that fits on a node."""
    tools = tools_of(node)
    room = _MOST_TOOLS if len(tools) > _MOST_TOOLS + 1 else _MOST_TOOLS + 1
    name, label = single_line(node.id), single_line(node.label)
    return NodeCard(
        label or name, name if label and label != name else "", _kind(node), tuple(tools[:room]), _more(tools[room:])
    )


def tools_of(node: Node) -> list[ToolLabel]:
    """Returns the tools of a node, gated ones first."""
    names = dict.fromkeys([*node.tools, *node.gated_tools])
    return sorted(
        (ToolLabel(single_line(name), name in node.gated_tools) for name in names), key=lambda tool: not tool.gated
    )


def name_of(node: Node) -> str:
    """Returns the label of a node, with its id if that differs."""
    name, label = single_line(node.id), single_line(node.label)
    return name if label in {"", name} else f"{label} ({name})"


def _kind(node: Node) -> str:
    parts: list[str] = [node.kind]
    parts += ["model chooses"] if node.metadata.get("model_chooses") else []
    parts += ["a guess"] if node.metadata.get("guess") else []
    parts += ["leads anywhere"] if node.metadata.get("widened") else []
    return " · ".join(parts)


def _more(rest: Sequence[ToolLabel]) -> str:
    gated = sum(tool.gated for tool in rest)
    return f"and {len(rest)} more{f', {gated} need approval' if gated else ''}" if rest else ""


def description(node: Node) -> str:
    """Returns a node as one sentence with all its tools, for screen readers."""
    tools = [f"{tool.name}{' (needs approval)' if tool.gated else ''}" for tool in tools_of(node)]
    return f"{name_of(node)}: {_kind(node)}" + (f"; tools: {', '.join(tools)}" if tools else "")


_Style = Literal["kind", "name", "id", "tool", "gated"]
_FONTS: dict[_Style, tuple[float, float]] = {
    "kind": (10, 13),
    "name": (13.5, 17),
    "id": (10.5, 14),
    "tool": (11.5, 15),
    "gated": (11.5, 15),
}
"""The font size and the line height of each style."""

_BOX_WIDEST, _BOX_NARROWEST, _PADDING = 190.0, 64.0, Size(13, 8)
_LOCK = 15.0  # the width of a lock
_LOCK_PATH = "M1.5 5V3.4a2.5 2.5 0 0 1 5 0V5M.5 5h7v5.5h-7z"
_NAME_LINES, _ID_LINES, _TOOL_LINES = 3, 2, 2


@dataclass(frozen=True, slots=True)
class NodeMark:
    """The mark of a report on a node.

    Attributes:
        level: a class for the style sheet.
        sign: the sign in the corner.
        description: the meaning of the mark, as text.
    """

    level: str
    sign: str
    description: str


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text on a node."""

    style: _Style
    text: str
    locked: bool = False

    @property
    def width(self) -> float:
        # The name is bold, and so wider than the table of widths.
        bold = 1.08 if self.style == "name" else 1.0
        return width_of(self.text, _FONTS[self.style][0]) * bold + (_LOCK if self.style == "gated" else 0.0)

    @property
    def height(self) -> float:
        return _FONTS[self.style][1]


@dataclass(frozen=True, slots=True)
class NodeBox:
    """A node, ready to be drawn."""

    node: Node
    lines: tuple[TextLine, ...]
    size: Size

    def draw(self, index: int, middle: Point, mark: NodeMark | None = None) -> str:
        """Returns the node as an SVG group with the id `n<index>`, centred on a point."""
        look = PALETTES[self.node.kind]
        title = element("title", escaped(f"{description(self.node)}{f'; {mark.description}' if mark else ''}"))
        words = element("g", "".join(self._text_elements()), fill=look.ink, stroke="none", text_anchor="middle")
        parts = [title, halo(self.size), outline(self.node.kind, self.size), words, self._badge(mark)]
        return element(
            "g", "".join(parts),
            id=f"n{index}", class_=f"node {self.node.kind}{f' {mark.level}' if mark else ''}",
            transform=f"translate({middle.x:.1f} {middle.y:.1f})", fill=look.fill, stroke=look.stroke, stroke_width=1.4,
        )  # fmt: skip

    def _badge(self, mark: NodeMark | None) -> str:
        if mark is None:
            return ""
        place = f"translate({self.size.width / 2 - 2:.1f} {2 - self.size.height / 2:.1f})"
        sign = element("text", escaped(mark.sign), y=4, text_anchor="middle", fill="#ffffff", stroke="none")
        return element("g", element("circle", r=9, stroke_width=2) + sign, class_="badge", transform=place)

    def _text_elements(self) -> Iterator[str]:
        y = -sum(line.height for line in self.lines) / 2
        for line in self.lines:
            y += line.height
            gated = line.style == "gated"
            if line.locked:
                place = f"translate({-line.width / 2:.1f} {y - 13:.1f})"
                yield element("path", class_="lock", d=_LOCK_PATH, transform=place, fill="none", stroke=GATED)
            yield element(
                "text", escaped(line.text), class_=line.style,
                x=_LOCK / 2 if gated else 0.0, y=y - line.height * 0.24, fill=GATED if gated else None,
            )  # fmt: skip


def box(node: Node) -> NodeBox:
    """Returns the box of a node."""
    lines = tuple(_card_lines(card(node)))
    width = max(line.width for line in lines) + 2 * (_PADDING.width + MARGINS.get(node.kind, 0.0))
    return NodeBox(
        node, lines, Size(max(_BOX_NARROWEST, width), sum(line.height for line in lines) + 2 * _PADDING.height)
    )


def _card_lines(content: NodeCard) -> Iterator[TextLine]:
    yield TextLine("kind", content.kind)
    yield from _wrapped_lines("name", content.name, _NAME_LINES)
    if content.id:
        yield from _wrapped_lines("id", content.id, _ID_LINES)
    for tool in content.tools:
        yield from _wrapped_lines("gated" if tool.gated else "tool", tool.name, _TOOL_LINES)
    if content.more:
        yield TextLine("tool", content.more)


def _wrapped_lines(style: _Style, text: str, most: int) -> Iterator[TextLine]:
    for index, part in enumerate(wrapped(text, _FONTS[style][0], _BOX_WIDEST, most) or ["�"]):
        yield TextLine(style, part, locked=style == "gated" and not index)


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow between two nodes of a graph, by their indices."""

    source: int
    target: int
    kind: EdgeKind
    conditions: tuple[str, ...]


def arrows(graph: Graph) -> tuple[Arrow, ...]:
    """Returns one arrow for all edges of one kind between the same two nodes."""
    index = {node.id: number for number, node in enumerate(graph.nodes)}
    arrows: dict[tuple[int, int, EdgeKind], dict[str, None]] = {}
    for edge in graph.edges:
        conditions = arrows.setdefault((index[edge.source], index[edge.target], edge.kind), {})
        if condition := single_line(edge.condition):
            conditions[condition] = None
    return tuple(Arrow(*way, tuple(conditions)) for way, conditions in arrows.items())


_LABEL_FONT, _LABEL_HEIGHT = 11.0, 14.0
_LABEL_WIDEST, _MOST_CONDITIONS = 150.0, 3


@dataclass(frozen=True, slots=True)
class ArrowLabel:
    """Lines of text, their size, and the complete text as a title."""

    lines: tuple[str, ...]
    size: Size
    title: str

    def draw(self, middle: Point) -> str:
        """Returns the label as SVG elements; the text has a border in the background colour to cover lines."""
        top = middle.y - self.size.height / 2
        texts = [
            self._line(line, middle.x, top + _LABEL_HEIGHT * (index + 0.78)) for index, line in enumerate(self.lines)
        ]
        return element("title", escaped(self.title)) + "".join(texts) if texts else ""

    @staticmethod
    def _line(text: str, x: float, y: float) -> str:
        return element(
            "text", escaped(text), x=x, y=y, text_anchor="middle", font_size=_LABEL_FONT,
            fill=LABEL, stroke=PAPER, stroke_width=4, stroke_linejoin="round", paint_order="stroke",
        )  # fmt: skip


def label(conditions: Sequence[str]) -> ArrowLabel:
    lines = tuple(_condition_lines(conditions))
    width = max((width_of(line, _LABEL_FONT) for line in lines), default=0.0)
    return ArrowLabel(lines, Size(width, _LABEL_HEIGHT * len(lines)), " / ".join(conditions))


def _condition_lines(conditions: Sequence[str]) -> Iterator[str]:
    room = _MOST_CONDITIONS if len(conditions) <= _MOST_CONDITIONS else _MOST_CONDITIONS - 1
    for condition in conditions[:room]:
        yield from wrapped(condition, _LABEL_FONT, _LABEL_WIDEST, 2 if len(conditions) == 1 else 1)
    if (rest := len(conditions) - room) > 0:
        yield f"and {rest} more"


# --- the picture

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
