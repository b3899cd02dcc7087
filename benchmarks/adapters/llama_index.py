"""The cost of a guard per tool call in LlamaIndex, through the agent's `call_tool` step without its workflow."""

from __future__ import annotations

import asyncio
import time
from typing import Any


def measure(calls: int) -> tuple[list[float], list[float]]:
    """Seconds of each call, alternating unguarded and guarded, from the list of tools to the tool's output."""
    return asyncio.run(_measured(calls))


async def _measured(calls: int) -> tuple[list[float], list[float]]:
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.llms import MockLLM

    from benchmarks.limit_guard import limit_guard
    from guardagent.frameworks.llama_index import conversation, guarded

    async def refund(order_id: str, amount: int = 500) -> str:
        return f"{order_id} {amount}"

    guard = limit_guard()
    agents = [FunctionAgent(tools=[refund], llm=MockLLM()) for _ in range(2)]
    guarded(agents[1], guard)
    taken: tuple[list[float], list[float]] = ([], [])
    for at in range(calls + 20):
        for agent, seconds in zip(agents, taken, strict=True):
            with conversation(f"c{at % 10}"):
                seconds.append(await _called(agent, f"W{at}"))
    return taken[0][20:], taken[1][20:]  # the first ones load and compile


async def _called(agent: Any, order: str) -> float:
    begun = time.perf_counter()
    tools = await agent.get_tools("")
    output = await agent._call_tool(None, tools[0], {"order_id": order, "amount": 50})  # noqa: SLF001 - as the step does
    taken = time.perf_counter() - begun
    if output.content != f"{order} 50":
        raise SystemExit(f"a call that is in order was not made: {output.content}")
    return taken
