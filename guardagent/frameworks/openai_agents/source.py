"""Reads the source of OpenAI Agents SDK programs: agents and tools become stubs, extracted like live objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from guardagent.frameworks.openai_agents import extractor as live
from guardagent.frameworks.openai_agents.package import PACKAGES
from guardagent.workflow.extraction import UnknownValue, is_a
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.stubs import (
    REQUIRED,
    ClassStub,
    ObjectStub,
    ReferenceStub,
    copy_of,
    defined_name,
    make,
)
from guardagent.workflow.python_source.values import (
    NOTHING,
    Arguments,
    CallResult,
    Function,
    ImportedName,
    PartialFunction,
    Table,
    Values,
    exactly,
    path_of,
)

extract = live.extract
_RUNS = {f"Runner.{how}" for how in ("run", "run_sync", "run_streamed")}
_GUARDRAILS = {"input_guardrail": "InputGuardrail", "output_guardrail": "OutputGuardrail"}


def is_workflow(value: object) -> bool:
    return isinstance(value, ObjectStub) and is_a(value, "agents.agent", "AgentBase")


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of the SDK's functions; None for other calls, as KINDS describes the classes."""
    if isinstance(target, CallResult):
        path = path_of(target.callee)
        options, function = target.arguments, arguments.get("", 0)
    else:
        path = path_of(target) if isinstance(target, ImportedName) else ""
        options, function = Arguments(), arguments.get("", 0)
    package, _, name = path.partition(".")[0], "", path.rpartition(".")[2]
    if package not in PACKAGES:
        return None
    if ".".join(path.split(".")[-2:]) in _RUNS or path.endswith("RealtimeRunner"):
        interpreter.started += (arguments.get("starting_agent", 0) or NOTHING).known
        return None
    if isinstance(target, ImportedName) and name in {"handoff", "realtime_handoff"} and interpreter.executing:
        return _handoff(interpreter, arguments, line)
    if isinstance(target, ImportedName) and name in {"StopAtTools", "create_static_tool_filter"}:
        return exactly(Table(tuple((exactly(key), keyword) for key, keyword in arguments.keywords.items())))
    functions = [value for value in (function or NOTHING).known if isinstance(value, Function | PartialFunction)]
    if name == "function_tool" or path == "agents.decorators.tool":
        options = options if isinstance(target, CallResult) else arguments
        return _map_functions(
            functions, lambda tool_function: _function_tool(interpreter, tool_function, options, line)
        )
    if name in _GUARDRAILS:
        options = options if isinstance(target, CallResult) else arguments
        return _map_functions(
            functions,
            lambda guardrail_function: _guardrail(interpreter, _GUARDRAILS[name], guardrail_function, options, line),
        )
    return None


def _map_functions(functions: Iterable[object], change: Callable[[object], object]) -> Values | None:
    return Values(tuple(change(function) for function in functions)) if functions else None


def _name_or(value: Values | None, otherwise: str) -> Values:
    """An explicit name, or the default of the SDK."""
    return value if value is not None and value.known != (None,) else exactly(otherwise)


def _function_tool(interpreter: Interpreter, function: object, options: Arguments, line: int) -> ObjectStub:
    """The tool of `@function_tool`."""
    name = _name_or(options.get("name_override"), defined_name(interpreter, function))
    flags = {key: options.keywords[key] for key in ("is_enabled", "needs_approval") if key in options.keywords}
    arguments = Arguments((), {"name": name, "on_invoke_tool": exactly(function), **flags}, options.open)
    return make(interpreter, FUNCTION_TOOL, arguments, line, __wrapped__=exactly(function))


def _as_tool(agent: ObjectStub, arguments: Arguments, line: int) -> Values:
    """The tool of `agent.as_tool(...)`."""
    name = _name_or(arguments.get("tool_name", 0), live.tool_name_of(agent.name))
    flags = {key: arguments.get(key) for key in ("is_enabled", "needs_approval")}
    known = {key: values for key, values in flags.items() if values is not None}
    fields = Arguments((), {"name": name, **known})
    return exactly(make(agent.interpreter, FUNCTION_TOOL, fields, line, _agent_instance=exactly(agent)))


