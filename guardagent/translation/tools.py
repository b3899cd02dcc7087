"""The tools of an agent: from a JSON file, from Python objects, or from an MCP server.

A file may have any form in which tools are written down. The schema of a Python function comes from its type hints and
its docstring; the attributes of an object show which agent framework it is from. All tools change something, except
those that their authors, or their names, call reading.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from guardagent._support.files import parse_json, read_text
from guardagent.batch.json_object import near_miss
from guardagent.errors import GuardError, InputError, error_text

# --- definitions in JSON

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
        read_only: whether its author states that it changes nothing (MCP's `readOnlyHint`); None if the tool does not
            say.
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
    return unique([read_tool(definition, place) for place, definition in _definitions(value, where)], where)


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
            for index, entry in enumerate(value)
            for pair in (_inner(entry, f"{where}: tools[{index}]") or [(f"{where}: tools[{index}]", entry)])
        ]
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: is a {type(value).__name__}; {_FORMS}")
    if (inner := _inner(value, where)) is not None:
        return inner
    if isinstance(value.get("name"), str) or isinstance(value.get("function"), Mapping):
        return [(where, value)]
    return [(f"{where}: {name!r}", _named(name, entry, f"{where}: {name!r}")) for name, entry in value.items()]


def _inner(value: Any, where: str) -> list[tuple[str, Any]] | None:
    """Returns the tools of a wrapper, such as an answer to `tools/list`; None if it is not a wrapper."""
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
    is_record = isinstance(annotations, Mapping)
    hint = annotations.get("readOnlyHint") if is_record else getattr(annotations, "readOnlyHint", None)
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
    for argument, property_schema in properties.items():
        if not isinstance(property_schema, Mapping | bool):
            raise InputError(
                f"{where}: the argument {argument!r} is a {type(property_schema).__name__}; expected a JSON schema"
            )
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(required_name, str) for required_name in required):
        raise InputError(f"{where}: 'required' is {required!r:.100}; expected a list of names")
    return {"type": "object", "properties": {}, **schema}


def _output(function: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any] | None:
    schema = next((function[key] for key in _OUTPUT_KEYS if function.get(key) is not None), None)
    if schema is not None and not isinstance(schema, Mapping):
        raise InputError(f"{where}: the output schema of {name!r} is a {type(schema).__name__}; expected a JSON schema")
    return schema


def _keys(value: Mapping[str, Any]) -> str:
    return f"{', '.join(map(repr, value)) or 'none':.200}"


# --- Python functions

_SECTION = re.compile(
    r"^(?:Args|Arguments|Parameters|Returns|Return|Raises|Yields|Examples?|Notes?):?\s*$|^:\w+", re.MULTILINE
)
_ARGUMENTS = re.compile(r"^(?:Args|Arguments|Parameters):?\s*\n(?:-+\n)?(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_GOOGLE = re.compile(r"^(\s+)\*{0,2}(\w+)[^\n:]{0,100}:[ \t]*(.*(?:\n\1\s+\S.*)*)", re.MULTILINE)
_FIELD = re.compile(r"^:param (?:\w+ )?(\w+):[ \t]*(.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)


def schema_of_function(fn: Callable[..., Any], name: str = "") -> ToolSchema:
    """Returns the schema of a function's arguments. An argument without a type hint can be anything.

    Raises:
        InputError: an argument has no JSON schema, or cannot be passed by name.
    """
    from pydantic import TypeAdapter

    name = name or getattr(fn, "__name__", "")
    where = f"the function {name!r}"
    if not name or name == "<lambda>":
        raise InputError(f"{fn!r} has no name; expected a named function")
    doc, described = inspect.getdoc(fn) or "", _descriptions(inspect.getdoc(fn) or "")
    source: Any = fn
    plain: Any = source if inspect.isroutine(fn) or isinstance(fn, functools.partial) else source.__call__
    try:
        with warnings.catch_warnings(action="ignore"):  # about defaults that are not JSON
            schema = TypeAdapter(plain).json_schema()
        returned = inspect.signature(plain, eval_str=True).return_annotation
    except Exception as error:  # noqa: BLE001 - pydantic raises many types, and annotations are code of the host
        reason = error_text(error).partition("\n")[0]
        raise InputError(f"{where} has an argument without JSON schema: {reason:.200}; expected plain types") from None
    if schema.get("type") != "object":
        raise InputError(f"{where}: an argument has no name in a call; expected named arguments")
    for argument, property_schema in schema["properties"].items():
        property_schema.pop("title", None)
        if argument in described:
            property_schema.setdefault("description", described[argument])
    parameters = {"additionalProperties": True, **schema}
    return ToolSchema(name, _SECTION.split(doc, maxsplit=1)[0].strip(), parameters, _output_schema(returned))


def _output_schema(returned: Any) -> Mapping[str, Any] | None:
    """Returns the schema of the returned value; None if it is not annotated, or has none."""
    from pydantic import TypeAdapter

    if returned in (None, Any, inspect.Signature.empty):
        return None
    try:
        return TypeAdapter(returned).json_schema(mode="serialization")
    except Exception:  # noqa: BLE001 - as above; an output without schema is known by its samples
        return None


def _descriptions(doc: str) -> dict[str, str]:
    """The descriptions of arguments in a docstring: a section 'Args:' or fields ':param name:'."""
    section = _ARGUMENTS.search(doc)
    descriptions = {match[2]: match[3] for match in _GOOGLE.finditer(section[1])} if section else {}
    descriptions |= {match[1]: match[2] for match in _FIELD.finditer(doc)}
    return {name: " ".join(text.split()) for name, text in descriptions.items()}


# --- objects of agent frameworks

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


def schemas_of(value: Any, where: str) -> list[ToolSchema]:
    """Returns the schemas of an object: tools in a list, a mapping, or an agent's `tools`; one tool; or decoded JSON.

    Raises:
        InputError: something in it is not a tool, or its schema cannot be read.
    """
    if _is_json(value):
        return list(tools_of(value, where))
    if isinstance(value, list | tuple | set | frozenset):
        return [schema_of(entry, f"{where}[{index}]") for index, entry in enumerate(value)]
    if isinstance(value, Mapping) and not isinstance(value.get("name", value.get("function")), str | Mapping):
        return [schema_of(entry, f"{where}[{name!r}]", str(name)) for name, entry in value.items()]
    inner = getattr(value, "tools", None)
    if not isinstance(value, Mapping) and isinstance(inner, list | tuple | Mapping):
        return schemas_of(inner, f"{where}.tools")
    return [schema_of(value, where)]


def _is_json(value: Any) -> bool:
    """Whether a value is decoded JSON, as far as its outermost level shows."""
    if isinstance(value, Mapping):
        return all(isinstance(entry, Mapping | list | str | int | float | None) for entry in value.values())
    return isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value)


def schema_of(tool: Any, where: str, name: str = "") -> ToolSchema:
    """Returns the schema of one tool. Errors as for `schemas_of`."""
    if isinstance(tool, Mapping):
        return read_tool(tool, where)
    if inspect.isroutine(tool):
        return schema_of_function(tool, name)
    if inspect.isclass(tool):
        raise InputError(f"{where} is the class {tool.__name__!r}; expected a function, or an instance that is a tool")
    string = _string(tool, "name")
    schema = _schema(tool) if string else None
    if schema is not None:
        described = object_schema(schema, f"{where}: the schema of {string!r}")
        description = _string(tool, "description") or inspect.getdoc(tool) or ""
        hint = read_only_hint(getattr(tool, "annotations", None))
        return ToolSchema(string, description, described, _output_of(tool), hint)
    function = next((attribute for key in _FUNCTIONS if callable(attribute := getattr(tool, key, None))), None)
    if function is None and callable(tool):
        function = tool
    if function is None:
        raise InputError(f"{where} is a {type(tool).__name__}; expected a function, or a tool of an agent framework")
    return schema_of_function(function, string or name)


def _string(tool: Any, attribute: str) -> str:
    """The attribute of a tool or of its metadata; empty if neither has a string there."""
    values = (getattr(owner, attribute, None) for owner in (tool, getattr(tool, "metadata", None)))
    return next((value for value in values if isinstance(value, str) and value), "")


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
    attributes = (getattr(tool, key, None) for key in _OUTPUT_KEYS)
    return next((attribute for attribute in attributes if isinstance(attribute, Mapping)), None)


# --- reading tools

_MCP = "mcp:"


def read_tools(source: Any) -> tuple[ToolSchema, ...]:
    """Returns the tools of an agent.

    Args:
        source: a JSON file, `-` for standard input; `module:attribute` or `file.py:attribute`, which is imported;
            `mcp:COMMAND`, which is started, or `mcp:URL`; or the tools as functions, objects or decoded JSON.

    Raises:
        InputError: the source does not exist, its content is not a tool, or the server does not list its tools; the
            message says what it is.
    """
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    if not isinstance(source, str):
        return unique(schemas_of(source, "tools"), "tools")
    if source.startswith(_MCP):
        return _from_server(source.removeprefix(_MCP).strip())
    if ":" in source and not source.endswith(".json"):
        return _from_object(source)
    return tools_of(parse_json(read_text(source), source), source)


def _from_object(target: str) -> tuple[ToolSchema, ...]:
    from guardagent.workflow.model.targets import TargetError, load_attribute

    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is for results
            return unique(schemas_of(load_attribute(target), target), target)
    except TargetError as error:
        raise InputError(f"{target}: {error}") from None


def _from_server(command: str) -> tuple[ToolSchema, ...]:
    import asyncio

    from guardagent.frameworks.mcp.adapter.catalogue import tools_of as list_tools
    from guardagent.frameworks.mcp.adapter.server_side import CommandTarget, Target

    target: Target
    if command.startswith(("http://", "https://")):
        from guardagent.frameworks.mcp.adapter import require_mcp
        from guardagent.frameworks.mcp.adapter.http_link import UrlTarget

        require_mcp()
        target = UrlTarget(command, {})
    else:
        target = CommandTarget(_words(command))
    try:
        tools = asyncio.run(list_tools(target))
    except GuardError as error:
        reason = str(error).removesuffix("; nothing is guarded")  # a translation guards nothing anyway
        raise InputError(f"tools '{_MCP}{command}': {reason}; expected a server that lists its tools") from None
    definitions = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.schema, **_output_keys(tool.more)}
        for tool in tools
    ]
    return tools_of(definitions, f"{_MCP}{command}")


def _output_keys(more: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in more.items() if key in ("outputSchema", "annotations")}


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"'{_MCP}{command}': {error}; expected a command as in a shell") from None
    if not words:
        raise InputError(f"'{_MCP}' has no command; expected such as 'mcp:python server.py'")
    return words


# --- tools that change something

_READS = frozenset(
    "browse calculate check compare compute count describe estimate exists fetch find get has inspect is list load "
    "lookup look query quote read retrieve search show status summarize think validate verify view".split()
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def writing_tools(tools: Iterable[ToolSchema]) -> tuple[ToolSchema, ...]:
    """Returns the tools that change something, as far as annotations and names tell: in doubt, a tool does."""
    return tuple(tool for tool in tools if not is_reading(tool))


def is_reading(tool: ToolSchema) -> bool:
    """Whether a tool changes nothing: its author says so, or its name begins with a verb such as `get` or `search`.

    The verb may stand after a prefix, as in `orders.list` and `shop__get_order`.
    """
    if tool.read_only is not None:
        return tool.read_only
    last = re.split(r"[.:/]|__", tool.name)[-1]
    words = [match.casefold() for match in _WORDS.findall(last)]
    return bool(words) and words[0] in _READS
