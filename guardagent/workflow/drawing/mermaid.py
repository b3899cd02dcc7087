"""A graph as Mermaid, which Git hosts and note-taking programs draw in Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator

from guardagent.workflow.drawing._arrows import Arrow, arrows
from guardagent.workflow.drawing._card import card, name_of
from guardagent.workflow.drawing._palettes import PALETTES
from guardagent.workflow.drawing._text import single_line
from guardagent.workflow.model.graph import Graph, Node, NodeKind
from guardagent.workflow.model.listing import GraphListing

_SHAPES: dict[NodeKind, tuple[str, str]] = {
    "entry": ("([", "])"),
    "exit": ("([", "])"),
    "tool": ("[[", "]]"),
    "llm": ("(", ")"),
    "router": ("{{", "}}"),
    "human": ("[/", "\\]"),
    "subgraph": ("[(", ")]"),
    "passthrough": ("[", "]"),
}
_LINES = {"direct": "-->", "conditional": "-.->", "parallel": "==>", "loop": "-->"}


def mermaid(listing: GraphListing) -> str:
    """Returns a flowchart from top to bottom; several stand one after another, each with its name as title."""
    if listing.is_single:
        return _flowchart(listing.single())
    return "\n\n".join(
        f"---\ntitle: {json.dumps(single_line(one.graph.name))}\n---\n{_flowchart(one.graph)}"
        for one in listing.workflows
    )


def _flowchart(graph: Graph) -> str:
    # Ids are numbers, so no name is read as a keyword.
    return "\n".join(["flowchart TD", *_nodes(graph), *map(_line, arrows(graph)), *_classes(graph)])


def _nodes(graph: Graph) -> Iterator[str]:
    for index, node in enumerate(graph.nodes):
        left, right = _SHAPES[node.kind]
        yield f'    n{index}{left}"{_label(node)}"{right}:::{_class(node.kind)}'


def _label(node: Node) -> str:
    content = card(node)
    tools = [f"{'🔒 ' if tool.gated else '• '}{tool.name}" for tool in content.tools]
    return "<br/>".join(
        map(_escaped, [name_of(node), f"({content.kind})", *tools, *([content.more] if content.more else [])])
    )


def _line(arrow: Arrow) -> str:
    conditions = " / ".join(arrow.conditions) or ("again" if arrow.kind == "loop" else "")
    label = f'|"{_escaped(conditions)}"|' if conditions else ""
    return f"    n{arrow.source} {_LINES[arrow.kind]}{label} n{arrow.target}"


def _classes(graph: Graph) -> Iterator[str]:
    for kind in dict.fromkeys(node.kind for node in graph.nodes):
        look = PALETTES[kind]
        yield f"    classDef {_class(kind)} fill:{look.fill},stroke:{look.stroke},color:{look.ink}"


def _class(kind: NodeKind) -> str:
    return f"{kind}Node"  # a bare `subgraph` is a keyword


def _escaped(text: str) -> str:
    # Labels can have directives, comments, Markdown and HTML: all but plain characters are written as codes.
    return "".join(char if char.isalnum() or char in " ._,•🔒" else f"#{ord(char)};" for char in single_line(text))
