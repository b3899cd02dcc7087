"""Graphs of a `GraphBuilder` in source code: their nodes and edges, as the library builds them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from guardagent.errors import InputError
from guardagent.frameworks.pydantic_graph.source.classes import (
    LIBRARY,
    declared_targets,
    is_node_class,
    node_class,
)
from guardagent.workflow.python_source.stubs import ObjectStub, ProgramEvaluator
from guardagent.workflow.python_source.values import Class, LiveValue, is_member_of

_START, _END = "__start__", "__end__"
_CHANGED = "code that the source does not show may change the graph"


class GraphPart(LiveValue):
    """A node of a graph, or an item on a path; its class has the name of the library's."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def part_of(name: str, module: str, **attributes: Any) -> Any:
    return type(name, (GraphPart,), {"__module__": f"{LIBRARY}.{module}"})(**attributes)


@dataclass(frozen=True, eq=False)
class PathDraft(LiveValue):
    """A path from some nodes; `ends` are the nodes at its end.

    Attributes:
        source: of a branch of a decision, the type that it matches.
        matches: of a branch of a decision, its predicate.
    """

    sources: tuple[Any, ...] = ()
    items: tuple[Any, ...] = ()
    ends: tuple[Any, ...] = ()
    source: object = None
    matches: object = None

    @property
    def path(self) -> Any:
        return part_of("Path", "paths", items=list(self.items))


