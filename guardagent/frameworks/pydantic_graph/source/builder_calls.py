"""The calls of a `GraphBuilder` in source code, which make the draft of its graph."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from guardagent.frameworks.pydantic_graph.source.agents import Registration, function_name
from guardagent.frameworks.pydantic_graph.source.builder import (
    GraphDraft,
    PathDraft,
    decision_of,
    part_of,
    way_to,
)
from guardagent.frameworks.pydantic_graph.source.classes import (
    LIBRARY,
    STARTS,
)
from guardagent.workflow.python_source.stubs import ClassStub, Method, ObjectStub, converter_of, make
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Alias,
    Arguments,
    Class,
    Function,
    PartialFunction,
    Sequence,
    Values,
    exactly,
    is_member_of,
    path_of,
)


def _draft(owner: ObjectStub) -> GraphDraft:
    found: GraphDraft = owner.attributes["draft"].known[0]
    return found


def _settle_builder(stub: ObjectStub) -> None:
    draft = GraphDraft(stub.interpreter)
    stub.interpreter.graphs.append(draft)
    stub.attributes |= {"draft": exactly(draft), "start_node": exactly(draft.start), "end_node": exactly(draft.end)}


def _text(values: Values | None) -> str | None:
    found = sorted(values.strings or ()) if values is not None else []
    return found[0] if len(found) == 1 else None


def _step(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`g.step(...)` and `g.stream(...)`, as decorators or called."""
    functions = arguments.get("call", 0)
    if functions is None:
        return exactly(Registration(lambda passed: _made_step(owner, passed, arguments, line)))
    return _made_step(owner, functions, arguments, line)


def _made_step(owner: ObjectStub, functions: Values, options: Arguments, line: int) -> Values:
    made = []
    for one in functions.known:
        identifier = _text(options.get("node_id")) or function_name(owner.interpreter, one) or "step"
        shown = _shown(owner, one)
        part = part_of("Step", "step", id=identifier, call=shown, label=_text(options.get("label")), function=one)
        made.append(_node(owner, part, line))
    return Values(tuple(made), functions.complete)


def _node(owner: ObjectStub, part: Any, line: int) -> ObjectStub:
    return make(owner.interpreter, _NODE, Arguments((), {"part": exactly(part), "id": exactly(part.id)}), line)


def _shown(owner: ObjectStub, value: object) -> Any:
    return converter_of(owner.interpreter).convert(value)


