"""The text of a node, the same in every format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guardagent.workflow.drawing._text import single_line
from guardagent.workflow.model.graph import Node

_MOST_TOOLS = 6


@dataclass(frozen=True, slots=True)
class ToolLabel:
    """The name of a tool, and whether it needs approval."""

    name: str
    gated: bool


@dataclass(frozen=True, slots=True)
class NodeCard:
    """The text of a node.

    Attributes:
        name: the label.
        id: the id; empty if it equals the label.
        kind: the kind, with remarks.
        tools: the tools that fit, gated ones first.
        more: the number of other tools, as text.
    """

    name: str
    id: str
    kind: str
    tools: tuple[ToolLabel, ...]
    more: str


def card(node: Node) -> NodeCard:
    """Returns the text that fits on a node."""
    tools = tools_of(node)
    room = _MOST_TOOLS if len(tools) > _MOST_TOOLS + 1 else _MOST_TOOLS + 1
    name, label = single_line(node.id), single_line(node.label)
    return NodeCard(
        label or name, name if label and label != name else "", _kind(node), tuple(tools[:room]), _more(tools[room:])
    )


def tools_of(node: Node) -> list[ToolLabel]:
    """Returns the tools of a node, gated ones first."""
    names = dict.fromkeys([*node.tools, *node.gated_tools])
    return sorted(
        (ToolLabel(single_line(name), name in node.gated_tools) for name in names), key=lambda tool: not tool.gated
    )


def name_of(node: Node) -> str:
    """Returns the label of a node, with its id if that differs."""
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
    """Returns a node as one sentence with all its tools, for screen readers."""
    tools = [f"{tool.name}{' (needs approval)' if tool.gated else ''}" for tool in tools_of(node)]
    return f"{name_of(node)}: {_kind(node)}" + (f"; tools: {', '.join(tools)}" if tools else "")
