"""The classes of Pydantic AI that graphs depend on: agents, tools, toolsets and capabilities, in source code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from guardagent.frameworks.pydantic_graph.extractor.agents import AI, RUNS
from guardagent.workflow.python_source.stubs import (
    REQUIRED,
    ClassStub,
    Method,
    ObjectStub,
    Program,
    defined_name,
    make,
    record_start,
)
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Alias,
    Arguments,
    Attribute,
    CallResult,
    Function,
    ImportedName,
    LiveValue,
    PartialFunction,
    Sequence,
    Table,
    Values,
    exactly,
    path_of,
    plain_string,
)

_NATIVE = {
    "WebSearchTool": "web_search", "CodeExecutionTool": "code_execution", "UrlContextTool": "url_context",
    "WebFetchTool": "web_fetch", "ImageGenerationTool": "image_generation", "MemoryTool": "memory",
    "MCPServerTool": "mcp_server", "FileSearchTool": "file_search", "XSearchTool": "x_search", "AdvisorTool": "advisor",
}  # fmt: skip
_READY_MADE = {
    "duckduckgo_search_tool": "duckduckgo_search", "tavily_search_tool": "tavily_search",
    "exa_search_tool": "exa_search", "exa_find_similar_tool": "exa_find_similar",
    "exa_get_contents_tool": "exa_get_contents",
    "exa_answer_tool": "exa_answer", "image_generation_tool": "generate_image", "web_fetch_tool": "web_fetch",
    "x_search_tool": "x_search",
}  # fmt: skip
_CAPABLE_NATIVELY = {"WebSearch": "web_search", "WebFetch": "web_fetch", "XSearch": "x_search"}
_WITHOUT_TOOLS = {
    "BatchModelRequests", "Caching", "Citations", "HandleDeferredToolCalls", "HistoryProcessor", "Hooks",
    "IncludeToolReturnSchemas", "Instrumentation", "ModelFallback", "PrepareOutputTools", "PrepareTools",
    "ProcessEventStream", "ProcessHistory", "RaiseContentFilterError", "ReinjectSystemPrompt", "RequestInput",
    "ResolveModelId", "SelectModel", "SetToolMetadata", "Thinking", "ToolSearch", "UseThreadExecutor",
}  # fmt: skip
_UNCHANGED = ("system_prompt", "instructions", "output_validator", "result_validator")


@dataclass(frozen=True, eq=False)
class NativeTool(LiveValue):
    """A tool of the model provider; `kind` is its name."""

    kind: str


@dataclass(frozen=True, eq=False)
class ToolDeclaration(LiveValue):
    """A tool that runs outside the program; of the kind `unapproved`, it waits for approval."""

    name: str
    kind: str


@dataclass(frozen=True, eq=False)
class Registration(LiveValue):
    """A decorator with its options; `apply` registers the functions, and returns what replaces them."""

    apply: Callable[[Values], Values]


def called(interpreter: Any, target: object, arguments: Arguments, line: int) -> Values | None:
    """The values of a call of a decorator, or of a function or a plain class of Pydantic AI; else None."""
    if isinstance(target, Registration):
        return target.apply(arguments.values_of("", 0))
    if isinstance(target, CallResult) and path_of(target.callee).startswith(f"{AI}."):
        return None
    path = target.path if isinstance(target, ImportedName) else ""
    name = path.rpartition(".")[2]
    if path.partition(".")[0] != AI:
        return None
    if name in _NATIVE:
        return exactly(NativeTool(_NATIVE[name]))
    if name in _READY_MADE:
        return exactly(make(interpreter, TOOL, Arguments((), {"name": exactly(_READY_MADE[name])}), line))
    if name == "ToolDefinition":
        declared, kind = only_string(arguments.get("name")), only_string(arguments.get("kind"))
        return exactly(ToolDeclaration(declared or "?", kind or ""))
    return None


def only_string(values: Values | None) -> str | None:
    """The only possible value, if it is a string; else None."""
    strings = sorted(values.strings or ()) if values is not None else []
    return strings[0] if len(strings) == 1 else None


# Lists of tools and toolsets.


def _listed(values: Values | None) -> tuple[Values, ...]:
    """The elements of all lists among some values; what is not known is an unknown element."""
    if values is None:
        return ()
    parts: list[Values] = []
    for value in values.known:
        if isinstance(value, Sequence):
            parts += value.items
        elif isinstance(value, list | tuple):
            parts += map(exactly, value)
        elif value is not None:
            parts.append(exactly(value))
    return tuple(parts) if values.complete else (*parts, UNKNOWN)


def _sequence(items: Iterable[Values]) -> Values:
    return exactly(Sequence(tuple(items)))


def _grow(stub: ObjectStub, field: str, values: Values) -> None:
    stub.attributes[field] = _sequence((*_listed(stub.attributes.get(field)), values))


def _settle_agent(stub: ObjectStub) -> None:
    """Collects the tools, the toolsets and the capabilities of an agent, and names it after its variable."""
    if stub.attributes["name"].known == (None,):
        stub.attributes["name"] = exactly(stub.interpreter.bound_name(stub.file, stub.line) or "agent")
    passed = {name: stub.attributes.get(name, NOTHING) for name in ("tools", "toolsets", "mcp_servers", "capabilities")}
    if stub.attributes["result_type"].known != (None,):
        stub.attributes["output_type"] = stub.attributes["result_type"]
    outputs = stub.attributes["output_type"]
    kept = tuple(
        object if isinstance(output, Alias) else output for output in outputs.known
    )  # `A | B` is not a function
    stub.attributes["output_type"] = Values(kept, outputs.complete)
    own = make(
        stub.interpreter, FUNCTION_TOOLSET, Arguments((), {"tools": _sequence(_listed(passed["tools"]))}), stub.line
    )
    capable = _listed(passed["capabilities"])
    stub.attributes["_function_toolset"] = exactly(own)
    stub.attributes["toolsets"] = _sequence(
        (exactly(own), *_listed(passed["toolsets"]), *_listed(passed["mcp_servers"]), *_toolsets_of(capable))
    )
    native = [*_listed(stub.attributes.get("builtin_tools")), *_listed(stub.attributes.get("native_tools"))]
    stub.attributes["_cap_native_tools"] = _sequence((*native, *_native_of(capable)))
    handlers = [each for values in capable for each in values.known if isinstance(each, ObjectStub)]
    stub.attributes["_root_capability"] = exactly(
        make(
            stub.interpreter,
            _CAPABILITIES,
            Arguments((), {"capabilities": _sequence(map(exactly, handlers))}),
            stub.line,
        )
    )


def _capability_name(capability: object) -> str:
    made = capability.callee if isinstance(capability, CallResult) else capability
    return capability.kind.name if isinstance(capability, ObjectStub) else path_of(made).rpartition(".")[2]


def _native_of(capable: Iterable[Values]) -> Iterable[Values]:
    for capability in (each for values in capable for each in values.known):
        if _capability_name(capability) in _CAPABLE_NATIVELY:
            yield exactly(NativeTool(_CAPABLE_NATIVELY[_capability_name(capability)]))
        elif _capability_name(capability) == "NativeTool" and isinstance(capability, CallResult):
            yield capability.arguments.values_of("tool", 0)


def _toolsets_of(capable: Iterable[Values]) -> Iterable[Values]:
    """The toolsets that capabilities add: those of `Toolset`, and an unknown one of an unknown capability."""
    for values in capable:
        for value in values.known:
            name = _capability_name(value)
            if name == "Toolset" and isinstance(value, CallResult):
                yield value.arguments.values_of("toolset", 0)
            elif name not in {*_WITHOUT_TOOLS, *_CAPABLE_NATIVELY, "NativeTool"}:
                yield exactly(value)
        if not values.complete:
            yield UNKNOWN


# Methods.


def _tool(field: str) -> Method:
    """The method `tool` or `tool_plain` of an agent or a toolset, as a decorator or called."""

    def method(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
        def register(functions: Values) -> Values:
            for holder in _holders(owner, field):
                _grow(holder, "tools", _tools(owner, functions, arguments, line))
            return functions

        functions = arguments.get("func", 0)
        return exactly(Registration(register)) if functions is None else register(functions)

    return method


def _holders(owner: ObjectStub, field: str) -> list[ObjectStub]:
    held = [owner] if not field else owner.attributes.get(field, NOTHING).known
    return [value for value in held if isinstance(value, ObjectStub)]


def _tools(owner: ObjectStub, functions: Values, options: Arguments, line: int) -> Values:
    kept = {key: options.keywords[key] for key in ("name", "requires_approval") if key in options.keywords}
    made = [
        function if isinstance(function, ObjectStub) else make(
            owner.interpreter, TOOL, Arguments((), {"function": exactly(function), **kept}, options.open), line)
        for function in functions.known
    ]  # fmt: skip
    return Values(tuple(made), functions.complete)


def _add_toolset(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
    """`@agent.toolset`: the function chooses the tools at each run."""

    def register(functions: Values) -> Values:
        identifier = arguments.get("id") or exactly(None)
        created = make(owner.interpreter, _DYNAMIC, Arguments((), {"id": identifier}), line)
        _grow(owner, "toolsets", exactly(created))
        return functions

    functions = arguments.get("func", 0)
    return exactly(Registration(register)) if functions is None else register(functions)


def _unchanged(_owner: ObjectStub, arguments: Arguments, _line: int) -> Values:
    return arguments.get("func", 0) or exactly(Registration(lambda functions: functions))


def _wrap(kind: str, field: str = "") -> Method:
    """A method of a toolset that wraps it, with its first argument as a field."""

    def method(owner: ObjectStub, arguments: Arguments, line: int) -> Values:
        fields = {"wrapped": exactly(owner)}
        if field and (passed := arguments.get(field, 0)) is not None:
            fields[field] = passed
        return exactly(make(owner.interpreter, _WRAPPERS[kind], Arguments((), fields), line))

    return method


def _settle_tool(stub: ObjectStub) -> None:
    """Names a tool after its function."""
    if stub.attributes["name"].known == (None,):
        names = [
            name for value in stub.attributes["function"].known if (name := function_name(stub.interpreter, value))
        ]
        stub.attributes["name"] = Values(tuple(names), bool(names))


def function_name(interpreter: Program, function: object) -> str:
    """The name of a function of the program, or of one that is imported; else empty."""
    if isinstance(function, Function | PartialFunction):
        return defined_name(interpreter, function)
    return function.name if isinstance(function, Attribute) else path_of(function).rpartition(".")[2]


def _settle_toolset(stub: ObjectStub) -> None:
    """Copies the list of tools, which the toolset does not share with the program."""
    stub.attributes["tools"] = _sequence(_listed(stub.attributes["tools"]))


def _settle_renamed(stub: ObjectStub) -> None:
    """Leaves out the names that the source does not determine."""
    tables = [value for value in stub.attributes["name_map"].known if isinstance(value, Table)]
    pairs = [(plain_string(next(iter(key.strings))), plain_string(next(iter(old.strings))))
             for table in tables for key, old in table.items if key.strings and old.strings]  # fmt: skip
    stub.attributes["name_map"] = exactly(Table(tuple((exactly(new), exactly(old)) for new, old in pairs)))


# Classes.

_WRAPS: dict[str, Method] = {
    "prefixed": _wrap("PrefixedToolset", "prefix"),
    "renamed": _wrap("RenamedToolset", "name_map"),
    "approval_required": _wrap("ApprovalRequiredToolset", "approval_required_func"),
    "filtered": _wrap("FilteredToolset"),
    "prepared": _wrap("PreparedToolset"),
    "defer_loading": _wrap("WrapperToolset"),
    "with_metadata": _wrap("WrapperToolset"),
    "include_return_schemas": _wrap("WrapperToolset"),
}
_AGENT = ClassStub(
    "AbstractAgent", f"{AI}.agent.abstract", methods=dict.fromkeys([*RUNS, "to_cli", "to_cli_sync"], record_start)
)
AGENT = ClassStub(
    "Agent", f"{AI}.agent", _AGENT,
    fields={
        "model": None, "output_type": None, "name": None, "tools": [], "toolsets": [], "mcp_servers": [],
        "builtin_tools": [], "native_tools": [], "capabilities": [], "result_type": None,
    },
    list_fields=frozenset({"toolsets", "_cap_native_tools"}), finish=_settle_agent, positional=("model",),
    methods={
        "tool": _tool("_function_toolset"), "tool_plain": _tool("_function_toolset"), "toolset": _add_toolset,
        **dict.fromkeys(_UNCHANGED, _unchanged),
    },
)  # fmt: skip
TOOL = ClassStub(
    "Tool", f"{AI}.tools", fields={"function": None, "takes_ctx": None, "name": None, "requires_approval": False},
    positional=("function", "takes_ctx"), finish=_settle_tool,
)  # fmt: skip
_TOOLSET = ClassStub(
    "AbstractToolset", f"{AI}.toolsets.abstract", suffix="Toolset", fields={"id": None}, methods=_WRAPS, positional=()
)
FUNCTION_TOOLSET = ClassStub(
    "FunctionToolset", f"{AI}.toolsets.function", _TOOLSET, {"tools": [], "requires_approval": False},
    list_fields=frozenset({"tools"}), positional=("tools",), finish=_settle_toolset,
    methods={"tool": _tool(""), "tool_plain": _tool(""), "add_function": _tool(""), "add_tool": _tool("")},
)  # fmt: skip
_DYNAMIC = ClassStub("DynamicToolset", f"{AI}.toolsets._dynamic", _TOOLSET)
_WRAPPER = ClassStub(
    "WrapperToolset", f"{AI}.toolsets.wrapper", _TOOLSET, {"wrapped": REQUIRED}, positional=("wrapped",)
)


def _wrapper(name: str, field: str, settle: Callable[[ObjectStub], None] | None = None) -> ClassStub:
    module = f"{AI}.toolsets.{name.removesuffix('Toolset').lower()}"
    return ClassStub(name, module, _WRAPPER, {field: None}, positional=("wrapped", field), finish=settle,
                     fallbacks={"prefix": "?"})  # fmt: skip


_WRAPPERS = {
    wrapper_kind.name: wrapper_kind
    for wrapper_kind in (
        _WRAPPER,
        _wrapper("PrefixedToolset", "prefix"),
        _wrapper("RenamedToolset", "name_map", _settle_renamed),
        _wrapper("ApprovalRequiredToolset", "approval_required_func"),
        _wrapper("FilteredToolset", "filter_func"),
        _wrapper("PreparedToolset", "prepare_func"),
    )
}
_CAPABILITIES = ClassStub("CombinedCapability", f"{AI}.capabilities", fields={"capabilities": []},
                          list_fields=frozenset({"capabilities"}))  # fmt: skip
KINDS = (
    _AGENT, AGENT, TOOL, _TOOLSET, FUNCTION_TOOLSET, _DYNAMIC, *_WRAPPERS.values(), _CAPABILITIES,
    ClassStub("WrapperAgent", f"{AI}.agent.wrapper", _AGENT, {"wrapped": REQUIRED, "name": None},
              aliases=("TemporalAgent", "DBOSAgent", "PrefectAgent"), positional=("wrapped",)),
    ClassStub("CombinedToolset", f"{AI}.toolsets.combined", _TOOLSET, {"toolsets": []},
              list_fields=frozenset({"toolsets"}), positional=("toolsets",)),
    ClassStub("ExternalToolset", f"{AI}.toolsets.external", _TOOLSET, {"tool_defs": []}, aliases=("DeferredToolset",),
              list_fields=frozenset({"tool_defs"}), positional=("tool_defs",)),
    *(ClassStub(name, f"{AI}.mcp", _TOOLSET) for name in (
        "MCPServer", "MCPServerStdio", "MCPServerSSE", "MCPServerHTTP", "MCPServerStreamableHTTP", "MCPToolset")),
    ClassStub("ToolOutput", f"{AI}.output", fields={"output": REQUIRED, "name": None}, positional=("output",)),
    ClassStub("TextOutput", f"{AI}.output", fields={"output_function": REQUIRED}),
    ClassStub("HandleDeferredToolCalls", f"{AI}.capabilities", fields={"handler": None}),
    ClassStub("RequestInput", f"{AI}.capabilities", fields={"ask": None}),
)  # fmt: skip
