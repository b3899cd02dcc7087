"""Builds the graph of an agent as `create_agent` does: from its model, tools and middleware."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from guardagent.frameworks.langgraph.extractor.nodes import HitlStub, RunnableContents, RunnableStub
from guardagent.frameworks.langgraph.source.objects import (
    ConditionalBranch,
    NodeSpec,
    SourceGraph,
    SourceTool,
    SourceToolNode,
    SourceValue,
    name_of,
    names_in,
    tools_in,
)
from guardagent.workflow.model.graph import END, START
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.modules import ProgramObject
from guardagent.workflow.python_source.stubs import FunctionStub
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    CallResult,
    Class,
    Function,
    PartialFunction,
    Sequence,
    Table,
    Values,
    exactly,
    path_of,
    plain_string,
)

AGENTS = {"create_agent", "create_react_agent"}
HOOKS = ("before_agent", "before_model", "after_model", "after_agent")

# The hooks of LangChain's own middleware (1.4) with their jump targets, and the tools that it adds.
_SHIPPED_MIDDLEWARE: dict[str, tuple[dict[str, tuple[str, ...]], tuple[str, ...]]] = {
    "HumanInTheLoopMiddleware": ({"after_model": ()}, ()),
    "ModelCallLimitMiddleware": ({"before_model": ("end",), "after_model": ()}, ()),
    "PIIMiddleware": ({"before_model": ("end",), "after_model": ()}, ()),
    "ShellToolMiddleware": ({"before_agent": (), "after_agent": ()}, ("shell",)),
    "SummarizationMiddleware": ({"before_model": ()}, ()),
    "TodoListMiddleware": ({"after_model": (), "wrap_model_call": ()}, ("write_todos",)),
    "ToolCallLimitMiddleware": ({"after_model": ("end",)}, ()),
    "FilesystemFileSearchMiddleware": ({}, ("glob_search", "grep_search")),
    "ContextEditingMiddleware": ({"wrap_model_call": ()}, ()),
    "LLMToolSelectorMiddleware": ({"wrap_model_call": ()}, ()),
    "ModelFallbackMiddleware": ({"wrap_model_call": ()}, ()),
    "ModelRetryMiddleware": ({"wrap_model_call": ()}, ()),
    "ProviderToolSearchMiddleware": ({"wrap_model_call": ()}, ()),
    "LLMToolEmulator": ({}, ()),
    "ToolErrorMiddleware": ({}, ()),
    "ToolRetryMiddleware": ({}, ()),
}


@dataclass
class Middleware:
    """One piece of middleware.

    Attributes:
        name: the prefix of its node names.
        hooks: the program's functions by hook name; empty for LangChain's own.
        jumps: the jump targets of each hook, other than the next node.
        tools: the tools that it adds.
        wrapper: the wrapper around tool calls.
        hitl: its human-in-the-loop options, if it asks for approval.
    """

    name: str
    hooks: dict[str, list[FunctionStub]] = field(default_factory=dict)
    jumps: dict[str, list[str]] = field(default_factory=dict)
    tools: list[Values] = field(default_factory=list)
    wrapper: Values | None = None
    hitl: HitlStub | None = None

    def node(self, hook: str) -> str:
        return f"{self.name}.{hook}"


@dataclass(eq=False)
class MiddlewareHook(RunnableStub):
    """A node for a hook of middleware, or for the agent's model."""

    functions: list[FunctionStub] = field(default_factory=list)
    hooks: list[FunctionStub] = field(default_factory=list)
    hitl: HitlStub | None = None
    server_tools: list[str] = field(default_factory=list)
    values: Values = NOTHING

    def open(self, opened: RunnableContents) -> Iterable[object]:
        opened.functions.extend(self.functions)
        opened.hooks.extend(self.hooks)
        opened.server_tools.extend(self.server_tools)
        if self.hitl is not None:
            opened.middleware.append(self.hitl)
        return ()


def agent(interpreter: Interpreter, maker: str, arguments: Arguments, line: int) -> SourceGraph:
    """The compiled graph of an agent."""
    graph = SourceGraph(interpreter, line=line, file=str(interpreter.current_file))
    if maker == "create_react_agent":
        _react(interpreter, graph, arguments)
    else:
        _agent(interpreter, graph, arguments)
    return compiled(graph, arguments)


