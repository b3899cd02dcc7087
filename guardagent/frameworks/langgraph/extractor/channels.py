"""Graphs other than StateGraph: nodes that write to channels and wait for them, and functions with `@entrypoint`.

The function of an `@entrypoint` is ordinary code. Its tasks, tools, graphs and questions become nodes, in the order of
its control flow. Fragments come first: one node, or the nodes of a subgraph, with entries and exits.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from guardagent.frameworks.langgraph.extractor.commands import WORDS
from guardagent.frameworks.langgraph.extractor.nodes import (
    GraphStub,
    NodeFacts,
    TaskStub,
    facts_of,
    is_graph,
    is_only_hinted,
    is_runnable,
    open_runnable,
)
from guardagent.workflow.extraction import is_a, private_attribute
from guardagent.workflow.model.graph import END, START, EdgeKind, GraphBuilder, NodeKind, mark
from guardagent.workflow.python_source.bodies import Flow, ReadableFunction, follows
from guardagent.workflow.python_source.calls import RUN_METHODS
from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.scopes import CodeScope
from guardagent.workflow.python_source.values import Arguments, Function, PartialFunction

_ORDER: tuple[EdgeKind, ...] = ("parallel", "conditional", "loop", "direct")


@dataclass(frozen=True)
class Port:
    """An entry or an exit of a fragment: its node, and the kind and condition of the edge."""

    node: str
    kind: EdgeKind = "direct"
    condition: str = ""


@dataclass(frozen=True)
class ParentCommand:
    """A command of a subgraph to its parent graph, with its targets and those of them that all run; None if unknown."""

    node: str
    targets: frozenset[str] | None
    together: frozenset[str] | None = None


@dataclass
class Fragment:
    """The graph of one node of a StateGraph: the node itself, or those of its subgraph.

    Attributes:
        entries: its entries.
        exits: its exits.
        parent_commands: its commands to the parent graph.
        facts: the facts of the node; None for a subgraph.
    """

    entries: list[Port]
    exits: list[Port]
    parent_commands: list[ParentCommand] = field(default_factory=list)
    facts: NodeFacts | None = None


def joined(*kinds: EdgeKind) -> EdgeKind:
    """The kind of one edge that replaces a sequence of edges."""
    return min(kinds, key=_ORDER.index)


@dataclass
class LangGraphExtraction:
    """Adds graphs to a builder.

    Attributes:
        read_state_graph: adds a StateGraph, as `add_graph`.
        active: the graphs being added, outermost first; a graph that runs itself is not added again.
        edges: the edges between the nodes.
    """

    builder: GraphBuilder
    read_state_graph: Callable[[LangGraphExtraction, Any, str], Fragment]
    active: list[int] = field(default_factory=list)
    edges: list[tuple[str, str, EdgeKind, str]] = field(default_factory=list)

    def add_root(self, graph: Any) -> None:
        """Adds the outermost graph."""
        fragment = self.add_graph(graph, "")
        for port in fragment.entries:
            self.builder.edge(START, port.node, port.kind, port.condition)
        for source, target, kind, condition in self.edges:
            self.builder.edge(source, target, kind, condition)
        for port in fragment.exits:
            self.builder.edge(port.node, END, port.kind, port.condition)
        for command in fragment.parent_commands:
            self.builder.note(f"{command.node}: its commands address a parent graph, but this graph has no parent")

    def edge(self, source: str, target: str, kind: EdgeKind = "direct", condition: str = "") -> None:
        self.edges.append((source, target, kind, condition))

    def add_graph(self, graph: Any, prefix: str) -> Fragment:
        """Adds the nodes of a graph, with a prefix to their ids, and its edges."""
        self.active.append(id(graph))
        try:
            if _has_builder(graph):
                return self.read_state_graph(self, graph, prefix)
            return ChannelGraph(self, graph, prefix).fragment()
        finally:
            self.active.pop()

    def add(self, id: str, kind: NodeKind, name: str, facts: NodeFacts, **metadata: Any) -> None:  # noqa: A002
        """Adds a node from its facts."""
        file, line = facts.place
        hinted = is_only_hinted(name, facts)
        self.builder.node(
            id, kind, label=name, tools=facts.tools,
            gated_tools=[tool for tool, gated in facts.tools.items() if gated],
            file=file, line=line, guess=True if hinted else None,
            model_chooses=True if facts.model_chooses and facts.tools else None,
            tools_unknown=mark(*facts.unseen),
            **metadata,
        )  # fmt: skip
        if hinted:
            self.builder.note(f"{id}: its name suggests a human approval, but its code requests no input")
        for note in facts.notes:
            self.builder.note(f"{id}: {note}")

    def add_called_graphs(self, node: str, facts: NodeFacts) -> None:
        """Adds the graphs that the functions of a node run, with edges there and back."""
        is_nested = len(facts.graphs) > 1
        for name, graph in facts.graphs.items():
            if id(graph) in self.active:
                self.builder.note(f"{node}: it runs a graph that contains it")
                continue
            fragment = self.add_graph(graph, f"{node}/{name}/" if is_nested else f"{node}/")
            for port in fragment.entries:
                self.edge(node, port.node, joined(port.kind, "conditional"), port.condition)
            for port in fragment.exits:
                self.edge(port.node, node, "loop", port.condition)
            for command in fragment.parent_commands:
                self.edge(command.node, node, "loop")


def _has_builder(graph: Any) -> bool:
    """Whether a graph is a StateGraph, compiled or not."""
    return is_a(graph, "langgraph", "StateGraph", "CompiledStateGraph") or (
        isinstance(graph, GraphStub) and hasattr(graph, "builder")
    )


# --- graphs with channels, and entrypoints


@dataclass
class ChannelGraph:
    """One graph of nodes and channels."""

    extraction: LangGraphExtraction
    graph: Any
    prefix: str

    def fragment(self) -> Fragment:
        """Adds the nodes and edges, and returns their fragment."""
        if isinstance(self.graph, GraphStub):
            flow: Any = self.graph
            return self._function(flow.name, flow.func, flow.func)
        nodes: dict[str, Any] = dict(private_attribute(self.graph, "nodes", "langgraph"))
        fragments = {name: self._node(name, node) for name, node in nodes.items()}
        first, last = _names(self.graph.input_channels), _names(self.graph.output_channels)
        merged = Fragment([], [])
        for name, node in nodes.items():
            if set(node.triggers) & first:
                merged.entries.extend(fragments[name].entries)
            channels = _channels_written(node)
            followers = [other for other, node in nodes.items() if set(node.triggers) & channels]
            for other in followers:
                self._connect(fragments[name].exits, fragments[other].entries)
            if channels & last or not followers:
                merged.exits.extend(fragments[name].exits)
        return merged

    def _node(self, name: str, node: Any) -> Fragment:
        opened = open_runnable(node.bound)
        return self._function(name, opened.functions[0] if len(opened.functions) == 1 else None, node.bound)

    def _function(self, name: str, function: object, runnable: object) -> Fragment:
        """Adds the node of a function, or its steps."""
        if isinstance(function, FunctionType | ReadableFunction):
            steps = EntrypointSteps(self.extraction, f"{self.prefix}{name}", name, function)
            if steps.has_steps:
                return steps.fragment()
        facts = facts_of(runnable)
        id = f"{self.prefix}{name}"  # noqa: A001 - as in the JSON
        self.extraction.add(id, facts.kind(0), name, facts)
        facts.graphs |= {graph.name or "graph": graph for graph in facts.contents.graphs}
        self.extraction.add_called_graphs(id, facts)
        return Fragment([Port(id)], [Port(id)], facts=facts)

    def _connect(self, exits: Iterable[Port], entries: Iterable[Port]) -> None:
        for way in exits:
            for entry in entries:
                self.extraction.edge(way.node, entry.node, "direct", way.condition or entry.condition)


def _names(channels: object) -> set[str]:
    return {channels} if isinstance(channels, str) else set(channels)  # type: ignore[call-overload]


def _channels_written(node: Any) -> set[str]:
    """The channels that a node writes to."""
    steps = [*node.writers, *getattr(node.bound, "steps", ())]
    entries = [entry for step in steps for entry in getattr(step, "writes", ())]
    return {str(entry.channel) for entry in entries if hasattr(entry, "channel")}


@dataclass
class EntrypointSteps:
    """The steps in the function of an `@entrypoint`, and their order."""

    extraction: LangGraphExtraction
    id: str
    name: str
    function: FunctionType | ReadableFunction
    _fragments: dict[int, Fragment] = field(default_factory=dict)
    _active: list[ast.AST] = field(default_factory=list)

    def __post_init__(self) -> None:
        root = self.function
        self.readable: Function | None
        if isinstance(root, FunctionType):
            self.evaluator = Evaluator(follow=lambda function: follows(root, function))
            self.readable = self.evaluator.function(root)
        else:
            self.evaluator, self.readable = root.source()

    @property
    def has_steps(self) -> bool:
        """Whether the function runs anything besides questions; otherwise it is one node."""
        return self.readable is not None and any(
            _is_step(reachable_target) for reachable_target in self._reachable_targets(self.readable, Arguments(), [])
        )  # fmt: skip

    def _reachable_targets(self, function: Function, arguments: Arguments, seen: list[ast.AST]) -> Iterator[object]:
        """The targets of the calls in a function and its helpers."""
        scope = self.evaluator.body_scope(function, arguments)
        for call in _calls(function):
            for target in self._targets(call, scope):
                yield target
                if isinstance(target, Function) and target.tree not in seen:
                    seen.append(target.tree)
                    yield from self._reachable_targets(target, Arguments(open=True), seen)

    def fragment(self) -> Fragment:
        """Adds the nodes and edges of the function."""
        assert self.readable is not None
        facts = facts_of(self.function)
        facts.asks, facts.tools, facts.graphs = False, {}, {}
        self.extraction.add(self.id, "passthrough", self.name, facts)
        return self._function_fragment(self.readable, Arguments(), Port(self.id))

    def _function_fragment(self, function: Function, arguments: Arguments, begin: Port) -> Fragment:
        """Adds the steps of one function, starting at an existing node."""
        self._active.append(function.tree)
        scope = self.evaluator.body_scope(function, arguments)
        steps = {id(call): step for call in _calls(function) if (step := self._step(call, scope)) is not None}
        flow = Flow(function.tree, lambda _call: False, lambda call: id(call) in steps)
        order = {None: -1} | {step: number for number, step in enumerate(steps)}
        for source, target in sorted(flow.order, key=lambda pair: (order[pair[0]], order[pair[1]])):
            for way in [begin] if source is None else steps[source].exits:
                for entry in steps[target].entries:
                    self.extraction.edge(way.node, entry.node, self._kind(flow, source), way.condition)
        last = {last_step for point in flow.exits for last_step in point.last}
        self._active.pop()
        leaves: dict[Port, None] = {}
        for last_step in sorted(last, key=lambda step: order[step]):
            kind = self._kind(flow, last_step)
            for way in [begin] if last_step is None else steps[last_step].exits:
                leaves[Port(way.node, joined(way.kind, kind), way.condition)] = None
        return Fragment([begin], list(leaves))

    def _kind(self, flow: Flow, source: int | None) -> EdgeKind:
        """`conditional` if several successors are possible after a step, else `direct`."""
        successors = [target for origin, target in flow.order if origin == source]
        ends = any(source in point.last for point in flow.exits)
        return "conditional" if len(successors) + ends > 1 else "direct"

    def _step(self, call: ast.Call, scope: CodeScope) -> Fragment | None:
        """The fragment of a call; None if it is not a step."""
        if id(call) in self._fragments:
            return self._fragments[id(call)]
        fragments = [
            part for target in self._targets(call, scope) if (part := self._target_fragment(target, call)) is not None
        ]
        if not fragments:
            return None
        entries = [way for part in fragments for way in part.entries]
        self._fragments[id(call)] = Fragment(entries, [way for part in fragments for way in part.exits])
        return self._fragments[id(call)]

    def _target_fragment(self, target: Any, call: ast.Call) -> Fragment | None:
        if _is_task(target):
            return self._node(
                str(getattr(target, "__name__", None) or getattr(target, "name", "task")), facts_of(target.func)
            )
        if WORDS.asks_human(target):
            return self._question(call)
        if is_graph(target):
            name = getattr(target, "name", None) or "graph"
            return self.extraction.add_graph(target, f"{self.id}/{name}/")
        if is_runnable(target):
            facts = facts_of(target)
            return self._node(next(iter(facts.tools)), facts) if facts.tools else None
        if isinstance(target, Function) and target.tree not in self._active and self._contains_steps(target):
            return self._helper(target)
        return None

    def _contains_steps(self, function: Function) -> bool:
        reached = self._reachable_targets(function, Arguments(open=True), [])
        return any(_is_step(target) or WORDS.asks_human(target) for target in reached)

    def _node(self, name: str, facts: NodeFacts) -> Fragment:
        node = f"{self.id}/{name}"
        if node not in self.extraction.builder:
            self.extraction.add(node, facts.kind(0), name, facts)
            self.extraction.add_called_graphs(node, facts)
        return Fragment([Port(node)], [Port(node)])

    def _question(self, call: ast.Call) -> Fragment:
        node = f"{self.id}/{ast.unparse(call.func)}"
        while node in self.extraction.builder:
            node += "'"
        self.extraction.builder.node(node, "human", label="a person is asked", file=None, line=call.lineno)
        return Fragment([Port(node)], [Port(node)])

    def _helper(self, function: Function) -> Fragment:
        name = getattr(function.tree, "name", "lambda")
        node = f"{self.id}/{name}"
        while node in self.extraction.builder:
            node += "'"
        self.extraction.builder.node(node, "passthrough", label=name, line=function.tree.lineno)
        return self._function_fragment(function, Arguments(open=True), Port(node))

    def _targets(self, call: ast.Call, scope: CodeScope) -> Iterator[object]:
        """The callees of a call, and the objects whose methods it runs."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in RUN_METHODS:
            yield from self.evaluator.value(call.func.value, scope).known
        for target in self.evaluator.value(call.func, scope).known:
            inner = target.function if isinstance(target, PartialFunction) else target
            if isinstance(inner, FunctionType) and self.evaluator.follow(inner) and not WORDS.asks_human(inner):
                yield self.evaluator.function(inner)
            else:
                yield inner


def _is_task(target: object) -> bool:
    return is_a(target, "langgraph", "_TaskFunction") or isinstance(target, TaskStub)


def _is_step(target: object) -> bool:
    """Whether a callee is a step of its own: a task, a graph, or a runnable with tools."""
    if _is_task(target) or is_graph(target):
        return True
    return is_runnable(target) and bool(open_runnable(target).tools)


def _calls(function: Function) -> list[ast.Call]:
    """The calls in a function, without those in nested functions."""
    calls: list[ast.Call] = []
    pending: list[ast.AST] = [function.tree.body] if isinstance(function.tree, ast.Lambda) else list(function.tree.body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            calls.append(node)
        pending[:0] = ast.iter_child_nodes(node)
    return calls
