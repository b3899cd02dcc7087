"""One tool as its author describes it, and the forms in which tools are written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.batch.json_object import near_miss
from guardagent.errors import InputError

_FORMS = (
    "expected {'type': 'function', 'function': {'name', 'description', 'parameters'}}, "
    "{'name', 'description', 'inputSchema'} (MCP), {'name', 'description', 'input_schema'}, or {NAME: JSON schema}"
)
_SCHEMA_KEYS = ("parameters", "inputSchema", "input_schema")
_OUTPUT_KEYS = ("outputSchema", "output_schema")
_KEYS = frozenset(["name", "description", "annotations", *_SCHEMA_KEYS, *_OUTPUT_KEYS])
_LISTS = ("tools", "functions", "result")
_OF_SCHEMAS = frozenset(["type", "properties", "$ref", "anyOf", "oneOf", "allOf", "$schema"])


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool.

    Attributes:
        parameters: the JSON schema of its arguments, of the type 'object'.
        output_schema: the JSON schema of its output; None if it is unknown.
        read_only: whether its author says that it changes nothing (MCP's `readOnlyHint`); None if nothing is said.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None
    read_only: bool | None = None


def tools_of(value: Any, where: str) -> tuple[ToolSchema, ...]:
    """Returns the tools of a decoded JSON value in any of the forms; `where` is the file, for messages.

    Raises:
        InputError: the value has another form, or a tool's name or schema is missing or invalid.
    """
    return unique([read_tool(one, place) for place, one in _definitions(value, where)], where)


def unique(tools: list[ToolSchema], where: str) -> tuple[ToolSchema, ...]:
    """Returns tools with different names.

    Raises:
        InputError: there is none, or two have the same name.
    """
    if not tools:
        raise InputError(f"{where}: has no tools; {_FORMS}")
    names = [tool.name for tool in tools]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{where}: two tools are named {twice!r}; expected each name once")
    return tuple(tools)


def _definitions(value: Any, where: str) -> list[tuple[str, Any]]:
    """Returns the tools with their places."""
    if isinstance(value, list):
        return [
            pair
            for index, one in enumerate(value)
            for pair in (_inner(one, f"{where}: tools[{index}]") or [(f"{where}: tools[{index}]", one)])
        ]
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: is a {type(value).__name__}; {_FORMS}")
    if (inner := _inner(value, where)) is not None:
        return inner
    if isinstance(value.get("name"), str) or isinstance(value.get("function"), Mapping):
        return [(where, value)]
    return [(f"{where}: {name!r}", _named(name, one, f"{where}: {name!r}")) for name, one in value.items()]


def _inner(value: Any, where: str) -> list[tuple[str, Any]] | None:
    """Returns the tools of a wrapper, such as an answer to `tools/list`; None if it is no wrapper."""
    for key in (*_LISTS, "functionDeclarations", "function_declarations"):
        inner = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(inner, list) or (key == "result" and isinstance(inner, Mapping)):
            return _definitions(inner, where)
    return None


def _named(name: Any, value: Any, where: str) -> dict[str, Any]:
    """Returns the definition of a tool that stands under its name."""
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: is a {type(value).__name__}; expected a JSON schema of its arguments")
    if any(key in value for key in (*_SCHEMA_KEYS, "function")):
        return {"name": name, **value}
    if value and not _OF_SCHEMAS & value.keys():
        raise InputError(f"{where}: has the keys {_keys(value)}; expected a JSON schema of its arguments")
    return {"name": name, "description": value.get("description", ""), "parameters": value}


def read_tool(value: Any, where: str) -> ToolSchema:
    """Returns one tool.

    Raises:
        InputError: its name or its schema is missing or invalid; the message says what it has instead.
    """
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: is a {type(value).__name__}; {_FORMS}")
    function = value.get("function", value)
    if not isinstance(function, Mapping):
        raise InputError(f"{where}: 'function' is a {type(function).__name__}; expected an object")
    name = function.get("name")
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"{where}: has no name, only the keys {_keys(function)}; {_FORMS}")
    for key in function:
        if key not in _KEYS and (meant := near_miss(str(key), _KEYS, function.keys())):
            raise InputError(f"{where}: {key!r} is not a key of a tool; did you mean {meant!r}?")
    description = function.get("description") or ""
    if not isinstance(description, str):
        raise InputError(f"{where}: the description of {name!r} is a {type(description).__name__}; expected a string")
    parameters, output = _parameters(function, name, where), _output(function, name, where)
    return ToolSchema(name, description, parameters, output, read_only_hint(function.get("annotations")))


def read_only_hint(annotations: Any) -> bool | None:
    """Returns what the annotations of an MCP tool say about changes; None if they say nothing."""
    hint = annotations.get("readOnlyHint") if isinstance(annotations, Mapping) else None
    return hint if isinstance(hint, bool) else None


def _parameters(function: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    known = [key for key in _SCHEMA_KEYS if function.get(key) is not None]
    if len(known) > 1:
        raise InputError(f"{where}: {name!r} has both {known[0]!r} and {known[1]!r}; expected one schema")
    if not known and function.get("type") != "function" and "description" not in function:
        raise InputError(f"{where}: {name!r} has no schema, only the keys {_keys(function)}; {_FORMS}")
    return object_schema(function[known[0]] if known else {}, f"{where}: the schema of {name!r}")


def object_schema(schema: Any, where: str) -> Mapping[str, Any]:
    """Returns a JSON schema of an object.

    Raises:
        InputError: it is another one, or its properties have another form.
    """
    if not isinstance(schema, Mapping):
        raise InputError(f"{where} is a {type(schema).__name__}; expected a JSON schema of an object")
    if schema.get("type", "object") != "object":
        raise InputError(f"{where} has the type {schema['type']!r}; expected 'object'")
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        raise InputError(f"{where}: 'properties' is a {type(properties).__name__}; expected an object")
    for argument, one in properties.items():
        if not isinstance(one, Mapping | bool):
            raise InputError(f"{where}: the argument {argument!r} is a {type(one).__name__}; expected a JSON schema")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(one, str) for one in required):
        raise InputError(f"{where}: 'required' is {required!r:.100}; expected a list of names")
    return {"type": "object", "properties": {}, **schema}


def _output(function: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any] | None:
    schema = next((function[key] for key in _OUTPUT_KEYS if function.get(key) is not None), None)
    if schema is not None and not isinstance(schema, Mapping):
        raise InputError(f"{where}: the output schema of {name!r} is a {type(schema).__name__}; expected a JSON schema")
    return schema


def _keys(value: Mapping[str, Any]) -> str:
    return f"{', '.join(map(repr, value)) or 'none':.200}"
