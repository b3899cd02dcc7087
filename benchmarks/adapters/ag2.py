"""The cost of a guard per tool call in AG2, through a turn's tool executor without its model."""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

_POLICY = """
version: 1
policies:
  - {id: limit, temporal: "forall(refund(amount=a), a <= 100)"}
"""


def measure(calls: int) -> tuple[list[float], list[float]]:
    """Seconds of each call, alternating unguarded and guarded, from the call's event to its result."""
    return asyncio.run(_measured(calls))


async def _measured(calls: int) -> tuple[list[float], list[float]]:
    from ag2 import Agent

    from guardagent.enforcement import ToolGuard
    from guardagent.frameworks.ag2 import conversation, guarded

    async def refund(order_id: str, amount: int = 500) -> str:
        return f"{order_id} {amount}"

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policies.yaml"
        path.write_text(_POLICY)
        guard = ToolGuard(path)
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
    from ag2.events import ToolCallEvent, ToolResultEvent
    from ag2.stream import MemoryStream

    context = Context(MemoryStream(), dependency_provider=agent.dependency_provider)
    call = ToolCallEvent("refund", arguments=f'{{"order_id": "{order}", "amount": 50}}')
    with ExitStack() as stack:
        agent._tool_executor.register(stack, context, tools=agent.tools, known_tools={"refund"})  # noqa: SLF001 - as a turn does
        async with context.stream.get(ToolResultEvent.parent_id == call.id) as result:
            begun = time.perf_counter()
            await context.send(call)
            taken = time.perf_counter() - begun
            found: Any = await result
    if found.result.parts[0].content != f"{order} 50":
        raise SystemExit(f"a call that is in order was not made: {found}")
    return taken