def _join(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    reducers = arguments.get("reducer", 0) or UNKNOWN
    one = reducers.known[0] if reducers.known else None
    identifier = _text(arguments.get("node_id")) or _draft(owner).free_id(
        function_name(owner.interpreter, one) or "join"
    )
    known = isinstance(one, Function | PartialFunction)
    first = is_member_of(getattr(one, "callee", one), LIBRARY, "ReduceFirstValue")
    reducer = _shown(owner, one) if known else part_of("ReduceFirstValue" if first else "reduce", "join")
    return exactly(_node(owner, part_of("Join", "join", id=identifier, reducer=reducer), line))


def _decide(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    identifier = _text(arguments.get("node_id")) or _draft(owner).free_id("decision")
    part = decision_of(identifier, _text(arguments.get("note")), [])
    return exactly(make(owner.interpreter, _NODE, Arguments((), {"part": exactly(part), "id": exactly(part.id)}), line,
                        draft=owner.attributes["draft"]))  # fmt: skip


def _branch(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`decision.branch(...)`: a new decision with one branch more."""
    before = owner.attributes["part"].known[0]
    branches = [one.attributes["path"].known[0] for one in (arguments.get("branch", 0) or UNKNOWN).known
                if isinstance(one, ObjectStub) and "path" in one.attributes]  # fmt: skip
    if not branches:
        _draft(owner).leave_unfinished(f"line {line}: the source does not determine a branch of {before.id!r}")
    part = decision_of(before.id, before.note, [*before.drafts, *branches])
    return exactly(make(owner.interpreter, _NODE, Arguments((), {"part": exactly(part), "id": exactly(part.id)}), line,
                        draft=owner.attributes["draft"]))  # fmt: skip


def _path(owner: ObjectStub, path: PathDraft, line: int) -> Values:
    fields = {"path": exactly(path)}
    return exactly(make(owner.interpreter, _PATH, Arguments((), fields), line, draft=owner.attributes["draft"]))


def _edge_from(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    return _path(owner, PathDraft(tuple(_nodes(owner, arguments.positional, line))), line)


def _nodes(owner: ObjectStub, several: Iterable[Values], line: int) -> Iterator[Any]:
    for values in several:
        if len(values.known) != 1 or not values.complete:
            _draft(owner).leave_unfinished(f"line {line}: the source does not determine a node of an edge")
        found = [_draft(owner).node_of(one, line) for one in values.known]
        yield from (one for one in found if one is not None)


def _match(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    sources, tests = arguments.get("source", 0) or UNKNOWN, arguments.get("matches")
    test = tests.known[0] if tests is not None and tests.known else None
    shown = converter_of(owner.interpreter).convert(test) if test is not None else None
    return _path(owner, PathDraft(source=_type_name(sources), matches=shown), line)


def _type_name(values: Values) -> object:
    """A class with the name of the type that a branch matches."""
    one = values.known[0] if values.known else object
    if isinstance(one, Alias):
        node = one.node
        inner = (
            node.slice
            if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("TypeExpression")
            else node
        )
        return ast.unparse(inner)
    if isinstance(one, type):
        return one
    name = one.tree.name if isinstance(one, Class) else path_of(one).rpartition(".")[2]
    return type(name or "object", (), {})


def _match_node(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    ends = tuple(_nodes(owner, [arguments.get("source", 0) or UNKNOWN], line))
    path = PathDraft((), tuple(map(way_to, ends)), ends, _type_name(arguments.get("source", 0) or UNKNOWN))
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
        identifier = _text(arguments.get("fork_id")) or _draft(owner).free_id("broadcast")
        paths = [part_of("Path", "paths", items=[way_to(one)]) for one in ends]
        item = part_of("BroadcastMarker", "paths", fork_id=identifier, paths=paths)
    return _path(owner, replace(path, items=(*path.items, item), ends=ends), line)


def _map(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    identifier = _text(arguments.get("fork_id")) or _draft(owner).free_id("map")
    item = part_of(
        "MapMarker", "paths", fork_id=identifier, downstream_join_id=_text(arguments.get("downstream_join_id"))
    )
    return _further(owner, item, line)


def _label(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    return _further(owner, part_of("LabelMarker", "paths", label=_text(arguments.get("label", 0)) or ""), line)


def _transform(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    functions = (arguments.get("func", 0) or UNKNOWN).known
    shown = converter_of(owner.interpreter).convert(functions[0]) if functions else None
    return _further(owner, part_of("TransformMarker", "paths", transform=shown), line)


def _broadcast(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`edge.broadcast(lambda e: [e.to(...), ...])`."""
    path, found = _held(owner), []
    for function in (arguments.get("get_forks", 0) or UNKNOWN).known:
        fresh = _path(owner, PathDraft(path.sources), line)
        for several in owner.interpreter.call(function, Arguments((fresh,))).known:
            found += _paths(exactly(several))
    if not found:
        _draft(owner).leave_unfinished(f"line {line}: the source does not determine the branches of a broadcast")
    identifier = _text(arguments.get("fork_id")) or _draft(owner).free_id("broadcast")
    item = part_of("BroadcastMarker", "paths", fork_id=identifier, paths=[one.path for one in found])
    ends = tuple(end for one in found for end in one.ends)
    return _path(owner, replace(path, items=(*path.items, item), ends=ends), line)


def _paths(values: Values) -> list[PathDraft]:
    """The paths among some values and their lists."""
    found: list[PathDraft] = []
    for one in values.known:
        if isinstance(one, Sequence):
            found += [path for item in one.items for path in _paths(item)]
        elif isinstance(one, ObjectStub) and "path" in one.attributes:
            found.append(_held(one))
    return found


def _add(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    for values in arguments.positional:
        paths = _paths(values)
        for one in paths:
            _draft(owner).add(one)
        if not paths or not values.complete:
            _draft(owner).leave_unfinished(f"line {line}: the source does not determine an edge")
    if arguments.open or "*" in arguments.keywords:
        _draft(owner).leave_unfinished(f"line {line}: the source does not determine the edges")
    return exactly(None)


def _add_edge(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    sources, ends = (tuple(_nodes(owner, [arguments.get(name, place) or UNKNOWN], line))
                     for place, name in enumerate(("source", "destination")))  # fmt: skip
    label = _text(arguments.get("label"))
    items = [part_of("LabelMarker", "paths", label=label)] if label else []
    _draft(owner).add(PathDraft(sources, (*items, *map(way_to, ends)), ends))
    return exactly(None)


def _add_mapping(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    sources, ends = (tuple(_nodes(owner, [arguments.get(name, place) or UNKNOWN], line))
                     for place, name in enumerate(("source", "map_to")))  # fmt: skip
    identifier = _text(arguments.get("fork_id")) or _draft(owner).free_id("map")
    item = part_of(
        "MapMarker", "paths", fork_id=identifier, downstream_join_id=_text(arguments.get("downstream_join_id"))
    )
    labels = [part_of("LabelMarker", "paths", label=text) for name in ("pre_map_label", "post_map_label")
              for text in [_text(arguments.get(name))] if text]  # fmt: skip
    _draft(owner).add(PathDraft(sources, (*labels, item, *map(way_to, ends)), ends))
    return exactly(None)


def _class_node(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`g.node(Class)`: the path from a class to the nodes of its return annotation."""
    draft, path = _draft(owner), None
    for one in (arguments.get("node_type", 0) or UNKNOWN).known:
        node = draft.node_of(one, line)
        path = draft.declared(node, owner.interpreter.member(one, "run")) if node is not None else None
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
KINDS = (ClassStub("GraphBuilder", f"{LIBRARY}.graph_builder", fields={"name": None}, finish=_settle_builder,
                   methods=_BUILDER_METHODS, positional=()),)  # fmt: skip
