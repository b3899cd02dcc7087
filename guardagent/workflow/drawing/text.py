"""A graph in DOT, the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.workflow.drawing._arrows import Arrow, arrows
from guardagent.workflow.drawing._card import card, description, name_of
from guardagent.workflow.drawing._palettes import PALETTES
from guardagent.workflow.drawing._text import single_line
from guardagent.workflow.model.graph import Graph, Node, NodeKind
from guardagent.workflow.model.listing import GraphListing

_SHAPES: dict[NodeKind, str] = {
    "entry": 'shape=box, style="rounded,filled"',
    "exit": 'shape=box, style="rounded,filled", peripheries=2',
    "tool": "shape=component, style=filled",
    "llm": 'shape=box, style="rounded,filled"',
    "router": "shape=hexagon, style=filled",
    "human": "shape=trapezium, style=filled",
    "subgraph": "shape=box3d, style=filled",
    "passthrough": 'shape=box, style="filled,dashed"',
}
_LINES = {
    "direct": "style=solid",
    "conditional": "style=dashed",
    "parallel": "style=bold, penwidth=2.2",
    "loop": "style=dotted, penwidth=1.6",
}


def dot(listing: GraphListing) -> str:
    """Returns a digraph from top to bottom; several stand one after another, each with its name as title."""
    titled = not listing.is_single
    return "\n\n".join("\n".join(_lines_of(one.graph, titled=titled)) for one in listing.workflows)


def _lines_of(graph: Graph, *, titled: bool) -> list[str]:
    name = _quoted(single_line(graph.name))
    return [
        f"digraph {name} {{",
        *([f"  label={name}; labelloc=t;"] if titled else []),
        '  graph [rankdir=TB, fontname="sans-serif"];',
        '  node [fontname="sans-serif", fontsize=12];',
        '  edge [fontname="sans-serif", fontsize=10];',
        *(_node(index, node) for index, node in enumerate(graph.nodes)),
        *map(_edge, arrows(graph)),
        "}",
    ]


def _node(index: int, node: Node) -> str:
    look = PALETTES[node.kind]
    colours = f'fillcolor="{look.fill}", color="{look.stroke}", fontcolor="{look.ink}"'
    label, hint = _quoted("\n".join(_lines(node))), _quoted(description(node))
    return f"  n{index} [label={label}, tooltip={hint}, {_SHAPES[node.kind]}, {colours}];"


def _lines(node: Node) -> Iterator[str]:
    content = card(node)
    yield from (name_of(node), f"({content.kind})")
    for tool in content.tools:
        yield f"{tool.name} (needs approval)" if tool.gated else tool.name
    if content.more:
        yield content.more


def _edge(arrow: Arrow) -> str:
    conditions = _quoted("\n".join(arrow.conditions))
    label = f"label={conditions}, " if arrow.conditions else ""
    return f"  n{arrow.source} -> n{arrow.target} [{label}{_LINES[arrow.kind]}];"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
