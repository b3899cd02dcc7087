"""Reads the source of LangGraph programs: builds a StateGraph call by call, then extracts it like a live one.

Teams of agents become such graphs, too: a supervisor with its agents, or a swarm that hands over among its agents. If
the source does not determine the name of a node, the text of the expression is its name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

from guardagent.frameworks.langgraph.extractor import extract
from guardagent.frameworks.langgraph.package import PACKAGES
from guardagent.frameworks.langgraph.source import agents as langgraph_agents
from guardagent.frameworks.langgraph.source.objects import (
    ConditionalBranch,
    NodeSpec,
    SourceFlow,
    SourceGraph,
    SourcePipe,
    SourceTask,
    SourceTool,
    SourceValue,
    name_of,
    names_in,
)
from guardagent.workflow.model.graph import END, START
from guardagent.workflow.python_source import types
from guardagent.workflow.python_source.bodies import FrameworkNames, FunctionSummary, ReadableFunction
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    Attribute,
    CallResult,
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

__all__ = ["CONSTANTS", "PACKAGES", "called", "extract", "is_workflow", "piped"]


TEAMS = {"create_supervisor", "create_swarm"}


@dataclass(eq=False)
class HandOver(ReadableFunction):
    """The function of a tool that hands over to another agent."""

    target: Values

    def summary(self, arguments: Arguments, names: FrameworkNames) -> FunctionSummary:  # noqa: ARG002 - always the same
        keywords = {"goto": self.target, "graph": exactly("__parent__")}
        return FunctionSummary(
            constructed=(CallResult(ImportedName("langgraph.types.Command"), Arguments(keywords=keywords)),)
        )

    def place(self) -> tuple[str | None, int | None]:
        return None, None


def hand_over_tool(interpreter: Interpreter, arguments: Arguments) -> SourceTool:
    """Returns the tool of `create_handoff_tool`."""
    target = arguments.get("agent_name") or UNKNOWN
    named = (arguments.get("name") or UNKNOWN).strings or target.strings or {"agent"}
    name = re.sub(r"\s+", "_", min(named).strip()).lower()
    if not (arguments.get("name") or UNKNOWN).strings:
        name = f"transfer_to_{name}"
    return SourceTool(name, HandOver(target), interpreter)


def team(interpreter: Interpreter, maker: str, arguments: Arguments, line: int) -> SourceGraph:
    """Returns the graph of `create_supervisor` or `create_swarm`, which is not compiled yet."""
    agents = interpreter.elements(arguments.get("agents", 0) or UNKNOWN)
    made = {name_of(one): one for one in agents.known}
    leader = _leader(interpreter, made, arguments, line) if maker == "create_supervisor" else None
    graph = SourceGraph(interpreter, line=line, file=str(interpreter.current_file))
    if not agents.complete:
        graph.unseen.append(f"line {line}: the source does not determine all agents of a team")
    if leader is not None:
        graph.nodes[leader.name] = NodeSpec(SourceValue(exactly(leader), interpreter))
        graph.edges.append((START, leader.name))
    for name, one in made.items():
        graph.nodes[name] = NodeSpec(SourceValue(exactly(one), interpreter))
        if leader is not None:
            graph.edges.append((name, leader.name))
    if leader is None:
        start_router(interpreter, graph, list(made))
    return graph


def start_router(interpreter: Interpreter, graph: SourceGraph, names: list[str]) -> None:
    """Starts a graph at the agent that was active last."""
    path = SourceValue(exactly(langgraph_agents.MiddlewareHook()), interpreter)
    graph.branches.setdefault(START, {})["active agent"] = ConditionalBranch(path, {name: name for name in names})


def _leader(interpreter: Interpreter, made: dict[str, object], arguments: Arguments, line: int) -> SourceGraph:
    """The agent that supervises the others: it has a tool to hand over to each."""
    tools = interpreter.elements(arguments.get("tools") or exactly(Sequence(())))
    handing = [hand_over_tool(interpreter, Arguments(keywords={"agent_name": exactly(name)})) for name in made]
    own = any(isinstance(getattr(one, "function", None), HandOver) for one in tools.known)
    every = (*tools.known, *(() if own else handing))  # its own tools to hand over replace the others
    named = arguments.get("supervisor_name") or exactly("supervisor")
    keywords = {
        "tools": Values((Sequence(tuple(map(exactly, every)), ordered=False),), tools.complete),
        "name": named if named.strings else exactly("supervisor"),
    }
    return langgraph_agents.agent(interpreter, "create_react_agent", Arguments(keywords=keywords), line)


def new_name(interpreter: Interpreter, graph: SourceGraph, line: int) -> str:
    """Returns a name for the node that the current call adds, as its first argument is written."""
    text = _text(interpreter, "node", 0)
    of_text = graph.written.setdefault(text, {})
    if line not in of_text:
        of_text[line] = text if text and text not in graph.nodes else f"{text} line {line}".strip()
    return of_text[line]


def node_names(
    interpreter: Interpreter, graph: SourceGraph, arguments: Arguments, keyword: str, place: int
) -> list[str] | None:
    """Returns the nodes that an argument of the current call names; None if they are unknown."""
    names = names_in(arguments.get(keyword, place))
    if names is None and (written := graph.written.get(_text(interpreter, keyword, place))):
        return list(written.values())
    return names


def _text(interpreter: Interpreter, keyword: str, place: int) -> str:
    """The text of an argument of the current call; empty if there is none."""
    call = interpreter.current_call
    if call is None:
        return ""
    named = [one.value for one in call.keywords if one.arg == keyword]
    found = named or call.args[place : place + 1]
    if not found or isinstance(found[0], ast.Starred):
        return ""
    text = ast.unparse(found[0])
    return text[2:-1] if isinstance(found[0], ast.JoinedStr) else text


# --- the reader

CONSTANTS: dict[str, object] = {
    **{f"{module}.END": END for module in ("langgraph.graph", "langgraph.constants", "langgraph.graph.state")},
    **{f"{module}.START": START for module in ("langgraph.graph", "langgraph.constants", "langgraph.graph.state")},
    "langgraph.types.Command.PARENT": "__parent__",
}
_RETURNS_SELF = {"with_config", "with_retry", "with_types", "with_fallbacks", "with_listeners", "bind", "copy"}
_RUNS = {"invoke", "ainvoke", "stream", "astream", "astream_events", "astream_log", "batch", "abatch"}
_GRAPHS = {"StateGraph", "MessageGraph", "Graph"}
_HOOKS = {"before_agent", "before_model", "after_model", "after_agent", "wrap_model_call", "wrap_tool_call"}


def is_workflow(value: object) -> bool:
    return isinstance(value, SourceGraph | SourceFlow)


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of LangGraph or LangChain; None if the call is of something else."""
    if isinstance(target, Attribute) and isinstance(target.owner, SourceGraph):
        return _method(interpreter, target.owner, target.name, arguments, line)
    if isinstance(target, CallResult):
        return _decorated_function(interpreter, target, arguments)
    if isinstance(target, SourceTask):
        return UNKNOWN
    if not isinstance(target, ImportedName) or target.path.partition(".")[0] not in PACKAGES:
        return None
    return _call_result(interpreter, target, arguments, line)


