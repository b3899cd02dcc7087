"""The cost of a guard per tool call in Pydantic AI, through the tool manager of a run, without its model."""

import asyncio
import time
from typing import Any


def measure(calls: int) -> tuple[list[float], list[float]]:
    """Seconds of each call, in alternating runs with and without a guard, from the model's call to its output."""
    return asyncio.run(_measured(calls))


async def _measured(calls: int) -> tuple[list[float], list[float]]:
    from pydantic_ai import Agent, RunContext
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.test import TestModel

    from benchmarks.limit_guard import limit_guard
    from guardagent.frameworks.pydantic_ai import guarded

    async def refund(order_id: str, amount: int = 500) -> str:
        return f"{order_id} {amount}"

    async def drive(ctx: RunContext[list[float]]) -> None:
        for at in range(_CALLS):
            call = ToolCallPart("refund", {"order_id": f"W{at}", "amount": 50})
            begun = time.perf_counter()
            output: Any = await ctx.tool_manager.handle_call(call)
            ctx.deps.append(time.perf_counter() - begun)
            if output != f"W{at} 50":
                raise SystemExit(f"a call that is in order was not made: {output}")

    guard = limit_guard()
    model = TestModel(call_tools=["drive"])
    agents: list[Any] = [Agent(model, tools=[refund, drive], deps_type=list) for _ in range(2)]
    guarded(agents[1], guard)
    taken: tuple[list[float], list[float]] = ([], [])
    for at in range(calls // _CALLS + 2):
        for agent, seconds in zip(agents, taken, strict=True):
            await agent.run("", deps=seconds, conversation_id=f"c{at % 10}")
    return taken[0][2 * _CALLS :], taken[1][2 * _CALLS :]  # the first ones load and compile


_CALLS = 20
