"""SVG pictures are well-formed, complete, readable and self-contained."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from guardagent._terminal import single_line
from guardagent.errors import InputError
from guardagent.workflow.drawing.svg import arrows, picture, render, width_of, wrapped
from guardagent.workflow.model.graph import Graph, GraphBuilder
from tests.workflow.samples import HOSTILE, any_graph, hostile, support

_SPACE = "{http://www.w3.org/2000/svg}"


def drawn(graph: Graph) -> ET.Element:
    """The picture, parsed."""
    return ET.fromstring(render(graph))  # noqa: S314 - our own


def groups(root: ET.Element, kind: str) -> list[ET.Element]:
    """The groups of a class."""
    return [group for group in root.iter(f"{_SPACE}g") if kind in group.get("class", "").split()]


@pytest.mark.parametrize("graph", [support(), hostile(), any_graph(60, 0.5, 7)], ids=["support", "hostile", "any"])
def test_every_node_and_every_arrow_is_there(graph: Graph) -> None:
    """Their ids have numbers."""
    root = drawn(graph)
    assert [group.get("id") for group in groups(root, "node")] == [f"n{index}" for index in range(len(graph.nodes))]
    assert [group.get("id") for group in groups(root, "arrow")] == [f"e{index}" for index in range(len(arrows(graph)))]


def test_names_stand_in_it_as_text_only() -> None:
    """No name becomes an element, and each name is there without unprintable characters."""
    root = drawn(hostile())
    assert {element.tag.removeprefix(_SPACE) for element in root.iter()} <= {
        "svg", "title", "style", "defs", "marker", "g", "path", "rect", "polygon", "text"
    }  # fmt: skip
    titles = "\n".join(title.text or "" for title in root.iter(f"{_SPACE}title"))
    assert all(single_line(name) in titles for name in HOSTILE)


def test_it_asks_for_nothing_from_outside() -> None:
    """The name space is its only address, and its only reference is internal."""
    text = render(hostile())
    assert text.count("http") == 1
    assert set(re.findall(r"url\(([^)]*)\)", text)) == {"#tip"}
    assert "@import" not in text
    assert not [
        name for element in drawn(hostile()).iter() for name in element.attrib if "href" in name or name[:2] == "on"
    ]


def test_the_text_of_a_node() -> None:
    """A node has its kind with remarks, its name and id, and its tools, gated ones with a lock."""
    root = drawn(support())
    lines = {
        group.get("id"): ["".join(text.itertext()) for text in group.iter(f"{_SPACE}text")]
        for group in groups(root, "node")
    }
    assert lines["n5"] == ["tool", "refund", "refund", "notify"]
    assert lines["n4"] == ["tool · model chooses", "orders", "query_orders", "log"]
    assert lines["n6"] == ["human · a guess", "approve"]
    assert lines["n7"] == ["subgraph · leads anywhere", "second level support", "team"]
    locks = [element.get("class") for element in root.iter(f"{_SPACE}path")].count("lock")
    assert locks == 1


def test_kinds_differ_in_shape_and_in_colour() -> None:
    """Either is enough to distinguish them."""
    nodes = groups(drawn(any_graph(40, 0.2, 3)), "node")
    colours = {node.get("class"): (node.get("fill"), node.get("stroke")) for node in nodes}
    assert len(set(colours.values())) == 8
    names = {node.get("class"): [(part.tag, sorted(part.keys())) for part in node][2:-1] for node in nodes}
    assert names["node tool"] != names["node llm"] != names["node router"] != names["node passthrough"]


def test_long_names_are_broken_at_their_joints_and_cut_at_last() -> None:
    """No line is wider than its box."""
    assert wrapped("validateCustomerIdentity", 13, 130, 3) == ["validateCustomer", "Identity"]
    assert wrapped("customer_support_agent.handle_billing", 13, 190, 3) == ["customer_support_agent.", "handle_billing"]
    lines = wrapped("x" * 500, 13, 100, 2)
    assert len(lines) == 2
    assert lines[1].endswith("…")
    assert all(width_of(line, 13) <= 100 for line in lines)


def test_many_tools_and_conditions_are_counted() -> None:
    """Gated tools come first."""
    builder = GraphBuilder("many", "test")
    builder.node("all", "tool", tools=[f"tool_{index}" for index in range(20)], gated_tools=["tool_19"])
    for index in range(5):
        builder.edge("__start__", "all", "conditional", f"case {index}")
    builder.edge("all", "__end__")
    text = render(builder.graph())
    assert ">and 14 more<" in text
    assert text.index(">tool_19<") < text.index(">tool_0<")
    assert ">and 3 more<" in text
    assert "case 0 / case 1 / case 2 / case 3 / case 4" in text


def test_a_graph_that_nobody_could_read_is_an_error() -> None:
    """The error names the other formats."""
    builder = GraphBuilder("huge", "test")
    for index in range(601):
        builder.node(f"n{index}", "llm")
    with pytest.raises(InputError, match=r"603 nodes .* '--format json', 'dot' or 'mermaid'"):
        picture(builder.graph())
