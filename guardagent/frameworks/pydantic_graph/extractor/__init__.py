"""Extracts the workflow graph of a pydantic-graph graph, or of a Pydantic AI agent (tested on 1.107 and 2.68).

Imports nothing of them and runs nothing. Reads both kinds of `Graph`: of classes derived from `BaseNode`
(`Graph(nodes=...)`, or `GraphBuilder`), and of steps, decisions, forks and joins.

**Nodes.** Every step, decision, fork and join is a node, by its id. A decision is a `router`, and so is a class whose
`run` chooses among several nodes; forks and joins are `passthrough`. A step that runs an agent has that agent's tools
(`model_chooses`); a step that runs another graph leads into it, and back by a `loop` edge. A step that calls `input()`
is `human`. Functions between the steps (transforms, predicates, reducers) belong to the step before.

**Edges.** Those of the graph. A class leads to the nodes in the return annotation of `run` and to those that its code
returns, as pydantic-graph does not compare the two; to all nodes if it is declared to return any `BaseNode` and its
code does not determine which (`widened`). Labels, the types of a decision and the names of predicates are conditions.
Every branch of a fork is a `parallel` edge; a map over nothing leads to the join that it names. If one branch can end
the run, or a join takes the first result, conditional edges lead from the others to the end or the join.

**Entry.** A `Graph(nodes=...)` receives its first node only at run time: those of the runs in its source, if they are
known; else the nodes without predecessors are assumed, else all nodes.

**Agents.** See `agents.py`: an agent is a node, and so is each agent with tools that one of its tools runs.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import getclosurevars
from types import FunctionType
from typing import Any

from guardagent.errors import InputError
from guardagent.frameworks.pydantic_graph.extractor.agents import AI, RUNS, WORDS, Agents, is_agent, transitive_tools
from guardagent.frameworks.pydantic_graph.package import FRAMEWORK
from guardagent.workflow.extraction import (
    Assembly,
    Region,
    RegionEntry,
    RegionExit,
    UnknownValue,
    abandoned_nodes,
    cancelled_nodes,
    is_a,
)
from guardagent.workflow.model.graph import CONDITION, END, EdgeKind, Graph, NodeKind, mark
from guardagent.workflow.python_source.bodies import MethodCall, ReadableFunction
from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.outcomes import source_text
from guardagent.workflow.python_source.steps import StepSummary, step_of
from guardagent.workflow.python_source.values import (
    Attribute,
    CallResult,
    Class,
    ImportedName,
    Instance,
    Stub,
    Values,
    is_member_of,
)

LIBRARY = "pydantic_graph"


def recognises(target: object) -> bool:
    return is_agent(target) or is_graph(target) or is_a(target, LIBRARY, "GraphBuilder")


def is_graph(target: object) -> bool:
    return is_a(target, LIBRARY, "Graph")


def extract(target: Any, name: str) -> Graph:
    """The graph of a graph, or of an agent.

    Raises:
        InputError: the graph is not built yet.
    """
    if is_a(target, LIBRARY, "GraphBuilder"):
        raise InputError(f"{name}: a GraphBuilder is not a graph yet; expected the result of its 'build()'")
    assembly = Assembly()
    region = Agents(assembly).region(target) if is_agent(target) else _Graphs(assembly).region(target)
    return assembly.graph(name, FRAMEWORK, region)


@dataclass(frozen=True)
class _MemberEdge:
    """An outgoing edge of a node; the target END is the end of the graph."""

    target: str
    kind: EdgeKind = "direct"
    condition: str = ""


@dataclass
class _GraphMember:
    """One node of a graph: its functions and outgoing edges."""

    owner: object
    label: str
    functions: list[object] = field(default_factory=list)
    edges: list[_MemberEdge] = field(default_factory=list)
    routes: bool = False
    widened: str = ""
    unknown: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def add_edges(self, targets: Iterable[tuple[str, str]]) -> None:
        """Adds edges to targets, conditional if there are several."""
        several = dict(targets)
        kind: EdgeKind = "conditional" if len(several) > 1 else "direct"
        self.edges += [_MemberEdge(target, kind, condition) for target, condition in several.items()]


class _Graphs:
    """Adds graphs to an assembly, with what their steps run."""

    runs = RUNS
    names = WORDS

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self._active: list[int] = []

    def region(self, graph: Any, within: tuple[str, ...] = ()) -> Region:
        """Adds a graph's nodes and edges."""
        self._active.append(id(graph))
        members, entries = _members(graph)
        ids = {key: self.assembly.id(member.owner, key, within) for key, member in members.items()}
        inner = {key: self._add(ids[key], member, within) for key, member in members.items()}
        self._active.pop()
        exits: list[RegionExit] = []
        for key, member in members.items():
            for way in member.edges:
                leave = RegionExit(ids[key], way.condition, conditional=way.kind == "conditional" or inner[key])
                if way.target == END:
                    exits.append(leave)
                else:
                    self.assembly.connect([leave], [RegionEntry(ids[way.target], way.kind)])
        self._notes(graph)
        return Region(
            tuple(RegionEntry(ids[key], kind) for key, kind in entries), tuple(exits), frozenset(ids.values())
        )

    def _notes(self, graph: Any) -> None:
        if _is_classic(graph) and not _start_nodes(graph):
            self.assembly.note("the first node is chosen at run time; the nodes without predecessors are assumed")

    def _add(self, node: str, member: _GraphMember, within: tuple[str, ...]) -> bool:
        """Describes a node and adds the graphs that it runs; returns whether its edges become conditional."""
        step = step_of(self, member.functions)
        if member.unknown:
            step.add_unknown(member.unknown)
        kind: NodeKind = (
            "router"
            if member.routes and not step.functions and not member.unknown
            else step.kind(chooses=member.routes)
        )
        widened = {"widened": mark(member.widened)} if member.widened else {}
        about = {**step.metadata(), **member.metadata, **widened}
        self.assembly.describe_tools(node, kind, member.label, step.tools, **about)
        runs = False
        for name, graph in step.graphs.items():
            if id(graph) in self._active:
                self.assembly.note(f"{node}: it runs a graph that contains it")
                continue
            region = self.region(graph, (*within, node, *([name] if len(step.graphs) > 1 else [])))
            self.assembly.connect([RegionExit(node, conditional=True)], region.entries)
            self.assembly.connect(
                [replace(region_exit, back=True) for region_exit in region.exits], [RegionEntry(node)]
            )
            runs = True
        return runs and any(way.kind == "direct" for way in member.edges)

    # The objects that the functions of a step use.

    def record(self, step: StepSummary, use: MethodCall) -> None:
        if use.method not in RUNS:
            return
        if is_agent(use.owner):
            self._agent(step, use)
        elif is_a(use.owner, LIBRARY, "Graph"):
            step.add_graph(use.owner, str(getattr(use.owner, "name", None) or "graph"))
        elif isinstance(use.owner, CallResult) and self.may_run(use.owner.callee):
            self._created(step, use.owner)

    def _agent(self, step: StepSummary, use: MethodCall) -> None:
        step.calls_model = True
        box = transitive_tools(use.owner)
        if use.after_approval:
            box.gated, box.gated_when = list(box.names), {}
        step.tools.include(box)
        step.tools.opaque_calls += box.opaque_calls
        step.model_chooses = True

    def _created(self, step: StepSummary, created: CallResult) -> None:
        """Records an agent created where it runs, with the tools listed there."""
        step.calls_model = True
        tools = created.arguments.get("tools")
        listed = Evaluator().elements(tools) if tools is not None else Values()
        shown = [step.shown(value) for value in listed.known]
        named = [tool for tool in shown if isinstance(tool, FunctionType | ReadableFunction) or is_a(tool, AI, "Tool")]
        for tool in named:
            function = tool.function if is_a(tool, AI, "Tool") else tool
            step.add_tool(
                function.__name__ if tool is function else str(tool.name),
                [function],
                MethodCall(tool, "run", unconditional=False),
            )
        if created.arguments.get("toolsets") is not None or not listed.complete or len(named) < len(listed.known):
            step.add_unknown("agent")

    def recognises(self, owner: object) -> bool:
        return (
            is_agent(owner)
            or is_a(owner, LIBRARY, "Graph")
            or (isinstance(owner, CallResult) and self.may_run(owner.callee))
        )

    def may_run(self, kind: object) -> bool:
        if isinstance(kind, type):
            return any(base.__module__.partition(".")[0] in {AI, LIBRARY} for base in kind.__mro__[:-1])
        return isinstance(kind, ImportedName | Class) and is_member_of(kind, AI, "Agent")


