"""The directed graphs of AutoGen's graph flows, as code builds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from guardagent.workflow.extraction import UnknownValue
from guardagent.workflow.python_source.bodies import ReadableFunction
from guardagent.workflow.python_source.stubs import REQUIRED, ClassStub, ObjectStub
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Function,
    LiveValue,
    Sequence,
    Values,
    exactly,
    plain_string,
)

_MODULE = "autogen_agentchat.teams._group_chat._graph"


@dataclass(eq=False)
class DigraphEdge(LiveValue):
    """An edge: its target and its condition."""

    target: str
    condition: str | None = None
    condition_function: object = None
    activation_group: str = ""
    activation_condition: str = "all"


@dataclass(eq=False)
class DigraphNode(LiveValue):
    edges: list[DigraphEdge] = field(default_factory=list)


@dataclass(eq=False)
class Digraph(LiveValue):
    """The order of speakers.

    Attributes:
        nodes: the nodes by name.
        default_start: the declared first speaker; may be empty.
        agents: the agents of the nodes; one whose code is not seen has the name of its variable.
        is_incomplete: not all nodes or edges are known.
    """

    nodes: dict[str, DigraphNode] = field(default_factory=dict)
    default_start: str = ""
    agents: list[object] = field(default_factory=list)
    is_incomplete: bool = False

    def get_start_nodes(self) -> set[str]:
        """The first speakers: the declared one, or all nodes without incoming edges."""
        followed = {edge.target for node in self.nodes.values() for edge in node.edges}
        return {self.default_start} if self.default_start else set(self.nodes) - followed


def digraph_of(value: object) -> object:
    """The graph of a flow, from a `DiGraph` or a builder."""
    if not isinstance(value, ObjectStub) or value.kind is not DIGRAPH:
        return value
    graph = Digraph(default_start=str(value.default_start_node or ""))
    for name, node in dict(value.nodes or {}).items():
        graph.nodes[str(name)] = DigraphNode(
            [_edge_of(edge_stub) for edge_stub in getattr(node, "edges", ()) if isinstance(edge_stub, ObjectStub)]
        )
    return graph


def _edge_of(edge: ObjectStub) -> DigraphEdge:
    target = str(edge.target)
    group, condition = str(edge.activation_group or target), str(edge.activation_condition or "all")
    return _with_condition(DigraphEdge(target, None, None, group, condition), edge.condition)


def _with_condition(edge: DigraphEdge, condition: Any) -> DigraphEdge:
    """Sets the condition of an edge: a string, a function, or unknown."""
    if isinstance(condition, str):
        edge.condition = condition
    elif condition is not None:
        edge.condition_function = condition
    return edge


# The builder.


def _graph(builder: ObjectStub) -> Digraph:
    (graph,) = builder.attributes["_graph"].known
    assert isinstance(graph, Digraph)
    return graph


def _settle(builder: ObjectStub) -> None:
    if "_graph" not in builder.attributes:  # in a loop with unknown rounds, one builder stands for all
        builder.attributes["_graph"] = exactly(Digraph())


def _add_node(builder: ObjectStub, arguments: Arguments, line: int) -> Values:
    graph = _graph(builder)
    agents = arguments.values_of("agent", 0)
    builder_agents = _agents(builder, agents)
    for name, agent in builder_agents.items():
        if name not in graph.nodes:
            graph.nodes[name] = DigraphNode()
            graph.agents.append(agent)
    _note_incomplete(
        builder,
        Values((), bool(builder_agents) or agents.complete),
        f"line {line}: the source does not determine the agents that are added to the graph",
    )
    return exactly(builder)


def _add_edge(builder: ObjectStub, arguments: Arguments, line: int) -> Values:
    sources, targets = (arguments.values_of(name, place) for place, name in enumerate(("source", "target")))
    condition = _extractor_value(builder, arguments.get("condition", 2))
    group, activation = (
        _extractor_value(builder, arguments.get("activation_group", 3)),
        _extractor_value(builder, arguments.get("activation_condition", 4)),
    )
    for source in _all_names(builder, sources, line):
        for target in _all_names(builder, targets, line):
            edge = DigraphEdge(target, None, None, str(group or target), str(activation or "all"))
            held = _graph(builder).nodes.setdefault(source, DigraphNode()).edges
            held += [made] if vars(made := _with_condition(edge, condition)) not in map(vars, held) else []
    if builder.interpreter.depth:
        builder.interpreter.converter.note(f"line {line}: an edge is added under a condition; it is assumed to exist")
    return exactly(builder)


def _add_conditional_edges(builder: ObjectStub, arguments: Arguments, line: int) -> Values:
    source = arguments.values_of("source", 0)
    for table in (arguments.get("condition_to_target", 1) or NOTHING).known:
        for key, target in builder.interpreter.pairs(table) or ():
            _add_edge(builder, Arguments((source, target, key)), line)
    return exactly(builder)


def _set_entry_point(builder: ObjectStub, arguments: Arguments, line: int) -> Values:
    names = arguments.values_of("name", 0)
    for name in _known_names(builder, names):
        _graph(builder).default_start = name
    known = Values((), names.complete or bool(_graph(builder).default_start))
    _note_incomplete(builder, known, f"line {line}: the source does not determine the first speaker of the graph")
    return exactly(builder)


def _build(builder: ObjectStub, _arguments: Arguments, _line: int) -> Values:
    return UNKNOWN if _graph(builder).is_incomplete else builder.attributes["_graph"]


def _get_participants(builder: ObjectStub, _arguments: Arguments, _line: int) -> Values:
    graph = _graph(builder)
    return exactly(Sequence((*map(exactly, graph.agents), *([UNKNOWN] if graph.is_incomplete else []))))


def _all_names(builder: ObjectStub, values: Values, line: int) -> list[str]:
    """The names of an end of an edge, given as names or agents; all nodes if it is unknown."""
    names = _known_names(builder, values)
    known = bool(names) or values.complete
    _note_incomplete(
        builder, Values((), known), f"line {line}: an end of an edge is unknown; it is assumed to be any agent"
    )
    return list(dict.fromkeys(names if known else _graph(builder).nodes))


def _known_names(builder: ObjectStub, values: Values) -> list[str]:
    named = [plain_string(value) for value in values.known if isinstance(value, str)]
    return named or list(_agents(builder, values))


def _agents(builder: ObjectStub, values: Values) -> dict[str, object]:
    """The possible agents by name; one that is not seen has the name of its variable, and none without a name."""
    if not (values.label or values.complete):
        return {}
    shown = builder.interpreter.converter.convert_list(exactly(Sequence((values,))), "agents", builder.line)
    return {str(agent.name): agent for agent in shown if getattr(agent, "name", None)}


def _extractor_value(builder: ObjectStub, values: Values | None) -> Any:
    """An argument as the extractor expects it."""
    if values is None:
        return None
    stage = builder.interpreter.converter
    if values.complete and len(values.known) == 1:
        return stage.convert(values.known[0])
    functions = [stage.convert(value) for value in values.known if isinstance(value, Function)]
    return functions[0] if functions and isinstance(functions[0], ReadableFunction) else UnknownValue("a condition")


def _note_incomplete(builder: ObjectStub, values: Values, note: str) -> None:
    if not values.complete:
        _graph(builder).is_incomplete = True
        builder.interpreter.converter.note(note)


DIGRAPH = ClassStub("DiGraph", _MODULE, fields={"nodes": REQUIRED, "default_start_node": None})
KINDS = (
    DIGRAPH,
    ClassStub("DiGraphNode", _MODULE, fields={"name": REQUIRED, "edges": [], "activation": "all"},
         list_fields=frozenset({"edges"})),
    ClassStub("DiGraphEdge", _MODULE, fields={
        "target": REQUIRED, "condition": None, "condition_function": None, "activation_group": "",
        "activation_condition": "all",
    }),
    ClassStub("DiGraphBuilder", _MODULE, finish=_settle, methods={
        "add_node": _add_node, "add_edge": _add_edge, "add_conditional_edges": _add_conditional_edges,
        "set_entry_point": _set_entry_point, "build": _build, "get_participants": _get_participants,
    }),
)  # fmt: skip
