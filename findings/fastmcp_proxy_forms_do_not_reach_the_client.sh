#!/bin/sh
# Version: fastmcp 4.2.3, mcp 2.3.0
# Source: the docstring of create_proxy: "a handshake front reaches a handshake backend (server-initiated sampling /
#   elicitation / roots push-forwarding works)".
# Behaviour: before a command, the form of a tool does not reach the client; the tool fails.
# Output seen:
#   without the proxy accept
#   through the proxy Cannot send 'elicitation/create': this transport context has no back-channel
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile fastmcp==4.2.3 mcp==2.3.0
cat > "$folder/server.py" <<'PYTHON'
from fastmcp import Context, FastMCP

server = FastMCP("shop")


@server.tool
async def paint(ctx: Context) -> str:
    return (await ctx.elicit("Which colour?", str)).action


server.run(show_banner=False)
PYTHON
"$folder/venv/bin/python" - "$folder/server.py" 2>/dev/null <<'PYTHON'
import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from fastmcp.server import create_proxy

REFUSED = "Cannot send 'elicitation/create': this transport context has no back-channel"


async def person(message, response_type, params, context):
    return {"value": "red"}


async def painted(target):
    async with Client(target, mode="legacy", elicitation_handler=person) as client:
        try:
            return (await client.call_tool("paint")).data
        except ToolError as error:
            return REFUSED if REFUSED in str(error) else str(error)


def server():
    return StdioTransport(sys.executable, [sys.argv[1]])


alone = asyncio.run(painted(server()))
proxied = asyncio.run(painted(create_proxy(server())))
print("without the proxy", alone)
print("through the proxy", proxied)
assert (alone, proxied) == ("accept", REFUSED)
PYTHON
