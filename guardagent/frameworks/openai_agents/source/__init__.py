"""Reads programs of the OpenAI Agents SDK: its agents and tools are made as stand-ins, and extracted as live ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from guardagent.frameworks.openai_agents import extractor as live
from guardagent.frameworks.openai_agents.package import PACKAGES as PACKAGES
from guardagent.workflow.extraction.frameworks import Untold, is_a
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.python_source.evaluation.values import (
    NOTHING,
    UNKNOWN,
    Applied,
    Arguments,
    Function,
    Imported,
    Made,
    Table,
    Values,
    exactly,
    path_of,
)
from guardagent.workflow.python_source.programs.interpret import Interpreter
from guardagent.workflow.python_source.programs.live_function import unbound
from guardagent.workflow.python_source.programs.stand_ins import (
    REQUIRED,
    Framed,
    Kind,
    Reference,
    copy_of,
    make,
    stage_of,
)

CONSTANTS: dict[str, object] = {}
_RUNS = {f"Runner.{how}" for how in ("run", "run_sync", "run_streamed")}
_GUARDRAILS = {"input_guardrail": "InputGuardrail", "output_guardrail": "OutputGuardrail"}


def is_workflow(value: object) -> bool:
    return isinstance(value, Framed) and is_a(value, "agents.agent", "AgentBase")


def extract(value: Framed, name: str) -> Graph:
    """The graph of an agent, with notes on what its source does not determine."""
    stage = stage_of(value.interpreter)
    graph = live.extract(value, name)
    return replace(graph, notes=(*graph.notes, *stage.notes))


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """What a call of one of the SDK's functions gives; its classes are told by KINDS."""
    if isinstance(target, Made):
        path = path_of(target.maker)
        given, function = target.arguments, arguments.get("", 0)
    else:
        path = path_of(target) if isinstance(target, Imported) else ""
        given, function = Arguments(), arguments.get("", 0)
    package, _, name = path.partition(".")[0], "", path.rpartition(".")[2]
    if package not in PACKAGES:
        return None
    if ".".join(path.split(".")[-2:]) in _RUNS or path.endswith("RealtimeRunner"):
        interpreter.started += (arguments.get("starting_agent", 0) or NOTHING).known
        return None
    if isinstance(target, Imported) and name in {"handoff", "realtime_handoff"} and interpreter.executing:
        return _handoff(interpreter, arguments, line)
    if isinstance(target, Imported) and name in {"StopAtTools", "create_static_tool_filter"}:
        return exactly(Table(tuple((exactly(key), one) for key, one in arguments.keywords.items())))
    functions = [one for one in (function or NOTHING).known if isinstance(one, Function | Applied)]
    if name == "function_tool":
        given = given if isinstance(target, Made) else arguments
        return _each(functions, lambda one: _function_tool(interpreter, one, given, line))
    if name in _GUARDRAILS:
        given = given if isinstance(target, Made) else arguments
        return _each(functions, lambda one: _guardrail(interpreter, _GUARDRAILS[name], one, given, line))
    return None


def _each(functions: Iterable[object], change: Callable[[object], object]) -> Values | None:
    return Values(tuple(change(one) for one in functions)) if functions else None


def _name_of(function: object) -> str:
    return str(getattr(unbound(function)[0].tree, "name", "<lambda>"))


def _chosen(given: Values | None, otherwise: str) -> Values:
    """A name that is given, or the one that the SDK makes."""
    return given if given is not None and given.known != (None,) else exactly(otherwise)


def _function_tool(interpreter: Interpreter, function: object, given: Arguments, line: int) -> Framed:
    """`@function_tool`."""
    name = _chosen(given.get("name_override"), _name_of(function))
    passed = {key: given.keywords[key] for key in ("is_enabled", "needs_approval") if key in given.keywords}
    arguments = Arguments((), {"name": name, "on_invoke_tool": exactly(function), **passed}, given.open)
    return make(interpreter, FUNCTION_TOOL, arguments, line, __wrapped__=exactly(function))


