"""The cost of a guard per tool call in AutoGen, through the agent's workbench without its model.

The host makes a tool's schema anew whenever it looks at the tool, which takes longer than the guard. A guarded tool
keeps its schema; so does the tool here, so that the difference is the guard's part.
"""

from __future__ import annotations

import asyncio
import time
from functools import cached_property
from typing import Any


def measure(calls: int) -> tuple[list[float], list[float]]:
    """Seconds of each call, alternating unguarded and guarded, from the list of tools to the tool's output."""
    return asyncio.run(_measured(calls))


async def _measured(calls: int) -> tuple[list[float], list[float]]:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_core.tools import FunctionTool
    from autogen_ext.models.replay import ReplayChatCompletionClient

    from benchmarks.limit_guard import limit_guard
    from guardagent.frameworks.autogen import conversation, guarded

    class CachedSchemaTool(FunctionTool):
        @cached_property
        def schema(self) -> Any:
            return super().schema

    async def refund(order_id: str, amount: int = 500) -> str:
        return f"{order_id} {amount}"

    guard = limit_guard()
    info = {"vision": False, "function_calling": True, "json_output": True, "family": "x", "structured_output": True}
    client = ReplayChatCompletionClient([], model_info=info)
    agents = [AssistantAgent("clerk", client, tools=[CachedSchemaTool(refund, "Pays.")]) for _ in range(2)]
    guarded(agents[1], guard)
    taken: tuple[list[float], list[float]] = ([], [])
    for at in range(calls + 20):
        for agent, seconds in zip(agents, taken, strict=True):
            with conversation(f"c{at % 10}"):
                seconds.append(await _called(agent, f"W{at}"))
    return taken[0][20:], taken[1][20:]  # the first ones load and compile


async def _called(agent: Any, order: str) -> float:
    workbench = agent._workbench[0]  # noqa: SLF001 - as the agent does
    begun = time.perf_counter()
    await workbench.list_tools()
    results = [result async for result in workbench.call_tool_stream("refund", {"order_id": order, "amount": 50})]
    taken = time.perf_counter() - begun
    if results[-1].to_text() != f"{order} 50":
        raise SystemExit(f"a call that is in order was not made: {results[-1].to_text()}")
    return taken
