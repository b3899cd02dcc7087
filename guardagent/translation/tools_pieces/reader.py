"""Reads the tools of an agent from wherever they are described."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from guardagent._support.files import parse_json, read_text
from guardagent.errors import InputError
from guardagent.translation.tools import ToolSchema, tools_of, unique
from guardagent.translation.tools_pieces.objects import schemas_of

_MCP = "mcp:"


def read_tools(source: Any) -> tuple[ToolSchema, ...]:
    """Returns the tools of an agent.

    Args:
        source: a JSON file, `-` for standard input; `module:attribute` or `file.py:attribute`, which is imported;
            `mcp:COMMAND`, which is started, or `mcp:URL`; or the tools as functions, objects or decoded JSON.

    Raises:
        InputError: the source does not exist, or what it has is no tool; the message says what it is.
        GuardError: the server does not list its tools.
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
    found = asyncio.run(list_tools(target))
    definitions = [
        {"name": one.name, "description": one.description, "inputSchema": one.schema, **_output_keys(one.more)}
        for one in found
    ]
    return tools_of(definitions, f"{_MCP}{command}")


def _output_keys(more: Mapping[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in more.items() if key in ("outputSchema", "annotations")}


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"'{_MCP}{command}': {error}; expected a command as in a shell") from None
    if not words:
        raise InputError(f"'{_MCP}' has no command; expected such as 'mcp:python server.py'")
    return words