def _as_tool(agent: Framed, arguments: Arguments, line: int) -> Values:
    """`agent.as_tool(...)`."""
    name = _chosen(arguments.get("tool_name", 0), live.tool_name_of(agent.name))
    passed = {key: arguments.get(key) for key in ("is_enabled", "needs_approval")}
    known = {key: values for key, values in passed.items() if values is not None}
    given = Arguments((), {"name": name, **known})
    return exactly(make(agent.interpreter, FUNCTION_TOOL, given, line, _agent_instance=exactly(agent)))


def _handoff(interpreter: Interpreter, arguments: Arguments, line: int) -> Values:
    """`handoff(agent)`, for each agent that it can be."""
    agents = arguments.get("agent", 0) or UNKNOWN
    known = [one for one in agents.known if is_workflow(one)]
    made = [_handoff_to(interpreter, one, arguments, line) for one in known]
    if not agents.complete or len(known) < len(agents.known):
        strange = next((path_of(one).rpartition(".")[2] for one in agents.known if one not in known), "") or "unknown"
        given = {"agent_name": exactly(strange), "tool_name": exactly(live.handoff_name(strange))}
        made.append(make(interpreter, HANDOFF, Arguments((), {**given, **_enabled(arguments)}), line))
    return Values(tuple(made))


def _handoff_to(interpreter: Interpreter, agent: Framed, arguments: Arguments, line: int) -> Framed:
    name = _chosen(arguments.get("tool_name_override", 1), live.handoff_name(agent.name))
    given = {"agent_name": exactly(agent.name), "tool_name": name, **_enabled(arguments)}
    return make(interpreter, HANDOFF, Arguments((), given), line, _agent_ref=exactly(Reference(agent)))


def _enabled(arguments: Arguments) -> dict[str, Values]:
    given = {"is_enabled": arguments.get("is_enabled"), "on_invoke_handoff": arguments.get("on_handoff")}
    return {name: values for name, values in given.items() if values is not None}


def _guardrail(interpreter: Interpreter, kind: str, function: object, given: Arguments, line: int) -> Framed:
    """`@input_guardrail`, and that of the output."""
    named = given.get("name")
    arguments = Arguments((exactly(function), *([] if named is None else [named])))
    return make(interpreter, INPUT_GUARDRAIL if kind == "InputGuardrail" else OUTPUT_GUARDRAIL, arguments, line)


def _clone(agent: Framed, arguments: Arguments, _line: int) -> Values:
    return exactly(copy_of(agent, arguments))


# What the constructors of the SDK's classes do besides.


def _settle_guardrail(made: Framed) -> None:
    names = [
        _name_of(one) for one in made.attributes["guardrail_function"].known if isinstance(one, Function | Applied)
    ]
    given = [one for one in made.attributes["name"].known if isinstance(one, str)]
    made.attributes["get_name"] = exactly(Reference((given or names or ["guardrail"])[0]))


def _settle_server(made: Framed) -> None:
    """The name of an MCP server, and what the SDK makes of its approval policy."""
    if made.attributes["name"].known == (None,):
        where = {"MCPServerStdio": "command"}.get(made.kind.name, "url")
        parameters = made.attributes["params"].known
        told = made.interpreter.item(parameters[0], exactly(where)).strings if parameters else None
        how = {"MCPServerStdio": "stdio", "MCPServerSse": "sse"}.get(made.kind.name, "streamable_http")
        made.attributes["name"] = exactly(f"{how}: {next(iter(told))}" if told else how)
    made.attributes["_needs_approval_policy"] = made.attributes["require_approval"]


def _settle_hosted(made: Framed) -> None:
    """A configuration that is made by the name of its type is a dictionary."""
    config = made.attributes["tool_config"]
    made.attributes["tool_config"] = Values(tuple(_as_table(one) for one in config.known), config.complete)


def _as_table(one: object) -> object:
    if not isinstance(one, Made):
        return one
    return Table(tuple((exactly(key), value) for key, value in one.arguments.keywords.items()))


