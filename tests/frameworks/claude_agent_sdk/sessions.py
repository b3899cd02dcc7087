"""Sessions of the SDK's own program, which run offline: their model is a scripted server on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, SdkMcpTool, create_sdk_mcp_server

REFUND = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "amount": {"type": "number", "default": 500}},
    "required": ["order_id"],
}
SCHEMAS: Mapping[str, dict[str, Any]] = {
    "refund": REFUND,
    "authenticate": {
        "type": "object",
        "properties": {"email": {"type": "string"}, "code": {"type": "string", "default": "right"}},
        "required": ["email"],
    },
    "get_order": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
    "wire": {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]},
    "payout": {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]},
}


def offline(url: str, home: Path) -> dict[str, Any]:
    """Returns options with which the program asks only this server, and reads and writes only in this folder."""
    home.mkdir(exist_ok=True)
    env = {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "IS_SANDBOX": "1",  # the program has a mode that it refuses to root elsewhere
    }
    return {"env": env, "cwd": home, "setting_sources": []}


def tool_of(name: str, function: Callable[..., Any], schema: Mapping[str, Any] | None = None) -> SdkMcpTool[Any]:
    """Returns a tool of the SDK that calls a function."""

    async def handler(args: dict[str, Any]) -> dict[str, Any]:
        return blocks(await function(**args))

    return SdkMcpTool(name, f"{name}.", dict(schema or SCHEMAS[name]), handler)


def blocks(output: Any) -> dict[str, Any]:
    """Returns the output of a tool in the SDK's form."""
    texts = output if isinstance(output, list) else [output]
    return {"content": [{"type": "text", "text": str(text)} for text in texts]}


def shop_options(url: str, home: Path, functions: Mapping[str, Callable[..., Any]], **more: Any) -> ClaudeAgentOptions:
    """Returns the options of sessions with these tools of a server `shop`, all of which the host allows."""
    server = create_sdk_mcp_server("shop", tools=[tool_of(name, function) for name, function in functions.items()])
    options = {
        "allowed_tools": [f"mcp__shop__{name}" for name in functions],
        "mcp_servers": {"shop": server},
        "tools": [],
    }
    return ClaudeAgentOptions(**{**offline(url, home), **options, **more})
