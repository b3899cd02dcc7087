"""Mermaid output has numbered ids, a shape for each kind, and no name with a meaning in Mermaid."""

from __future__ import annotations

import re

from guardagent.workflow.drawing import draw
from guardagent.workflow.model.graph import END, START, GraphBuilder
from tests.workflow.samples import hostile, support

_LINE = re.compile(
    r"flowchart TD"
    r"|    n\d+(\(\[|\[\[|\(|\{\{|\[/|\[\(|\[)\"[^\"]*\"(\]\)|\]\]|\)|\}\}|\\\]|\)\]|\]):::[a-z]+Node"
    r"|    n\d+ (-->|-\.->|==>)(\|\"[^\"]*\"\|)? n\d+"
    r"|    classDef [a-z]+Node fill:#\w{6},stroke:#\w{6},color:#\w{6}"
)


def test_a_small_graph() -> None:
    """The output is exact."""
    builder = GraphBuilder("small", "test")
    builder.node("pay", "tool", tools=["log", "pay"], gated_tools=["pay"])
    builder.edge(START, "pay", "conditional", "amount > 0")
    builder.edge("pay", END)
    assert draw(builder.graph(), "mermaid").splitlines()[:6] == [
        "flowchart TD",
        '    n0(["__start__<br/>#40;entry#41;"]):::entryNode',
        '    n1(["__end__<br/>#40;exit#41;"]):::exitNode',
        '    n2[["pay<br/>#40;tool#41;<br/>🔒 pay<br/>• log"]]:::toolNode',
        '    n0 -.->|"amount #62; 0"| n2',
        "    n2 --> n1",
    ]


def test_names_are_plain_characters_and_numbers() -> None:
    """There is no directive, link, markup or quote; the only tag is a line break."""
    lines = draw(hostile(), "mermaid").split("\n")
    assert all(_LINE.fullmatch(line) for line in lines)
    for text in re.findall(r'"([^"]*)"', "\n".join(lines)):
        assert re.fullmatch(r"(#\d+;|<br/>|[\w ._,•🔒])*", text)


def test_every_kind_has_a_shape_of_its_own() -> None:
    """Colours are not needed; text distinguishes entry and exit."""
    shapes = {re.sub(r'n\d+|".*"|:::.*', "", line) for line in draw(support(), "mermaid").split("\n") if ":::" in line}
    assert len(shapes) == 7
