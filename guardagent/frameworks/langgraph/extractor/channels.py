"""A LangGraph that is no StateGraph: nodes that write to channels and wait for them, and workflows by @entrypoint.

The function of an @entrypoint is ordinary code. Its tasks, tools, graphs and questions become nodes, in the order in
which its code can come to them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from guardagent.frameworks.langgraph.extractor.commands import WORDS
from guardagent.frameworks.langgraph.extractor.nodes import Facts, facts_of
from guardagent.frameworks.langgraph.extractor.open import GraphOfCode, TaskLike, is_graph, is_runnable, open_runnable
from guardagent.frameworks.langgraph.extractor.parts import Drawing, Part, Way, joined
from guardagent.workflow.extraction.framework_objects import is_a, private_attribute
from guardagent.workflow.model.graph import EdgeKind
from guardagent.workflow.python_source.evaluation.evaluator import Evaluator
from guardagent.workflow.python_source.evaluation.scope import CodeScope
from guardagent.workflow.python_source.evaluation.values import Arguments, Function, PartialFunction
from guardagent.workflow.python_source.functions.bodies import ReadableFunction, follows
from guardagent.workflow.python_source.functions.flow import Flow
from guardagent.workflow.python_source.functions.opaque_calls import RUN_METHODS


@dataclass
class Channels:
    """One graph of nodes and channels."""

    extraction: Drawing
    graph: Any
    prefix: str

    def part(self) -> Part:
        """Adds the nodes and edges, and gives where the whole is entered and left."""
        if isinstance(self.graph, GraphOfCode):
            flow: Any = self.graph
            return self._function(flow.name, flow.code, flow.code)
        nodes: dict[str, Any] = dict(private_attribute(self.graph, "nodes", "langgraph"))
        parts = {name: self._node(name, node) for name, node in nodes.items()}
        first, last = _names(self.graph.input_channels), _names(self.graph.output_channels)
        whole = Part([], [])
        for name, node in nodes.items():
            if set(node.triggers) & first:
                whole.enters.extend(parts[name].enters)
            written = _written(node)
            followers = [other for other, one in nodes.items() if set(one.triggers) & written]
            for other in followers:
                self._draw(parts[name].leaves, parts[other].enters)
            if written & last or not followers:
                whole.leaves.extend(parts[name].leaves)
        return whole

    def _node(self, name: str, node: Any) -> Part:
        opened = open_runnable(node.bound)
        return self._function(name, opened.functions[0] if len(opened.functions) == 1 else None, node.bound)

    def _function(self, name: str, function: object, runnable: object) -> Part:
        """Adds the node of a function, or its steps."""
        if isinstance(function, FunctionType | ReadableFunction):
            steps = Steps(self.extraction, f"{self.prefix}{name}", name, function)
            if steps.worth_it:
                return steps.part()
        facts = facts_of(runnable)
        id = f"{self.prefix}{name}"  # noqa: A001 - as in the JSON
        self.extraction.add(id, facts.kind(0), name, facts)
        facts.graphs |= {one.name or "graph": one for one in facts.opened.graphs}
        self.extraction.run_inside(id, facts)
        return Part([Way(id)], [Way(id)], facts=facts)

    def _draw(self, leaves: Iterable[Way], enters: Iterable[Way]) -> None:
        for way in leaves:
            for entry in enters:
                self.extraction.edge(way.node, entry.node, "direct", way.condition or entry.condition)


def _names(channels: object) -> set[str]:
    return {channels} if isinstance(channels, str) else set(channels)  # type: ignore[call-overload]


def _written(node: Any) -> set[str]:
    """The channels that a node writes to."""
    steps = [*node.writers, *getattr(node.bound, "steps", ())]
    entries = [entry for step in steps for entry in getattr(step, "writes", ())]
    return {str(entry.channel) for entry in entries if hasattr(entry, "channel")}


@dataclass
class Steps:
    """The function of an @entrypoint: what it comes to, in which order."""

    extraction: Drawing
    id: str
    name: str
    function: FunctionType | ReadableFunction
    _parts: dict[int, Part] = field(default_factory=dict)
    _open: list[ast.AST] = field(default_factory=list)

    def __post_init__(self) -> None:
        root = self.function
        self.readable: Function | None
        if isinstance(root, FunctionType):
            self.evaluator = Evaluator(follow=lambda function: follows(root, function))
            self.readable = self.evaluator.function(root)
        else:
            self.evaluator, self.readable = root.source()

    @property
    def worth_it(self) -> bool:
        """Whether the function comes to anything but questions: else it is one node."""
        return self.readable is not None and any(
            _is_step(one) for one in self._reached(self.readable, Arguments(), [])
        )  # fmt: skip

    def _reached(self, function: Function, arguments: Arguments, seen: list[ast.AST]) -> Iterator[object]:
        """Whatever is called by a function and its helpers."""
        scope = self.evaluator.body_scope(function, arguments)
        for call in _calls(function):
            for target in self._targets(call, scope):
                yield target
                if isinstance(target, Function) and target.tree not in seen:
                    seen.append(target.tree)
                    yield from self._reached(target, Arguments(open=True), seen)

    def part(self) -> Part:
        """Adds the nodes and edges of the function."""
        assert self.readable is not None
        facts = facts_of(self.function)
        facts.asks, facts.tools, facts.graphs = False, {}, {}
        self.extraction.add(self.id, "llm", self.name, facts)
        return self._of(self.readable, Arguments(), Way(self.id))

    def _of(self, function: Function, arguments: Arguments, begin: Way) -> Part:
        """Adds the steps of one function, which begins at a node that is there."""
        self._open.append(function.tree)
        scope = self.evaluator.body_scope(function, arguments)
        steps = {id(call): step for call in _calls(function) if (step := self._step(call, scope)) is not None}
        flow = Flow(function.tree, lambda _call: False, lambda call: id(call) in steps)
        place = {None: -1} | {one: number for number, one in enumerate(steps)}
        for source, target in sorted(flow.order, key=lambda pair: (place[pair[0]], place[pair[1]])):
            for way in [begin] if source is None else steps[source].leaves:
                for entry in steps[target].enters:
                    self.extraction.edge(way.node, entry.node, self._kind(flow, source), way.condition)
        last = {one for point in flow.exits for one in point.last}
        self._open.pop()
        leaves: dict[Way, None] = {}
        for one in sorted(last, key=lambda step: place[step]):
            kind = self._kind(flow, one)
            for way in [begin] if one is None else steps[one].leaves:
                leaves[Way(way.node, joined(way.kind, kind), way.condition)] = None
        return Part([begin], list(leaves))

    def _kind(self, flow: Flow, source: int | None) -> EdgeKind:
        """Whether something else can follow a step instead."""
        follows_it = [target for one, target in flow.order if one == source]
        ends = any(source in point.last for point in flow.exits)
        return "conditional" if len(follows_it) + ends > 1 else "direct"

    def _step(self, call: ast.Call, scope: CodeScope) -> Part | None:
        """The part of the graph that a call comes to; None where it is no step."""
        if id(call) in self._parts:
            return self._parts[id(call)]
        found = [part for target in self._targets(call, scope) if (part := self._one_step(target, call)) is not None]
        if not found:
            return None
        enters = [way for part in found for way in part.enters]
        self._parts[id(call)] = Part(enters, [way for part in found for way in part.leaves])
        return self._parts[id(call)]

    def _one_step(self, target: Any, call: ast.Call) -> Part | None:
        if _is_task(target):
            return self._node(
                str(getattr(target, "__name__", None) or getattr(target, "name", "task")), facts_of(target.func)
            )
        if WORDS.asks_human(target):
            return self._question(call)
        if is_graph(target):
            name = getattr(target, "name", None) or "graph"
            return self.extraction.inside(target, f"{self.id}/{name}/")
        if is_runnable(target):
            facts = facts_of(target)
            return self._node(next(iter(facts.tools)), facts) if facts.tools else None
        if isinstance(target, Function) and target.tree not in self._open and self._has_steps(target):
            return self._helper(target)
        return None

    def _has_steps(self, function: Function) -> bool:
        reached = self._reached(function, Arguments(open=True), [])
        return any(_is_step(one) or WORDS.asks_human(one) for one in reached)

    def _node(self, name: str, facts: Facts) -> Part:
        node = f"{self.id}/{name}"
        if node not in self.extraction.builder:
            self.extraction.add(node, facts.kind(0), name, facts)
            self.extraction.run_inside(node, facts)
        return Part([Way(node)], [Way(node)])

    def _question(self, call: ast.Call) -> Part:
        node = f"{self.id}/{ast.unparse(call.func)}"
        while node in self.extraction.builder:
            node += "'"
        self.extraction.builder.node(node, "human", label="a person is asked", file=None, line=call.lineno)
        return Part([Way(node)], [Way(node)])

    def _helper(self, function: Function) -> Part:
        name = getattr(function.tree, "name", "lambda")
        node = f"{self.id}/{name}"
        while node in self.extraction.builder:
            node += "'"
        self.extraction.builder.node(node, "passthrough", label=name, line=function.tree.lineno)
        return self._of(function, Arguments(open=True), Way(node))

    def _targets(self, call: ast.Call, scope: CodeScope) -> Iterator[object]:
        """What a call runs: a function, or the object whose method it is."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in RUN_METHODS:
            yield from self.evaluator.value(call.func.value, scope).known
        for target in self.evaluator.value(call.func, scope).known:
            inner = target.function if isinstance(target, PartialFunction) else target
            if isinstance(inner, FunctionType) and self.evaluator.follow(inner) and not WORDS.asks_human(inner):
                yield self.evaluator.function(inner)
            else:
                yield inner


def _is_task(target: object) -> bool:
    return is_a(target, "langgraph", "_TaskFunction") or isinstance(target, TaskLike)


def _is_step(target: object) -> bool:
    """Whether what is called is a step of its own: a task, a graph, or something that runs a tool."""
    if _is_task(target) or is_graph(target):
        return True
    return is_runnable(target) and bool(open_runnable(target).tools)


def _calls(function: Function) -> list[ast.Call]:
    """The calls of a function, without those of the functions in it."""
    found: list[ast.Call] = []
    pending: list[ast.AST] = [function.tree.body] if isinstance(function.tree, ast.Lambda) else list(function.tree.body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            found.append(node)
        pending[:0] = ast.iter_child_nodes(node)
    return found
