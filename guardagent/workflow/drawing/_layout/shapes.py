"""The input and output types of a layout. Lengths are in pixels; y grows downwards."""

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
    """A link between two nodes, by their indices, with the size of its label; zero means no label."""

    source: int
    target: int
    label: Size = NO_LABEL


@dataclass(frozen=True, slots=True)
class Route:
    """The line of a link: pairs of points, straight within a pair and curved between pairs.

    Attributes:
        label: the middle of the label.
    """

    points: tuple[Point, ...] = ()
    label: Point | None = None


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """The layout of a graph: the middle of each node, and the route of each link."""

    size: Size
    nodes: tuple[Point, ...]
    routes: tuple[Route, ...]
