"""The cost of a guard per tool call in Strands, through the agent's tool executor without its model."""

from __future__ import annotations

import asyncio
import time
from typing import Any


def measure(calls: int) -> tuple[list[float], list[float]]:
    """Seconds of each call, alternating unguarded and guarded, from the host's hooks to the tool's result."""
    return asyncio.run(_measured(calls))


async def _measured(calls: int) -> tuple[list[float], list[float]]:
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel

    from benchmarks.limit_guard import limit_guard
    from guardagent.frameworks.strands import conversation, guarded

    @tool
    async def refund(order_id: str, amount: int = 500) -> str:
        """Pays."""
        return f"{order_id} {amount}"

    guard = limit_guard()
    model = OpenAIModel(model_id="none", client_args={"api_key": "none"})
    agents = [Agent(model=model, tools=[refund], callback_handler=None) for _ in range(2)]
    guarded(agents[1], guard)
    taken: tuple[list[float], list[float]] = ([], [])
    for at in range(calls + 20):
        for agent, seconds in zip(agents, taken, strict=True):
            with conversation(f"c{at % 10}"):
                seconds.append(await _called(agent, f"W{at}"))
    return taken[0][20:], taken[1][20:]  # the first ones load and compile


async def _called(agent: Any, order: str) -> float:
    use = {"toolUseId": order, "name": "refund", "input": {"order_id": order, "amount": 50}}
    results: list[Any] = []
    begun = time.perf_counter()
    async for _ in agent.tool_executor._stream(agent, use, results, {"event_loop_cycle_id": order}):  # noqa: SLF001 - as the loop does
        pass
    taken = time.perf_counter() - begun
    if results[0]["content"][0]["text"] != f"{order} 50":
        raise SystemExit(f"a call that is in order was not made: {results}")
    return taken
