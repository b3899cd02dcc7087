"""Reads the source of LangGraph programs: builds a StateGraph call by call, then extracts it like a live one.

The graphs of agents are built as `create_agent` does, from the model, tools and middleware. A team is a supervisor with
its agents, or a swarm that hands over among its agents.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from guardagent.frameworks.langgraph.extractor import extract
from guardagent.frameworks.langgraph.extractor.nodes import HitlStub, RunnableContents
from guardagent.frameworks.langgraph.package import PACKAGES
from guardagent.frameworks.langgraph.source.objects import (
    FixedFunction,
    FixedRunnable,
    SourceFlow,
    SourceGraph,
    SourcePipe,
    SourceTask,
    SourceTool,
    SourceToolNode,
    functions_in,
    name_of,
    names_in,
    tools_in,
)
from guardagent.workflow.model.graph import END, START
from guardagent.workflow.python_source.bodies import FunctionSummary, ReadableFunction
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.modules import ProgramObject
from guardagent.workflow.python_source.stubs import FunctionStub
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Attribute,
    CallResult,
    Class,
    Function,
    ImportedName,
    PartialFunction,
    Sequence,
    Table,
    Values,
    exactly,
    path_of,
    plain_string,
)

AGENTS = {"create_agent", "create_react_agent"}
TEAMS = {"create_supervisor", "create_swarm"}
HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
_WRAPS = ("wrap_model_call", "wrap_tool_call")

# The hooks of LangChain's own middleware (1.4) and of the guard's with their jump targets, and the tools that it adds.
_GUARD = "GuardMiddleware"
_SHIPPED_MIDDLEWARE: dict[str, tuple[dict[str, list[str]], tuple[str, ...]]] = {
    _GUARD: ({name: ["end"] * (name == "before_model") for name in (*HOOKS, *_WRAPS) if name != "after_model"}, ()),
    "HumanInTheLoopMiddleware": ({"after_model": []}, ()),
    "ModelCallLimitMiddleware": ({"before_model": ["end"], "after_model": []}, ()),
    "PIIMiddleware": ({"before_model": ["end"], "after_model": []}, ()),
    "ShellToolMiddleware": ({"before_agent": [], "after_agent": []}, ("shell",)),
    "SummarizationMiddleware": ({"before_model": []}, ()),
    "TodoListMiddleware": ({"after_model": [], "wrap_model_call": []}, ("write_todos",)),
    "ToolCallLimitMiddleware": ({"after_model": ["end"]}, ()),
    "FilesystemFileSearchMiddleware": ({}, ("glob_search", "grep_search")),
    **dict.fromkeys(
        ("ContextEditingMiddleware", "LLMToolSelectorMiddleware", "ModelFallbackMiddleware", "ModelRetryMiddleware",
         "ProviderToolSearchMiddleware"),
        ({"wrap_model_call": []}, ()),
    ),
    **dict.fromkeys(("LLMToolEmulator", "ToolErrorMiddleware", "ToolRetryMiddleware"), ({}, ())),
}  # fmt: skip


def tool_of_function(interpreter: Interpreter, arguments: Arguments) -> Values | None:
    """`StructuredTool.from_function(f)`, and the like."""
    sources = [arguments.get(name, place) or NOTHING for name, place in (("func", 0), ("coroutine", 1))]
    functions = [value for values in sources for value in values.known if isinstance(value, Function | PartialFunction)]
    named = arguments.values_of("name").strings
    if not functions and not named:
        return None
    name = next(iter(named)) if named else name_of(functions[0])
    return exactly(SourceTool(name, functions[0] if functions else None, interpreter, arguments))


def _list_of(items: Values) -> Values:
    """A list of some values, in any order."""
    return Values((Sequence(tuple(map(exactly, items.known)), ordered=False),), items.complete)


def _server_tools(values: Values | None, interpreter: Interpreter) -> tuple[Values, list[str]]:
    """The tools that the program runs, and the names of those that the model provider runs."""
    items = interpreter.elements(values or NOTHING)
    own = tuple(value for value in items.known if not isinstance(value, Table | dict))
    names: list[str] = []
    for value in items.known:
        if isinstance(value, Table | dict):
            kind = interpreter.item(value, exactly("type")).strings or {"server tool"}
            named = interpreter.item(value, exactly("name")).strings or kind
            names.extend(sorted(named) if kind != {"function"} else ())
    return _list_of(Values(own, items.complete)), names


# --- agents


def agent(interpreter: Interpreter, maker: str, arguments: Arguments, line: int) -> SourceGraph:
    """The compiled graph of an agent."""
    graph = SourceGraph(interpreter, line)
    tools, server_tools = _server_tools(arguments.get("tools", 1), interpreter)
    (_react if maker == "create_react_agent" else _agent)(graph, arguments, tools, server_tools)
    return graph.compile(arguments, line)


def _react(graph: SourceGraph, arguments: Arguments, tools: Values, server_tools: list[str]) -> None:
    """Builds the graph of `langgraph.prebuilt.create_react_agent`."""
    _put(graph, "agent", server_tools=server_tools)
    hooks = {name: arguments.get(name) or exactly(None) for name in ("pre_model_hook", "post_model_hook")}
    for name, hook in hooks.items():
        if hook.known != (None,):
            graph.put(name, hook)
    entry = "pre_model_hook" if "pre_model_hook" in graph.nodes else "agent"
    after_model = "post_model_hook" if "post_model_hook" in graph.nodes else "agent"
    graph.edges += [(START, entry), *([(entry, "agent")] if entry != "agent" else [])]
    graph.edges += [("agent", after_model)] if after_model != "agent" else []
    last = END
    if arguments.get("response_format") is not None:
        last = "generate_structured_response"
        _put(graph, last)
        graph.edges.append((last, END))
    known, complete = tools_in(tools, graph.interpreter)
    if known or not complete:
        graph.put("tools", exactly(SourceToolNode(Arguments((tools,)), graph.interpreter)))
        graph.choose(after_model, ["tools", last, *([entry] if after_model != "agent" else [])])
        graph.edges.append(("tools", entry))
    elif last != END:
        graph.edges.append((after_model, last))


def _put(graph: SourceGraph, name: str, **contents: Any) -> None:
    """Adds a node for a hook of middleware, or for the agent's model."""
    graph.put(name, exactly(FixedRunnable(RunnableContents(**contents))))