def _handoff(interpreter: Interpreter, arguments: Arguments, line: int) -> Values:
    """The hand-offs of `handoff(agent)`, one for each possible agent."""
    agents = arguments.values_of("agent", 0)
    known = [agent for agent in agents.known if is_workflow(agent)]
    created = [_handoff_to(interpreter, agent, arguments, line) for agent in known]
    if not agents.complete or len(known) < len(agents.known):
        unknown_name = (
            next((path_of(agent).rpartition(".")[2] for agent in agents.known if agent not in known), "") or "unknown"
        )
        fields = {"agent_name": exactly(unknown_name), "tool_name": exactly(live.handoff_name(unknown_name))}
        created.append(make(interpreter, HANDOFF, Arguments((), {**fields, **_enabled(arguments)}), line))
    return Values(tuple(created))


def _handoff_to(interpreter: Interpreter, agent: ObjectStub, arguments: Arguments, line: int) -> ObjectStub:
    name = _name_or(arguments.get("tool_name_override", 1), live.handoff_name(agent.name))
    fields = {"agent_name": exactly(agent.name), "tool_name": name, **_enabled(arguments)}
    return make(interpreter, HANDOFF, Arguments((), fields), line, _agent_ref=exactly(ReferenceStub(agent)))


def _enabled(arguments: Arguments) -> dict[str, Values]:
    options = {"is_enabled": arguments.get("is_enabled"), "on_invoke_handoff": arguments.get("on_handoff")}
    return {name: values for name, values in options.items() if values is not None}


def _guardrail(interpreter: Interpreter, kind: str, function: object, options: Arguments, line: int) -> ObjectStub:
    """The guardrail of `@input_guardrail` or `@output_guardrail`."""
    name = options.get("name")
    arguments = Arguments((exactly(function), *([] if name is None else [name])))
    return make(interpreter, INPUT_GUARDRAIL if kind == "InputGuardrail" else OUTPUT_GUARDRAIL, arguments, line)


def _clone(agent: ObjectStub, arguments: Arguments, line: int) -> Values:
    """A copy with changes, which is made where it is cloned."""
    stub = copy_of(agent, arguments)
    stub.file, stub.line = str(agent.interpreter.current_file), line
    return exactly(stub)


# Side effects of the constructors of the SDK's classes.


def _settle_guardrail(stub: ObjectStub) -> None:
    names = [
        defined_name(stub.interpreter, value)
        for value in stub.attributes["guardrail_function"].known
        if isinstance(value, Function | PartialFunction)
    ]
    explicit_names = [value for value in stub.attributes["name"].known if isinstance(value, str)]
    stub.attributes["get_name"] = exactly(ReferenceStub((explicit_names or names or ["guardrail"])[0]))


def _settle_server(stub: ObjectStub) -> None:
    """Sets the default name of an MCP server, and its approval policy."""
    if stub.attributes["name"].known == (None,):
        parameter = {"MCPServerStdio": "command"}.get(stub.kind.name, "url")
        parameters = stub.attributes["params"].known
        location = stub.interpreter.item(parameters[0], exactly(parameter)).strings if parameters else None
        transport = {"MCPServerStdio": "stdio", "MCPServerSse": "sse"}.get(stub.kind.name, "streamable_http")
        stub.attributes["name"] = exactly(f"{transport}: {next(iter(location))}" if location else transport)
    stub.attributes["_needs_approval_policy"] = stub.attributes["require_approval"]


def _settle_hosted(stub: ObjectStub) -> None:
    """Converts a configuration created by its type to a dictionary."""
    config = stub.attributes["tool_config"]
    stub.attributes["tool_config"] = Values(tuple(_as_table(value) for value in config.known), config.complete)


def _as_table(config: object) -> object:
    if not isinstance(config, CallResult):
        return config
    return Table(tuple((exactly(key), value) for key, value in config.arguments.keywords.items()))


