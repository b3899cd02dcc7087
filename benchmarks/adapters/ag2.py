"""The cost of a guard per tool call in AG2, of a tool with its middleware, without the turn around it."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any


def measure(calls: int) -> tuple[list[float], list[float]]:
    """Seconds of each call, alternating unguarded and guarded, from the call of the tool to its result."""
    return asyncio.run(_measured(calls))


async def _measured(calls: int) -> tuple[list[float], list[float]]:
    from ag2 import Agent

    from benchmarks.limit_guard import limit_guard
    from guardagent.frameworks.ag2 import conversation, guarded

    async def refund(order_id: str, amount: int = 500) -> str:
        return f"{order_id} {amount}"

    guard = limit_guard()
    agents = [Agent("clerk", tools=[refund]) for _ in range(2)]
    guarded(agents[1], guard)
    taken: tuple[list[float], list[float]] = ([], [])
    for at in range(calls + 20):
        for agent, seconds in zip(agents, taken, strict=True):
            with conversation(f"c{at % 10}"):
                seconds.append(await _called(agent, f"W{at}"))
    return taken[0][20:], taken[1][20:]  # the first ones load and compile


async def _called(agent: Any, order: str) -> float:
    from ag2 import Context
    from ag2.events import ToolCallEvent
    from ag2.stream import MemoryStream

    tool = agent.tools[0]
    execution: Any = tool
    for hook in reversed(tool._middleware):  # noqa: SLF001 - as the tool does
        execution = partial(hook, execution)
    context = Context(MemoryStream(), dependency_provider=agent.dependency_provider)
    call = ToolCallEvent("refund", arguments=f'{{"order_id": "{order}", "amount": 50}}')
    begun = time.perf_counter()
    event = await execution(call, context)
    taken = time.perf_counter() - begun
    if event.result.parts[0].content != f"{order} 50":
        raise SystemExit(f"a call that is in order was not made: {event}")
    return taken
