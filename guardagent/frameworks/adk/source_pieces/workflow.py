"""Workflows of ADK in source code: their nodes and edges, as ADK builds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from guardagent.frameworks.adk.extractor.tools import ADK
from guardagent.workflow.extraction.objects import is_a
from guardagent.workflow.python_source.stubs import (
    REQUIRED,
    ClassStub,
    ObjectStub,
    ProgramEvaluator,
    ValueConverter,
    converter_of,
    copy_of,
    identity,
    make,
)
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Function,
    PartialFunction,
    Sequence,
    Table,
    Values,
    exactly,
)

_START = "START"
WORKFLOW_CONSTANTS: dict[str, object] = {
    f"{ADK}.workflow.START": _START,
    f"{ADK}.workflow._base_node.START": _START,
    f"{ADK}.workflow.DEFAULT_ROUTE": "__DEFAULT__",
    f"{ADK}.workflow._graph.DEFAULT_ROUTE": "__DEFAULT__",
}
_GRAPH = ClassStub(
    "Graph", f"{ADK}.workflow._graph", fields={"nodes": [], "edges": []}, list_fields=frozenset({"nodes", "edges"})
)
_EDGE = ClassStub("Edge", f"{ADK}.workflow._graph", fields={"from_node": REQUIRED, "to_node": REQUIRED, "route": None})


def kinds(base: ClassStub) -> tuple[ClassStub, ...]:
    """The classes of workflows and their nodes."""
    return (
        _GRAPH,
        _EDGE,
        ClassStub("Workflow", f"{ADK}.workflow._workflow", base, {"edges": [], "graph": None}, finish=_settle_workflow),
        _kind("FunctionNode", base, {"func": None, "require_confirmation": False}, settle=_settle_function),
        _kind("Node", base, {"parallel_worker": False}),
        _kind("JoinNode", base, {}),
        _kind("_ToolNode", base, {"tool": None}),
        _kind("_ParallelWorker", base, {"_node": None}),
    )


def _kind(name: str, base: ClassStub, fields: dict[str, object], settle: object = None) -> ClassStub:
    return ClassStub(name, f"{ADK}.workflow.{name.lower()}", base, fields, finish=settle)  # type: ignore[arg-type]


def _settle_function(stub: ObjectStub) -> None:
    """Names a node after its function."""
    stub.attributes["_func"] = stub.attributes["func"]
    name = stub.attributes["name"]
    if name.known == (None,) or not (name.known or name.complete):
        stage = converter_of(stub.interpreter)
        names = [_name_of(stage, one) for one in stub.attributes["func"].known]
        stub.attributes["name"] = Values(tuple(dict.fromkeys(names)), stub.attributes["func"].complete)


def _name_of(stage: ValueConverter, one: object) -> str:
    shown = stage.convert(one)
    return str(getattr(shown, "__name__", None) or getattr(shown, "name", None) or type(shown).__name__)


def node(interpreter: ProgramEvaluator, wrapped: Values, options: Arguments, line: int) -> Values:
    """The nodes that `node(...)` returns."""
    worker = options.get("parallel_worker")
    stub = [_node_of(interpreter, one, options, line) for one in wrapped.known]
    if worker is not None and worker.known != (False,):
        stub = [_worker(interpreter, one, line) for one in stub]
    return Values(tuple(stub), wrapped.complete)


def _worker(interpreter: ProgramEvaluator, one: ObjectStub, line: int) -> ObjectStub:
    kind = interpreter.kinds.of(f"{ADK}.workflow._ParallelWorker")
    assert kind is not None
    return make(interpreter, kind, Arguments((), {"name": exactly(one.name)}), line, _node=exactly(one))


def _node_of(interpreter: ProgramEvaluator, one: object, options: Arguments, line: int) -> ObjectStub:
    """The node that ADK creates for a value."""
    overrides = {key: options.keywords[key] for key in ("name", "require_confirmation") if key in options.keywords}
    if isinstance(one, ObjectStub) and is_a(one, ADK, "BaseNode"):
        return _node_copy(one, overrides)
    if is_a(one, ADK, "NodeTool"):
        inner = getattr(one, "node", None)
        return _node_of(interpreter, inner, options, line)
    if is_a(one, ADK, "BaseTool"):
        named = {"name": exactly(str(getattr(one, "name", "tool"))), **overrides}
        return _create(interpreter, "_ToolNode", {**named, "tool": exactly(one)}, line)
    return _create(interpreter, "FunctionNode", {"func": exactly(one), **overrides}, line)


def _create(interpreter: ProgramEvaluator, name: str, fields: dict[str, Values], line: int) -> ObjectStub:
    kind = interpreter.kinds.of(f"{ADK}.workflow.{name}")
    assert kind is not None
    return make(interpreter, kind, Arguments((), fields), line)


def _node_copy(one: ObjectStub, changes: dict[str, Values]) -> ObjectStub:
    """A node as a workflow holds it: an agent with a model is copied, with its sub-agents."""
    if not is_a(one, ADK, "LlmAgent"):
        return copy_of(one, Arguments((), changes)) if changes else one
    stub = copy_of(one, Arguments((), changes))
    parent = stub.attributes.get("parent_agent", exactly(None))
    adopt(stub)
    stub.attributes["parent_agent"] = parent
    if stub.attributes.get("mode", exactly(None)).known == (None,):
        stub.attributes["mode"] = exactly("single_turn" if parent.known == (None,) else "chat")
    if one.attributes.get("parallel_worker", NOTHING).known == (True,):
        stub.attributes["parallel_worker"] = Values((False,))
        return _worker(one.interpreter, stub, one.line)
    return stub


def adopt(stub: ObjectStub, copies: dict[int, ObjectStub] | None = None) -> None:
    """Replaces the sub-agents of a copied agent by copies; `copies` maps the ids of originals to their copies."""
    copies = {} if copies is None else copies
    held = stub.attributes.get("sub_agents")
    stub.attributes["parent_agent"] = exactly(None)
    if held is not None:
        stub.attributes["sub_agents"] = Values(
            tuple(_child_copies(stub, one, copies) for one in held.known), held.complete
        )


def _child_copies(parent: ObjectStub, held: object, copies: dict[int, ObjectStub]) -> object:
    if not isinstance(held, Sequence):
        return held
    items = [
        Values(tuple(_child_copy(parent, one, copies) for one in item.known), item.complete) for item in held.items
    ]  # fmt: skip
    return Sequence(tuple(items), held.ordered)


def _child_copy(parent: ObjectStub, one: object, copies: dict[int, ObjectStub]) -> object:
    if not isinstance(one, ObjectStub):
        return one
    if id(one) not in copies:
        copies[id(one)] = copy_of(one, Arguments())
        adopt(copies[id(one)], copies)
        copies[id(one)].attributes["parent_agent"] = exactly(parent)
    return copies[id(one)]


# The graph of a workflow.


def _settle_workflow(stub: ObjectStub) -> None:
    if stub.attributes["graph"].known == (None,):
        stub.attributes["graph"] = exactly(_EdgeParser(stub).graph())


class _EdgeParser:
    """Parses the edges of one workflow: pairs, chains, routes."""

    def __init__(self, workflow: ObjectStub) -> None:
        self._workflow, self._interpreter, self._line = workflow, workflow.interpreter, workflow.line
        self._nodes: dict[object, ObjectStub] = {}
        self._edges: list[ObjectStub] = []
        self._unknown: ObjectStub | None = None
        self._incomplete = False

    def graph(self) -> ObjectStub | None:
        for item in self._items(self._workflow.attributes["edges"]):
            self._item(item)
        if self._incomplete:
            self._widen()
        if not self._edges:
            return None
        nodes = {id(end): end for edge in self._edges for name in ("from_node", "to_node")
                 for end in edge.attributes[name].known}  # fmt: skip
        fields = {"nodes": _sequence(nodes.values()), "edges": _sequence(self._edges)}
        return make(self._interpreter, _GRAPH, Arguments((), fields), self._line)

    def _items(self, values: Values) -> Iterator[object]:
        """The values that lists can hold, in no order; records whether they are all."""
        self._incomplete = self._incomplete or not values.complete
        for one in values.known:
            if isinstance(one, Sequence):
                for item in one.items:
                    self._incomplete = self._incomplete or not item.complete
                    yield from item.known
            elif one is not None:
                self._incomplete = True

    def _item(self, item: object) -> None:
        if isinstance(item, ObjectStub) and is_a(item, ADK, "Edge"):
            route = item.attributes["route"]
            self._connect(
                self._nodes_of(item.attributes["from_node"]), self._nodes_of(item.attributes["to_node"]), route
            )
        elif isinstance(item, Sequence) and item.ordered:
            for before, after in pairwise(item.items):
                self._pair(before, after)
        else:
            self._incomplete = True
            for one in self._nodes_of(exactly(item)) if isinstance(item, Sequence) else ():
                self._node(one)

    def _pair(self, before: Values, after: Values) -> None:
        sources = self._nodes_of(before)
        plain = Values(tuple(one for one in after.known if not isinstance(one, Table)), after.complete)
        if plain.known or not plain.complete:
            self._connect(sources, self._nodes_of(plain), exactly(None))
        for table in (one for one in after.known if isinstance(one, Table)):
            for route, target in table.items:
                self._connect(sources, self._nodes_of(target), route)

    def _connect(self, sources: list[ObjectStub], targets: list[ObjectStub], route: Values) -> None:
        for source in sources:
            for target in targets:
                fields = {"from_node": exactly(source), "to_node": exactly(target), "route": self._route(route)}
                self._edges.append(make(self._interpreter, _EDGE, Arguments((), fields), self._line))

    def _route(self, route: Values) -> Values:
        """The route of an edge, or all possible routes."""
        if len(route.known) == 1 and route.complete:
            return route
        note = f"line {self._line}: the source does not determine a route of {self._workflow.name!r}"
        converter_of(self._interpreter).note(note)
        known = [one for one in route.known if isinstance(one, str | int)]
        return exactly(Sequence(tuple(map(exactly, [*known, *([] if route.complete else ["a route"])]))))

    def _nodes_of(self, values: Values) -> list[ObjectStub]:
        """The nodes of an element of a chain."""
        found: list[ObjectStub] = []
        for one in values.known:
            if isinstance(one, Sequence):
                found += [each for item in one.items for each in self._nodes_of(item)]
            elif isinstance(one, Table):
                found += [each for _, item in one.items for each in self._nodes_of(item)]
            elif one is not None:
                found.append(self._node(one))
        return found if values.complete else [*found, self._unknown_node()]

    def _node(self, one: object) -> ObjectStub:
        if one == _START:
            key: object = _START
        else:
            key = identity(one) if isinstance(one, Function | PartialFunction) else id(one)
        if key not in self._nodes:
            start = {"name": exactly("__START__")}
            self._nodes[key] = (
                _create(self._interpreter, "BaseNode", start, self._line)
                if one == _START
                else _node_of(self._interpreter, one, Arguments(), self._line)
            )
        return self._nodes[key]

    def _unknown_node(self) -> ObjectStub:
        """The stub for unknown nodes."""
        if self._unknown is None:
            note = f"line {self._line}: the source does not determine all nodes of {self._workflow.name!r}"
            converter_of(self._interpreter).note(note)
            fields = {"name": exactly("unknown"), "func": UNKNOWN}
            self._unknown = self._nodes["unknown"] = _create(self._interpreter, "FunctionNode", fields, self._line)
        return self._unknown

    def _widen(self) -> None:
        """Connects every node with every other and with an unknown node, as not all edges are known."""
        converter_of(self._interpreter).note(
            f"line {self._line}: the source does not determine all edges of {self._workflow.name!r}; all possible "
            f"edges are assumed"
        )
        self._unknown_node()
        self._node(_START)
        known = list(self._nodes.values())
        have = {(id(edge.from_node), id(edge.to_node)) for edge in self._edges}
        for source in known:
            targets = [one for one in known if one.name != "__START__" and (id(source), id(one)) not in have]
            self._connect([source], targets, exactly("a route"))


def _sequence(several: Iterable[object]) -> Values:
    return exactly(Sequence(tuple(map(exactly, several))))