# The members of a graph.


def _is_classic(graph: Any) -> bool:
    return hasattr(graph, "node_defs")


def _finished(graph: Any) -> Any:
    """The nodes and paths of a graph: in source code, those of the builder's draft."""
    built: Any = graph
    return built.draft.built if isinstance(graph, Stub) else graph


def _members(graph: Any) -> tuple[dict[str, _GraphMember], list[tuple[str, EdgeKind]]]:
    """The nodes of a graph by id, and the entries."""
    return _class_members(graph) if _is_classic(graph) else _BuilderGraph(_finished(graph)).members()


def _class_members(graph: Any) -> tuple[dict[str, _GraphMember], list[tuple[str, EdgeKind]]]:
    """The nodes of a `Graph(nodes=...)`."""
    graph_members: dict[str, _GraphMember] = {}
    ids = {definition.node: key for key, definition in graph.node_defs.items()}
    for key, definition in graph.node_defs.items():
        labels = {target: str(edge.label or "") for target, edge in definition.next_node_edges.items()}
        if definition.end_edge is not None:
            labels[END] = str(definition.end_edge.label or "")
        graph_members[key] = _class_member(definition.node, labels, ids, is_open=definition.returns_base_node)
        graph_members[key].metadata["note"] = definition.note
    targets = {way.target for key, member in graph_members.items() for way in member.edges if way.target != key}
    first = _start_nodes(graph) or [key for key in graph_members if key not in targets] or list(graph_members)
    kind: EdgeKind = "conditional" if len(first) > 1 else "direct"
    return graph_members, [(key, kind) for key in first]


