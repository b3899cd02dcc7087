#!/bin/sh
# Version: mcp 2.3.0, mcp-types 2.3.0
# Source: the docstring of mcp_types.ResultType: "Absent `resultType` is equivalent to "complete"."
# Behaviour: a client that speaks 2026-07-28 refuses a result of a tool without it. One that had the handshake takes it.
# Output seen:
#   legacy done
#   2026-07-28 ValidationError CallToolResult.resultType InputRequiredResult.resultType
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile mcp==2.3.0 mcp-types==2.3.0
cat > "$folder/server.py" <<'PYTHON'
import json
import sys

about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "shop", "version": "1"}}
tools = [{"name": "refund", "inputSchema": {"type": "object"}}]
results = {
    "initialize": {"protocolVersion": "2025-11-25", **about},
    "tools/list": {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"},
    "tools/call": {"content": [{"type": "text", "text": "done"}]},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
        print(json.dumps(answer), flush=True)
PYTHON
"$folder/venv/bin/python" - "$folder/server.py" <<'PYTHON'
import asyncio
import sys

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from pydantic import ValidationError

server = StdioServerParameters(command=sys.executable, args=[sys.argv[1]])


async def called(mode):
    async with Client(stdio_client(server), mode=mode) as client:
        try:
            return (await client.call_tool("refund", {})).content[0].text
        except ValidationError as error:
            return " ".join([type(error).__name__, *(".".join(map(str, part["loc"])) for part in error.errors())])


seen = [asyncio.run(called(mode)) for mode in ("legacy", "2026-07-28")]
print("legacy", seen[0])
print("2026-07-28", seen[1])
assert seen == ["done", "ValidationError CallToolResult.resultType InputRequiredResult.resultType"]
PYTHON
