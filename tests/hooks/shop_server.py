"""An MCP server over standard input and output, without a package: `touch` makes a file, `permit` allows every call.

python shop_server.py FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

TOOLS = {
    "touch": {"name": {"type": "string"}},
    "permit": {"tool_name": {"type": "string"}, "input": {"type": "object"}},
}


def result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the result of a request; None for an unknown one."""
    if method == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "shop", "version": "1"}}
        return {"protocolVersion": params["protocolVersion"], **about}
    if method == "tools/list":
        schemas = {name: {"type": "object", "properties": properties} for name, properties in TOOLS.items()}
        return {"tools": [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]}
    if method != "tools/call":
        return None
    args, text = params["arguments"], "touched"
    if params["name"] == "touch":
        Path(sys.argv[1], args["name"]).touch()
    else:
        text = json.dumps({"behavior": "allow", "updatedInput": args["input"]})
    return {"content": [{"type": "text", "text": text}]}


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer = result(message["method"], message.get("params") or {})
            error = {"error": {"code": -32601, "message": "unknown"}}
            body = error if answer is None else {"result": answer}
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}) + "\n")
            sys.stdout.flush()
