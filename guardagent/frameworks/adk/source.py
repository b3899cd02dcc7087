"""Reads the source of Google ADK programs: agents, tools and workflows become stubs, extracted like live objects."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from guardagent.frameworks.adk import extractor as live
from guardagent.frameworks.adk.extractor.tools import ADK
from guardagent.frameworks.adk.package import OBJECTS as OBJECTS
from guardagent.frameworks.adk.package import PACKAGES as PACKAGES
from guardagent.frameworks.adk.source_pieces import workflow as adk_workflow
from guardagent.workflow.extraction.objects import is_a
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.scopes import LiveScope
from guardagent.workflow.python_source.stubs import REQUIRED, ClassStub, ObjectStub, converter_of, copy_of, make
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    CallResult,
    Function,
    ImportedName,
    LiveValue,
    Sequence,
    Values,
    exactly,
    path_of,
)

_NO = Values((False,))
_NAMING = {"func", "agent", "tool"}  # what a tool is named after
_DELEGATED = {"task": "_TaskAgentTool", "single_turn": "_SingleTurnAgentTool"}


def is_workflow(value: object) -> bool:
    return isinstance(value, ObjectStub) and is_a(value, ADK, "BaseAgent", "Workflow", "App", "Runner")


def unwrapped(value: object) -> object:
    """The agent that an app or a runner runs, if the source determines it; else the value."""
    while isinstance(value, ObjectStub) and is_a(value, ADK, "App", "Runner"):
        agents = value.attributes["root_agent" if is_a(value, ADK, "App") else "agent"]
        if len(agents.known) != 1 or not agents.complete or not is_workflow(agents.known[0]):
            break
        value = agents.known[0]
    return value


def extract(value: ObjectStub, name: str) -> Graph:
    """The graph of an agent, a workflow, an app or a runner, with notes on what the source does not determine."""
    stage = converter_of(value.interpreter)
    graph = live.extract(value, name)
    return replace(graph, notes=(*graph.notes, *stage.notes))


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of a function of ADK that makes nodes, tools or agents; None for other calls."""
    maker = target.callee if isinstance(target, CallResult) else target
    path = maker.path if isinstance(maker, ImportedName) else ""
    if not path.startswith(f"{ADK}."):
        return None
    if path.endswith("Toolset.from_server"):
        return _from_server(interpreter, path, arguments, line)
    if isinstance(target, ImportedName) and _is_decorator(path, arguments):
        return arguments.positional[0]
    if path.endswith(".from_config"):
        return _from_config(interpreter, arguments, line)
    if not path.endswith(".node"):
        return None
    wrapped = arguments.get("node_like", 0)
    if wrapped is None or not wrapped.known:
        return None
    options = target.arguments if isinstance(target, CallResult) else arguments
    return adk_workflow.node(interpreter, wrapped, options, line)


def _is_decorator(path: str, arguments: Arguments) -> bool:
    """Whether an unknown function of the tools' package takes nothing but a function, whose name the tool keeps."""
    if arguments.keywords or len(arguments.positional) != 1 or not path.startswith(f"{ADK}.tools."):
        return False
    passed = arguments.positional[0]
    return path.rpartition(".")[2].islower() and passed.complete and all(isinstance(o, Function) for o in passed.known)


def _from_server(interpreter: Interpreter, path: str, arguments: Arguments, line: int) -> Values:
    """The tools of a server and the stack that closes its connection, as early versions of ADK return them."""
    kind = interpreter.kinds.of(path.rpartition(".")[0])
    assert kind is not None
    toolset = make(interpreter, kind, Arguments((), arguments.keywords), line)
    return exactly(Sequence((exactly(Sequence((exactly(toolset),))), UNKNOWN)))


def _from_config(interpreter: Interpreter, arguments: Arguments, line: int) -> Values:
    """An agent that a YAML file describes, which is not read."""
    files = (arguments.get("config_path", 0) or UNKNOWN).strings or ("a file",)
    converter_of(interpreter).note(
        f"line {line}: the agent is described in {' or '.join(sorted(files))}, which is not read"
    )
    return exactly(make(interpreter, _LLM, Arguments(open=True), line))


# Side effects of the constructors of ADK's classes.