def _start_nodes(graph: Any) -> list[str]:
    """The nodes with which the runs in the source of a program start, if all are known."""
    return list(dict.fromkeys(getattr(graph, "start_nodes", ())))


def _class_member(kind: Any, labels: dict[str, str], ids: dict[Any, str], *, is_open: bool) -> _GraphMember:
    """The node of a class derived from `BaseNode`, with edges to the nodes that `run` declares or returns."""
    if isinstance(kind, UnknownValue):
        member = _GraphMember(
            kind, kind.name, unknown=kind.name, widened="its class is not in the program", routes=True
        )
        member.add_edges(dict.fromkeys([*ids.values(), END], "").items())
        return member
    function = getattr(kind, "bound_run", None) or partial(kind.run, Instance(kind))
    member = _GraphMember(kind, kind.__name__, [function])
    step = step_of(_BODY_READER, [function])
    returned = step.bodies[0].return_values
    seen = {target: "" for value in returned.known for target in _targets(value, ids)}
    if is_open and not (returned.complete and seen):
        member.widened = "the node that it returns is neither declared nor known"
        seen = dict.fromkeys([*ids.values(), END], "")
    member.add_edges({**seen, **labels}.items())
    member.routes = len(member.edges) > 1
    return member


def _targets(value: object, ids: dict[Any, str]) -> Iterator[str]:
    """The nodes that a value returned by `run` stands for."""
    kind = value.callee if isinstance(value, CallResult) else value.of if isinstance(value, Instance) else type(value)
    if is_member_of(kind, LIBRARY, "End"):
        yield END
    elif isinstance(kind, type) and kind in ids:
        yield ids[kind]
    elif isinstance(value, CallResult) and is_member_of(kind, LIBRARY, "as_node") and value.arguments.positional:
        yield from (str(step.id) for step in value.arguments.positional[0].known if hasattr(step, "id"))
    elif isinstance(kind, Attribute) and kind.name == "as_node" and hasattr(kind.owner, "id"):
        yield str(kind.owner.id)


class _BodyReader:
    """A reader that uses only the bodies."""

    runs: frozenset[str] = frozenset()
    names = WORDS

    def record(self, step: StepSummary, use: MethodCall) -> None:
        """Ignores the use."""

    def recognises(self, owner: object) -> bool:  # noqa: ARG002 - as the others
        return True

    def may_run(self, kind: object) -> bool:  # noqa: ARG002 - as the others
        return False


