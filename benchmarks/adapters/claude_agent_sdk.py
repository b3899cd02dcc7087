"""The cost of a guard per tool call in the Claude Agent SDK, without its program.

The SDK's own code talks to the other end of its control protocol in this process, which does what the program does
about a call: it runs the hooks before it, calls the tool, and runs the hooks after it. The unguarded session has hooks
of the same number that do nothing, since the program skips none; so the difference is the guard's alone.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

_TOOL = "mcp__shop__refund"


def measure(calls: int) -> tuple[list[float], list[float]]:
    """Seconds of each call, alternating unguarded and guarded, from the hook before it to the one after it."""
    return asyncio.run(_measured(calls))


async def _measured(calls: int) -> tuple[list[float], list[float]]:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, create_sdk_mcp_server, tool

    from benchmarks.limit_guard import limit_guard
    from guardagent.frameworks.claude_agent_sdk import guarded

    schema = {"type": "object", "properties": {"order_id": {"type": "string"}, "amount": {"type": "integer"}}}

    @tool("refund", "Pays.", schema)
    async def refund(args: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"{args['order_id']} {args['amount']}"}]}

    async def nothing(_found: Any, _id: Any, _context: Any) -> dict[str, Any]:
        return {}

    guard = limit_guard(aliases={_TOOL: "refund"})
    server = create_sdk_mcp_server("shop", tools=[refund])
    hooks: Any = {event: [HookMatcher(hooks=[nothing])] for event in ("PreToolUse", "PostToolUse")}
    plain = ClaudeAgentOptions(mcp_servers={"shop": server}, hooks=hooks)
    with_guard = guarded(ClaudeAgentOptions(mcp_servers={"shop": server}), guard)
    taken: tuple[list[float], list[float]] = ([], [])
    ends = [_OtherEnd(f"s{at}") for at in range(2)]
    clients = [ClaudeSDKClient(options, transport=end) for options, end in zip((plain, with_guard), ends, strict=True)]
    for client, end in zip(clients, ends, strict=True):
        await client.connect()
        await end.shake_hands()
    for at in range(calls + 20):
        for end, seconds in zip(ends, taken, strict=True):
            seconds.append(await end.call(at))
    for client in clients:
        await client.disconnect()
    return taken[0][20:], taken[1][20:]  # the first ones load and compile


class _OtherEnd:
    """The other end of the control protocol: a `Transport` of the SDK."""

    def __init__(self, session: str) -> None:
        self._session, self._hooks = session, dict[str, list[str]]()
        self._out: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}

    async def connect(self) -> None: ...

    async def write(self, data: str) -> None:
        message = json.loads(data)
        if message["type"] == "control_response":
            self._answers.pop(message["response"]["request_id"]).set_result(message["response"])
            return
        hooks = message["request"].get("hooks") or {}
        self._hooks = {
            name: [hook_callback_id for hook in matchers for hook_callback_id in hook["hookCallbackIds"]]
            for name, matchers in hooks.items()
        }
        answer = {"subtype": "success", "response": {"hook_on_failure_supported": True}}
        answer["request_id"] = message["request_id"]
        self._out.put_nowait({"type": "control_response", "response": answer})

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self._out.get()) is not None:
            yield message

    async def close(self) -> None:
        self._out.put_nowait(None)

    end_input = connect

    def is_ready(self) -> bool:
        return True

    async def shake_hands(self) -> None:
        """Initializes the session with the server of this process."""
        client = {"name": "benchmark", "version": "1"}
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        await self._mcp({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about})
        await self._mcp({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, at: int) -> float:
        """Does what the program does about one call. Returns the seconds."""
        call_id, proposed = f"{self._session}.{at}", {"order_id": f"W{at}", "amount": 50}
        begun = time.perf_counter()
        before = await self._run_hooks("PreToolUse", call_id, proposed)
        args = before.get("hookSpecificOutput", {}).get("updatedInput", proposed)
        params = {"name": "refund", "arguments": args, "_meta": {"claudecode/toolUseId": call_id}}
        answer = await self._mcp({"jsonrpc": "2.0", "id": at + 1, "method": "tools/call", "params": params})
        content = answer["mcp_response"]["result"]["content"]
        await self._run_hooks("PostToolUse", call_id, args, tool_response=content)
        taken = time.perf_counter() - begun
        if content[0]["text"] != f"W{at} 50":
            raise SystemExit(f"a call that is in order was not made: {content}")
        return taken

    async def _run_hooks(self, event: str, call_id: str, args: Any, **more: Any) -> dict[str, Any]:
        about = {"session_id": self._session, "transcript_path": "", "cwd": "", "hook_event_name": event}
        hook_input = {**about, "tool_name": _TOOL, "tool_input": args, "tool_use_id": call_id, **more}
        [callback] = self._hooks[event]
        return await self._ask(subtype="hook_callback", callback_id=callback, input=hook_input, tool_use_id=call_id)

    async def _mcp(self, message: dict[str, Any]) -> dict[str, Any]:
        return await self._ask(subtype="mcp_message", server_name="shop", message=message)

    async def _ask(self, **request: Any) -> dict[str, Any]:
        request_id = str(id(request))
        self._answers[request_id] = asyncio.get_running_loop().create_future()
        self._out.put_nowait({"type": "control_request", "request_id": request_id, "request": request})
        return dict((await self._answers[request_id])["response"])
