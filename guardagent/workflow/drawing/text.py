"""Graphs as text: DOT, the language of Graphviz; Mermaid, which Git hosts draw in Markdown; and JSON.

`verify` and `graph` can read the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from guardagent._terminal import single_line
from guardagent.workflow.drawing.svg import PALETTES, Arrow, arrows, card, description, name_of
from guardagent.workflow.model.graph import Graph, Node, NodeKind
from guardagent.workflow.model.targets import GraphListing

_DOT_SHAPES: dict[NodeKind, str] = {
    "entry": 'shape=box, style="rounded,filled"',
    "exit": 'shape=box, style="rounded,filled", peripheries=2',
    "tool": "shape=component, style=filled",
    "llm": 'shape=box, style="rounded,filled"',
    "router": "shape=hexagon, style=filled",
    "human": "shape=trapezium, style=filled",
    "subgraph": "shape=box3d, style=filled",
    "passthrough": 'shape=box, style="filled,dashed"',
}
_DOT_LINES = {
    "direct": "style=solid",
    "conditional": "style=dashed",
    "parallel": "style=bold, penwidth=2.2",
    "loop": "style=dotted, penwidth=1.6",
}
_MERMAID_SHAPES: dict[NodeKind, tuple[str, str]] = {
    "entry": ("([", "])"),
    "exit": ("([", "])"),
    "tool": ("[[", "]]"),
    "llm": ("(", ")"),
    "router": ("{{", "}}"),
    "human": ("[/", "\\]"),
    "subgraph": ("[(", ")]"),
    "passthrough": ("[", "]"),
}
_MERMAID_LINES = {"direct": "-->", "conditional": "-.->", "parallel": "==>", "loop": "-->"}


def dot(listing: GraphListing) -> str:
    """Returns a digraph from top to bottom; several stand one after another, each with its name as title."""
    titled = not listing.is_single
    return "\n\n".join(_digraph(workflow.graph, titled=titled) for workflow in listing.workflows)


def _digraph(graph: Graph, *, titled: bool) -> str:
    name = _dot_string(single_line(graph.name))
    lines = [
        f"digraph {name} {{",
        *([f"  label={name}; labelloc=t;"] if titled else []),
        '  graph [rankdir=TB, fontname="sans-serif"];',
        '  node [fontname="sans-serif", fontsize=12];',
        '  edge [fontname="sans-serif", fontsize=10];',
        *(_dot_node(index, node) for index, node in enumerate(graph.nodes)),
        *map(_dot_edge, arrows(graph)),
        "}",
    ]
    return "\n".join(lines)


def _dot_node(index: int, node: Node) -> str:
    look = PALETTES[node.kind]
    colours = f'fillcolor="{look.fill}", color="{look.stroke}", fontcolor="{look.ink}"'
    label, hint = _dot_string("\n".join(_dot_label(node))), _dot_string(description(node))
    return f"  n{index} [label={label}, tooltip={hint}, {_DOT_SHAPES[node.kind]}, {colours}];"


def _dot_label(node: Node) -> Iterator[str]:
    content = card(node)
    yield from (name_of(node), f"({content.kind})")
    for tool in content.tools:
        yield f"{tool.name} (needs approval)" if tool.gated else tool.name
    if content.more:
        yield content.more


def _dot_edge(arrow: Arrow) -> str:
    conditions = _dot_string("\n".join(arrow.conditions))
    label = f"label={conditions}, " if arrow.conditions else ""
    return f"  n{arrow.source} -> n{arrow.target} [{label}{_DOT_LINES[arrow.kind]}];"


def _dot_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def mermaid(listing: GraphListing) -> str:
    """Returns a flowchart from top to bottom; several stand one after another, each with its name as title."""
    if listing.is_single:
        return _flowchart(listing.single())
    return "\n\n".join(
        f"---\ntitle: {json.dumps(single_line(workflow.graph.name))}\n---\n{_flowchart(workflow.graph)}"
        for workflow in listing.workflows
    )


def _flowchart(graph: Graph) -> str:
    # Ids are numbers, so no name is read as a keyword.
    return "\n".join(
        ["flowchart TD", *_mermaid_nodes(graph), *map(_mermaid_edge, arrows(graph)), *_mermaid_classes(graph)]
    )


def _mermaid_nodes(graph: Graph) -> Iterator[str]:
    for index, node in enumerate(graph.nodes):
        left, right = _MERMAID_SHAPES[node.kind]
        yield f'    n{index}{left}"{_mermaid_label(node)}"{right}:::{_mermaid_class(node.kind)}'


def _mermaid_label(node: Node) -> str:
    content = card(node)
    tools = [f"{'🔒 ' if tool.gated else '• '}{tool.name}" for tool in content.tools]
    return "<br/>".join(
        map(_mermaid_string, [name_of(node), f"({content.kind})", *tools, *([content.more] if content.more else [])])
    )


def _mermaid_edge(arrow: Arrow) -> str:
    conditions = " / ".join(arrow.conditions) or ("again" if arrow.kind == "loop" else "")
    label = f'|"{_mermaid_string(conditions)}"|' if conditions else ""
    return f"    n{arrow.source} {_MERMAID_LINES[arrow.kind]}{label} n{arrow.target}"


def _mermaid_classes(graph: Graph) -> Iterator[str]:
    for kind in dict.fromkeys(node.kind for node in graph.nodes):
        look = PALETTES[kind]
        yield f"    classDef {_mermaid_class(kind)} fill:{look.fill},stroke:{look.stroke},color:{look.ink}"


def _mermaid_class(kind: NodeKind) -> str:
    return f"{kind}Node"  # a bare `subgraph` is a keyword


def _mermaid_string(text: str) -> str:
    # Labels can have directives, comments, Markdown and HTML: all but plain characters are written as codes.
    return "".join(char if char.isalnum() or char in " ._,•🔒" else f"#{ord(char)};" for char in single_line(text))


def graph_json(listing: GraphListing) -> str:
    """Returns one JSON object in the public key order, with a line for each node and each edge.

    Several graphs have a line each, and so has each unread place.
    """
    return pretty_json(listing.to_dict())


def pretty_json(content: Mapping[str, Any]) -> str:
    """Returns one object as JSON; each object in its lists has a line."""
    members = [f"  {json.dumps(name)}: {_json_value(value)}" for name, value in content.items()]
    return "{\n" + ",\n".join(members) + "\n}"


def _json_value(value: Any) -> str:
    if not isinstance(value, list) or not any(isinstance(item, dict) for item in value):
        return json.dumps(value, default=str)
    return "[\n" + ",\n".join(f"    {json.dumps(item, default=str)}" for item in value) + "\n  ]"
