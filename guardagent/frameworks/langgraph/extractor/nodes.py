"""The facts of one node: its kind, its tools, its questions to people, and the successors in its code.

They come from the functions, tools and graphs in its runnable, which `open_runnable` collects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import FunctionType, MethodType
from typing import Any

from guardagent.frameworks.langgraph.extractor.commands import NodeBody, node_body
from guardagent.workflow.extraction import defined_outside, is_a, is_guards
from guardagent.workflow.model.graph import NodeKind, Unseen
from guardagent.workflow.python_source.bodies import MethodCall, ReadableFunction, definition, is_program_code
from guardagent.workflow.python_source.calls import AGENT_TOOLS, RUN_METHODS
from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.values import CallResult, LiveValue, Stub, path_of

_FRAMEWORKS = ("langgraph", "langchain", "langchain_core")
_FUNCTION_RUNNABLES = ("RunnableLambda", "RunnableGenerator")


@dataclass(frozen=True, eq=False)
class GraphTool:
    """A tool, with the functions that implement it."""

    name: str
    functions: tuple[object, ...] = ()


@dataclass
class RunnableContents:
    """The contents of a runnable.

    Attributes:
        functions: the functions that it calls, in order.
        hooks: the program's functions that functions of the framework call.
        tools: the tools that it runs.
        graphs: the graphs that it runs.
        tool_nodes: the tool nodes in it.
        middleware: the agent middleware whose methods it calls.
        server_tools: the tools that the model provider runs.
        remote: it runs a graph of another service.
        models: it calls a model.
        passes_through: it returns its input.
        composed: it has several components.
        unseen: descriptions of what it runs that cannot be seen.
    """

    functions: list[object] = field(default_factory=list)
    hooks: list[object] = field(default_factory=list)
    tools: list[GraphTool] = field(default_factory=list)
    graphs: list[Any] = field(default_factory=list)
    tool_nodes: list[Any] = field(default_factory=list)
    middleware: list[Any] = field(default_factory=list)
    server_tools: list[str] = field(default_factory=list)
    remote: bool = False
    models: bool = False
    passes_through: bool = False
    composed: bool = False
    unseen: list[Unseen | str] = field(default_factory=list)


@dataclass(eq=False)
class HitlStub(Stub):
    """A stub for human-in-the-loop middleware in source code."""

    interrupt_on: dict[str, Any]


class GraphStub(Stub, LiveValue):
    """A stub for a graph in source code: a StateGraph has a `builder`, a function its `func`."""

    name: str


def is_graph(target: object) -> bool:
    return (
        isinstance(target, GraphStub) or is_a(target, "langgraph", "Pregel") or is_a(target, "langgraph", "StateGraph")
    )


def is_runnable(target: object) -> bool:
    return isinstance(target, RunnableStub) or is_a(target, "langchain_core", "Runnable") or is_graph(target)


def open_runnable(target: object) -> RunnableContents:
    """The contents of a runnable, a tool or a function, with those of its components."""
    contents, pending, seen = RunnableContents(), [target], set()
    while pending:
        part = pending.pop(0)
        if id(part) not in seen:
            seen.add(id(part))
            parts = list(_record(part, contents))
            contents.composed = contents.composed or len(parts) > 1
            pending[:0] = parts
    return contents


class RunnableStub(Stub):
    """A stub for a runnable in source code."""

    def open(self, contents: RunnableContents) -> Iterable[object]:
        """Records its contents, and returns its components."""
        raise NotImplementedError


class TaskStub(RunnableStub):
    """A stub for a task in source code, with its `func`."""


def _record(runnable: Any, contents: RunnableContents) -> Iterable[object]:  # noqa: C901 - one case for each kind of runnable
    """Records the contents of one runnable, and returns its components."""
    if isinstance(runnable, RunnableStub):
        return runnable.open(contents)
    if is_a(runnable, "langgraph", "RemoteGraph"):
        contents.remote = True
    elif is_graph(runnable):
        contents.graphs.append(runnable)
    elif is_a(runnable, "langgraph", "ToolNode"):
        contents.tool_nodes.append(runnable)
        contents.tools.extend(tool_of(tool) for tool in runnable.tools_by_name.values())
    elif is_a(runnable, "langchain_core", "BaseTool"):
        contents.tools.append(tool_of(runnable))
    elif is_a(runnable, "langgraph", "RunnableCallable") or is_a(runnable, "langchain_core", *_FUNCTION_RUNNABLES):
        _record_functions(runnable, contents)
    elif is_a(runnable, "langchain_core", "RunnablePassthrough"):
        contents.passes_through = runnable.func is None and runnable.afunc is None
        _record_functions(runnable, contents)
    elif isinstance(runnable, FunctionType | MethodType | partial | ReadableFunction):
        contents.functions.append(runnable)
    elif is_a(runnable, "langchain_core", "BaseLanguageModel"):
        contents.models = True
    elif is_a(runnable, "langchain_core", "Runnable") or is_a(runnable, "langgraph", "RunnableSeq"):
        return _components(runnable, contents)
    elif callable(runnable):
        contents.functions.append(runnable)
    return ()


def _components(runnable: Any, contents: RunnableContents) -> Iterable[object]:
    """The components of a composed runnable; methods of the program's own class are recorded as functions."""
    if methods := [defined_outside(runnable, "langchain_core", name) for name in ("invoke", "ainvoke")]:
        contents.functions.extend(
            MethodType(method, runnable) for method in methods if isinstance(method, FunctionType)
        )
    components: list[object] = []
    for name in ("steps", "bound", "runnable", "fallbacks", "branches", "default", "mapper", "steps__", "runnables"):
        value = getattr(runnable, name, None)
        components.extend(_runnables_in(value))
    return components