@dataclass
class Middleware:
    """One piece of middleware.

    Attributes:
        name: the prefix of its node names.
        hooks: the program's functions by hook name; empty for LangChain's own.
        jumps: the jump targets of each hook, other than the next node.
        tools: the tools that it adds.
        wrapper: the wrapper around tool calls.
        awrapper: the wrapper around tool calls in a coroutine.
        hitl: its human-in-the-loop options, if it asks for approval.
    """

    name: str
    hooks: dict[str, list[ReadableFunction]] = field(default_factory=dict)
    jumps: dict[str, list[str]] = field(default_factory=dict)
    tools: list[Values] = field(default_factory=list)
    wrapper: Values | None = None
    awrapper: Values = NOTHING
    hitl: list[HitlStub] = field(default_factory=list)


def _agent(graph: SourceGraph, arguments: Arguments, own_tools: Values, server_tools: list[str]) -> None:
    """Builds the graph of `langchain.agents.create_agent`."""
    interpreter = graph.interpreter
    listed = interpreter.elements(arguments.get("middleware") or NOTHING)
    middleware = [_middleware(graph, piece) for piece in listed.known]
    if not listed.complete:
        graph.unseen.append("the source does not determine all middleware of an agent")
    items = NOTHING
    for values in (*(values for piece in middleware for values in piece.tools), own_tools):
        items |= interpreter.elements(values)
    wrappers = tuple(piece.wrapper for piece in middleware if piece.wrapper is not None)
    known, complete = tools_in(_list_of(items), interpreter)
    wraps_tools = bool(wrappers) or any("wrap_tool_call" in piece.hooks for piece in middleware)
    has_tools = bool(known) or not complete or wraps_tools
    _put(
        graph, "model", server_tools=server_tools,
        hooks=[function for piece in middleware for function in piece.hooks.get("wrap_model_call", [])],
    )  # fmt: skip
    if has_tools:
        pieces = interpreter.ordered_elements(arguments.get("middleware") or NOTHING) or ()
        guarded = any(len(piece.known) == 1 and piece.complete and _is_guard(piece.known[0]) for piece in pieces)
        awrappers = Values(tuple(value for piece in middleware for value in piece.awrapper.known))
        options = Arguments((_list_of(items),), {"awrap_tool_call": awrappers})
        graph.put("tools", exactly(SourceToolNode(options, interpreter, wrappers, guarded)))
    for piece in middleware:
        for hook in HOOKS:
            if hook in piece.hooks:
                _put(graph, f"{piece.name}.{hook}", functions=piece.hooks[hook], middleware=piece.hitl)
    direct = [tool.options.get("return_direct") for tool in items.known if isinstance(tool, SourceTool)]
    may_end = any(values is not None and values.known != (False,) for values in direct)
    response = arguments.get("response_format") is not None
    _connect(graph, middleware, has_tools=has_tools, response=response, may_end=may_end or response)