_BODY_READER = _BodyReader()


@dataclass
class _BuilderGraph:
    """A graph that a `GraphBuilder` built."""

    graph: Any

    def members(self) -> tuple[dict[str, _GraphMember], list[tuple[str, EdgeKind]]]:
        nodes = {str(key): node for key, node in self.graph.nodes.items()}
        ids = {node.node_type: key for key, node in nodes.items() if is_a(node, LIBRARY, "NodeStep")}
        begins = [way for path in self._paths("__start__") for way in self._destinations(path)]
        graph_members: dict[str, _GraphMember] = {}
        for key, graph_node in nodes.items():
            if not is_a(graph_node, LIBRARY, "StartNode", "EndNode"):
                graph_members[key] = self._member(key, graph_node, ids)
        self._without_unused(graph_members, begins)
        self._cut_branches(graph_members, [target for target, _, _ in begins])
        return graph_members, [(target, "direct") for target, _, _ in begins]

    def _paths(self, key: str) -> list[Any]:
        return list(self.graph.edges_by_source.get(key, ()))

    def _destinations(self, path: Any) -> Iterator[tuple[str, str, list[object]]]:
        """The targets of a path, each with its labels and the functions on it."""
        labels = [item.label for item in path.items if is_a(item, LIBRARY, "LabelMarker")]
        functions = [item.transform for item in path.items if is_a(item, LIBRARY, "TransformMarker")]
        for item in path.items:
            if is_a(item, LIBRARY, "DestinationMarker"):
                target = str(item.destination_id)
                yield END if target == END else target, " and ".join(labels), functions

    def _member(self, key: str, node: Any, ids: dict[Any, str]) -> _GraphMember:
        if is_a(node, LIBRARY, "NodeStep"):
            return self._class_node(key, node, ids)
        member = _GraphMember(node, str(getattr(node, "label", None) or key))
        if is_a(node, LIBRARY, "Step"):
            member.functions.append(_program_function(node.call))
        if is_a(node, LIBRARY, "Decision"):
            self._decision(member, node)
            return member
        if is_a(node, LIBRARY, "Join"):
            member.functions += [
                function for function in [_program_function(node.reducer)] if not _is_library_function(function)
            ]
            member.metadata["join"] = True
        self._follow(key, member, "parallel" if is_a(node, LIBRARY, "Fork") else "direct")
        if getattr(node, "downstream_join_id", None) is not None:
            member.edges.append(_MemberEdge(str(node.downstream_join_id), "conditional", "nothing to map"))
        return member

    def _follow(self, key: str, member: _GraphMember, kind: EdgeKind) -> None:
        for path in self._paths(key):
            for target, label, functions in self._destinations(path):
                member.edges.append(_MemberEdge(target, kind, label))
                member.functions += functions

    def _decision(self, member: _GraphMember, node: Any) -> None:
        """The branches of a decision."""
        member.routes = True
        member.metadata["note"] = node.note
        for branch in node.branches:
            member.functions += [branch.matches] if branch.matches is not None else []
            for target, label, functions in self._destinations(branch.path):
                member.edges.append(_MemberEdge(target, "conditional", label or _branch_condition(branch)))
                member.functions += functions

    def _class_node(self, key: str, node: Any, ids: dict[Any, str]) -> _GraphMember:
        """The node of a class; the decision that represents its return annotation is omitted."""
        labels: dict[str, str] = {}
        for target, label, _ in (way for path in self._paths(key) for way in self._destinations(path)):
            following = self.graph.nodes.get(target)
            if is_a(following, LIBRARY, "Decision"):
                labels |= {to: text for branch in following.branches for to, text, _ in self._destinations(branch.path)}
            else:
                labels[target] = label
        explicit = _edge_labels(node.node_type, ids)
        member = _class_member(
            node.node_type, {name: explicit.get(name, label) for name, label in labels.items()}, ids, is_open=not labels
        )
        member.owner, member.label = node, str(node.label or key)
        return member

    def _without_unused(self, members: dict[str, _GraphMember], begins: list[tuple[str, str, list[object]]]) -> None:
        """Removes the decisions that only represent return annotations of classes."""
        used = {way.target for member in members.values() for way in member.edges} | {target for target, _, _ in begins}
        for key in [
            key for key, member in members.items() if is_a(member.owner, LIBRARY, "Decision") and key not in used
        ]:
            behind_class = any(
                target == key
                for other, node in self.graph.nodes.items()
                if is_a(node, LIBRARY, "NodeStep")
                for path in self._paths(other)
                for target, _, _ in self._destinations(path)
            )
            if behind_class:
                del members[key]

    def _cut_branches(self, graph_members: dict[str, _GraphMember], begins: list[str]) -> None:
        """Adds edges for branches of a fork that another branch ends, or that lose a race to a join."""
        following = {key: [way.target for way in graph_member.edges] for key, graph_member in graph_members.items()}
        joins = [key for key, graph_member in graph_members.items() if is_a(graph_member.owner, LIBRARY, "Join")]
        forks = [key for key, graph_member in graph_members.items() if is_a(graph_member.owner, LIBRARY, "Fork")]
        for fork in forks:
            for node in cancelled_nodes(following, following[fork], joins):
                graph_members[node].edges.append(_MemberEdge(END, "conditional", CONDITION))
        for join in joins:
            if is_a(graph_members[join].owner.reducer, LIBRARY, "ReduceFirstValue"):  # type: ignore[attr-defined]
                between = self._between(join)
                branches = [branch for fork in forks if fork in between for branch in following[fork]]
                for node in abandoned_nodes(following, begins, branches, join, joins):
                    graph_members[node].edges.append(_MemberEdge(join, "conditional", "another branch was first"))

    def _between(self, join: str) -> set[str]:
        """The nodes between a join and its parent fork."""
        parent = self.graph.parent_forks.get(join)
        return {str(parent.fork_id), *map(str, parent.intermediate_nodes)} if parent is not None else set()