def _call_result(interpreter: Interpreter, target: ImportedName, arguments: Arguments, line: int) -> Values | None:
    name = target.path.rpartition(".")[2]
    first = arguments.get("", 0)
    function = first.known[0] if first and first.known else None
    if name in _GRAPHS:
        return exactly(SourceGraph(interpreter, line=line, file=str(interpreter.current_file)))
    if name in {"tool", "task"} and isinstance(function, Function | PartialFunction):
        return exactly((SourceTool if name == "tool" else SourceTask)(name_of(function), function, interpreter))
    if name == "from_function" or name in {"StructuredTool", "Tool"}:
        return langgraph_agents.structured_tool(interpreter, arguments)
    if name == "create_handoff_tool":
        return exactly(hand_over_tool(interpreter, arguments))
    if name in TEAMS and interpreter.executing:
        return exactly(team(interpreter, name, arguments, line))
    if name in langgraph_agents.AGENTS and interpreter.executing:
        return exactly(langgraph_agents.agent(interpreter, name, arguments, line))
    return None


def _decorated_function(interpreter: Interpreter, decorator: CallResult, arguments: Arguments) -> Values | None:
    """Applies a decorator with arguments to a function: a tool, a task, a workflow, or a hook of an agent."""
    first = arguments.get("", 0)
    function = first.known[0] if first and first.known else None
    if not isinstance(function, Function | PartialFunction):
        return None
    path = path_of(decorator.callee)
    name = path.rpartition(".")[2]
    if path.partition(".")[0] not in PACKAGES:
        return None
    options = decorator.arguments
    if name == "tool":
        names = (options.get("name_or_callable", 0) or UNKNOWN).strings
        return exactly(SourceTool(next(iter(names)) if names else name_of(function), function, interpreter, options))
    if name == "task":
        names = (options.get("name") or UNKNOWN).strings
        return exactly(SourceTask(next(iter(names)) if names else name_of(function), function, interpreter))
    if name == "entrypoint":
        return exactly(SourceFlow(name_of(function), function, interpreter))
    if name in _HOOKS:
        return exactly(CallResult(decorator.callee, Arguments((exactly(function),), options.keywords)))
    return None


