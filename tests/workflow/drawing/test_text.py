"""The text formats: Graphviz and Mermaid."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from guardagent.workflow.drawing import draw
from guardagent.workflow.model.graph import END, START, Graph, GraphBuilder
from tests.workflow.samples import any_graph, hostile, support

# --- DOT output quotes every name, and Graphviz accepts it where it is installed


_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_DOT_LINE = re.compile(
    rf"digraph {_QUOTED} \{{|\}}"
    rf"|  (?:graph|node|edge|n\d+|n\d+ -> n\d+) \[\w+=(?:{_QUOTED}|[\w.]+)(?:, \w+=(?:{_QUOTED}|[\w.]+))*\];"
)


def test_a_line_for_each_node_and_arrow() -> None:
    """A line has the shape, the style and the tools that need approval."""
    text = draw(support(), "dot")
    assert 'label="refund\\n(tool)\\nrefund (needs approval)\\nnotify"' in text
    assert "shape=hexagon" in text
    assert '[label="amount > 100", style=dashed];' in text


def test_no_name_leaves_its_quotes() -> None:
    """Every name is quoted, whatever its characters."""
    lines = draw(hostile(), "dot").split("\n")
    assert all(_DOT_LINE.fullmatch(line) for line in lines)


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
@pytest.mark.parametrize("graph", [support(), hostile(), any_graph(40, 0.5, 1)], ids=["support", "hostile", "any"])
def test_graphviz_takes_it(graph: Graph) -> None:
    """Graphviz draws every node."""
    done = subprocess.run(  # noqa: PLW1510 - judged below
        ["dot", "-Tplain"], input=draw(graph, "dot"), capture_output=True, text=True, timeout=60  # noqa: S607
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\nnode ") == len(graph.nodes)


# --- mermaid output has numbered ids, a shape for each kind, and no name with a meaning in Mermaid


_MERMAID_LINE = re.compile(
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
    assert all(_MERMAID_LINE.fullmatch(line) for line in lines)
    for text in re.findall(r'"([^"]*)"', "\n".join(lines)):
        assert re.fullmatch(r"(#\d+;|<br/>|[\w ._,•🔒])*", text)


def test_every_kind_has_a_shape_of_its_own() -> None:
    """Colours are not needed; text distinguishes entry and exit."""
    shapes = {re.sub(r'n\d+|".*"|:::.*', "", line) for line in draw(support(), "mermaid").split("\n") if ":::" in line}
    assert len(shapes) == 7