def _program_function(function: Any) -> Any:
    """The program's function inside one of the library, such as that of a stream."""
    if isinstance(function, FunctionType) and _is_library_function(function):
        held = getclosurevars(function).nonlocals.values()
        return next(
            (value for value in held if isinstance(value, FunctionType) and not _is_library_function(value)), function
        )
    return function


def _is_library_function(function: object) -> bool:
    module = getattr(function, "__module__", None) or type(function).__module__
    return str(module).partition(".")[0] == LIBRARY


def _branch_condition(branch: Any) -> str:
    """The condition of a branch: its predicate as text, else its type."""
    if branch.matches is not None:
        return source_text(branch.matches)
    source = branch.source
    if typing.get_origin(source) is not None and "TypeExpression" in str(typing.get_origin(source)):
        source = typing.get_args(source)[0]
    plain = isinstance(source, type) and typing.get_origin(source) is None
    return source.__name__ if plain else str(source).removeprefix("typing.")


def _edge_labels(kind: Any, ids: dict[Any, str]) -> dict[str, str]:
    """The labels in the return annotation of `run`: `Annotated[Next, Edge(label="...")]`."""
    if hasattr(kind, "declared_labels"):  # in source code
        return {
            END if is_member_of(declared_label, LIBRARY, "End") else ids.get(declared_label, ""): text
            for declared_label, text in kind.declared_labels
        }
    try:
        declared = typing.get_type_hints(kind.run, include_extras=True).get("return")
    except (NameError, TypeError, AttributeError, SyntaxError):  # names of a local scope that has ended
        return {}
    several = typing.get_args(declared) if typing.get_origin(declared) is not typing.Annotated else (declared,)
    edge_labels: dict[str, str] = {}
    for annotation in several:
        label = next((str(marker.label) for marker in getattr(annotation, "__metadata__", ()) if _is_label(marker)), "")
        target = typing.get_args(annotation)[0] if label else None
        target = typing.get_origin(target) or target
        if label:
            edge_labels[END if is_member_of(target, LIBRARY, "End") else ids.get(target, "")] = label
    return edge_labels


def _is_label(marker: object) -> bool:
    return is_a(marker, LIBRARY, "Edge") and bool(getattr(marker, "label", None))
