"""The facts of one node: its kind, its tools, its questions to people, and the successors in its code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import FunctionType
from typing import Any

from guardagent.frameworks.langgraph.extractor.commands import NodeBody, node_body
from guardagent.frameworks.langgraph.extractor.runnables import (
    GraphTool,
    HitlStub,
    RunnableContents,
    RunnableStub,
    is_runnable,
    open_runnable,
    program_functions,
    tool_of,
)
from guardagent.workflow.extraction.objects import is_a
from guardagent.workflow.model.graph import NodeKind, Unseen
from guardagent.workflow.python_source.bodies import MethodCall, definition
from guardagent.workflow.python_source.calls import AGENT_TOOLS, RUN_METHODS
from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.values import CallResult, path_of

_AGENTS = {"create_agent", "create_react_agent", "AgentExecutor", "initialize_agent"}
_OWN = ("langgraph", "langchain")
_HINTS = ("human", "approv", "review")


@dataclass
class NodeFacts:
    """The facts of a node.

    Attributes:
        contents: the contents of its runnable.
        tools: the tools that it runs, each with whether it needs approval.
        model_chooses: a model chooses the calls, perhaps none.
        asks: it asks a person on some path.
        always_asks: it asks a person on every path.
        bodies: the analysed bodies of its functions.
        hook_bodies: the analysed bodies of its middleware.
        tool_bodies: the analysed bodies of its tools' functions.
        graphs: the graphs that its functions run, by name.
        notes: notes for the report.
        unseen: descriptions of what it runs that could not be seen.
    """

    contents: RunnableContents
    tools: dict[str, bool] = field(default_factory=dict)
    model_chooses: bool = False
    asks: bool = False
    always_asks: bool = False
    bodies: list[NodeBody] = field(default_factory=list)
    hook_bodies: list[NodeBody] = field(default_factory=list)
    tool_bodies: list[NodeBody] = field(default_factory=list)
    graphs: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unseen: list[Unseen | str] = field(default_factory=list)

    @cached_property
    def place(self) -> tuple[str | None, int | None]:
        """The file and line of the node's function; for a tool node, of its first tool's function."""
        opened = self.contents
        functions = [*opened.functions, *(one for tool in opened.tools for one in tool.functions)]
        functions += opened.hooks if opened.middleware else []
        return definition(functions[0]) if functions else (None, None)

    @property
    def all_bodies(self) -> list[NodeBody]:
        return self.bodies + self.tool_bodies

    @property
    def commands_only(self) -> bool:
        """Whether all its functions return nothing but commands."""
        return bool(self.bodies) and all(body.commands_only for body in self.bodies)

    def kind(self, target_count: int) -> NodeKind:
        """The kind of the node, given the number of targets of its commands."""
        if self.tools:
            return "tool"
        if self.contents.tool_nodes:  # one without tools
            return "tool"
        if self.unseen and any(body.runs_named_tools for body in self.bodies):
            return "tool"
        if self.asks:
            return "human"
        if self.contents.passes_through and not self.bodies:
            return "passthrough"
        if self.commands_only and target_count > 1 and self._only_chooses:
            return "router"
        placeholder = all(body.is_placeholder for body in self._own_bodies)
        return "llm" if self._calls_model or placeholder else "passthrough"

    @property
    def _own_bodies(self) -> list[NodeBody]:
        return self.bodies or self.hook_bodies

    @property
    def _only_chooses(self) -> bool:
        """Whether its commands only choose: they send nothing, and carry no answer of a model."""
        if any(body.sends or body.sends_to_unknown for body in self.bodies):
            return False
        return not self._calls_model or all(body.updates_choice_only for body in self.bodies)

    @property
    def _calls_model(self) -> bool:
        """Whether it calls a model, or what it calls is unknown."""
        unread = not self._own_bodies or any(not body.source_known for body in self._own_bodies)
        return unread or self.contents.models or any(body.calls_model for body in self._own_bodies)


def facts_of(runnable: object) -> NodeFacts:
    """The facts of a node with this runnable."""
    contents = open_runnable(runnable)
    facts = NodeFacts(contents)
    _FactCollector(facts).collect(facts.contents, inside=False)
    return facts


def _has_hint(name: str) -> bool:
    return any(hint in name.lower() for hint in _HINTS)


def is_only_hinted(name: str, facts: NodeFacts) -> bool:
    """Whether only the name of a node suggests that a person is asked."""
    return _has_hint(name) and not facts.asks and not facts.tools


@dataclass
class _FactCollector:
    """Collects the facts of a node from its contents and from what its functions run."""

    facts: NodeFacts
    _seen: set[int] = field(default_factory=set)
    _gated: dict[str, list[bool]] = field(default_factory=dict)

    def collect(self, contents: RunnableContents, *, inside: bool, use: MethodCall | None = None) -> None:
        """Records the contents of a runnable; `inside` if a function runs it by `use`."""
        self.facts.unseen.extend(contents.unseen)
        for tool in contents.tools:
            self._tool(tool, approved=use is not None and use.after_approval)
        for node in contents.tool_nodes:
            self._wrappers(node)
        for name in contents.server_tools:
            self._tool(GraphTool(name), approved=False)
            self.facts.model_chooses = True
        for function in contents.functions:
            self._function(function, inside=inside)
        for function in contents.hooks:
            self._function(function, inside=True)
            if contents.middleware:
                self.facts.hook_bodies.append(node_body(function))
        for graph in contents.graphs if inside else ():
            self._graph(graph)
        if contents.remote:
            self.facts.unseen.append("a remote graph, which cannot be read")

    def _function(self, function: object, *, inside: bool) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        body = node_body(function)
        if not inside:
            self.facts.bodies.append(body)
            self.facts.always_asks = body.always_asks and all(one.always_asks for one in self.facts.bodies)
        self.facts.asks = self.facts.asks or body.asks
        self._unseen(body)
        if not body.source_known and body.file is not None:
            self.facts.notes.append("its source is missing; its behaviour was read from its bytecode")
        for use in body.method_calls:
            self._use(use)
        for called in body.tools:
            self._tool(GraphTool(called.name), approved=called.after_approval)
            self.facts.model_chooses = self.facts.model_chooses or not called.unconditional
        for one in body.return_values.known:
            if is_runnable(one) and not is_a(one, "langgraph", "StateGraph"):  # LangGraph runs a returned runnable
                self._use(
                    MethodCall(one, "invoke", after_approval=False, unconditional=len(body.return_values.known) == 1)
                )

    def _unseen(self, body: NodeBody) -> None:
        """Records what a function runs that could not be seen."""
        self.facts.unseen.extend(body.opaque_calls_for(*_OWN, lists_tools=True))
        if not body.source_known and not body.opaque_calls:
            self.facts.unseen.append("; ".join(body.unknown) or "the code of what it runs")

    def _use(self, use: MethodCall) -> None:
        if use.method not in RUN_METHODS:
            return
        if isinstance(use.owner, CallResult):
            self._runnable_created(use.owner, use)
        elif is_runnable(use.owner):
            contents = open_runnable(use.owner)
            self.collect(contents, inside=True, use=use)
            if contents.tools and not use.unconditional:
                self.facts.model_chooses = True

    def _runnable_created(self, created: CallResult, use: MethodCall) -> None:
        """Records a tool node or an agent that a function creates and runs."""
        maker = path_of(created.callee).rpartition(".")[2]
        if maker not in {"ToolNode", *_AGENTS}:
            return
        tools_argument = created.arguments.get("tools", AGENT_TOOLS[maker])
        self.facts.model_chooses = self.facts.model_chooses or maker in _AGENTS or not use.unconditional
        tools = Evaluator().elements(tools_argument) if tools_argument is not None else None
        for one in tools.known if tools else ():
            if isinstance(one, RunnableStub):
                self.collect(open_runnable(one), inside=True, use=use)
            elif isinstance(one, FunctionType) or is_a(one, "langchain_core", "BaseTool"):
                self._tool(tool_of(one), approved=use.after_approval)

    def _tool(self, tool: GraphTool, *, approved: bool) -> None:
        """Records a tool: gated if its own code, or every path to it, asks a person."""
        if tool.name not in self._gated:
            bodies = [node_body(function) for function in tool.functions]
            self.facts.tool_bodies.extend(bodies)
            self._gated[tool.name] = [bool(bodies) and all(body.always_asks for body in bodies), True]
            if any(body.asks for body in bodies) and not self._gated[tool.name][0]:
                self.facts.notes.append(f"the tool {tool.name!r} asks a person only under a condition; it is not gated")
            for body in bodies:
                self.facts.unseen.extend(body.opaque_calls_for(*_OWN))
                for use in body.method_calls:
                    self._tool_use(tool, use)
        itself, before = self._gated[tool.name]
        self._gated[tool.name] = [itself, before and approved]
        self.facts.tools[tool.name] = itself or (before and approved)

    def _tool_use(self, tool: GraphTool, use: MethodCall) -> None:
        """Records what a tool's function runs: another tool, or a graph."""
        if use.method in RUN_METHODS and is_runnable(use.owner) and id(use.owner) not in self._seen:
            self._seen.add(id(use.owner))
            contents = open_runnable(use.owner)
            for graph in contents.graphs:
                self._graph(graph, tool.name)
            if contents.tools:
                self.facts.model_chooses = True
            for inner in contents.tools:
                self._tool(inner, approved=use.after_approval)

    def _graph(self, graph: Any, name: str = "") -> None:
        if graph in self.facts.graphs.values():
            return
        own = getattr(graph, "name", None)
        chosen = name or (own if own and own != "LangGraph" else "graph")
        while chosen in self.facts.graphs:
            chosen += "'"
        self.facts.graphs[chosen] = graph

    def _wrappers(self, tool_node: Any) -> None:
        """Checks whether the wrappers around tool calls ask a person."""
        wrappers = [getattr(tool_node, name, None) for name in ("_wrap_tool_call", "_awrap_tool_call")]
        chains = [[node_body(one) for one in program_functions(wrapper)] for wrapper in wrappers]
        chains = [chain for chain in chains if chain]
        if chains and all(any(body.always_asks for body in chain) for chain in chains):
            self.facts.tools = dict.fromkeys(self.facts.tools, True)
        elif any(body.asks for chain in chains for body in chain):
            self.facts.notes.append("it asks a person before some tool calls only; they are not gated")


def hitl_gates(middleware: Iterable[Any]) -> tuple[frozenset[str], frozenset[str]]:
    """The tools that human-in-the-loop middleware gates: always, and under a condition."""
    always: set[str] = set()
    sometimes: set[str] = set()
    for one in middleware:
        if is_hitl(one):
            for name, options in _interrupt_options(one):
                (sometimes if isinstance(options, Mapping) and options.get("when") else always).add(name)
    return frozenset(always), frozenset(sometimes - always)


def is_hitl(middleware: object) -> bool:
    return isinstance(middleware, HitlStub) or is_a(middleware, "langchain", "HumanInTheLoopMiddleware")


def _interrupt_options(middleware: Any) -> Iterator[tuple[str, object]]:
    for name, options in getattr(middleware, "interrupt_on", {}).items():
        if options:
            yield str(name), options