def piped(interpreter: Interpreter, left: Values, right: Values) -> Values:
    """`a | b` of runnables: a sequence."""
    return exactly(SourcePipe((left, right), interpreter))


def _method(interpreter: Interpreter, graph: SourceGraph, name: str, arguments: Arguments, line: int) -> Values:
    if name in _RETURNS_SELF:
        return exactly(graph)
    if name in _RUNS:
        interpreter.started.append(graph)
        return UNKNOWN
    method = _METHODS.get(name)
    if method is None:
        return UNKNOWN
    if interpreter.depth and interpreter.executing:
        graph.notes.append(f"line {line}: {name!r} is called under a condition; the call is assumed")
    result = method(interpreter, graph, arguments, line)
    return exactly(graph if result is None else result)


def _add_node(interpreter: Interpreter, graph: SourceGraph, arguments: Arguments, line: int) -> None:
    first = arguments.get("node", 0) or UNKNOWN
    action = arguments.get("action", 1)
    names = [one for one in first.known if isinstance(one, str)]
    if action is None and not names:
        action, names = first, [name_of(one) for one in first.known]
    if not names or (action is not None and not first.complete):
        graph.unseen.append(f"line {line}: the name of a node is unknown")
        names = names or [new_name(interpreter, graph, line)]
    ends = _destinations(arguments.get("destinations"))
    for name in {plain_string(one): None for one in names if one not in (START, END)}:  # LangGraph refuses these
        spec = NodeSpec(SourceValue(action or UNKNOWN, interpreter), ends=ends, defer=_is_true(arguments.get("defer")))
        handler = arguments.get("error_handler")
        if handler is not None and handler.known != (None,):
            spec.error_handler_node = f"__error_handler__{name}"
            graph.nodes[spec.error_handler_node] = NodeSpec(SourceValue(handler, interpreter), is_error_handler=True)
        graph.nodes[name] = spec


def _destinations(values: Values | None) -> list[str] | dict[str, str] | None:
    """The declared destinations of a node, with any labels."""
    table = values.known[0] if values is not None and len(values.known) == 1 else None
    if isinstance(table, Table):
        pairs = [(key.strings, label.strings) for key, label in table.items]
        if all(key and label and len(key) == len(label) == 1 for key, label in pairs):
            return {next(iter(key or ())): next(iter(label or ())) for key, label in pairs}
    return names_in(values)


def _is_true(values: Values | None) -> bool:
    return values is not None and values.known == (True,)


def _add_edge(interpreter: Interpreter, graph: SourceGraph, arguments: Arguments, line: int) -> None:
    sources = node_names(interpreter, graph, arguments, "start_key", 0)
    targets = node_names(interpreter, graph, arguments, "end_key", 1)
    several = [one for one in (arguments.get("start_key", 0) or UNKNOWN).known if not isinstance(one, str)]
    (graph.join if several else graph.connect)(sources, targets, line)


