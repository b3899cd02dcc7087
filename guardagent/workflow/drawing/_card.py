"""What a picture says of a node: the same words in every format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guardagent.workflow.drawing._text import single_line
from guardagent.workflow.model.graph import Node

_MOST_TOOLS = 6


@dataclass(frozen=True, slots=True)
class ToolLabel:
    """A tool's name, and whether a person is asked before it runs."""

    name: str
    gated: bool


@dataclass(frozen=True, slots=True)
class NodeCard:
    """The words on a node.

    Attributes:
        name: what a person calls it.
        id: its id, where that is another; else nothing.
        kind: its kind, and what else matters of it.
        tools: those there is room for; those that a person is asked for come first.
        more: how many others there are, in words.
    """

    name: str
    id: str
    kind: str
    tools: tuple[ToolLabel, ...]
    more: str


def card(node: Node) -> NodeCard:
    """What there is room for on a node."""
    tools = tools_of(node)
    room = _MOST_TOOLS if len(tools) > _MOST_TOOLS + 1 else _MOST_TOOLS + 1
    name, label = single_line(node.id), single_line(node.label)
    return NodeCard(
        label or name, name if label and label != name else "", _kind(node), tuple(tools[:room]), _more(tools[room:])
    )


def tools_of(node: Node) -> list[ToolLabel]:
    """The tools of a node, those first that a person is asked for."""
    names = dict.fromkeys([*node.tools, *node.gated_tools])
    return sorted(
        (ToolLabel(single_line(name), name in node.gated_tools) for name in names), key=lambda tool: not tool.gated
    )


def name_of(node: Node) -> str:
    """What a person calls a node, with its id where that is another."""
    name, label = single_line(node.id), single_line(node.label)
    return name if label in {"", name} else f"{label} ({name})"


def _kind(node: Node) -> str:
    parts: list[str] = [node.kind]
    parts += ["model chooses"] if node.metadata.get("model_chooses") else []
    parts += ["a guess"] if node.metadata.get("guess") else []
    parts += ["leads anywhere"] if node.metadata.get("widened") else []
    return " · ".join(parts)


def _more(rest: Sequence[ToolLabel]) -> str:
    gated = sum(tool.gated for tool in rest)
    return f"and {len(rest)} more{f', {gated} need approval' if gated else ''}" if rest else ""


def description(node: Node) -> str:
    """A node in one sentence, with all its tools: for whoever cannot see the picture."""
    tools = [f"{tool.name}{' (needs approval)' if tool.gated else ''}" for tool in tools_of(node)]
    return f"{name_of(node)}: {_kind(node)}" + (f"; tools: {', '.join(tools)}" if tools else "")