_BASE = Kind(
    "AgentBase", "agents.agent",
    fields={"name": REQUIRED, "handoff_description": None, "tools": [], "mcp_servers": [], "mcp_config": {}},
    several=frozenset({"tools", "mcp_servers", "handoffs", "input_guardrails", "output_guardrails", "capabilities"}),
    doubtful={"mcp_config": {}, "prompt": None, "output_type": None, "tool_use_behavior": "run_llm_again"},
    methods={"as_tool": _as_tool, "clone": _clone},
)  # fmt: skip
AGENT = Kind(
    "Agent", "agents.agent", _BASE,
    fields={
        "instructions": None, "prompt": None, "handoffs": [], "model": None, "model_settings": None,
        "input_guardrails": [], "output_guardrails": [], "output_type": None, "hooks": None,
        "tool_use_behavior": "run_llm_again", "reset_tool_choice": True,
    },
)  # fmt: skip
FUNCTION_TOOL = Kind(
    "FunctionTool", "agents.tool",
    fields={
        "name": REQUIRED, "description": "", "params_json_schema": None, "on_invoke_tool": None,
        "strict_json_schema": True, "is_enabled": True, "tool_input_guardrails": None, "tool_output_guardrails": None,
        "needs_approval": False, "_agent_instance": None,
    },
)  # fmt: skip
HANDOFF = Kind(
    "Handoff", "agents.handoffs",
    fields={
        "tool_name": REQUIRED, "tool_description": "", "input_json_schema": None, "on_invoke_handoff": None,
        "agent_name": "", "input_filter": None, "nest_handoff_history": None, "strict_json_schema": True,
        "is_enabled": True, "_agent_ref": None,
    },
)  # fmt: skip
INPUT_GUARDRAIL, OUTPUT_GUARDRAIL = (
    Kind(name, "agents.guardrail", fields={"guardrail_function": REQUIRED, "name": None}, settle=_settle_guardrail)
    for name in ("InputGuardrail", "OutputGuardrail")
)
_ASKED = {"needs_approval": False, "on_approval": None}
_SERVER = Kind(
    "MCPServer", "agents.mcp.server", suffix="MCPServer",
    fields={
        "params": None, "cache_tools_list": False, "name": None, "client_session_timeout_seconds": 5,
        "tool_filter": None, "use_structured_content": False, "max_retry_attempts": 0,
        "retry_backoff_seconds_base": 1, "message_handler": None, "require_approval": None,
    },
    settle=_settle_server,
)  # fmt: skip


def _hosted(name: str, called: str, **fields: object) -> Kind:
    return Kind(name, "agents.tool", fields={**fields, "name": called})


KINDS = (
    _BASE,
    AGENT,
    FUNCTION_TOOL,
    HANDOFF,
    INPUT_GUARDRAIL,
    OUTPUT_GUARDRAIL,
    Kind(
        "RealtimeAgent", "agents.realtime.agent", _BASE,
        {"instructions": None, "prompt": None, "handoffs": [], "output_guardrails": [], "hooks": None},
    ),
    Kind(
        "SandboxAgent", "agents.sandbox.sandbox_agent", AGENT,
        {
            "default_manifest": None, "base_instructions": None,
            "capabilities": [Untold("filesystem"), Untold("shell")], "run_as": None,
        },
    ),
    Kind("HostedMCPTool", "agents.tool", fields={"tool_config": REQUIRED, "on_approval_request": None},
         doubtful={"tool_config": {}}, settle=_settle_hosted),
    Kind("CustomTool", "agents.tool", fields={
        "name": REQUIRED, "description": "", "on_invoke_tool": None, "format": None, **_ASKED,
    }),
    Kind("ShellTool", "agents.tool", fields={"executor": None, "name": "shell", **_ASKED}),
    Kind("ApplyPatchTool", "agents.tool", fields={"editor": None, "name": "apply_patch", **_ASKED}),
    _hosted("WebSearchTool", "web_search", user_location=None, filters=None, search_context_size=None),
    _hosted("FileSearchTool", "file_search", vector_store_ids=None, max_num_results=None),
    _hosted("CodeInterpreterTool", "code_interpreter", tool_config=None),
    _hosted("ImageGenerationTool", "image_generation", tool_config=None),
    _hosted("LocalShellTool", "local_shell", executor=None),
    _hosted("ComputerTool", "computer_use_preview", computer=None),
    _hosted("ToolSearchTool", "tool_search", description=None),
    _hosted("ProgrammaticToolCallingTool", "programmatic_tool_calling"),
    _SERVER,
    *(Kind(name, "agents.mcp.server", _SERVER)
      for name in ("MCPServerStdio", "MCPServerSse", "MCPServerStreamableHttp")),
)  # fmt: skip
