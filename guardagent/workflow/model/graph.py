"""The workflow graph of an agent: its steps, their possible order, and its unknown parts (Agentproof, Definition 1).

A mark in the metadata of a node states what an extractor could not see, with the reason and the place in the source:
`tools_unknown` says why the node may call tools that are not listed, and `widened` says why its edges are assumed. The
notes of a graph, its reports and its proofs read the marks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

from guardagent.errors import name_hint
from guardagent.types import EMPTY, freeze, thaw

MarkKey = Literal["tools_unknown", "widened"]
TOOLS: MarkKey = "tools_unknown"
EDGES: MarkKey = "widened"
MARKS: tuple[MarkKey, ...] = (TOOLS, EDGES)
_KEYS = ("reason", "line", "file")
_UNRECORDED = "the reason is not recorded"
MOST_REASONS = 4  # in one mark


@dataclass(frozen=True, slots=True)
class Unseen:
    """One thing that could not be seen.

    Attributes:
        reason: the reason, as the end of a sentence.
        line: the line in the source, if it is known.
        file: the file of the line; empty if it is the file of the node.
    """

    reason: str
    line: int | None = None
    file: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file and self.line else f"line {self.line}: " if self.line else ""
        return f"{place}{self.reason}"

    def inside(self, what: str) -> Unseen:
        """Returns the same as a part of something, such as a tool."""
        return replace(self, reason=f"{what}: {self.reason}")

    def to_dict(self) -> dict[str, Any]:
        return {"reason": self.reason, "line": self.line, **({"file": self.file} if self.file else {})}


@dataclass(frozen=True, slots=True)
class UnknownPart:
    """An unknown part of a graph: the node, the key of the mark, and what could not be seen.

    A mark on the entry is for parts of the workflow that have no node.
    """

    node: Node
    key: MarkKey
    unknown: Unseen

    def __str__(self) -> str:
        if self.key == TOOLS:
            whose = "the workflow" if self.node.kind == "entry" else f"{self.node.id}:"
            return f"{whose} may call tools that cannot be seen: {self.unknown}"
        return f"{self.node.id}: its edges are assumed: {self.unknown}"

    def to_dict(self) -> dict[str, Any]:
        return {"node": self.node.id, "mark": self.key, **self.unknown.to_dict()}


def mark(*several: Unseen | str | None) -> dict[str, Any] | None:
    """Returns the mark for a node's metadata; None if nothing is unknown. The first one gives the place."""
    marks = list(dict.fromkeys(Unseen(reason) if isinstance(reason, str) else reason for reason in several if reason))
    if not marks:
        return None
    more = [f"and {len(marks) - MOST_REASONS} more"] if len(marks) > MOST_REASONS else []
    reasons = "; ".join([marks[0].reason, *map(str, marks[1:MOST_REASONS]), *more])
    return replace(marks[0], reason=reasons).to_dict()


def merged(old: object, *more: Unseen | str | None) -> dict[str, Any] | None:
    """Returns the mark for what another mark says, and more."""
    return mark(_read(old) if old else None, *more)


def unknown_tools(node: Node) -> Unseen | None:
    """Returns why a node may call tools that are not listed; None if all its tools are known."""
    metadata = node.metadata
    if not metadata:
        return None
    if value := metadata.get(TOOLS):
        return _read(value)
    if several := metadata.get("unknown_tools"):
        return Unseen(f"the members of {', '.join(map(repr, several))} are known only at run time")
    return None


def assumed_edges(node: Node) -> Unseen | None:
    """Returns why the edges out of a node are assumed; None if they are known."""
    value = node.metadata.get(EDGES) if node.metadata else None
    return _read(value) if value else None


def unknown_parts(nodes: Iterable[Node]) -> Iterator[UnknownPart]:
    """Yields the unknown parts of a graph, node by node."""
    for node in nodes:
        if not node.metadata:
            continue
        tools, edges = unknown_tools(node), assumed_edges(node)
        if tools:
            yield UnknownPart(node, TOOLS, tools)
        if edges and edges != tools:
            yield UnknownPart(node, EDGES, edges)


def _read(value: object) -> Unseen:
    """Reads a mark; any other true value is a mark without a reason, as earlier versions wrote."""
    if not isinstance(value, Mapping):
        return Unseen(_UNRECORDED)
    return Unseen(str(value.get("reason") or _UNRECORDED), value.get("line"), str(value.get("file") or ""))


def mark_problem(metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    """Returns the place and the problem of a wrong mark in the metadata of a JSON file; None if there is none."""
    for key in MARKS:
        value = metadata.get(key)
        if value is None or type(value) is bool:
            continue
        if not isinstance(value, Mapping):
            return key, "expected true, or an object with 'reason' and 'line'"
        if problem := _problem_in(value):
            return f"{key}.{problem[0]}" if problem[0] else key, problem[1]
    return None


def _problem_in(value: Mapping[str, Any]) -> tuple[str, str] | None:
    if wrong := next((unknown_key for unknown_key in value if unknown_key not in _KEYS), None):
        return "", f"unknown key {wrong[:60]!r}{name_hint(wrong[:60], _KEYS)}"
    reason, line, file = (value.get(key) for key in _KEYS)
    if type(reason) is not str or not reason:
        return "reason", "expected a string that says why"
    if line is not None and (type(line) is not int or line < 1):
        return "line", "expected a line number from 1, or null"
    if "file" in value and (type(file) is not str or not file):
        return "file", "expected the path of a file"
    return None


# --- the graph

NodeKind = Literal["entry", "exit", "tool", "llm", "router", "human", "subgraph", "passthrough"]
EdgeKind = Literal["direct", "conditional", "parallel", "loop"]
NODE_KINDS: tuple[NodeKind, ...] = get_args(NodeKind)
EDGE_KINDS: tuple[EdgeKind, ...] = get_args(EdgeKind)

START, END = "__start__", "__end__"
CONDITION = "another branch ended the run"
"""Of an edge to an exit."""


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
            that there are more than in the program), both as `mark` makes them,
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
    return {name: entry for name, entry in value.items() if name != "file"}
