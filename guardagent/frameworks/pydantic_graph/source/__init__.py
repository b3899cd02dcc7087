"""Reads the source of Pydantic AI and pydantic-graph programs: agents and graphs become stubs.

Of a `GraphBuilder`, the calls make a draft, which builds the nodes and edges.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from guardagent.errors import InputError
from guardagent.frameworks.pydantic_graph import extractor as live
from guardagent.frameworks.pydantic_graph.extractor.agents import is_agent
from guardagent.frameworks.pydantic_graph.source import agents, classes
from guardagent.frameworks.pydantic_graph.source.agents import Registration, function_name, only_string
from guardagent.frameworks.pydantic_graph.source.classes import (
    LIBRARY,
    STARTS,
    declared_targets,
    is_node_class,
    node_class,
)
from guardagent.workflow.python_source.stubs import ClassStub, Method, ObjectStub, Program, make
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Alias,
    Arguments,
    Class,
    Function,
    LiveValue,
    PartialFunction,
    Sequence,
    Values,
    exactly,
    is_member_of,
    path_of,
)

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

    interpreter: Program
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
        for item in items:
            if type(item).__name__ == "MapMarker":
                self._insert(
                    part_of("Fork", "node", id=item.fork_id, is_map=True, downstream_join_id=item.downstream_join_id)
                )
            elif type(item).__name__ == "BroadcastMarker":
                self._insert(part_of("Fork", "node", id=item.fork_id, is_map=False, downstream_join_id=None))
                for path in item.paths:
                    self._forks(path.items)

    def declared(self, node: Any, function: object) -> PathDraft | None:
        """The path to the nodes in a return annotation, if it has only nodes."""
        ends: list[Any] = []
        for target in declared_targets(self.interpreter, function):
            steps = [each for each in target.annotations if isinstance(each, ObjectStub) and "part" in each.attributes]
            if is_member_of(target.type, LIBRARY, "End"):
                ends.append(self.end)
            elif steps:
                ends.append(self.node_of(steps[0], 0))
            elif is_node_class(self.interpreter, target.type):
                ends.append(self.node_of(target.type, 0))
            else:
                return None
        if not ends:
            return None
        if len(ends) == 1:
            return PathDraft((node,), (way_to(ends[0]),), (ends[0],))
        branches = [PathDraft((), (way_to(end),), (end,)) for end in ends]
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
    shown = [
        part_of(
            "DecisionBranch", "decision", source=branch.source, matches=branch.matches, draft=branch, path=branch.path
        )
        for branch in branches
    ]
    return part_of("Decision", "decision", id=identifier, note=note, branches=shown, drafts=branches)


# --- the finished graph


def _split(items: list[Any]) -> tuple[list[Any], list[tuple[str, list[Any]]]]:
    """The part of a path before its first fork, and the paths from the fork."""
    for place, item in enumerate(items):
        if type(item).__name__ in {"MapMarker", "BroadcastMarker"}:
            before = [*items[:place], part_of("DestinationMarker", "paths", destination_id=item.fork_id)]
            paths = [list(path.items) for path in item.paths] if hasattr(item, "paths") else [items[place + 1 :]]
            return before, [(item.fork_id, path) for path in paths]
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
    flattened: dict[str, list[list[Any]]] = {}
    for source, path in pending:  # grows during the loop
        items, later = _split(path)
        flattened.setdefault(source, []).append(items)
        pending += later
    for source, paths in list(flattened.items()):
        if len(paths) > 1 and not _is_broadcast(draft.nodes[source]):
            fork = part_of("Fork", "node", id=f"{source}_broadcast_fork", is_map=False, downstream_join_id=None)
            draft.nodes[fork.id], flattened[fork.id] = fork, paths
            flattened[source] = [[way_to(fork)]]
    return flattened


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
    edges = {key: [part_of("Path", "paths", items=path) for path in several] for key, several in paths.items()}
    return part_of("Graph", "graph_builder", nodes=draft.nodes, parent_forks=forks, edges_by_source=edges)


def _following(nodes: dict[str, Any], paths: dict[str, list[list[Any]]]) -> dict[str, list[str]]:
    successors: dict[str, list[str]] = {}
    for key, node in nodes.items():
        several = [branch.path.items for branch in getattr(node, "branches", ())] or paths.get(key, [])
        successors[key] = [
            item.destination_id for items in several for item in items if hasattr(item, "destination_id")
        ]
    return successors


def _parent_forks(nodes: dict[str, Any], following: dict[str, list[str]]) -> dict[str, Any]:
    """For each join, the farthest fork on every path to it, with the nodes between."""
    before: dict[str, list[str]] = {}
    for source, targets in following.items():
        for target in targets:
            before.setdefault(target, []).append(source)
    parent_forks: dict[str, Any] = {}
    for join in (key for key, node in nodes.items() if type(node).__name__ == "Join"):
        between = [
            (fork, _between(before, join, fork)) for fork, node in nodes.items() if type(node).__name__ == "Fork"
        ]
        parents = [(fork, inner) for fork, inner in between if inner is not None and _START not in inner]
        if parents:
            fork, inner = max(parents, key=lambda pair: len(pair[1]))
            parent_forks[join] = part_of("ParentFork", "parent_forks", fork_id=fork, intermediate_nodes=inner)
    return parent_forks


def _between(before: dict[str, list[str]], join: str, fork: str) -> set[str] | None:
    """The nodes from which the join can be reached without the fork; None if the join itself is one."""
    nodes: set[str] = set()
    pending = [join]
    while pending:
        for predecessor in before.get(pending.pop(), ()):
            if predecessor == join:
                return None
            if predecessor != fork and predecessor not in nodes:
                nodes.add(predecessor)
                pending.append(predecessor)
    return nodes


# --- the calls


def _draft(owner: ObjectStub) -> GraphDraft:
    graph_draft: GraphDraft = owner.attributes["draft"].known[0]
    return graph_draft


def _settle_builder(stub: ObjectStub) -> None:
    draft = GraphDraft(stub.interpreter)
    stub.interpreter.graphs.append(draft)
    stub.attributes |= {"draft": exactly(draft), "start_node": exactly(draft.start), "end_node": exactly(draft.end)}


def _step(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`g.step(...)` and `g.stream(...)`, as decorators or called."""
    functions = arguments.get("call", 0)
    if functions is None:
        return exactly(Registration(lambda passed: _made_step(owner, passed, arguments, line)))
    return _made_step(owner, functions, arguments, line)


