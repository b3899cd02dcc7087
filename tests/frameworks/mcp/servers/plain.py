"""A shop that speaks MCP without any library: it starts at once, and validates nothing.

The last of two equal names wins, as in most parsers; names are case-insensitive, as in some; a string
counts as a number. So the shop pays whatever a guard lets through by mistake.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from pathlib import Path
from typing import Any

AMOUNT = {"type": "integer", "default": 500}
TEXT = {"type": "string"}


def tool(name: str, required: list[str], **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required}
    return {"name": name, "description": f"{name}.", "inputSchema": schema}


TOOLS = [
    tool("authenticate", ["email"], email=TEXT, code={"type": "string", "default": "1234"}),
    tool("refund", ["order_id"], order_id=TEXT, amount=AMOUNT),
    tool("wire", ["amount"], amount={"type": "integer"}),
    tool("slow_refund", ["order_id", "amount"], order_id=TEXT, amount={"type": "integer"}),
    tool("crash", ["order_id"], order_id=TEXT),
    tool("get_order", ["order_id"], order_id=TEXT),
]


def folded(value: Any) -> Any:
    """Normalizes the case, width and surrounding spaces of names."""
    return (
        {unicodedata.normalize("NFKC", name).strip().lower(): part for name, part in value.items()}
        if isinstance(value, dict)
        else {}
    )


def do(*what: Any) -> None:
    with Path(os.environ["SHOP"]).open("a") as file:
        file.write(json.dumps(what) + "\n")


def call(params: Any) -> dict[str, Any] | None:
    """Runs a tool; None if it never ends."""
    name, args = folded(params).get("name"), folded(folded(params).get("arguments"))
    if name in ("refund", "slow_refund"):
        do("refund", args.get("order_id"), args.get("amount", 500))
    elif name == "wire":
        do("wire", args.get("amount"))
    elif name == "authenticate" and args.get("code", "1234") != "1234":
        return reply("Error: wrong code")
    elif name == "crash":
        do("crash", args.get("order_id"))
        os._exit(7)
    return None if name == "slow_refund" else reply("done")


def reply(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": False}


def answer(method: Any, params: Any) -> dict[str, Any] | None:
    if method == "initialize":
        about = {"name": "plain", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        at = int(folded(params).get("cursor") or 0)
        more = {"nextCursor": str(at + 2)} if at + 2 < len(TOOLS) else {}
        return {"tools": TOOLS[at : at + 2], **more}
    if method in ("resources/read", "resources/subscribe"):
        do(method, folded(params).get("uri"))
        return {"contents": []}
    return call(params) if method == "tools/call" else {}


def take(message: Any) -> None:
    if isinstance(message, list):
        for entry in message:
            take(entry)
        return
    message = folded(message)
    result = answer(message.get("method"), message.get("params"))
    if "method" in message and result is not None and message.get("id") is not None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
        sys.stdout.flush()


for line in sys.stdin:
    take(json.loads(line))