def _add_conditional_edges(interpreter: Interpreter, graph: SourceGraph, arguments: Arguments, line: int) -> None:
    sources = node_names(interpreter, graph, arguments, "source", 0)
    path = arguments.get("path", 1) or UNKNOWN
    path_map = arguments.get("path_map", 2)
    ends = _ends(interpreter, path, path_map)
    unknown_ends = ends is None and path_map is not None and path_map.known != (None,)
    if sources is None:
        graph.notes.append(f"line {line}: the source node of a condition is unknown; all nodes are assumed")
    for source in sources if sources is not None else [START, *graph.nodes]:
        branches = graph.branches.setdefault(source, {})
        branches[f"{name_of(path.known[0]) if path.known else 'condition'}:{line}:{len(branches)}"] = ConditionalBranch(
            SourceValue(path, interpreter), ends, unknown_ends
        )


def _conditional_entry(interpreter: Interpreter, graph: SourceGraph, arguments: Arguments, line: int) -> None:
    shifted = Arguments((exactly(START), *arguments.positional), arguments.keywords, arguments.open)
    _add_conditional_edges(interpreter, graph, shifted, line)


def _ends(interpreter: Interpreter, path: Values, path_map: Values | None) -> dict[object, str] | None:
    """The path map of a condition, as LangGraph derives it: also from a `Literal` return annotation."""
    if path_map is not None and path_map.known != (None,):
        return _path_map(interpreter, path_map)
    if any(path_of(one).endswith(".tools_condition") for one in path.known):
        return {"tools": "tools", END: END}
    if len(path.known) != 1 or not isinstance(path.known[0], Function):
        return None
    parts = types.return_types(interpreter, path.known[0])
    if len(parts) == 1 and parts[0].values is not None and parts[0].type is None and not parts[0].within:
        return {one: str(one) for one in parts[0].values.known}
    return None


def _path_map(interpreter: Interpreter, path_map: Values) -> dict[object, str] | None:
    found: dict[object, str] = {}
    for one in path_map.known:
        if isinstance(one, Table | dict):
            for place, (key, target) in enumerate(interpreter.pairs(one) or ()):
                keys = [one for one in key.known if isinstance(one, str | bool | int)] or [f"condition {place + 1}"]
                if target.strings is None:
                    return None
                if len(keys) == len(target.strings) == 1:
                    found[keys[0]] = next(iter(target.strings))
                else:
                    found |= {name: name for name in target.strings}
        else:
            listed = names_in(exactly(one))
            if listed is None:
                return None
            found |= {name: name for name in listed}
    return found if path_map.complete else None


def _add_sequence(interpreter: Interpreter, graph: SourceGraph, arguments: Arguments, line: int) -> None:
    items = interpreter.ordered_elements(arguments.get("nodes", 0) or UNKNOWN)
    if items is None:
        graph.unseen.append(f"line {line}: the nodes of a sequence are unknown")
        return
    previous: str | None = None
    for item in items:
        pair = interpreter.ordered_elements(item)
        node_arguments = Arguments(tuple(pair)) if pair is not None and len(pair) == 2 else Arguments((item,))
        _add_node(interpreter, graph, node_arguments, line)
        name = list(graph.nodes)[-1]
        if previous is not None:
            graph.edges.append((previous, name))
        previous = name


def _entry(interpreter: Interpreter, graph: SourceGraph, arguments: Arguments, line: int) -> None:
    graph.connect([START], node_names(interpreter, graph, arguments, "key", 0), line)


def _finish(interpreter: Interpreter, graph: SourceGraph, arguments: Arguments, line: int) -> None:
    graph.connect(node_names(interpreter, graph, arguments, "key", 0), [END], line)


def _defaults(interpreter: Interpreter, graph: SourceGraph, arguments: Arguments, _line: int) -> None:
    handler = arguments.get("error_handler")
    if handler is not None:
        graph.default_handler = SourceValue(handler, interpreter)


def _compile(_interpreter: Interpreter, graph: SourceGraph, arguments: Arguments, _line: int) -> SourceGraph:
    return langgraph_agents.compiled(graph, arguments)


_METHODS: dict[str, Callable[[Interpreter, SourceGraph, Arguments, int], SourceGraph | None]] = {
    "add_node": _add_node,
    "add_edge": _add_edge,
    "add_conditional_edges": _add_conditional_edges,
    "set_conditional_entry_point": _conditional_entry,
    "add_sequence": _add_sequence,
    "set_entry_point": _entry,
    "set_finish_point": _finish,
    "set_node_defaults": _defaults,
    "validate": lambda _interpreter, _graph, _arguments, _line: None,
    "compile": _compile,
}
