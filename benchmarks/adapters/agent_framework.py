"""The cost of a guard per tool call in the Microsoft Agent Framework: from the model's message to its next request."""

from __future__ import annotations

import asyncio
import time
from typing import Any


def measure(calls: int) -> tuple[list[float], list[float]]:
    """Seconds of each call, alternating unguarded and guarded, with the loop and the middlewares of the host."""
    return asyncio.run(_measured(calls))


async def _measured(calls: int) -> tuple[list[float], list[float]]:
    from agent_framework import FunctionTool

    from benchmarks.limit_guard import limit_guard
    from guardagent.frameworks.agent_framework import conversation, guarded

    async def refund(order_id: str, amount: int = 500) -> str:
        return f"{order_id} {amount}"

    guard = limit_guard()
    tools = [FunctionTool(name="refund", func=refund)]
    clients = [_client(), guarded(_client(), guard)]
    taken: tuple[list[float], list[float]] = ([], [])
    for at in range(calls + 20):
        for client, seconds in zip(clients, taken, strict=True):
            with conversation(f"c{at % 10}"):
                seconds.append(await _called(client, tools, f"W{at}"))
    return taken[0][20:], taken[1][20:]  # the first ones load and compile


async def _called(client: Any, tools: list[Any], order: str) -> float:
    from agent_framework import Message

    response = await client.get_response([Message(role="user", contents=[order])], options={"tools": tools})
    result = response.messages[1].contents[0].result
    if result != f"{order} 50":
        raise SystemExit(f"a call that is in order was not made: {result}")
    return client.times[-1] - client.times[-2]  # type: ignore[no-any-return]


def _client() -> Any:
    """Returns a client whose model calls the tool, and then answers; `times` has the ends of its messages."""
    from agent_framework import (
        BaseChatClient,
        ChatMiddlewareLayer,
        ChatResponse,
        Content,
        FunctionInvocationLayer,
        Message,
    )

    class CallingClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
        def __init__(self) -> None:
            super().__init__()
            self.times: list[float] = []

        async def _inner_get_response(self, *, messages: Any, **_options: Any) -> Any:
            order, first = messages[0].text, len(messages) == 1
            args = {"order_id": order, "amount": 50}
            call = Content.from_function_call(call_id=f"call {order}", name="refund", arguments=args)
            response = ChatResponse(messages=[Message(role="assistant", contents=[call if first else "done"])])
            self.times.append(time.perf_counter())
            return response

    return CallingClient()
