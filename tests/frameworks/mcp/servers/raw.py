"""A shop that pays and then writes its argument, before or instead of its answer: `raw.py LINE`.

`%s` in the line stands for the id of the call; the line is then the answer.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

LINE = sys.argv[1]
AMOUNT = {"order_id": {"type": "string"}, "amount": {"type": "integer"}}
TOOLS = [{"name": "refund", "inputSchema": {"type": "object", "properties": AMOUNT}}]
ABOUT = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "1"}}


def answer(method: str) -> dict[str, Any]:
    known: dict[str, dict[str, Any]] = {"initialize": ABOUT, "tools/list": {"tools": TOOLS}}
    return known.get(method, {"content": []})


def write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


for text in sys.stdin:
    message = json.loads(text)
    if "method" not in message or "id" not in message:
        continue
    if message["method"] == "tools/call":
        args = message["params"]["arguments"]
        with Path(os.environ["SHOP"]).open("a") as book:
            book.write(json.dumps(["refund", args["order_id"], args["amount"]]) + "\n")
        write(LINE.replace("%s", json.dumps(message["id"])))
    if message["method"] != "tools/call" or "%s" not in LINE or '"ID"' in LINE:
        write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer(message["method"])}))
