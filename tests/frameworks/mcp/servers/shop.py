"""A shop behind MCP without a guard; it writes the side effects of its tools to the file named by SHOP.

python shop.py [stdio | http PORT] [fastmcp | mcp | modern]
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
from fastmcp import Context, FastMCP
from fastmcp.tools import ToolResult
from mcp_types import SamplingMessage, TextContent, ToolListChangedNotification

server = FastMCP("shop", instructions="A shop.")
done = Path(os.environ["SHOP"])


def do(*what: Any) -> None:
    """Has a side effect: writes a line to the file."""
    with done.open("a") as file:
        file.write(json.dumps(what) + "\n")


@server.tool
def authenticate(email: str, code: str = "1234") -> str:
    """Logs a customer in."""
    if code != "1234":
        return "Error: wrong code"
    do("authenticate", email)
    return "welcome"


@server.tool(annotations={"destructiveHint": True}, meta={"owner": "shop"})
def refund(order_id: str, amount: int = 500) -> str:
    """Refunds an order."""
    do("refund", order_id, amount)
    return f"refunded {amount} of {order_id}"


@server.tool
def wire(amount: int) -> str:
    """Sends money."""
    do("wire", amount)
    return f"wired {amount}"


@server.tool
async def slow_refund(order_id: str, amount: int) -> str:
    """Pays, and then never ends."""
    do("refund", order_id, amount)
    await asyncio.Event().wait()
    return "done"


@server.tool
def crash(order_id: str) -> str:
    """Pays, and then the server dies."""
    do("crash", order_id)
    os._exit(7)


@server.tool
def get_order(order_id: str) -> dict[str, Any]:
    """Looks an order up."""
    return {"order_id": order_id, "total": 90.5, "items": [{"sku": "ä☃"}]}


@server.tool
def break_down() -> str:
    """Raises an error."""
    raise ConnectionError("the till does not answer")


@server.tool
def with_meta() -> ToolResult:
    """Returns a result with all optional fields."""
    return ToolResult(content="text", structured_content={"n": 1}, meta={"trace": "abc"})


@server.tool
async def count_up(ctx: Context) -> int:
    """Reports progress and writes to the client's log."""
    for step in range(3):
        await ctx.report_progress(step, 3, f"step {step}")
        await ctx.info(f"at {step}")
    return 3


@server.tool
async def ask_model(ctx: Context) -> str:
    """Requests sampling from the client's model."""
    requests = SamplingMessage(role="user", content=TextContent(type="text", text="What is the weather?"))
    reply = await ctx.session.create_message([requests], max_tokens=9, related_request_id=ctx.request_id)
    do("sampled", reply.content.text)
    return str(reply.content.text)


@server.tool
async def ask_person(ctx: Context) -> str:
    """Requests input from the client's user."""
    reply = await ctx.elicit("Which colour?", str)
    do("elicited", reply.action)
    return str(reply.action)


@server.tool
async def folders(ctx: Context) -> list[str]:
    """Lists the client's roots."""
    return [str(root.uri) for root in (await ctx.session.list_roots()).roots]


@server.tool
async def grow(ctx: Context) -> str:
    """Adds a tool, and a parameter to another one."""

    def refund_all(customer: str) -> str:
        do("refund_all", customer)
        return "all"

    server.add_tool(refund_all)
    await ctx.send_notification(ToolListChangedNotification(method="notifications/tools/list_changed"))
    return "grown"


@server.resource("shop://terms", mime_type="text/plain")
def terms() -> str:
    """The terms."""
    do("read", "terms")
    return "no returns"


@server.resource("shop://orders/{order_id}")
def order(order_id: str) -> str:
    """An order."""
    return f"order {order_id}"


@server.prompt
def complaint(order_id: str, tone: str = "kind") -> str:
    """A complaint."""
    do("prompt", order_id)
    return f"a {tone} complaint about {order_id}"


async def main() -> None:
    """Serves."""
    if sys.argv[1:2] == ["http"]:
        await server.run_http_async(host="127.0.0.1", port=int(sys.argv[2]), show_banner=False, log_level="error")
    else:
        await server.run_stdio_async(show_banner=False)


if __name__ == "__main__":
    anyio.run(main)