def _connect(
    graph: SourceGraph, middleware: list[Middleware], *, has_tools: bool, response: bool, may_end: bool
) -> None:
    """Adds the edges of an agent, through the hooks of its middleware; its tools may end it."""
    chains = {hook: [piece for piece in middleware if hook in piece.hooks] for hook in HOOKS}
    chains["after_model"].reverse()
    chains["after_agent"].reverse()
    nodes = {hook: [f"{piece.name}.{hook}" for piece in chain] for hook, chain in chains.items()}
    entry, leave = [*nodes["before_model"], "model"][0], [*nodes["after_agent"], END][0]
    last = ["model", *nodes["after_model"]][-1]
    graph.edges.append((START, [*nodes["before_agent"], entry][0]))
    places = {"end": leave, "tools": "tools", "model": entry}

    def follow(hook: str, name: str, piece: Middleware, default: str) -> None:
        targets = [target for jump, target in places.items() if jump in piece.jumps.get(hook, ()) and target != name]
        if piece.jumps.get(hook):
            graph.choose(name, list(dict.fromkeys([default, *targets])))
        else:
            graph.edges.append((name, default))

    if has_tools:
        graph.choose("tools", [entry, *([leave] if may_end else [])])
        again = response or last != "model" or any("wrap_model_call" in piece.hooks for piece in middleware)
        graph.choose(last, ["tools", leave, *([entry] if again else [])])
    elif response:
        graph.choose(last, [entry, leave])
    elif last == "model":
        graph.edges.append(("model", leave))
    else:
        follow("after_model", last, chains["after_model"][-1], leave)
    graph.edges += [("model", name) for name in nodes["after_model"][:1]]
    for hook, end in (("before_agent", entry), ("before_model", "model"), ("after_model", ""), ("after_agent", END)):
        for name, piece, after in zip(nodes[hook], chains[hook], [*nodes[hook][1:], end], strict=False):
            if after:
                follow(hook, name, piece, after)


# --- middleware


def _middleware(graph: SourceGraph, value: object) -> Middleware:
    interpreter = graph.interpreter
    if isinstance(value, ProgramObject) and isinstance(value.made_of, Class):
        return _class_middleware(interpreter, value, value.made_of)
    if isinstance(value, CallResult):
        path = path_of(value.callee)
        name = path.rpartition(".")[2]
        if _is_guard(value) or (name in _SHIPPED_MIDDLEWARE and path.startswith("langchain.") and name != _GUARD):
            return _shipped_middleware(interpreter, name, value.arguments)
        first = value.arguments.positional[0].known if value.arguments.positional else ()
        if first and isinstance(first[0], Function | PartialFunction):
            return _function_middleware(interpreter, name, value.arguments, first[0])
    graph.unseen.append(f"unknown middleware: {path_of(value) or name_of(value)}")
    return Middleware(name_of(value))


def _is_guard(value: object) -> bool:
    path = path_of(value.callee) if isinstance(value, CallResult) else ""
    return path.startswith("guardagent.frameworks.langgraph.") and path.endswith(f".{_GUARD}")


def _shipped_middleware(interpreter: Interpreter, name: str, arguments: Arguments) -> Middleware:
    jumps, names = _SHIPPED_MIDDLEWARE[name]
    tools = [_list_of(exactly(SourceTool(tool, None, interpreter))) for tool in names]
    created = Middleware(name, {hook: [] for hook in jumps}, jumps, tools)
    if name == _GUARD:
        created.hooks |= {hook: [FixedFunction(FunctionSummary())] for hook in HOOKS if hook in jumps}
    if name == "HumanInTheLoopMiddleware":
        options = _interrupt_options(interpreter, arguments.values_of("interrupt_on", 0))
        created.hitl.append(HitlStub(dict(options)))
    special = (arguments.get("pii_type" if name == "PIIMiddleware" else "tool_name", 0) or NOTHING).strings
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
    value = options.known[0] if options.complete and len(options.known) == 1 else None
    if isinstance(value, bool):
        return value
    if isinstance(value, CallResult):
        keys = set(value.arguments.keywords)
    elif (pairs := interpreter.pairs(value)) is not None:
        keys = {name for key, _ in pairs for name in key.strings or ()}
    else:
        return {"when": True}
    return {"when": True} if "when" in keys else True


