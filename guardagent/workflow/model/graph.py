"""The workflow graph of an agent: its steps and their possible order (Agentproof, Definition 1)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

from guardagent.types import EMPTY, freeze, thaw
from guardagent.workflow.model.unknown import MARKS, MarkKey, Unseen, merged, unknown_parts

NodeKind = Literal["entry", "exit", "tool", "llm", "router", "human", "subgraph", "passthrough"]
EdgeKind = Literal["direct", "conditional", "parallel", "loop"]
NODE_KINDS: tuple[NodeKind, ...] = get_args(NodeKind)
EDGE_KINDS: tuple[EdgeKind, ...] = get_args(EdgeKind)

START, END = "__start__", "__end__"


@dataclass(frozen=True, slots=True)
class Node:
    """One step of a workflow.

    Attributes:
        id: the name of the step, unique in the graph.
        kind: a node with tools is `tool`, whether or not a model chooses among them.
        label: the name for human readers.
        tools: the tools that it can call.
        gated_tools: those of the tools that need human approval before they run.
        metadata: `model_chooses` (a model decides whether to call the tools), `file` and `line` of its definition,
            `tools_unknown` (why it may call tools that could not be seen), `widened` (why its edges are assumed, so
            that there are more than in the program), both as `unknown.py` describes,
            `guess` (its kind is a guess from its name), and other keys of the extractor.
    """

    id: str
    kind: NodeKind = "passthrough"
    label: str = ""
    tools: tuple[str, ...] = ()
    gated_tools: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "label": self.label,
            "tools": list(self.tools),
            "gated_tools": list(self.gated_tools),
            "metadata": thaw(self.metadata),
        }


@dataclass(frozen=True, slots=True)
class Edge:
    """A possible transition between two steps; `condition` says when it is taken, as the framework words it."""

    source: str
    target: str
    kind: EdgeKind = "direct"
    condition: str = ""

    def to_dict(self) -> dict[str, str]:
        return {"source": self.source, "target": self.target, "kind": self.kind, "condition": self.condition}


@dataclass(frozen=True)
class Graph:
    """A workflow graph: immutable, and equal to another if their JSON is equal.

    Attributes:
        name: the name of the workflow.
        framework: the name of the extractor, such as `langgraph`; `json` for a graph file.
        entry_id: the only node where a run begins.
        exit_ids: the nodes where a run ends.
        notes: remarks on the extraction for human readers, such as guesses and widened edges.
    """

    name: str
    framework: str
    entry_id: str
    exit_ids: tuple[str, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Returns the graph as JSON, in the public key order."""
        return {
            "name": self.name,
            "framework": self.framework,
            "entry_id": self.entry_id,
            "exit_ids": list(self.exit_ids),
            "nodes": [node.to_dict() for node in self.nodes],
            "edges": [edge.to_dict() for edge in self.edges],
            "notes": list(self.notes),
        }

    @cached_property
    def by_id(self) -> Mapping[str, Node]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def digest(self) -> str:
        """A hash of the whole graph that does not depend on the order of its nodes and edges."""
        parts = [
            ascii((self.name, self.framework, self.entry_id, self.exit_ids)),
            *sorted(map(_node_line, self.nodes)),
            *sorted(f"{edge.source!a} {edge.target!a} {edge.kind} {edge.condition!a}" for edge in self.edges),
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _node_line(node: Node) -> str:
    """A line with every field of a node; different nodes have different lines."""
    more = json.dumps(thaw(node.metadata), sort_keys=True, default=str) if node.metadata else "{}"
    return f"{node.id!a} {node.kind} {node.label!a} {node.tools!a} {node.gated_tools!a} {more}"


class GraphBuilder:
    """Collects the nodes and edges of a graph for an extractor.

    The entry `__start__` and the exit `__end__` exist from the beginning.
    """

    def __init__(self, name: str, framework: str) -> None:
        self.name, self.framework = name, framework
        self._nodes: dict[str, Node] = {START: Node(START, "entry"), END: Node(END, "exit")}
        self._edges: dict[tuple[str, str, EdgeKind, str], Edge] = {}
        self.notes: list[str] = []

    def node(
        self,
        id: str,  # noqa: A002 - as in the JSON
        kind: NodeKind,
        *,
        label: str = "",
        tools: Iterable[str] = (),
        gated_tools: Iterable[str] = (),
        **metadata: Any,
    ) -> None:
        """Adds a node, or replaces the node with that id. Leaves out metadata that is None."""
        known = {key: value for key, value in metadata.items() if value is not None}
        for key in MARKS:
            if key in known and not (shown := _without_own_file(known, key)):
                del known[key]
            elif key in known:
                known[key] = shown
        all_tools, gated = tuple(dict.fromkeys(tools)), tuple(dict.fromkeys(gated_tools))
        self._nodes[id] = Node(id, kind, label or id, all_tools, gated, freeze(known))

    def edge(self, source: str, target: str, kind: EdgeKind = "direct", condition: str = "") -> None:
        """Adds an edge, unless the graph has the same edge already."""
        self._edges.setdefault((source, target, kind, condition), Edge(source, target, kind, condition))

    def has_edge_from(self, source: str) -> bool:
        return any(edge.source == source for edge in self._edges.values())

    def __contains__(self, id: str) -> bool:  # noqa: A002 - as above
        return id in self._nodes

    def note(self, text: str) -> None:
        """Adds a remark on the extraction for human readers."""
        if text not in self.notes:
            self.notes.append(text)

    def mark(self, id: str, key: MarkKey, *unknown: Unseen | str) -> None:  # noqa: A002 - as above
        """Marks a node with what is unknown; a mark on the entry is for parts of the workflow that have no node."""
        node = self._nodes[id]
        known = {**node.metadata, key: merged(node.metadata.get(key), *unknown)}
        self._nodes[id] = replace(node, metadata=freeze({**known, key: _without_own_file(known, key)}))

    def graph(self) -> Graph:
        """Returns the graph, with a note for each mark. An unreachable exit stays in it: the checks report it."""
        nodes = tuple(self._nodes.values())
        notes = dict.fromkeys([*map(str, unknown_parts(nodes)), *self.notes])
        return Graph(self.name, self.framework, START, (END,), nodes, tuple(self._edges.values()), tuple(notes))


def _without_own_file(metadata: Mapping[str, Any], key: str) -> object:
    """Returns a mark without its file if that is the file of the node."""
    value = metadata[key]
    if not isinstance(value, Mapping) or value.get("file") != metadata.get("file"):
        return value
    return {name: one for name, one in value.items() if name != "file"}