@dataclass(eq=False)
class GraphDraft(LiveValue):
    """The nodes and the edges of a builder so far.

    Attributes:
        unclear: why the source does not determine all of them; empty if it does.
    """

    interpreter: ProgramEvaluator
    nodes: dict[str, Any] = field(default_factory=dict)
    paths: dict[str, list[Any]] = field(default_factory=dict)
    unclear: str = ""
    parts: dict[object, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    @cached_property
    def built(self) -> Any:
        """The finished graph; computed when it is read, since the program may add edges after `build()`."""
        return _built(self)

    def leave_unfinished(self, why: str) -> None:
        """Notes that the rest of the program is not followed."""
        self.unclear = why if self.unclear in ("", _CHANGED) else self.unclear
        self.unclear = self.unclear or _CHANGED

    def free_id(self, label: str) -> str:
        self.counts[label] = count = self.counts.get(label, 0) + 1
        return f"{label}_{count}" if count > 1 else label

    def node_of(self, value: object, line: int) -> Any:
        """The node that a value of the program stands for."""
        if isinstance(value, ObjectStub) and "part" in value.attributes:
            return value.attributes["part"].known[0]
        if isinstance(value, GraphPart):
            return value
        if is_node_class(self.interpreter, value):
            assert isinstance(value, Class)
            key = id(value.tree)
            if key not in self.parts:
                kind = node_class(self.interpreter, value)
                self.parts[key] = part_of(
                    "NodeStep", "step", id=value.tree.name, node_type=kind, label=None, made_of=value
                )
            return self.parts[key]
        self.leave_unfinished(f"line {line}: the source does not determine a node of an edge")
        return None

    def add(self, draft: PathDraft) -> None:
        """Adds a path, with the forks on it and its nodes."""
        for source in draft.sources:
            self._insert(source)
            self.paths.setdefault(source.id, []).append(draft.path)
        for end in draft.ends:
            self._destination(end, set())
        self._forks(draft.items)

    def _insert(self, node: Any) -> None:
        if node.id not in self.nodes:
            self.nodes[node.id] = node

    def _destination(self, node: Any, seen: set[int]) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        fresh = node.id not in self.nodes
        self._insert(node)
        for branch in getattr(node, "drafts", ()):
            self._forks(branch.items)
            for end in branch.ends:
                self._destination(end, seen)
        if fresh and type(node).__name__ == "Step" and (hint := self.declared(node, node.function)) is not None:
            self.add(hint)

    def _forks(self, items: Iterable[Any]) -> None:
        for one in items:
            if type(one).__name__ == "MapMarker":
                self._insert(
                    part_of("Fork", "node", id=one.fork_id, is_map=True, downstream_join_id=one.downstream_join_id)
                )
            elif type(one).__name__ == "BroadcastMarker":
                self._insert(part_of("Fork", "node", id=one.fork_id, is_map=False, downstream_join_id=None))
                for path in one.paths:
                    self._forks(path.items)

    def declared(self, node: Any, function: object) -> PathDraft | None:
        """The path to the nodes in a return annotation, if it has only nodes."""
        ends: list[Any] = []
        for one in declared_targets(self.interpreter, function):
            steps = [each for each in one.annotations if isinstance(each, ObjectStub) and "part" in each.attributes]
            if is_member_of(one.type, LIBRARY, "End"):
                ends.append(self.end)
            elif steps:
                ends.append(self.node_of(steps[0], 0))
            elif is_node_class(self.interpreter, one.type):
                ends.append(self.node_of(one.type, 0))
            else:
                return None
        if not ends:
            return None
        if len(ends) == 1:
            return PathDraft((node,), (way_to(ends[0]),), (ends[0],))
        branches = [PathDraft((), (way_to(one),), (one,)) for one in ends]
        chosen = decision_of(self.free_id("decision"), None, branches)
        return PathDraft((node,), (way_to(chosen),), (chosen,))

    @property
    def end(self) -> Any:
        return self.parts.setdefault(_END, part_of("EndNode", "node", id=_END))

    @property
    def start(self) -> Any:
        return self.parts.setdefault(_START, part_of("StartNode", "node", id=_START))


def way_to(node: Any) -> Any:
    return part_of("DestinationMarker", "paths", destination_id=node.id)


def decision_of(identifier: str, note: object, branches: list[PathDraft]) -> Any:
    shown = [part_of("DecisionBranch", "decision", source=one.source, matches=one.matches, draft=one, path=one.path)
             for one in branches]  # fmt: skip
    return part_of("Decision", "decision", id=identifier, note=note, branches=shown, drafts=branches)


# The finished graph.


def _split(items: list[Any]) -> tuple[list[Any], list[tuple[str, list[Any]]]]:
    """The part of a path before its first fork, and the paths from the fork."""
    for place, one in enumerate(items):
        if type(one).__name__ in {"MapMarker", "BroadcastMarker"}:
            before = [*items[:place], part_of("DestinationMarker", "paths", destination_id=one.fork_id)]
            paths = [list(path.items) for path in one.paths] if hasattr(one, "paths") else [items[place + 1 :]]
            return before, [(one.fork_id, path) for path in paths]
    return items, []


def _flattened(draft: GraphDraft) -> dict[str, list[list[Any]]]:
    """The paths from each node, each up to the next node; several from one node go through a fork."""
    pending = []
    for node in draft.nodes.values():
        for branch in getattr(node, "branches", ()):
            items, later = _split(branch.path.items)
            branch.path = part_of("Path", "paths", items=items)
            pending += later
    pending += [(source, list(path.items)) for source, paths in draft.paths.items() for path in paths]
    found: dict[str, list[list[Any]]] = {}
    for source, path in pending:  # grows during the loop
        items, later = _split(path)
        found.setdefault(source, []).append(items)
        pending += later
    for source, paths in list(found.items()):
        if len(paths) > 1 and not _is_broadcast(draft.nodes[source]):
            fork = part_of("Fork", "node", id=f"{source}_broadcast_fork", is_map=False, downstream_join_id=None)
            draft.nodes[fork.id], found[fork.id] = fork, paths
            found[source] = [[way_to(fork)]]
    return found


def _is_broadcast(node: Any) -> bool:
    return type(node).__name__ == "Fork" and not node.is_map


def _built(draft: GraphDraft) -> Any:
    """The finished graph: its nodes, the paths from each, and the parent fork of each join."""
    if draft.unclear or _START not in draft.paths:
        why = draft.unclear or "the graph has no edge from its start node"
        raise InputError(f"{why}; expected steps and edges that plain calls add; verify the object instead")
    paths = _flattened(draft)
    following = _following(draft.nodes, paths)
    forks = _parent_forks(draft.nodes, following)
    edges = {key: [part_of("Path", "paths", items=one) for one in several] for key, several in paths.items()}
    return part_of("Graph", "graph_builder", nodes=draft.nodes, parent_forks=forks, edges_by_source=edges)


def _following(nodes: dict[str, Any], paths: dict[str, list[list[Any]]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, node in nodes.items():
        several = [one.path.items for one in getattr(node, "branches", ())] or paths.get(key, [])
        found[key] = [item.destination_id for items in several for item in items if hasattr(item, "destination_id")]
    return found


def _parent_forks(nodes: dict[str, Any], following: dict[str, list[str]]) -> dict[str, Any]:
    """For each join, the farthest fork on every path to it, with the nodes between."""
    before: dict[str, list[str]] = {}
    for source, targets in following.items():
        for target in targets:
            before.setdefault(target, []).append(source)
    found: dict[str, Any] = {}
    for join in (key for key, node in nodes.items() if type(node).__name__ == "Join"):
        between = [
            (fork, _between(before, join, fork)) for fork, node in nodes.items() if type(node).__name__ == "Fork"
        ]
        parents = [(fork, inner) for fork, inner in between if inner is not None and _START not in inner]
        if parents:
            fork, inner = max(parents, key=lambda pair: len(pair[1]))
            found[join] = part_of("ParentFork", "parent_forks", fork_id=fork, intermediate_nodes=inner)
    return found


def _between(before: dict[str, list[str]], join: str, fork: str) -> set[str] | None:
    """The nodes from which the join can be reached without the fork; None if the join itself is one."""
    found: set[str] = set()
    pending = [join]
    while pending:
        for one in before.get(pending.pop(), ()):
            if one == join:
                return None
            if one != fork and one not in found:
                found.add(one)
                pending.append(one)
    return found
