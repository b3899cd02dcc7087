"""What stands for a node of a LangGraph in the graph: one node, or those of a subgraph, with the ways in and out."""

from __future__ import annotations

from dataclasses import dataclass, field

from guardagent.frameworks.langgraph.extractor.nodes import Facts
from guardagent.workflow.model.graph import EdgeKind

_ORDER: tuple[EdgeKind, ...] = ("parallel", "conditional", "loop", "direct")


@dataclass(frozen=True)
class Way:
    """A way into a part of the graph, or out of it: by this node, and how."""

    node: str
    kind: EdgeKind = "direct"
    condition: str = ""


@dataclass(frozen=True)
class Call:
    """A command of a subgraph for the graph around it: from this node to these, or to anywhere."""

    node: str
    targets: frozenset[str] | None


@dataclass
class Part:
    """What stands for one node of a StateGraph: the node itself, or those of its subgraph.

    Attributes:
        enters: where a run enters it.
        leaves: where a run leaves it.
        calls: its commands for the graph around it.
        facts: what is known of the node; None for a subgraph.
    """

    enters: list[Way]
    leaves: list[Way]
    calls: list[Call] = field(default_factory=list)
    facts: Facts | None = None


def joined(*kinds: EdgeKind) -> EdgeKind:
    """The kind of an edge that stands for several one after another."""
    return min(kinds, key=_ORDER.index)
