"""The cost of a guard per tool call in the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

_ARGUMENTS = json.dumps({"order_id": "W1", "amount": 50})


def measure(calls: int) -> tuple[list[float], list[float]]:
    """Seconds of each call, alternating unguarded and guarded, from the tool's invocation to its output."""
    return asyncio.run(_measured(calls))


async def _measured(calls: int) -> tuple[list[float], list[float]]:
    from agents import Agent, RunContextWrapper, function_tool

    from benchmarks.limit_guard import AUTHENTICATED, limit_guard
    from guardagent.frameworks.openai_agents import guarded

    async def refund(order_id: str, amount: int = 500) -> str:
        return f"refunded {amount} of {order_id}"

    async def authenticate() -> str:
        return "welcome"

    tools = [function_tool(refund), function_tool(authenticate)]
    agent = guarded(Agent("clerk", tools=list(tools)), limit_guard(AUTHENTICATED))
    run: Any = RunContextWrapper({"conversation_id": "c1"})
    await _called(agent.tools[1], run, "login", "{}")
    plain, with_guard = [], []
    for number in range(calls):
        plain.append(await _called(tools[0], run, f"plain-{number}", _ARGUMENTS))
        with_guard.append(await _called(agent.tools[0], run, f"guarded-{number}", _ARGUMENTS))
    return plain, with_guard


async def _called(tool: Any, run: Any, call_id: str, arguments: str) -> float:
    from agents.tool import invoke_function_tool
    from agents.tool_context import ToolContext
    from openai.types.responses import ResponseFunctionToolCall

    call = ResponseFunctionToolCall(name=tool.name, arguments=arguments, call_id=call_id, type="function_call")
    context: Any = ToolContext.from_agent_context(run, call_id, call)
    begun = time.perf_counter()
    output = await invoke_function_tool(function_tool=tool, context=context, arguments=arguments)
    taken = time.perf_counter() - begun
    if not str(output).startswith(("refunded", "welcome")):
        raise SystemExit(f"a call that is in order was not made: {output}")
    return taken