def _settle_agent(stub: ObjectStub) -> None:
    """Makes an agent the parent of its sub-agents, and adds those that it calls like tools to its tools."""
    for one in _framed(stub.attributes["sub_agents"]):
        before = one.attributes.get("parent_agent", NOTHING) if stub.interpreter.depth else NOTHING
        known = Values(tuple(parent for parent in before.known if parent is not None))
        one.attributes["parent_agent"] = known | exactly(stub)
        if is_a(stub, ADK, "LlmAgent") and is_a(one, ADK, "LlmAgent"):
            _delegate(stub, one)


def _delegate(stub: ObjectStub, one: ObjectStub) -> None:
    mode = one.attributes.get("mode", exactly(None))
    if mode.known == (None,):
        one.attributes["mode"] = exactly("chat")
    for mode_name, name in _DELEGATED.items():
        if mode_name in [known for known in mode.known if isinstance(known, str)]:
            tool = _instance(name, "google.adk.tools.agent_tool", _AGENT_TOOL_TYPE, name=one.name)
            tools = stub.attributes["tools"]
            grown = tuple(
                Sequence((*held.items, exactly(tool)), held.ordered) if isinstance(held, Sequence) else held
                for held in tools.known
            )
            stub.attributes["tools"] = Values(grown, tools.complete)


def _framed(values: Values) -> Iterable[ObjectStub]:
    """The stubs in all lists among some values."""
    for one in values.known:
        for item in one.items if isinstance(one, Sequence) else ():
            yield from (each for each in item.known if isinstance(each, ObjectStub))


def _clone(agent: ObjectStub, arguments: Arguments, _line: int) -> Values:
    """`agent.clone(update={...})`, and `model_copy`."""
    stub = copy_of(agent, Arguments((), _changes(agent, arguments)))
    adk_workflow.adopt(stub)
    return exactly(stub)


def _changes(agent: ObjectStub, arguments: Arguments) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for one in (arguments.get("update", 0) or NOTHING).known:
        for key, value in agent.interpreter.pairs(one) or ():
            found |= dict.fromkeys(key.strings or (), value)
    return found


def _settle_tool(stub: ObjectStub) -> None:
    """Names a tool without a name after its class, as ADK names its own: `UrlContextTool` is `url_context`."""
    if stub.attributes["name"].known == (None,) and not _NAMING.intersection(stub.kind.all_fields):
        stub.attributes["name"] = exactly(_snake_case(type(stub).__name__.removesuffix("Tool")))


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _settle_adapted_tool(stub: ObjectStub) -> None:
    """Names a tool of another framework: by its name there, or by its class or function."""
    if stub.attributes["name"].known == (None,):
        stage = converter_of(stub.interpreter)
        inner = stub.attributes["tool"]
        names = [getattr(stage.convert(one), "name", "") or getattr(stage.convert(one), "__name__", "")
                 for one in inner.known]  # fmt: skip
        stub.attributes["name"] = Values(tuple(dict.fromkeys(filter(None, names))), inner.complete and all(names))


def _settle_function_tool(stub: ObjectStub) -> None:
    """Names a tool after its function."""
    stub.attributes["_require_confirmation"] = stub.attributes.get("require_confirmation", _NO)
    if stub.attributes["name"].known == (None,):
        stage = converter_of(stub.interpreter)
        names = [str(getattr(stage.convert(one), "__name__", getattr(stage.convert(one), "name", "function")))
                 for one in stub.attributes["func"].known]  # fmt: skip
        stub.attributes["name"] = Values(tuple(dict.fromkeys(names)), stub.attributes["func"].complete)


def _settle_agent_tool(stub: ObjectStub) -> None:
    """Names a tool after the agent that it runs."""
    if "name" not in stub.attributes or stub.attributes["name"].known == (None,):
        agents = stub.attributes["agent"]
        names = [
            str(one.name) if isinstance(one, ObjectStub) else path_of(one).rpartition(".")[2] for one in agents.known
        ]
        stub.attributes["name"] = Values(tuple(dict.fromkeys(names)), agents.complete)


def _settle_mcp_tool(stub: ObjectStub) -> None:
    stub.attributes["_require_confirmation"] = stub.attributes.get("require_confirmation", _NO)


