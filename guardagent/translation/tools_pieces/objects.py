"""The schemas of Python objects: functions, and the tools of agent frameworks, told apart by their attributes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from guardagent.errors import InputError
from guardagent.translation.tools import ToolSchema, object_schema, read_tool, tools_of
from guardagent.translation.tools_pieces.functions import schema_of_function

_SCHEMAS: tuple[Callable[[Any], Any], ...] = (
    lambda tool: tool.params_json_schema,  # OpenAI Agents
    lambda tool: tool.tool_call_schema,  # LangChain: its `input_schema` has also what the host injects
    lambda tool: tool.inputSchema,  # MCP
    lambda tool: tool.input_schema,
    lambda tool: tool.args_schema,  # CrewAI
    lambda tool: tool.metadata.get_parameters_dict(),  # LlamaIndex
    lambda tool: tool.function_schema.json_schema,  # Pydantic AI
    lambda tool: tool.schema["parameters"],  # AutoGen
    lambda tool: tool.parameters,  # FastMCP
)
_FUNCTIONS = ("func", "function", "fn")
_OUTPUTS = ("outputSchema", "output_schema")


def schemas_of(value: Any, where: str) -> list[ToolSchema]:
    """Returns the schemas of an object: tools in a list, a mapping, or an agent's `tools`; one tool; or decoded JSON.

    Raises:
        InputError: something in it is not a tool, or its schema cannot be read.
    """
    if _is_json(value):
        return list(tools_of(value, where))
    if isinstance(value, list | tuple | set | frozenset):
        return [schema_of(one, f"{where}[{index}]") for index, one in enumerate(value)]
    if isinstance(value, Mapping) and not isinstance(value.get("name", value.get("function")), str | Mapping):
        return [schema_of(one, f"{where}[{name!r}]", str(name)) for name, one in value.items()]
    inner = getattr(value, "tools", None)
    if not isinstance(value, Mapping) and isinstance(inner, list | tuple | Mapping):
        return schemas_of(inner, f"{where}.tools")
    return [schema_of(value, where)]


def _is_json(value: Any) -> bool:
    """Whether a value is decoded JSON, as far as its outermost level shows."""
    if isinstance(value, Mapping):
        return all(isinstance(one, Mapping | list | str | int | float | None) for one in value.values())
    return isinstance(value, list) and all(isinstance(one, Mapping) for one in value)


def schema_of(tool: Any, where: str, name: str = "") -> ToolSchema:
    """Returns the schema of one tool. Errors as for `schemas_of`."""
    if isinstance(tool, Mapping):
        return read_tool(tool, where)
    if inspect.isroutine(tool):
        return schema_of_function(tool, name)
    if inspect.isclass(tool):
        raise InputError(f"{where} is the class {tool.__name__!r}; expected a function, or an instance that is a tool")
    found = _name(tool)
    schema = _schema(tool) if found else None
    if schema is not None:
        described = object_schema(schema, f"{where}: the schema of {found!r}")
        hint = getattr(getattr(tool, "annotations", None), "readOnlyHint", None)
        return ToolSchema(
            found, _description(tool), described, _output_of(tool), hint if isinstance(hint, bool) else None
        )
    function = next((one for key in _FUNCTIONS if callable(one := getattr(tool, key, None))), None)
    if function is None and callable(tool):
        function = tool
    if function is None:
        raise InputError(f"{where} is a {type(tool).__name__}; expected a function, or a tool of an agent framework")
    return schema_of_function(function, found or name)


def _name(tool: Any) -> str:
    for owner in (tool, getattr(tool, "metadata", None)):
        if isinstance(name := getattr(owner, "name", None), str) and name:
            return name
    return ""


def _description(tool: Any) -> str:
    for owner in (tool, getattr(tool, "metadata", None)):
        if isinstance(text := getattr(owner, "description", None), str) and text:
            return text
    return inspect.getdoc(tool) or ""


def _schema(tool: Any) -> Any:
    """Returns the first schema among the attributes that frameworks use."""
    for read in _SCHEMAS:
        try:
            schema = read(tool)
        except Exception:  # noqa: BLE001, S112 - properties are code of the framework
            continue
        to_schema = getattr(schema, "model_json_schema", None)
        schema = to_schema() if to_schema is not None else schema
        if isinstance(schema, Mapping):
            return schema
    return None


def _output_of(tool: Any) -> Mapping[str, Any] | None:
    found = (getattr(tool, key, None) for key in _OUTPUTS)
    return next((one for one in found if isinstance(one, Mapping)), None)
