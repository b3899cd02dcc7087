"""What a layout is made from, and what it comes to. Lengths are in pixels; y grows downwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Point(NamedTuple):
    x: float
    y: float


class Size(NamedTuple):
    width: float
    height: float


NO_LABEL = Size(0, 0)


@dataclass(frozen=True, slots=True)
class LayoutLink:
    """A way from one node to another, by their indices, and the size of its label; no label where that is zero."""

    source: int
    target: int
    label: Size = NO_LABEL


@dataclass(frozen=True, slots=True)
class Route:
    """A link's line: points in pairs, straight between the two of a pair and curved from a pair to the next.

    Attributes:
        label: where the middle of its label goes.
    """

    points: tuple[Point, ...] = ()
    label: Point | None = None


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """A graph laid out: the middle of each node, and the route of each link."""

    size: Size
    nodes: tuple[Point, ...]
    routes: tuple[Route, ...]
