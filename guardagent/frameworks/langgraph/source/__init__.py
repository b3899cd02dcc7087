"""Reads the source of LangGraph programs: builds a StateGraph call by call, then extracts it like a live one."""

from __future__ import annotations

from guardagent.frameworks.langgraph.extractor import extract
from guardagent.frameworks.langgraph.package import PACKAGES
from guardagent.frameworks.langgraph.source import agents
from guardagent.frameworks.langgraph.source.objects import (
    SourceFlow,
    SourceGraph,
    SourcePipe,
    SourceTask,
    SourceTool,
    name_of,
)
from guardagent.workflow.model.graph import END, START
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    Attribute,
    CallResult,
    Function,
    ImportedName,
    PartialFunction,
    Values,
    exactly,
    path_of,
)

__all__ = ["CONSTANTS", "PACKAGES", "called", "extract", "is_workflow", "piped"]

CONSTANTS: dict[str, object] = {
    **{f"{module}.END": END for module in ("langgraph.graph", "langgraph.constants", "langgraph.graph.state")},
    **{f"{module}.START": START for module in ("langgraph.graph", "langgraph.constants", "langgraph.graph.state")},
    "langgraph.types.Command.PARENT": "__parent__",
}
_GRAPHS = {"StateGraph", "MessageGraph", "Graph"}
_HOOKS = {*agents.HOOKS, "wrap_model_call", "wrap_tool_call"}


def is_workflow(value: object) -> bool:
    return isinstance(value, SourceGraph | SourceFlow)


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of LangGraph or LangChain; None if the call is of something else."""
    if isinstance(target, Attribute) and isinstance(target.owner, SourceGraph):
        return target.owner.called(target.name, arguments, line)
    if isinstance(target, SourceTask):
        return UNKNOWN
    if not isinstance(target, CallResult | ImportedName):
        return None
    path = path_of(target.callee if isinstance(target, CallResult) else target)
    if path.partition(".")[0] not in PACKAGES:
        return None
    name, first = path.rpartition(".")[2], (arguments.get("", 0) or UNKNOWN).known[:1]
    for function in (value for value in first if isinstance(value, Function | PartialFunction)):
        if (decorated := _decorated(interpreter, target, name, function)) is not None:
            return exactly(decorated)
    return _made(interpreter, name, arguments, line) if isinstance(target, ImportedName) else None


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


def _made(interpreter: Interpreter, name: str, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of a class or function by its name."""
    if name in _GRAPHS:
        return exactly(SourceGraph(interpreter, line))
    if name in {"from_function", "StructuredTool", "Tool"}:
        return agents.tool_of_function(interpreter, arguments)
    if name == "create_handoff_tool":
        return exactly(agents.hand_over_tool(interpreter, arguments))
    if name in agents.TEAMS and interpreter.executing:
        return exactly(agents.team(interpreter, name, arguments, line))
    if name in agents.AGENTS and interpreter.executing:
        return exactly(agents.agent(interpreter, name, arguments, line))
    return None


def piped(interpreter: Interpreter, left: Values, right: Values) -> Values:
    """`a | b` of runnables: a sequence."""
    return exactly(SourcePipe((left, right), interpreter))