def compiled(graph: SourceGraph, arguments: Arguments) -> SourceGraph:
    """The compiled graph; unknown interrupts are assumed to be none."""
    stops = {when: names_in(arguments.get(when)) for when in ("interrupt_before", "interrupt_after")}
    unknown = [when for when, names in stops.items() if names is None]
    graph.notes.extend(
        f"line {graph.line}: the source does not determine {when!r}; none is assumed" for when in unknown
    )
    named = (arguments.get("name") or UNKNOWN).strings
    return graph.compiled(
        before=stops["interrupt_before"] or [],
        after=stops["interrupt_after"] or [],
        name=next(iter(named)) if named else "LangGraph",
    )


def structured_tool(interpreter: Interpreter, arguments: Arguments) -> Values | None:
    """`StructuredTool.from_function(f)`, and the like."""
    sources = [arguments.get(name, place) for name, place in (("func", 0), ("coroutine", 1))]
    functions = [
        one for values in sources if values for one in values.known if isinstance(one, Function | PartialFunction)
    ]
    named = (arguments.get("name") or UNKNOWN).strings
    if not functions and not named:
        return None
    name = next(iter(named)) if named else name_of(functions[0])
    return exactly(SourceTool(name, functions[0] if functions else None, interpreter, arguments))


def _server_tools(values: Values | None, interpreter: Interpreter) -> tuple[Values | None, list[str]]:
    """The tools that the program runs, and the names of those that the model provider runs."""
    if values is None:
        return None, []
    items = interpreter.elements(values)
    own = tuple(one for one in items.known if not isinstance(one, Table | dict))
    names: list[str] = []
    for one in items.known:
        if isinstance(one, Table | dict):
            kind = interpreter.item(one, exactly("type")).strings or {"server tool"}
            named = interpreter.item(one, exactly("name")).strings or kind
            names.extend(sorted(named) if kind != {"function"} else ())
    return Values((Sequence(tuple(map(exactly, own)), ordered=False),), items.complete), names


def _agent(interpreter: Interpreter, graph: SourceGraph, arguments: Arguments) -> None:
    """Builds the graph of `langchain.agents.create_agent`."""
    middleware_values = interpreter.elements(arguments.get("middleware") or exactly(Sequence(())))
    middleware = [_middleware(interpreter, graph, one) for one in middleware_values.known]
    if not middleware_values.complete:
        graph.unseen.append("the source does not determine all middleware of an agent")
    program_tools, server_tools = _server_tools(arguments.get("tools", 1), interpreter)
    wrappers = tuple(one.wrapper for one in middleware if one.wrapper is not None)
    middleware_tools = [values for one in middleware for values in one.tools]
    all_tools = _merged_tools(interpreter, [*middleware_tools, *([program_tools] if program_tools else [])])
    tools, complete = tools_in(all_tools, interpreter)
    has_tools = (
        bool(tools) or not complete or bool(wrappers) or any("wrap_tool_call" in one.hooks for one in middleware)
    )
    response = arguments.get("response_format") is not None
    _AgentBuilder(interpreter, graph, middleware).build(
        all_tools if has_tools else None, wrappers, server_tools, response=response
    )


def _merged_tools(interpreter: Interpreter, tool_lists: list[Values]) -> Values:
    items = NOTHING
    for values in tool_lists:
        items |= interpreter.elements(values)
    return Values((Sequence(tuple(map(exactly, items.known)), ordered=False),), items.complete)


