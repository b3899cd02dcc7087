"""A program that speaks the SDK's control protocol and does what a test says, also what the real one never does."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from claude_agent_sdk import Transport

SESSION = "0c1e7a52-0000-4000-8000-000000000000"
_ids = itertools.count(1)


class ScriptedProgram(Transport):
    """The other side of the SDK.

    Args:
        script: what the program does about a prompt.
        honors_on_failure: whether it says that it blocks a call whose hook fails.
    """

    def __init__(self, script: Callable[[ScriptedProgram], Awaitable[None]], *, honors_on_failure: bool = True) -> None:
        self._script, self._honors = script, honors_on_failure
        self._out: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._hooks: dict[str, list[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # --- as the SDK uses it

    async def connect(self) -> None: ...

    async def write(self, data: str) -> None:
        message = json.loads(data)
        if message["type"] == "control_request":
            self._initialize(message)
        elif message["type"] == "control_response":
            self._answers.pop(message["response"]["request_id"]).set_result(message["response"])
        else:
            task = asyncio.ensure_future(self._prompted(str(message["message"]["content"])))
            self._tasks.add(task)

    def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        return self._read()

    async def close(self) -> None:
        self._out.put_nowait(None)

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        self._out.put_nowait(None)

    async def _read(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self._out.get()) is not None:
            yield message

    def _initialize(self, message: Mapping[str, Any]) -> None:
        hooks = message["request"].get("hooks") or {}
        self._hooks = {
            name: [hook_callback_id for hook in matchers for hook_callback_id in hook["hookCallbackIds"]]
            for name, matchers in hooks.items()
        }
        answer = {"hook_on_failure_supported": True} if self._honors else {}
        response = {"subtype": "success", "request_id": message["request_id"], "response": answer}
        self._out.put_nowait({"type": "control_response", "response": response})

    async def _prompted(self, text: str) -> None:
        await self.hook("UserPromptSubmit", prompt=text)
        await self._script(self)
        usage = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1}
        ended = {"type": "result", "subtype": "success", "is_error": False, "session_id": SESSION, **usage}
        self._out.put_nowait({**ended, "result": "done"})

    # --- what a script does

    def emit(self, kind: str, **fields: Any) -> None:
        """Sends a message to the reader."""
        self._out.put_nowait({"type": kind, "session_id": SESSION, "uuid": "u", **fields})

    async def hook(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """Runs the hooks of an event. Returns their answers."""
        payload = {"session_id": SESSION, "transcript_path": "", "cwd": "", "hook_event_name": event, **fields}
        requests = (
            self._ask(
                subtype="hook_callback", callback_id=callback_id, input=payload, tool_use_id=fields.get("tool_use_id")
            )
            for callback_id in self._hooks.get(event, ())
        )
        return list(await asyncio.gather(*requests))

    async def propose(self, tool: str, args: Any, call_id: str) -> dict[str, Any]:
        """Runs the hooks before a call. Returns the guard's answer."""
        answers = await self.hook("PreToolUse", tool_name=tool, tool_input=args, tool_use_id=call_id)
        return dict(answers[0]["hookSpecificOutput"])

    async def call(self, server: str, tool: str, args: Any, call_id: str) -> dict[str, Any]:
        """Calls a tool of the SDK's process. Returns its result."""
        params = {"name": tool, "arguments": args, "_meta": {"claudecode/toolUseId": call_id}}
        return await self._mcp(server, "tools/call", params)

    async def connect_server(self, server: str) -> None:
        """Shakes hands with a server of the SDK's process."""
        client = {"name": "scripted", "version": "1"}
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        await self._mcp(server, "initialize", about)
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._ask(subtype="mcp_message", server_name=server, message=ready)

    async def can_use(self, tool: str, args: Any, call_id: str) -> dict[str, Any]:
        """Asks whether a call may run."""
        return await self._ask(
            subtype="can_use_tool", tool_name=tool, input=args, tool_use_id=call_id, permission_suggestions=[]
        )

    async def _mcp(self, server: str, method: str, params: Any) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params}
        answer = await self._ask(subtype="mcp_message", server_name=server, message=message)
        return dict(answer["mcp_response"].get("result") or answer["mcp_response"])

    async def _ask(self, **request: Any) -> dict[str, Any]:
        request_id = f"ask-{next(_ids)}"
        self._answers[request_id] = asyncio.get_running_loop().create_future()
        self._out.put_nowait({"type": "control_request", "request_id": request_id, "request": request})
        response = await self._answers[request_id]
        return {"error": response["error"]} if response["subtype"] == "error" else dict(response["response"])