_BASE = ClassStub(
    "AgentBase", "agents.agent",
    fields={"name": REQUIRED, "handoff_description": None, "tools": [], "mcp_servers": [], "mcp_config": {}},
    list_fields=frozenset(
        {"tools", "mcp_servers", "handoffs", "input_guardrails", "output_guardrails", "capabilities"}
    ),
    fallbacks={"mcp_config": {}, "prompt": None, "output_type": None, "tool_use_behavior": "run_llm_again"},
    methods={"as_tool": _as_tool, "clone": _clone},
)  # fmt: skip
AGENT = ClassStub(
    "Agent", "agents.agent", _BASE,
    fields={
        "instructions": None, "prompt": None, "handoffs": [], "model": None, "model_settings": None,
        "input_guardrails": [], "output_guardrails": [], "output_type": None, "hooks": None,
        "tool_use_behavior": "run_llm_again", "reset_tool_choice": True,
    },
)  # fmt: skip
FUNCTION_TOOL = ClassStub(
    "FunctionTool", "agents.tool",
    fields={
        "name": REQUIRED, "description": "", "params_json_schema": None, "on_invoke_tool": None,
        "strict_json_schema": True, "is_enabled": True, "tool_input_guardrails": None, "tool_output_guardrails": None,
        "needs_approval": False, "_agent_instance": None,
    },
)  # fmt: skip
HANDOFF = ClassStub(
    "Handoff", "agents.handoffs",
    fields={
        "tool_name": REQUIRED, "tool_description": "", "input_json_schema": None, "on_invoke_handoff": None,
        "agent_name": "", "input_filter": None, "nest_handoff_history": None, "strict_json_schema": True,
        "is_enabled": True, "_agent_ref": None,
    },
)  # fmt: skip
INPUT_GUARDRAIL, OUTPUT_GUARDRAIL = (
    ClassStub(name, "agents.guardrail", fields={"guardrail_function": REQUIRED, "name": None}, finish=_settle_guardrail)
    for name in ("InputGuardrail", "OutputGuardrail")
)
_APPROVAL_FIELDS = {"needs_approval": False, "on_approval": None}
_SERVER = ClassStub(
    "MCPServer", "agents.mcp.server", suffix="MCPServer",
    fields={
        "params": None, "cache_tools_list": False, "name": None, "client_session_timeout_seconds": 5,
        "tool_filter": None, "use_structured_content": False, "max_retry_attempts": 0,
        "retry_backoff_seconds_base": 1, "message_handler": None, "require_approval": None,
    },
    finish=_settle_server,
)  # fmt: skip


def _hosted(name: str, tool_name: str, **fields: object) -> ClassStub:
    return ClassStub(name, "agents.tool", fields={**fields, "name": tool_name})


KINDS = (
    _BASE,
    AGENT,
    FUNCTION_TOOL,
    HANDOFF,
    INPUT_GUARDRAIL,
    OUTPUT_GUARDRAIL,
    ClassStub(
        "RealtimeAgent", "agents.realtime.agent", _BASE,
        {"instructions": None, "prompt": None, "handoffs": [], "output_guardrails": [], "hooks": None},
    ),
    ClassStub(
        "SandboxAgent", "agents.sandbox.sandbox_agent", AGENT,
        {
            "default_manifest": None, "base_instructions": None,
            "capabilities": [UnknownValue("filesystem"), UnknownValue("shell")], "run_as": None,
        },
    ),
    ClassStub("HostedMCPTool", "agents.tool", fields={"tool_config": REQUIRED, "on_approval_request": None},
         fallbacks={"tool_config": {}}, finish=_settle_hosted),
    ClassStub("CustomTool", "agents.tool", fields={
        "name": REQUIRED, "description": "", "on_invoke_tool": None, "format": None, **_APPROVAL_FIELDS,
    }),
    ClassStub("ShellTool", "agents.tool", fields={"executor": None, "name": "shell", **_APPROVAL_FIELDS}),
    ClassStub("ApplyPatchTool", "agents.tool", fields={"editor": None, "name": "apply_patch", **_APPROVAL_FIELDS}),
    _hosted("WebSearchTool", "web_search", user_location=None, filters=None, search_context_size=None),
    _hosted("FileSearchTool", "file_search", vector_store_ids=None, max_num_results=None),
    _hosted("CodeInterpreterTool", "code_interpreter", tool_config=None),
    _hosted("ImageGenerationTool", "image_generation", tool_config=None),
    _hosted("LocalShellTool", "local_shell", executor=None),
    _hosted("ComputerTool", "computer_use_preview", computer=None),
    _hosted("ToolSearchTool", "tool_search", description=None),
    _hosted("ProgrammaticToolCallingTool", "programmatic_tool_calling"),
    _SERVER,
    *(ClassStub(name, "agents.mcp.server", _SERVER)
      for name in ("MCPServerStdio", "MCPServerSse", "MCPServerStreamableHttp")),
)  # fmt: skip