@dataclass
class _AgentBuilder:
    """Builds the graph of an agent."""

    interpreter: Interpreter
    graph: SourceGraph
    middleware: list[Middleware]

    def build(
        self, tools: Values | None, wrappers: tuple[Values, ...], server_tools: list[str], *, response: bool
    ) -> None:
        wrapped = [code for one in self.middleware for code in one.hooks.get("wrap_model_call", [])]
        self._node("model", MiddlewareHook(hooks=wrapped, server_tools=server_tools))
        if tools is not None:
            node = SourceToolNode(Arguments((tools,)), self.interpreter, wrappers)
            self.graph.nodes["tools"] = NodeSpec(SourceValue(exactly(node), self.interpreter))
        for one in self.middleware:
            for hook in HOOKS:
                if hook in one.hooks:
                    self._node(one.node(hook), MiddlewareHook(functions=one.hooks[hook], hitl=one.hitl))
        before_agent, before_model, after_model, after_agent = (
            [one for one in self.middleware if hook in one.hooks] for hook in HOOKS
        )
        self.loop_entry = before_model[0].node("before_model") if before_model else "model"
        self.loop_exit = after_model[0].node("after_model") if after_model else "model"
        self.exit = after_agent[-1].node("after_agent") if after_agent else END
        entry = before_agent[0].node("before_agent") if before_agent else self.loop_entry
        self.graph.edges.append((START, entry))
        self._loop(tools, after_model, response=response)
        self._chain(before_agent, "before_agent", self.loop_entry)
        self._chain(before_model, "before_model", "model")
        if after_model:
            self.graph.edges.append(("model", after_model[-1].node("after_model")))
            self._chain(after_model[:0:-1], "after_model", self.loop_exit)
        self._chain(after_agent[::-1], "after_agent", END)

    def _node(self, name: str, hook: MiddlewareHook) -> None:
        self.graph.nodes[name] = NodeSpec(SourceValue(exactly(hook), self.interpreter))

    def _choice(self, source: str, targets: list[str]) -> None:
        code = SourceValue(exactly(MiddlewareHook()), self.interpreter)
        self.graph.branches.setdefault(source, {})["choice"] = ConditionalBranch(code, {name: name for name in targets})

    def _loop(self, tools: Values | None, after_model: list[Middleware], *, response: bool) -> None:
        wraps_model = any("wrap_model_call" in one.hooks for one in self.middleware)
        if tools is not None:
            last = [self.exit] if response or self._returns_direct(tools) else []
            self._choice("tools", [self.loop_entry, *last])
            more = [self.loop_entry] if response or self.loop_exit != "model" or wraps_model else []
            self._choice(self.loop_exit, ["tools", self.exit, *more])
        elif response:
            self._choice(self.loop_exit, [self.loop_entry, self.exit])
        elif not after_model:
            self.graph.edges.append(("model", self.exit))
        else:
            self._after(after_model[0], "after_model", self.exit)

    def _returns_direct(self, tools: Values) -> bool:
        return_direct = [
            one.options.get("return_direct")
            for one in self.interpreter.elements(tools).known
            if isinstance(one, SourceTool)
        ]
        return any(values is not None and values.known != (False,) for values in return_direct)

    def _chain(self, several: list[Middleware], hook: str, last: str) -> None:
        for one, after in pairwise(several):
            self._after(one, hook, after.node(hook))
        if several:
            self._after(several[-1], hook, last)

    def _after(self, one: Middleware, hook: str, default: str) -> None:
        jumps = one.jumps.get(hook) or []
        if not jumps:
            self.graph.edges.append((one.node(hook), default))
            return
        places = {"end": self.exit, "tools": "tools", "model": self.loop_entry}
        targets = [places[jump] for jump in ("end", "tools", "model") if jump in jumps]
        self._choice(one.node(hook), list(dict.fromkeys([default, *(t for t in targets if t != one.node(hook))])))


def _middleware(interpreter: Interpreter, graph: SourceGraph, one: object) -> Middleware:
    if isinstance(one, ProgramObject) and isinstance(one.made_of, Class):
        return _class_middleware(interpreter, one)
    if isinstance(one, CallResult):
        name = path_of(one.callee).rpartition(".")[2]
        if name in _SHIPPED_MIDDLEWARE:
            return _shipped_middleware(interpreter, name, one)
        first = one.arguments.positional[0].known if one.arguments.positional else ()
        if first and isinstance(first[0], Function | PartialFunction):
            return _function_middleware(interpreter, name, one, first[0])
    graph.unseen.append(f"unknown middleware: {path_of(one) or name_of(one)}")
    return Middleware(name_of(one))


def _shipped_middleware(interpreter: Interpreter, name: str, one: CallResult) -> Middleware:
    hooks, tools = _SHIPPED_MIDDLEWARE[name]
    created = Middleware(name, {hook: [] for hook in hooks}, {hook: list(jumps) for hook, jumps in hooks.items()})
    created.tools = [exactly(Sequence((exactly(SourceTool(tool, None, interpreter)),))) for tool in tools]
    if name == "HumanInTheLoopMiddleware":
        created.hitl = HitlStub(dict(_interrupt_options(interpreter, one.arguments.get("interrupt_on", 0) or UNKNOWN)))
    special = (one.arguments.get("pii_type" if name == "PIIMiddleware" else "tool_name", 0) or NOTHING).strings
    if special and name in {"PIIMiddleware", "ToolCallLimitMiddleware"}:
        created.name = f"{name}[{next(iter(special))}]"
    return created


def _interrupt_options(interpreter: Interpreter, values: Values) -> Iterator[tuple[str, Any]]:
    """The tools that need approval, with their options; unknown options count as conditional approval."""
    for table in values.known:
        for key, options in interpreter.pairs(table) or ():
            for name in key.strings or ():
                yield plain_string(name), _options(interpreter, options)