def _settle_runner(stub: ObjectStub) -> None:
    """Sets the agent of a runner: given directly, or by its app."""
    agent, node, app = (stub.attributes[name] for name in ("agent", "node", "app"))
    roots = agent if agent.known != (None,) else node
    if roots.known == (None,):
        roots = NOTHING
        for one in app.known:
            roots |= stub.interpreter.attribute(one, "root_agent")
        roots = Values(roots.known, roots.complete and app.complete)
    stub.attributes["agent"] = roots
    stub.interpreter.started += [one for one in roots.known if isinstance(one, ObjectStub)]


def _settle_event(stub: ObjectStub) -> None:
    """Stores the route of an event in its actions."""
    if stub.attributes["route"].known != (None,):
        arguments = Arguments((), {"route": stub.attributes["route"]})
        stub.attributes["actions"] = exactly(make(stub.interpreter, _ACTIONS, arguments, stub.line))


class _UnknownCount(int):
    """An unknown number of iterations."""

    def __format__(self, _spec: str) -> str:
        return "some"


_NODE_FIELDS: dict[str, object] = {
    "name": REQUIRED, "description": "", "rerun_on_resume": False, "wait_for_output": False, "retry_config": None,
    "timeout": None, "input_schema": None, "output_schema": None, "state_schema": None,
}  # fmt: skip
_CALLBACKS = {
    f"{when}_{what}_callback": None for what in ("agent", "model", "tool") for when in ("before", "after")
}  # fmt: skip
_NODE = ClassStub("BaseNode", "google.adk.workflow._base_node", fields=_NODE_FIELDS, methods={"model_copy": _clone})
_AGENT = ClassStub(
    "BaseAgent", "google.adk.agents.base_agent", _NODE,
    {"parent_agent": None, "sub_agents": [], "before_agent_callback": None, "after_agent_callback": None},
    list_fields=frozenset({"sub_agents"}),
    finish=_settle_agent, methods={"clone": _clone, "model_copy": _clone}, suffix="Agent",
)  # fmt: skip
_LLM = ClassStub(
    "LlmAgent", "google.adk.agents.llm_agent", _AGENT,
    {
        "model": "", "instruction": "", "tools": [], "mode": None, "parallel_worker": None,
        "disallow_transfer_to_parent": False, "disallow_transfer_to_peers": False, "output_key": None,
        "planner": None, "code_executor": None, **_CALLBACKS,
    },
    list_fields=frozenset({"tools"}), fallbacks={"mode": None}, aliases=("Agent",),
)  # fmt: skip
_TOOL = ClassStub(
    "BaseTool", "google.adk.tools.base_tool",
    fields={"name": None, "description": "", "is_long_running": False, "custom_metadata": None},
    finish=_settle_tool, suffix="Tool",
)  # fmt: skip
_FUNCTION_TOOL = ClassStub(
    "FunctionTool", "google.adk.tools.function_tool", _TOOL, {"func": None, "require_confirmation": False},
    finish=_settle_function_tool, positional=("func",),
)  # fmt: skip
_TOOLSET = ClassStub(
    "BaseToolset", "google.adk.tools.base_toolset",
    fields={"tool_filter": None, "tool_name_prefix": None}, suffix="Toolset",
)  # fmt: skip
_MCP_TOOLSET = ClassStub(
    "McpToolset", "google.adk.tools.mcp_tool.mcp_toolset", _TOOLSET, {"require_confirmation": False}
)
_RUNNER = ClassStub(
    "Runner", "google.adk.runners", finish=_settle_runner,
    fields={"agent": None, "app": None, "node": None, "app_name": None, "session_service": None},
)  # fmt: skip
_ACTIONS = ClassStub("EventActions", "google.adk.events.event_actions", fields={"route": None, "escalate": None})
_ORDERED = frozenset({"sub_agents"})

