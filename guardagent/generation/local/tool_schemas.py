"""The tools that a model may call, described by JSON schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.logic.reasoner import Open

_EXPECTED = "expected {'type': 'function', 'function': {'name': …, 'parameters': a JSON schema of an object}}"


@dataclass(frozen=True)
class ClosedSchema:
    """A tool with a closed schema: no additional arguments unless the schema allows them.

    Attributes:
        name: the name of the tool.
        schema: the JSON schema of its arguments.
    """

    name: str
    schema: Mapping[str, Any]

    @cached_property
    def schema_text(self) -> str:
        return json.dumps(self.schema)

    @cached_property
    def _properties(self) -> Mapping[str, Any]:
        return self.schema.get("properties") or {}

    @cached_property
    def _required(self) -> list[str]:
        return [name for name in self.schema.get("required") or () if isinstance(name, str)]

    def open_arguments(self, args: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """The arguments of a partial call, with open values for missing ones, and whether there may be others."""
        missing = [name for name in self._required if name not in args]
        open_args = {name: Open(_schema(self._properties.get(name))) for name in missing}
        more = bool(self.schema["additionalProperties"]) or not self._properties.keys() <= {*args, *open_args}
        return {**args, **open_args}, more


def _schema(schema: Any) -> Mapping[str, Any] | None:
    return schema if isinstance(schema, Mapping) else None


def read_tools(tools: Iterable[Any]) -> dict[str, ClosedSchema]:
    """Reads tools into a mapping by name.

    Args:
        tools: as for a chat template: function definitions as mappings, or documented functions.

    Raises:
        InputError: an item is not a tool, has no object schema, or a name appears twice.
    """
    read: dict[str, ClosedSchema] = {}
    for tool in map(_read_tool, tools):
        if tool.name in read:
            raise InputError(f"two tools are named {tool.name!r}; expected each name once")
        read[tool.name] = tool
    return read


def definitions(tools: Iterable[Any]) -> list[dict[str, Any]]:
    """The tools in the form of chat templates."""
    return [_definition(tool) for tool in tools]


def _definition(tool: Any) -> dict[str, Any]:
    if isinstance(tool, Mapping):
        return dict(tool)
    if not callable(tool):
        raise InputError(f"a tool is a {type(tool).__name__}; {_EXPECTED}, or a function")
    from transformers.utils import get_json_schema

    try:
        return dict(get_json_schema(tool))
    except Exception as error:
        name = getattr(tool, "__name__", tool)
        raise InputError(f"no schema can be derived from the function {name!r}: {error}") from error


def _read_tool(tool: Any) -> ClosedSchema:
    definition = _definition(tool)
    function = definition.get("function", definition)
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise InputError(f"a tool has no name; {_EXPECTED}")
    schema = function.get("parameters", {"type": "object"})
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise InputError(f"the parameters of {name!r} are not a JSON schema of an object; {_EXPECTED}")
    closed = {"type": "object", "properties": {}, "additionalProperties": False, **schema}
    return ClosedSchema(name, closed)
