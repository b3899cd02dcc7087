"""Descriptions of tools: JSON schemas as agent frameworks and MCP servers list them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from guardagent.errors import InputError

_SCHEMAS = ("inputSchema", "input_schema", "parameters", "schema")


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """A tool.

    Attributes:
        name: its name.
        description: its description; empty if it has none.
        arguments: the JSON schema of each argument; None if they are not known.
        required: the arguments that it needs.
    """

    name: str
    description: str = ""
    arguments: Mapping[str, Mapping[str, Any]] | None = None
    required: frozenset[str] = field(default_factory=frozenset)


def read_tools(tools: Any) -> dict[str, ToolDescription]:
    """Reads the descriptions of tools, by name.

    Args:
        tools: names, or objects with `name`, `description` and a schema under `inputSchema`, `input_schema` or
            `parameters`, or `{"type": "function", "function": {...}}`; also a mapping of names to such objects.

    Raises:
        InputError: an entry has no name, or a wrong type.
    """
    if isinstance(tools, Mapping):
        tools = [{"name": name, **(one or {})} for name, one in tools.items()]
    if not isinstance(tools, Iterable) or isinstance(tools, str):
        raise InputError(f"'tools' is a {type(tools).__name__}; expected a list of names or of tool descriptions")
    found = [_read(one, at) for at, one in enumerate(tools)]
    return {one.name: one for one in found}


def _read(value: Any, at: int) -> ToolDescription:
    if isinstance(value, ToolDescription):
        return value
    if isinstance(value, str) and value:
        return ToolDescription(value)
    if isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
        value = value["function"]
    name = value.get("name") if isinstance(value, Mapping) else None
    if not isinstance(name, str) or not name:
        raise InputError(f"tools[{at}] has no name; expected the name of a tool, or an object with 'name' and a schema")
    schema = next((value[key] for key in _SCHEMAS if isinstance(value.get(key), Mapping)), None)
    if schema is None:
        return ToolDescription(name, str(value.get("description") or ""))
    arguments = {key: one if isinstance(one, Mapping) else {} for key, one in (schema.get("properties") or {}).items()}
    required = frozenset(one for one in schema.get("required") or () if isinstance(one, str))
    return ToolDescription(name, str(value.get("description") or ""), arguments, required)
