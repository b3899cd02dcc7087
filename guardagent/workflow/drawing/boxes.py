"""The box of a node: its text, wrapped into lines, and its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from guardagent.workflow.drawing._card import NodeCard, card, description
from guardagent.workflow.drawing._layout import Point, Size
from guardagent.workflow.drawing._outlines import MARGINS, halo, outline
from guardagent.workflow.drawing._palettes import PALETTES
from guardagent.workflow.drawing._style import GATED
from guardagent.workflow.drawing._text import element, escaped, width_of, wrapped
from guardagent.workflow.model.graph import Node

_Style = Literal["kind", "name", "id", "tool", "gated"]
_FONTS: dict[_Style, tuple[float, float]] = {
    "kind": (10, 13),
    "name": (13.5, 17),
    "id": (10.5, 14),
    "tool": (11.5, 15),
    "gated": (11.5, 15),
}
"""The font size and the line height of each style."""

_WIDEST, _NARROWEST, _PADDING = 190.0, 64.0, Size(13, 8)
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
class Box:
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


def box(node: Node) -> Box:
    """Returns the box of a node."""
    lines = tuple(_lines(card(node)))
    width = max(line.width for line in lines) + 2 * (_PADDING.width + MARGINS.get(node.kind, 0.0))
    return Box(node, lines, Size(max(_NARROWEST, width), sum(line.height for line in lines) + 2 * _PADDING.height))


def _lines(content: NodeCard) -> Iterator[TextLine]:
    yield TextLine("kind", content.kind)
    yield from _wrapped_lines("name", content.name, _NAME_LINES)
    if content.id:
        yield from _wrapped_lines("id", content.id, _ID_LINES)
    for tool in content.tools:
        yield from _wrapped_lines("gated" if tool.gated else "tool", tool.name, _TOOL_LINES)
    if content.more:
        yield TextLine("tool", content.more)


def _wrapped_lines(style: _Style, text: str, most: int) -> Iterator[TextLine]:
    for index, part in enumerate(wrapped(text, _FONTS[style][0], _WIDEST, most) or ["�"]):
        yield TextLine(style, part, locked=style == "gated" and not index)
