"""Lock files of tools: the declarations that an operator has reviewed.

    {"guardagent_tools_lock": 1, "tools": [{"name": "refund", "description": "…", "inputSchema": {…}, …}]}

The file holds complete declarations in plain ASCII, so that a review shows every change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from guardagent._support.files import parse_json, read_text
from guardagent.enforcement.names import ToolSpec
from guardagent.errors import ContentError
from guardagent.types import thaw

VERSION = 1
_MAX_BYTES = 100_000_000


def read_tools_lock(path: Path | str) -> list[ToolSpec]:
    """Reads the tools of a lock file.

    Raises:
        InputError: the file is missing or is not a lock file.
    """
    value = parse_json(read_text(path, limit=_MAX_BYTES), path)
    if not isinstance(value, dict) or value.keys() != {"guardagent_tools_lock", "tools"}:
        raise ContentError("is not a lock file of tools; expected the output of 'mcp-proxy --accept-tools'", path)
    if value["guardagent_tools_lock"] != VERSION:
        raise ContentError(f"is of version {value['guardagent_tools_lock']!r}; expected version {VERSION}", path)
    listed = value["tools"] if isinstance(value["tools"], list) else [None]
    specs = [declared(one) for one in listed]
    found = [spec for spec in specs if spec is not None]
    if len({spec.name for spec in found}) < len(listed):
        raise ContentError("'tools' is invalid; expected tools with unique names and an inputSchema each", path)
    return found


def tools_lock(tools: Iterable[ToolSpec]) -> str:
    """Returns the text of a lock file."""
    listed = [
        {"name": tool.name, "description": tool.description, "inputSchema": thaw(tool.schema), **thaw(tool.more)}
        for tool in sorted(tools, key=lambda one: one.name)
    ]
    return json.dumps({"guardagent_tools_lock": VERSION, "tools": listed}, indent=2) + "\n"


def declared(tool: Any) -> ToolSpec | None:
    """Reads a tool declaration of MCP. Returns None if it is not one; such a tool cannot be called."""
    if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
        return None
    if not isinstance(tool.get("inputSchema"), Mapping) or not isinstance(tool.get("description") or "", str):
        return None
    more = {name: one for name, one in tool.items() if name not in ("name", "inputSchema", "description")}
    return ToolSpec(tool["name"], tool["inputSchema"], tool.get("description") or "", more)
