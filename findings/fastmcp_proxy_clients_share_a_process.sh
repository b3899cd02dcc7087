#!/bin/sh
# Version: fastmcp 4.2.3, mcp 2.3.0
# Source: the docstring of _create_client_factory, for targets that are not clients: "creates ProxyClient and fresh
#   sessions per request".
# Behaviour: before a command, create_proxy starts one process and makes one handshake, for all clients and requests.
#   What one client leaves in the server, another finds.
# Output seen:
#   without the proxy 1 1
#   through the proxy 1 2
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile fastmcp==4.2.3 mcp==2.3.0
cat > "$folder/server.py" <<'PYTHON'
from fastmcp import FastMCP

server = FastMCP("shop")
visits = 0


@server.tool
def visit() -> int:
    global visits
    visits += 1
    return visits


server.run(show_banner=False)
PYTHON
"$folder/venv/bin/python" - "$folder/server.py" 2>/dev/null <<'PYTHON'
import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


def server():
    return StdioTransport(sys.executable, [sys.argv[1]])


async def visits(*targets):
    seen = []
    for target in targets:
        async with Client(target, mode="legacy") as client:
            seen.append((await client.call_tool("visit")).data)
    return seen


async def main():
    proxy = create_proxy(server())
    return await visits(server(), server()), await visits(proxy, proxy)


alone, proxied = asyncio.run(main())
print("without the proxy", *alone)
print("through the proxy", *proxied)
assert (alone, proxied) == ([1, 1], [1, 2])
PYTHON
