"""A `ToolSpec` as JSON: what the server compares with the rules. The host keeps the rest."""

from __future__ import annotations

from typing import Any

from guardagent.enforcement.names import ToolSpec
from guardagent.enforcement.wire.calls import read_mapping
from guardagent.enforcement.wire.fields import Fields
from guardagent.enforcement.wire.values import complete, write_value


def write_tool(tool: ToolSpec, where: str = "tools[]") -> dict[str, Any]:
    """Returns a tool as JSON.

    Raises:
        WireError: its schema is not JSON.
    """
    written = {
        "name": complete(tool.name, f"{where}.name"),
        "description": complete(tool.description, f"{where}.description"),
        "parameters": write_value(tool.schema, f"{where}.parameters"),
    }
    if tool.unlisted_arguments is None:
        return {**written, "unlisted_arguments": None}
    unlisted = [complete(name, f"{where}.unlisted_arguments") for name in sorted(tool.unlisted_arguments)]
    return {**written, "unlisted_arguments": unlisted} if unlisted else written


def read_tool(value: Any, where: str = "tools[]") -> ToolSpec:
    """Returns the tool of a JSON value.

    Raises:
        WireError: it is not of this form.
    """
    fields = Fields(value, where)
    unlisted = fields.strings("unlisted_arguments", ()) if fields.value("unlisted_arguments", ()) is not None else None
    tool = ToolSpec(
        fields.string("name"),
        read_mapping(fields.value("parameters", {}), fields.place("parameters")),
        fields.string("description", ""),
        unlisted_arguments=None if unlisted is None else frozenset(unlisted),
    )
    fields.end()
    return tool
