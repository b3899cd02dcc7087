"""The shop of the scenarios as an MCP server, without any library so that it starts at once.

python conformance_shop.py FOLDER TOOL...: has these tools, and every tool with a file `FOLDER/also TOOL`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

from guardagent.testing.conformance import Shop

TYPES = {"str": "string", "int": "integer"}


class DyingShop(Shop):
    def lose_answer(self) -> None:
        """Kills the server before it answers."""
        os._exit(7)


class Server:
    def __init__(self, folder: Path, tools: list[str]) -> None:
        self.folder, self.shop, self.first = folder, DyingShop(folder), tools
        self.listed = self.tools()
        self.running: dict[Any, asyncio.Task[None]] = {}

    def tools(self) -> list[str]:
        return [*self.first, *(path.name.removeprefix("also ") for path in self.folder.glob("also *"))]

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            message = json.loads(line)
            if self.tools() != self.listed:
                self.listed = self.tools()
                say({"method": "notifications/tools/list_changed"})
            if message.get("method") == "notifications/cancelled":
                if (task := self.running.get(message["params"]["requestId"])) is not None:
                    task.cancel()
            elif "id" in message:
                self.running[message["id"]] = asyncio.create_task(self.answer(message))

    async def answer(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params") or {}
        if method == "initialize":
            about: dict[str, Any] = {"tools": {"listChanged": True}}
            server = {"name": "shop", "version": "1"}
            result: Any = {"protocolVersion": "2025-11-25", "capabilities": about, "serverInfo": server}
        elif method == "tools/list":
            result = {"tools": [self.declared(name) for name in self.tools()]}
        elif method == "tools/call":
            result = rendered(await self.shop.tool(params["name"])(**params["arguments"]))
        else:
            result = {}
        say({"id": message["id"], "result": result})

    def declared(self, name: str) -> dict[str, Any]:
        signature = inspect.signature(self.shop.tool(name)).parameters.values()
        properties: dict[str, Any] = {
            parameter.name: {"type": TYPES[str(parameter.annotation)]} for parameter in signature
        }
        for parameter in signature:
            if parameter.default is not parameter.empty:
                properties[parameter.name]["default"] = parameter.default
        required = [parameter.name for parameter in signature if parameter.default is parameter.empty]
        schema = {"type": "object", "properties": properties, "required": required}
        return {"name": name, "description": f"{name}.", "inputSchema": schema}


def rendered(output: Any) -> dict[str, Any]:
    """Returns a content block for each string."""
    texts = output if isinstance(output, list) else [output]
    return {"content": [{"type": "text", "text": text} for text in texts], "isError": False}


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


asyncio.run(Server(Path(sys.argv[1]), sys.argv[2:]).serve())