def _class_middleware(interpreter: Interpreter, owner: ProgramObject, made_of: Class) -> Middleware:
    """Middleware that is a class of the program."""
    named = interpreter.attribute(owner, "name").strings
    created = Middleware(next(iter(named)) if named else name_of(owner))
    for hook in (*HOOKS, "wrap_model_call"):
        methods = [interpreter.attribute(owner, name) for name in (hook, f"a{hook}")]
        if functions := functions_in(interpreter, *methods):
            created.hooks[hook], created.jumps[hook] = [*functions], _jumps(made_of, hook)
    wrapper, tools = interpreter.attribute(owner, "wrap_tool_call"), interpreter.attribute(owner, "tools")
    created.wrapper = wrapper if functions_in(interpreter, wrapper) else None
    created.awrapper = interpreter.attribute(owner, "awrap_tool_call")
    created.tools = [tools] if tools.known else []
    return created


def _jumps(made_of: Class, hook: str) -> list[str]:
    """The jump targets of a hook, as `@hook_config(can_jump_to=[...])` declares."""
    for node in made_of.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in {hook, f"a{hook}"}:
            parts = [part for decorator in node.decorator_list for part in ast.walk(decorator)]
            return [str(part.value) for part in parts if isinstance(part, ast.Constant)]
    return []


def _function_middleware(
    interpreter: Interpreter, hook: str, options: Arguments, function: Function | PartialFunction
) -> Middleware:
    """Middleware that a decorator makes of a function."""
    named = options.values_of("name").strings
    created = Middleware(next(iter(named)) if named else name_of(function))
    if hook == "wrap_tool_call":
        created.wrapper = exactly(function)
    else:
        created.hooks[hook] = [FunctionStub(function, interpreter)]
        created.jumps[hook] = names_in(options.get("can_jump_to")) or []
    created.tools = [options.get("tools") or NOTHING]
    return created


# --- teams


def hand_over_tool(interpreter: Interpreter, arguments: Arguments, *, together: bool) -> SourceTool:
    """Returns the tool of `create_handoff_tool`; that of a supervisor can hand over to several agents together."""
    target = arguments.values_of("agent_name")
    own = arguments.values_of("name").strings
    name = re.sub(r"\s+", "_", min(own or target.strings or {"agent"}).strip()).lower()
    sends = Sequence((exactly(CallResult(ImportedName("langgraph.types.Send"), Arguments((target,)))),))
    keywords = {"goto": target | exactly(sends) if together else target, "graph": exactly("__parent__")}
    command = CallResult(ImportedName("langgraph.types.Command"), Arguments(keywords=keywords))
    hand_over = FixedFunction(FunctionSummary(constructed=(command,)))
    return SourceTool(name if own else f"transfer_to_{name}", hand_over, interpreter)


def team(interpreter: Interpreter, maker: str, arguments: Arguments, line: int) -> SourceGraph:
    """Returns the graph of `create_supervisor` or `create_swarm`, which is not compiled yet."""
    agents = interpreter.elements(arguments.values_of("agents", 0))
    members = {name_of(value): value for value in agents.known}
    leader = _leader(interpreter, members, arguments, line) if maker == "create_supervisor" else None
    graph = SourceGraph(interpreter, line)
    if not agents.complete:
        graph.unseen.append(f"line {line}: the source does not determine all agents of a team")
    if leader is not None:
        graph.put(leader.name, exactly(leader))
        graph.edges.append((START, leader.name))
    for name, value in members.items():
        graph.put(name, exactly(value))
        graph.edges += [] if leader is None else [(name, leader.name)]
    if leader is None:
        graph.choose(START, list(members))  # the agent that was active last
    return graph


def _leader(interpreter: Interpreter, members: dict[str, object], arguments: Arguments, line: int) -> SourceGraph:
    """The agent that supervises the others: it has a tool to hand over to each."""
    tools = interpreter.elements(arguments.get("tools") or NOTHING)
    handing = [
        hand_over_tool(interpreter, Arguments(keywords={"agent_name": exactly(name)}), together=True)
        for name in members
    ]  # fmt: skip
    own = any(isinstance(getattr(value, "function", None), FixedFunction) for value in tools.known)
    every = (*tools.known, *(() if own else handing))  # its own tools to hand over replace the others
    named = arguments.values_of("supervisor_name")
    keywords = {
        "tools": _list_of(Values(every, tools.complete)),
        "name": named if named.strings else exactly("supervisor"),
    }
    return agent(interpreter, "create_react_agent", Arguments(keywords=keywords), line)


