"""A layout is readable: nothing overlaps, no line passes through a node, and successors are below."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from guardagent.workflow.drawing.layout import (
    Chains,
    GraphLayout,
    LayoutLink,
    Point,
    Size,
    back_links,
    crossings,
    lay_out,
    layers_of,
    ordered_layers,
)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Size], list[LayoutLink]]:
    """Boxes of any size, links between any two of them, some with a label."""
    count = draw(st.integers(1, 12))
    sizes = [Size(draw(st.integers(20, 200)), draw(st.integers(20, 120))) for _ in range(count)]
    nodes = st.integers(0, count - 1)
    links = draw(
        st.lists(st.builds(LayoutLink, nodes, nodes, st.sampled_from([Size(0, 0), Size(60, 14)])), max_size=24)
    )
    return sizes, links


def boxes(layout: GraphLayout, sizes: list[Size]) -> list[tuple[float, float, float, float]]:
    """The left, upper, right and lower end of each node."""
    return [
        (x - size.width / 2, y - size.height / 2, x + size.width / 2, y + size.height / 2)
        for (x, y), size in zip(layout.nodes, sizes, strict=True)
    ]


def line(points: tuple[Point, ...]) -> Iterator[Point]:
    """Points on a route, close to each other."""
    for number, (start, other) in enumerate(pairwise(points)):
        for step in range(21):
            part = step / 20
            # The curve that is drawn: its ends are vertical.
            along = part * part * (3 - 2 * part) if number % 2 else part
            bow = 1.5 * part * (1 - part) ** 2 + 1.5 * part**2 * (1 - part) + part**3 if number % 2 else part
            yield Point(start.x + (other.x - start.x) * along, start.y + (other.y - start.y) * bow)


@given(graphs())
def test_no_two_nodes_overlap(graph: tuple[list[Size], list[LayoutLink]]) -> None:
    """All nodes are in the picture."""
    sizes, links = graph
    layout = lay_out(sizes, links, first=0)
    layout_boxes = boxes(layout, sizes)
    for box, other in combinations(layout_boxes, 2):
        assert box[2] <= other[0] or other[2] <= box[0] or box[3] <= other[1] or other[3] <= box[1]
    assert all(left >= -0.01 and top >= -0.01 for left, top, _, _ in layout_boxes)
    assert all(
        right <= layout.size.width + 0.01 and low <= layout.size.height + 0.01 for _, _, right, low in layout_boxes
    )


@given(graphs())
def test_no_line_passes_through_a_node(graph: tuple[list[Size], list[LayoutLink]]) -> None:
    """A line meets only its source and its target."""
    sizes, links = graph
    layout = lay_out(sizes, links, first=0)
    layout_boxes = boxes(layout, sizes)
    for link, route in zip(links, layout.routes, strict=True):
        others = [box for index, box in enumerate(layout_boxes) if index not in {link.source, link.target}]
        for x, y in line(route.points):
            assert not any(left < x < right and top + 0.01 < y < low - 0.01 for left, top, right, low in others)


@given(graphs())
def test_labels_overlap_no_node_and_no_other_label(graph: tuple[list[Size], list[LayoutLink]]) -> None:
    """Each label has a separate place."""
    sizes, links = graph
    layout = lay_out(sizes, links, first=0)
    labelled = [route.label for link, route in zip(links, layout.routes, strict=True) if link.label.width]
    places = [label for label in labelled if label is not None]
    for place, other in combinations(places, 2):
        assert abs(place.x - other.x) >= 60 or abs(place.y - other.y) >= 14
    for x, y in places:
        for left, top, right, low in boxes(layout, sizes):
            assert x + 30 <= left or x - 30 >= right or y + 7 <= top + 0.01 or y - 7 >= low - 0.01


@given(graphs())
def test_the_same_graph_gives_the_same_drawing(graph: tuple[list[Size], list[LayoutLink]]) -> None:
    """A picture in a repository changes only where the workflow changes."""
    sizes, links = graph
    assert lay_out(sizes, links, first=0) == lay_out(sizes, links, first=0)


@given(graphs())
def test_turning_some_links_around_leaves_no_cycle(graph: tuple[list[Size], list[LayoutLink]]) -> None:
    """Reversed links lead up, and all others down by at least one layer."""
    sizes, links = graph
    ways = [(link.source, link.target) for link in links if link.source != link.target]
    back = back_links(len(sizes), ways, 0)
    layers = layers_of(len(sizes), ways, back)
    for index, (source, target) in enumerate(ways):
        assert (layers[source] > layers[target]) == (index in back)
        assert layers[source] != layers[target]


def test_what_leads_back_is_what_a_reader_would_call_so() -> None:
    """Links lead back as seen from the first node."""
    assert back_links(4, [(2, 1), (0, 1), (1, 2), (2, 3)], 0) == {0}


def test_the_first_stands_at_the_top_and_the_last_at_the_bottom() -> None:
    """This holds for any numbers."""
    ways = [(2, 0), (0, 1), (0, 3), (3, 4)]
    layout = lay_out([Size(40, 20)] * 5, [LayoutLink(*way) for way in ways], first=2, last=[1, 4])
    heights = [point.y for point in layout.nodes]
    assert heights[2] == min(heights)
    assert heights[1] == heights[4] == max(heights)


def test_a_way_and_its_way_back_are_two_lines() -> None:
    """The two lines do not overlap."""
    layout = lay_out([Size(80, 20)] * 2, [LayoutLink(0, 1), LayoutLink(1, 0)], first=0)
    there, back = layout.routes
    assert abs(there.points[0].x - back.points[-1].x) >= 10
    assert there.points[0].y < there.points[-1].y
    assert back.points[0].y > back.points[-1].y


def test_crossings_that_need_not_be_are_taken_out() -> None:
    """Two columns with crossing links are untangled."""
    ways = [(0, 1), (0, 2), (1, 4), (2, 3), (3, 5), (4, 5)]
    links = [LayoutLink(*way) for way in ways]
    chains = Chains([Size(40, 20)] * 6, links, frozenset(), layers_of(6, ways, frozenset()))
    assert crossings(chains, ordered_layers(chains)) == 0


def test_a_chain_is_one_straight_line() -> None:
    """This holds with and without labels."""
    links = [LayoutLink(index, index + 1, Size(50 * (index % 2), 14)) for index in range(5)]
    layout = lay_out([Size(60 + 10 * index, 20) for index in range(6)], links, first=0)
    assert {round(point.x, 3) for point in layout.nodes} == {layout.size.width / 2}


def test_500_nodes_are_laid_out_in_some_seconds() -> None:
    """The graph is a tree with random links added."""
    count = 500
    ways = [(index * 7 // 10, index) for index in range(1, count)]
    ways += [(index * 37 % count, index * 91 % count) for index in range(count // 3)]
    started = time.process_time()
    lay_out([Size(120, 50)] * count, [LayoutLink(*way) for way in ways], first=0)
    assert time.process_time() - started < 20


def test_nothing_to_lay_out_is_no_error() -> None:
    """A single node with a link to itself is not an error either."""
    assert lay_out([], [], first=0).nodes == ()
    assert lay_out([Size(10, 10)], [LayoutLink(0, 0)], first=0).routes[0].points == ()