def _made_step(owner: ObjectStub, functions: Values, options: Arguments, line: int) -> Values:
    made = []
    for function in functions.known:
        identifier = only_string(options.get("node_id")) or function_name(owner.interpreter, function) or "step"
        shown = _shown(owner, function)
        part = part_of(
            "Step", "step", id=identifier, call=shown, label=only_string(options.get("label")), function=function
        )
        made.append(_node(owner, part, line))
    return Values(tuple(made), functions.complete)


def _node(owner: ObjectStub, part: Any, line: int, **attributes: Values) -> ObjectStub:
    fields = {"part": exactly(part), "id": exactly(part.id)}
    return make(owner.interpreter, _NODE, Arguments((), fields), line, **attributes)


def _shown(owner: ObjectStub, value: object) -> Any:
    return owner.interpreter.converter.convert(value)


def _join(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    reducers = arguments.values_of("reducer", 0)
    first_reducer = reducers.known[0] if reducers.known else None
    identifier = only_string(arguments.get("node_id")) or _draft(owner).free_id(
        function_name(owner.interpreter, first_reducer) or "join"
    )
    known = isinstance(first_reducer, Function | PartialFunction)
    first = is_member_of(getattr(first_reducer, "callee", first_reducer), LIBRARY, "ReduceFirstValue")
    reducer = _shown(owner, first_reducer) if known else part_of("ReduceFirstValue" if first else "reduce", "join")
    return exactly(_node(owner, part_of("Join", "join", id=identifier, reducer=reducer), line))


def _decide(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    identifier = only_string(arguments.get("node_id")) or _draft(owner).free_id("decision")
    part = decision_of(identifier, only_string(arguments.get("note")), [])
    return exactly(_node(owner, part, line, draft=owner.attributes["draft"]))


def _branch(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`decision.branch(...)`: a new decision with one branch more."""
    before = owner.attributes["part"].known[0]
    branches = [value.attributes["path"].known[0] for value in arguments.values_of("branch", 0).known
                if isinstance(value, ObjectStub) and "path" in value.attributes]  # fmt: skip
    if not branches:
        _draft(owner).leave_unfinished(f"line {line}: the source does not determine a branch of {before.id!r}")
    part = decision_of(before.id, before.note, [*before.drafts, *branches])
    return exactly(_node(owner, part, line, draft=owner.attributes["draft"]))


def _path(owner: ObjectStub, path: PathDraft, line: int) -> Values:
    fields = {"path": exactly(path)}
    return exactly(make(owner.interpreter, _PATH, Arguments((), fields), line, draft=owner.attributes["draft"]))


def _edge_from(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    return _path(owner, PathDraft(tuple(_nodes(owner, arguments.positional, line))), line)


def _nodes(owner: ObjectStub, several: Iterable[Values], line: int) -> Iterator[Any]:
    for values in several:
        if len(values.known) != 1 or not values.complete:
            _draft(owner).leave_unfinished(f"line {line}: the source does not determine a node of an edge")
        nodes = [_draft(owner).node_of(value, line) for value in values.known]
        yield from (node for node in nodes if node is not None)


def _match(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    sources, tests = arguments.values_of("source", 0), arguments.get("matches")
    test = tests.known[0] if tests is not None and tests.known else None
    shown = _shown(owner, test) if test is not None else None
    return _path(owner, PathDraft(source=_type_name(sources), matches=shown), line)


def _type_name(values: Values) -> object:
    """A class with the name of the type that a branch matches."""
    value = values.known[0] if values.known else object
    if isinstance(value, Alias):
        node = value.node
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("TypeExpression"):
            node = node.slice
        return ast.unparse(node)
    if isinstance(value, type):
        return value
    name = value.tree.name if isinstance(value, Class) else path_of(value).rpartition(".")[2]
    return type(name or "object", (), {})


def _match_node(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    ends = tuple(_nodes(owner, [arguments.values_of("source", 0)], line))
    path = PathDraft((), tuple(map(way_to, ends)), ends, _type_name(arguments.values_of("source", 0)))
    return _path(owner, path, line)


def _held(owner: ObjectStub) -> PathDraft:
    path: PathDraft = owner.attributes["path"].known[0]
    return path


def _further(owner: ObjectStub, item: Any, line: int) -> Values:
    path = _held(owner)
    return _path(owner, replace(path, items=(*path.items, item)), line)


def _to_nodes(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    path, ends = _held(owner), tuple(_nodes(owner, arguments.positional, line))
    if len(ends) == 1:
        item = way_to(ends[0])
    else:
        identifier = only_string(arguments.get("fork_id")) or _draft(owner).free_id("broadcast")
        paths = [part_of("Path", "paths", items=[way_to(end)]) for end in ends]
        item = part_of("BroadcastMarker", "paths", fork_id=identifier, paths=paths)
    return _path(owner, replace(path, items=(*path.items, item), ends=ends), line)


def _map(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    return _further(owner, _map_marker(owner, arguments), line)


def _map_marker(owner: ObjectStub, arguments: Arguments) -> Any:
    identifier = only_string(arguments.get("fork_id")) or _draft(owner).free_id("map")
    joins = only_string(arguments.get("downstream_join_id"))
    return part_of("MapMarker", "paths", fork_id=identifier, downstream_join_id=joins)


def _label(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    return _further(owner, part_of("LabelMarker", "paths", label=only_string(arguments.get("label", 0)) or ""), line)


def _transform(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    functions = arguments.values_of("func", 0).known
    shown = _shown(owner, functions[0]) if functions else None
    return _further(owner, part_of("TransformMarker", "paths", transform=shown), line)


def _broadcast(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`edge.broadcast(lambda e: [e.to(...), ...])`."""
    path, targets = _held(owner), []
    for function in arguments.values_of("get_forks", 0).known:
        fresh = _path(owner, PathDraft(path.sources), line)
        for several in owner.interpreter.call(function, Arguments((fresh,))).known:
            targets += _paths(exactly(several))
    if not targets:
        _draft(owner).leave_unfinished(f"line {line}: the source does not determine the branches of a broadcast")
    identifier = only_string(arguments.get("fork_id")) or _draft(owner).free_id("broadcast")
    item = part_of("BroadcastMarker", "paths", fork_id=identifier, paths=[target.path for target in targets])
    ends = tuple(end for target in targets for end in target.ends)
    return _path(owner, replace(path, items=(*path.items, item), ends=ends), line)


def _paths(values: Values) -> list[PathDraft]:
    """The paths among some values and their lists."""
    path_drafts: list[PathDraft] = []
    for value in values.known:
        if isinstance(value, Sequence):
            path_drafts += [path for item in value.items for path in _paths(item)]
        elif isinstance(value, ObjectStub) and "path" in value.attributes:
            path_drafts.append(_held(value))
    return path_drafts


def _add(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    for values in arguments.positional:
        paths = _paths(values)
        for path in paths:
            _draft(owner).add(path)
        if not paths or not values.complete:
            _draft(owner).leave_unfinished(f"line {line}: the source does not determine an edge")
    if arguments.open or "*" in arguments.keywords:
        _draft(owner).leave_unfinished(f"line {line}: the source does not determine the edges")
    return exactly(None)


def _add_edge(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    return _add_path(owner, arguments, line, "destination", _labels(arguments, "label"))


def _add_path(owner: ObjectStub, arguments: Arguments, line: int, target: str, items: Iterable[Any]) -> Values:
    """Adds the path from the argument `source` to the target."""
    sources = tuple(_nodes(owner, [arguments.values_of("source", 0)], line))
    ends = tuple(_nodes(owner, [arguments.values_of(target, 1)], line))
    _draft(owner).add(PathDraft(sources, (*items, *map(way_to, ends)), ends))
    return exactly(None)


def _labels(arguments: Arguments, *names: str) -> list[Any]:
    texts = [only_string(arguments.get(name)) for name in names]
    return [part_of("LabelMarker", "paths", label=text) for text in texts if text]


def _add_mapping(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    items = [*_labels(arguments, "pre_map_label", "post_map_label"), _map_marker(owner, arguments)]
    return _add_path(owner, arguments, line, "map_to", items)


def _class_node(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`g.node(Class)`: the path from a class to the nodes of its return annotation."""
    draft, path = _draft(owner), None
    for value in arguments.values_of("node_type", 0).known:
        node = draft.node_of(value, line)
        path = draft.declared(node, owner.interpreter.member(value, "run")) if node is not None else None
        if node is not None and path is None:
            draft.leave_unfinished(f"line {line}: the annotation of {node.id!r} does not name the nodes that follow")
    return UNKNOWN if path is None else _path(owner, path, line)


def _build(owner: ObjectStub, arguments: Arguments, line: int) -> Values:  # noqa: ARG001
    name = owner.attributes.get("name", exactly(None))
    return exactly(make(owner.interpreter, BUILT, Arguments((), {"name": name}), line, draft=owner.attributes["draft"]))


_BUILDER_METHODS: dict[str, Method] = {
    "step": _step, "stream": _step, "join": _join, "decision": _decide, "edge_from": _edge_from, "match": _match,
    "match_node": _match_node, "add": _add, "add_edge": _add_edge, "add_mapping_edge": _add_mapping,
    "node": _class_node, "build": _build,
}  # fmt: skip
_PATH = ClassStub(
    "EdgePathBuilder", f"{LIBRARY}.paths", fields={"path": None},
    methods={"to": _to_nodes, "map": _map, "label": _label, "transform": _transform, "broadcast": _broadcast},
)  # fmt: skip
_NODE = ClassStub("NodeHandle", f"{LIBRARY}.step", fields={"part": None, "id": None}, methods={"branch": _branch})
BUILT = ClassStub("Graph", f"{LIBRARY}.graph_builder", fields={"name": None}, methods=STARTS, fallbacks={"name": None})
_BUILDER = ClassStub(
    "GraphBuilder", f"{LIBRARY}.graph_builder", fields={"name": None}, finish=_settle_builder, methods=_BUILDER_METHODS,
    positional=(),
)  # fmt: skip
KINDS = (*agents.KINDS, *classes.KINDS, _BUILDER)


extract = live.extract
called = agents.called


def is_workflow(value: object) -> bool:
    return isinstance(value, ObjectStub) and (is_agent(value) or live.is_graph(value))