__all__ = ["CONSTANTS", "called", "extract", "is_workflow", "piped"]

CONSTANTS: dict[str, object] = {
    **{f"{module}.END": END for module in ("langgraph.graph", "langgraph.constants", "langgraph.graph.state")},
    **{f"{module}.START": START for module in ("langgraph.graph", "langgraph.constants", "langgraph.graph.state")},
    "langgraph.types.Command.PARENT": "__parent__",
}
_GRAPHS = {"StateGraph", "MessageGraph", "Graph"}
_HOOKS = {*HOOKS, *_WRAPS}


def is_workflow(value: object) -> bool:
    return isinstance(value, SourceGraph | SourceFlow)


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of LangGraph or LangChain; None if the call is of something else."""
    if isinstance(target, Attribute) and isinstance(target.owner, SourceGraph | SourcePipe):
        return target.owner.called(target.name, arguments, line)
    if isinstance(target, SourceTask):
        return UNKNOWN
    if not isinstance(target, CallResult | ImportedName):
        return None
    path = path_of(target.callee if isinstance(target, CallResult) else target)
    if path.startswith("guardagent.frameworks.langgraph.") and isinstance(target, ImportedName):
        return _guard_made(interpreter, path.rpartition(".")[2], arguments)
    if path.partition(".")[0] not in PACKAGES:
        return None
    name, first = path.rpartition(".")[2], arguments.values_of("", 0).known[:1]
    for function in (value for value in first if isinstance(value, Function | PartialFunction)):
        if (decorated := _decorated(interpreter, target, name, function)) is not None:
            return exactly(decorated)
    return _made(interpreter, path, arguments, line) if isinstance(target, ImportedName) else None


def _decorated(
    interpreter: Interpreter, decorator: CallResult | ImportedName, name: str, function: Function | PartialFunction
) -> object | None:
    """Applies a decorator to a function: it becomes a tool, a task, a workflow, or a hook of an agent."""
    options = decorator.arguments if isinstance(decorator, CallResult) else Arguments()
    if name in {"tool", "task"}:
        declared = options.get("name_or_callable", 0) if name == "tool" else options.get("name")
        own = next(iter((declared or UNKNOWN).strings or ()), name_of(function))
        if name == "task":
            return SourceTask(own, function, interpreter)
        return SourceTool(own, function, interpreter, options)
    if name == "entrypoint" and isinstance(decorator, CallResult):
        return SourceFlow(name_of(function), function, interpreter)
    if name in _HOOKS and isinstance(decorator, CallResult):
        return CallResult(decorator.callee, Arguments((exactly(function),), options.keywords))
    return None


def _made(interpreter: Interpreter, path: str, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of a class or function by its path."""
    name = path.rpartition(".")[2]
    if name in _GRAPHS:
        schema = next(iter(arguments.values_of("state_schema", 0).known), None)
        return exactly(SourceGraph(interpreter, line, state_schema=schema))
    if name in {"from_function", "StructuredTool", "Tool"}:
        return tool_of_function(interpreter, arguments)
    if name == "create_handoff_tool":
        return exactly(hand_over_tool(interpreter, arguments, together=path.startswith("langgraph_supervisor.")))
    if name in TEAMS and interpreter.executing:
        return exactly(team(interpreter, name, arguments, line))
    if name in AGENTS and interpreter.executing:
        return exactly(agent(interpreter, name, arguments, line))
    return None


def _guard_made(interpreter: Interpreter, name: str, arguments: Arguments) -> Values | None:
    """The values of a call of the guard's functions for graphs written by hand."""
    if name == "guarded_tool_node":
        wrappers = {key: values for key, values in arguments.keywords.items() if key.endswith("wrap_tool_call")}
        listed = Arguments((arguments.values_of("tools", 1),), wrappers)
        return exactly(SourceToolNode(listed, interpreter, guarded=True))
    ends = {"guarded_answer_node": NOTHING, "unless_stopped": arguments.values_of("model", 0) | exactly(END)}
    if name not in ends:
        return None
    function = FixedFunction(FunctionSummary(return_values=ends[name]))
    return exactly(FixedRunnable(RunnableContents(functions=[function])))


def piped(interpreter: Interpreter, left: Values, right: Values) -> Values:
    """`a | b` of runnables: a sequence."""
    return exactly(SourcePipe((left, right), interpreter))
