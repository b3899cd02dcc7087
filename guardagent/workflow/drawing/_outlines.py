"""The outline of each kind of node, for a box of any size around the origin."""

from __future__ import annotations

from collections.abc import Callable

from guardagent.workflow.drawing._layout import Size
from guardagent.workflow.drawing._text import element
from guardagent.workflow.model.graph import NodeKind

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
    return _box(width / 2, height / 2, 13, class_="halo", fill="none", stroke="none")


def _box(x: float, y: float, radius: float, **attributes: str) -> str:
    return element("rect", x=-x, y=-y, width=2 * x, height=2 * y, rx=radius, **attributes)


def _pill(x: float, y: float) -> str:
    return _box(x, y, y, class_="body")


def _double_pill(x: float, y: float) -> str:
    return _box(x, y, y, class_="body") + _box(x - 3.5, y - 3.5, y - 3.5, class_="trim", fill="none")


def _barred(x: float, y: float) -> str:
    bars = f"M{-x + _BAR:.1f} {-y:.1f}V{y:.1f}M{x - _BAR:.1f} {-y:.1f}V{y:.1f}"
    return _box(x, y, 2, class_="body") + element("path", class_="trim", d=bars, fill="none")


def _rounded(x: float, y: float) -> str:
    return _box(x, y, 11, class_="body")


def _pointed(x: float, y: float) -> str:
    corners = ((-x, 0.0), (-x + _POINT, -y), (x - _POINT, -y), (x, 0.0), (x - _POINT, y), (-x + _POINT, y))
    return _polygon(*corners)


def _slanted(x: float, y: float) -> str:
    return _polygon((-x + _SLANT, -y), (x - _SLANT, -y), (x, y), (-x, y))


def _stacked(x: float, y: float) -> str:
    behind = f"M{-x + _STACK:.1f} {-y:.1f}v{-_STACK}h{2 * x:.1f}v{2 * y:.1f}h{-_STACK}"
    return _box(x, y, 3, class_="body") + element("path", class_="trim", d=behind, fill="none")


def _dashed(x: float, y: float) -> str:
    return _box(x, y, 3, class_="body", stroke_dasharray="5 3")


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