KINDS = (
    _NODE,
    _AGENT,
    _LLM,
    _TOOL,
    _FUNCTION_TOOL,
    _TOOLSET,
    _RUNNER,
    _ACTIONS,
    ClassStub("SequentialAgent", "google.adk.agents.sequential_agent", _AGENT, ordered_fields=_ORDERED),
    ClassStub("ParallelAgent", "google.adk.agents.parallel_agent", _AGENT, optional_elements=_ORDERED),
    ClassStub("LoopAgent", "google.adk.agents.loop_agent", _AGENT, {"max_iterations": None}, ordered_fields=_ORDERED,
         fallbacks={"max_iterations": _UnknownCount(2)}),
    ClassStub("BaseRetrievalTool", "google.adk.tools.retrieval.base_retrieval_tool", _TOOL, suffix="Retrieval"),
    ClassStub("LangchainTool", "google.adk.integrations.langchain", _TOOL, {"tool": None},
         finish=_settle_adapted_tool, positional=("tool", "name", "description")),
    ClassStub("CrewaiTool", "google.adk.integrations.crewai", _TOOL, {"tool": None},
         finish=_settle_adapted_tool, positional=("tool",)),
    ClassStub("LangGraphAgent", "google.adk.agents.langgraph_agent", _AGENT, {"graph": None}),
    ClassStub("LongRunningFunctionTool", "google.adk.tools.long_running_tool", _FUNCTION_TOOL, positional=("func",)),
    ClassStub("AgentTool", "google.adk.tools.agent_tool", _TOOL, {"agent": None}, finish=_settle_agent_tool,
         positional=("agent",)),
    ClassStub("McpTool", "google.adk.tools.mcp_tool.mcp_tool", _TOOL, {"require_confirmation": False},
         finish=_settle_mcp_tool, aliases=("MCPTool",)),
    _MCP_TOOLSET,
    ClassStub("MCPToolset", "google.adk.tools.mcp_tool.mcp_toolset", _MCP_TOOLSET),
    ClassStub("OpenAPIToolset", "google.adk.tools.openapi_tool.openapi_spec_parser.openapi_toolset", _TOOLSET),
    ClassStub("App", "google.adk.apps.app", fields={"name": "", "root_agent": None, "plugins": None}),
    ClassStub("InMemoryRunner", "google.adk.runners", _RUNNER, positional=("agent",)),
    ClassStub("Event", "google.adk.events.event", fields={"actions": None, "route": None}, finish=_settle_event),
    *adk_workflow.kinds(_NODE),
)  # fmt: skip


# The tools and functions that ADK ships.


def _instance(class_: str, module: str, base: type, **attributes: Any) -> Any:
    stub = type(class_, (base,), {"__module__": module})()
    for key, value in attributes.items():
        setattr(stub, key, value)
    return stub


_TOOL_TYPE = type("BaseTool", (LiveValue,), {"__module__": "google.adk.tools.base_tool"})
_AGENT_TOOL_TYPE = _TOOL_TYPE
_FUNCTION_TYPE = type("FunctionTool", (_TOOL_TYPE,), {"__module__": "google.adk.tools.function_tool"})


def _function(code: str) -> Function:
    tree = ast.parse(code).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return Function(tree, LiveScope({}), {})


def _shipped_tools() -> dict[str, object]:
    names = (
        "google_search url_context enterprise_web_search load_artifacts load_memory preload_memory google_maps "
        "built_in_code_execution"
    ).split()
    found: dict[str, object] = {
        name: _instance(f"{name}_tool", "google.adk.tools", _TOOL_TYPE, name=name) for name in names
    }
    found["google_maps_grounding"] = found.pop("google_maps")
    long_running = {"get_user_choice": "get_user_choice", "request_input": "adk_request_input"}
    for key, name in long_running.items():
        found[key] = _instance(
            "LongRunningFunctionTool", "google.adk.tools.long_running_tool", _FUNCTION_TYPE,
            name=name, func=print, _require_confirmation=False,
        )  # fmt: skip
    found["exit_loop"] = _function("def exit_loop(tool_context):\n    tool_context.actions.escalate = True")
    found["transfer_to_agent"] = _function("def transfer_to_agent(agent_name, tool_context): pass")
    return found


_SHIPPED_TOOLS = _shipped_tools()
CONSTANTS: dict[str, object] = {
    **{
        path: value
        for name, value in _SHIPPED_TOOLS.items()
        for path in (f"{ADK}.tools.{name}", f"{ADK}.tools.{name}_tool.{name}", f"{ADK}.tools.{name}_tool.{name}_tool")
    },
    **adk_workflow.WORKFLOW_CONSTANTS,
}