def _options(interpreter: Interpreter, options: Values) -> object:
    if options.complete and len(options.known) == 1:
        one = options.known[0]
        if isinstance(one, bool):
            return one
        pairs = interpreter.pairs(one)
        named = one.arguments.keywords if isinstance(one, CallResult) else None
        keys = {name for key, _ in pairs or () for name in key.strings or ()} if pairs is not None else set(named or ())
        if pairs is not None or named is not None:
            return {"when": True} if "when" in keys else True
    return {"when": True}


def _class_middleware(interpreter: Interpreter, one: ProgramObject) -> Middleware:
    """Middleware that is a class of the program."""
    named = interpreter.attribute(one, "name").strings
    created = Middleware(next(iter(named)) if named else name_of(one))
    assert isinstance(one.made_of, Class)
    for hook in (*HOOKS, "wrap_model_call"):
        methods = [interpreter.attribute(one, name) for name in (hook, f"a{hook}")]
        codes = [
            FunctionStub(method, interpreter)
            for values in methods
            for method in values.known
            if isinstance(method, PartialFunction)
        ]
        if codes:
            created.hooks[hook] = codes
            created.jumps[hook] = _jumps(one.made_of, hook)
    wrapper = interpreter.attribute(one, "wrap_tool_call")
    created.wrapper = wrapper if any(isinstance(method, PartialFunction) for method in wrapper.known) else None
    tools = interpreter.attribute(one, "tools")
    created.tools = [tools] if tools.known else []
    return created


def _jumps(made_of: Class, hook: str) -> list[str]:
    """The jump targets of a hook, as `@hook_config(can_jump_to=[...])` declares."""
    for node in made_of.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in {hook, f"a{hook}"}:
            words = [
                one.value
                for decorator in node.decorator_list
                for one in ast.walk(decorator)
                if isinstance(one, ast.Constant)
            ]
            return [str(word) for word in words]
    return []


def _function_middleware(
    interpreter: Interpreter, hook: str, one: CallResult, function: Function | PartialFunction
) -> Middleware:
    """Middleware that a decorator makes of a function."""
    named = (one.arguments.get("name") or UNKNOWN).strings
    created = Middleware(next(iter(named)) if named else name_of(function))
    if hook == "wrap_tool_call":
        created.wrapper = exactly(function)
    else:
        created.hooks[hook] = [FunctionStub(function, interpreter)]
        created.jumps[hook] = names_in(one.arguments.get("can_jump_to")) or []
    created.tools = [values] if (values := one.arguments.get("tools")) is not None else []
    return created


def _react(interpreter: Interpreter, graph: SourceGraph, arguments: Arguments) -> None:
    """Builds the graph of `langgraph.prebuilt.create_react_agent`."""
    program_tools, server_tools = _server_tools(arguments.get("tools", 1), interpreter)
    builder = _AgentBuilder(interpreter, graph, [])
    builder._node("agent", MiddlewareHook(server_tools=server_tools))  # noqa: SLF001 - of this module
    tools, complete = tools_in(program_tools, interpreter)
    entry, last = "agent", END
    for name in ("pre_model_hook", "post_model_hook"):
        hook = arguments.get(name)
        if hook is not None and hook.known != (None,):
            graph.nodes[name] = NodeSpec(SourceValue(hook, interpreter))
    if "pre_model_hook" in graph.nodes:
        graph.edges.append(("pre_model_hook", "agent"))
        entry = "pre_model_hook"
    if "post_model_hook" in graph.nodes:
        graph.edges.append(("agent", "post_model_hook"))
    if arguments.get("response_format") is not None:
        builder._node("generate_structured_response", MiddlewareHook())  # noqa: SLF001 - as above
        graph.edges.append(("generate_structured_response", END))
        last = "generate_structured_response"
    graph.edges.append((START, entry))
    after_model = "post_model_hook" if "post_model_hook" in graph.nodes else "agent"
    if not tools and complete:
        graph.edges.append((after_model, last)) if last != END else None
        return
    graph.nodes["tools"] = NodeSpec(
        SourceValue(exactly(SourceToolNode(Arguments((program_tools or NOTHING,)), interpreter)), interpreter)
    )
    builder._choice(after_model, ["tools", last, *([entry] if after_model != "agent" else [])])  # noqa: SLF001 - as above
    graph.edges.append(("tools", entry))
