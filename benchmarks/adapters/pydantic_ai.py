"""The cost of a guard per step of an agent in Pydantic AI: a message of the model, its call, and the next request."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

_POLICY = """
version: 1
policies:
  - {id: limit, temporal: "forall(refund(amount=a), a <= 100)"}
"""


def measure(calls: int) -> tuple[list[float], list[float]]:
    """Seconds of each step, in alternating runs with and without a guard, from a message of the model to the next."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from guardagent.enforcement import ToolGuard
    from guardagent.frameworks.pydantic_ai import guarded

    async def refund(order_id: str, amount: int = 500) -> str:
        return f"{order_id} {amount}"

    begun, taken = 0.0, list[float]()

    def say(messages: list[Any], _: Any) -> ModelResponse:
        nonlocal begun
        now, made = time.perf_counter(), len(messages) // 2
        if made:
            taken.append(now - begun)
            if messages[-1].parts[0].content != f"W{made - 1} 50":
                raise SystemExit(f"a call that is in order was not made: {messages[-1]}")
        begun = time.perf_counter()
        call = ToolCallPart("refund", {"order_id": f"W{made}", "amount": 50})
        return ModelResponse(parts=[call if made < _STEPS else TextPart("done")])

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policies.yaml"
        path.write_text(_POLICY)
        guard = ToolGuard(path)
    agents = [Agent(FunctionModel(say), tools=[refund]) for _ in range(2)]
    guarded(agents[1], guard)
    found: tuple[list[float], list[float]] = ([], [])
    for at in range(calls // _STEPS + 2):
        for agent, seconds in zip(agents, found, strict=True):
            asyncio.run(agent.run("", conversation_id=f"c{at % 10}"))
            seconds += taken
            taken.clear()
    return found[0][2 * _STEPS :], found[1][2 * _STEPS :]  # the first ones load and compile


_STEPS = 10