def _runnables_in(value: object) -> Iterator[object]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _runnables_in(part)
    elif isinstance(value, dict):
        yield from value.values()
    elif is_runnable(value):
        yield value


def _record_functions(runnable: Any, contents: RunnableContents) -> None:
    """Records the functions of a callable, except one that only runs the other in a thread."""
    names = ("func", "afunc", "_transform", "_atransform")
    values = [value for name in names if (value := getattr(runnable, name, None)) is not None]
    for function in values:
        if isinstance(function, partial) and function.func.__name__ == "run_in_executor":
            continue
        owner = getattr(function, "__self__", None)
        if is_a(owner, "langchain", "AgentMiddleware"):
            contents.middleware.append(owner)
        if is_frameworks(function):
            contents.server_tools.extend(_server_tools(function))
            contents.hooks.extend(
                program_functions(function, without="tool_call")
            )  # wrappers of tool calls belong to the tool node
        else:
            contents.functions.append(function)


def is_frameworks(function: object) -> bool:
    """Whether a function belongs to the framework itself."""
    module = getattr(function, "__module__", None) or ""
    return module.partition(".")[0] in _FRAMEWORKS


def _server_tools(function: object) -> Iterator[str]:
    """The tools of an agent that the model provider runs: dictionaries of another type than `function`."""
    for name, value in closure(function):
        if name == "default_tools" and isinstance(value, list):
            for tool in value:
                if isinstance(tool, dict) and tool.get("type") != "function":
                    yield str(tool.get("name") or tool.get("type") or "server tool")


def closure(function: object) -> Iterator[tuple[str, object]]:
    """The closure of a function: its free variables and their values."""
    if isinstance(function, FunctionType):
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            try:
                yield name, cell.cell_contents
            except ValueError:  # not assigned yet
                continue


def tool_of(tool: Any) -> GraphTool:
    """The tool of a LangChain tool or of a function."""
    if isinstance(tool, FunctionType | MethodType):
        return GraphTool(tool.__name__, (tool,))
    attributes = [getattr(tool, name, None) for name in ("func", "coroutine")]
    functions = [attribute for attribute in attributes if attribute is not None]
    if not functions:
        methods = (defined_outside(tool, "langchain_core", name) for name in ("_run", "_arun"))
        functions = [MethodType(method, tool) for method in methods if isinstance(method, FunctionType)]
    return GraphTool(str(tool.name), tuple(functions))


def program_functions(function: object, *, without: str = "") -> list[Any]:
    """The program's own functions inside a function that the framework built.

    Args:
        function: a function of the framework.
        without: free variables whose name contains this are skipped.
    """
    return [candidate for candidate in _inner_functions(function, without) if _is_programs(candidate)]


def _is_programs(function: object) -> bool:
    inner = function.__func__ if isinstance(function, MethodType) else function
    is_live = isinstance(inner, FunctionType) and is_program_code(inner) and not is_guards(inner)
    return is_live or isinstance(inner, ReadableFunction)


def _inner_functions(function: object, without: str = "") -> Iterator[object]:
    """The functions inside a function that the framework built, but not those inside the program's own."""
    pending, seen = [function], set()
    while pending:
        candidate = pending.pop()
        if id(candidate) in seen or candidate is None:
            continue
        seen.add(id(candidate))
        if isinstance(candidate, ReadableFunction | FunctionType | MethodType):
            yield candidate
        if _is_programs(candidate):
            continue
        inner = candidate.__func__ if isinstance(candidate, MethodType) else candidate
        pending.extend(value for name, value in closure(inner) if not without or without not in name)
        pending.extend([*candidate] if isinstance(candidate, list | tuple) else [])
        pending.extend([candidate.func, *candidate.args] if isinstance(candidate, partial) else [])
        pending.append(vars(inner).get("__wrapped__") if isinstance(inner, FunctionType) else None)


