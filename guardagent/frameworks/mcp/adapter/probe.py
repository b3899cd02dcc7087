"""Lists the tools of a server before a client connects, so that mismatches with the rules show at the start."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from guardagent.enforcement import ToolSpec
from guardagent.errors import GuardError, InputError
from guardagent.frameworks.mcp.adapter import wire
from guardagent.frameworks.mcp.adapter.catalogue import specs_of
from guardagent.frameworks.mcp.adapter.links import ServerLink, Target
from guardagent.frameworks.mcp.adapter.server_side import cause

SECONDS = 60.0
_CLIENT = {"name": "guardagent", "version": "1"}
_CAPABILITIES: dict[str, Any] = {"roots": {}, "sampling": {}, "elicitation": {}}  # some servers then list more tools
_HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": _CAPABILITIES, "clientInfo": _CLIENT}
_ENVELOPE = {
    wire.VERSION_KEY: "2026-07-28",
    wire.CLIENT_KEY: _CLIENT,
    wire.CAPABILITIES_KEY: _CAPABILITIES,
}


async def tools_of(target: Target) -> list[ToolSpec]:
    """Returns the tools that a server lists, in a separate session.

    Raises:
        InputError: the server cannot be started.
        GuardError: the server does not answer.
    """
    try:
        async with asyncio.timeout(SECONDS), target.open() as link:
            return await _Probe(link).tools()
    except TimeoutError:
        raise GuardError(f"the MCP server did not list its tools within {SECONDS:g} s; nothing is guarded") from None
    except OSError as error:
        raise InputError(f"the MCP server cannot be started: {error}; expected a command or a URL after --") from None
    except GuardError:
        raise
    except Exception as error:  # noqa: BLE001 - libraries raise any type here
        raise GuardError(f"the MCP server does not list its tools: {cause(error)[0]}; nothing is guarded") from None


class _Probe:
    def __init__(self, link: ServerLink) -> None:
        self._link, self._lines, self._count = link, link.lines(), 0

    async def tools(self) -> list[ToolSpec]:
        meta: dict[str, Any] = {}
        if "error" in await self._ask("initialize", _HANDSHAKE):
            meta = {"_meta": _ENVELOPE}  # since 2026-07-28 there is no handshake
        else:
            await self._link.send(wire.notification("notifications/initialized"))
        found: list[ToolSpec] = []
        cursor = None
        while True:
            response = await self._ask("tools/list", {**meta, **({} if cursor is None else {"cursor": cursor})})
            answer = response.get("result")
            if not isinstance(answer, Mapping):
                return found + self._none(response.get("error"))
            found += specs_of(answer.get("tools"))
            cursor = answer.get("nextCursor")
            if cursor is None:
                return found

    def _none(self, error: Any) -> list[ToolSpec]:
        if isinstance(error, Mapping) and error.get("code") == wire.METHOD_NOT_FOUND:
            return []  # a server without tools
        raise GuardError(f"the MCP server does not list its tools: {error}; nothing is guarded")

    async def _ask(self, method: str, params: Mapping[str, Any]) -> wire.Message:
        self._count += 1
        await self._link.send(wire.request(self._count, method, dict(params)))
        return await self._answer(self._lines)

    async def _answer(self, lines: AsyncIterator[bytes]) -> wire.Message:
        async for line in lines:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if not isinstance(message, dict):
                continue
            if "method" in message and wire.is_id(message.get("id")):
                await self._link.send(wire.error(message["id"], wire.METHOD_NOT_FOUND, "there is no client yet"))
            elif "method" not in message and message.get("id") == self._count:
                return message
        raise GuardError("the MCP server ended before it listed its tools; nothing is guarded")
