"""DOT output quotes every name, and Graphviz accepts it where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from guardagent.workflow.drawing import draw
from guardagent.workflow.model.graph import Graph
from tests.workflow.samples import any_graph, hostile, support

_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_LINE = re.compile(
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
    assert all(_LINE.fullmatch(line) for line in lines)


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
@pytest.mark.parametrize("graph", [support(), hostile(), any_graph(40, 0.5, 1)], ids=["support", "hostile", "any"])
def test_graphviz_takes_it(graph: Graph) -> None:
    """Graphviz draws every node."""
    done = subprocess.run(  # noqa: PLW1510 - judged below
        ["dot", "-Tplain"], input=draw(graph, "dot"), capture_output=True, text=True, timeout=60  # noqa: S607
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\nnode ") == len(graph.nodes)