# --- facts

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
        wrapped: a guard judges the calls of its tool node.
        tool_uses: the number of places that call tools: the tool nodes for each tool, and the code of functions.
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
    wrapped: bool = False
    tool_uses: int = 0

    @cached_property
    def place(self) -> tuple[str | None, int | None]:
        """The file and line of the node's function; for a tool node, of its first tool's function."""
        opened = self.contents
        functions = [*opened.functions, *(function for tool in opened.tools for function in tool.functions)]
        functions += opened.hooks if opened.middleware else []
        own = [function for function in functions if not is_guards(function)]
        return definition(own[0]) if own else (None, None)

    @property
    def guarded(self) -> bool:
        """Whether a guard judges every call of its tools before it runs."""
        only_node = len(self.contents.tool_nodes) == 1 and not (self.bodies or self.unseen)
        return self.wrapped and only_node and self.tool_uses == len(self.contents.tools)

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


_REQUEST = object()  # of a tool call, of which nothing is known


def _call(request: object) -> object:
    """Represents the call that a wrapper is around."""
    return request


@dataclass
class _FactCollector:
    """Collects the facts of a node from its contents and from what its functions run."""

    facts: NodeFacts
    _seen: set[int] = field(default_factory=set)
    _gated: dict[str, list[bool]] = field(default_factory=dict)
    _kept: list[object] = field(default_factory=list)  # whose identities are in `_seen`

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
        body = NodeBody() if is_guards(function) else node_body(function)
        if not inside:
            self.facts.bodies.append(body)
            self.facts.always_asks = body.always_asks and all(body.always_asks for body in self.facts.bodies)
        self.facts.asks = self.facts.asks or body.asks
        self._unseen(body)
        if not body.source_known and body.file is not None:
            self.facts.notes.append("its source is missing; its behaviour was read from its bytecode")
        for use in body.method_calls:
            self._use(use)
        for called in body.tools:
            self._tool(GraphTool(called.name), approved=called.after_approval)
            self.facts.model_chooses = self.facts.model_chooses or not called.unconditional
        for value in body.return_values.known:
            if is_runnable(value) and not is_a(value, "langgraph", "StateGraph"):  # LangGraph runs a returned runnable
                self._use(
                    MethodCall(value, "invoke", after_approval=False, unconditional=len(body.return_values.known) == 1)
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
        for tool in tools.known if tools else ():
            if isinstance(tool, RunnableStub):
                self.collect(open_runnable(tool), inside=True, use=use)
            elif isinstance(tool, FunctionType) or is_a(tool, "langchain_core", "BaseTool"):
                self._tool(tool_of(tool), approved=use.after_approval)

    def _tool(self, tool: GraphTool, *, approved: bool) -> None:
        """Records a tool: gated if its own code, or every path to it, asks a person."""
        self.facts.tool_uses += 1
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
        """Records what the wrappers around tool calls run, and whether they ask a person."""
        wrappers = [getattr(tool_node, name, None) for name in ("_wrap_tool_call", "_awrap_tool_call")]
        guards = [any(map(is_guards, _inner_functions(wrapper))) for wrapper in wrappers if wrapper]
        self.facts.wrapped = getattr(tool_node, "guarded", False) or (bool(guards) and all(guards))
        functions = [[partial(part, _REQUEST, _call) for part in program_functions(wrapper)] for wrapper in wrappers]
        self._kept += functions
        asks = self.facts.asks
        for function in (function for chain in functions for function in chain):
            self._function(function, inside=True)
        self.facts.asks = asks
        chains = [[node_body(function) for function in chain] for chain in functions if chain]
        if chains and all(any(body.always_asks for body in chain) for chain in chains):
            self.facts.tools = dict.fromkeys(self.facts.tools, True)
        elif any(body.asks for chain in chains for body in chain):
            self.facts.notes.append("it asks a person before some tool calls only; they are not gated")


def hitl_gates(middleware: Iterable[Any]) -> tuple[frozenset[str], frozenset[str]]:
    """The tools that human-in-the-loop middleware gates: always, and under a condition."""
    always: set[str] = set()
    sometimes: set[str] = set()
    for layer in middleware:
        if is_hitl(layer):
            for name, options in _interrupt_options(layer):
                (sometimes if isinstance(options, Mapping) and options.get("when") else always).add(name)
    return frozenset(always), frozenset(sometimes - always)


def is_hitl(middleware: object) -> bool:
    return isinstance(middleware, HitlStub) or is_a(middleware, "langchain", "HumanInTheLoopMiddleware")


def _interrupt_options(middleware: Any) -> Iterator[tuple[str, object]]:
    for name, options in getattr(middleware, "interrupt_on", {}).items():
        if options:
            yield str(name), options
