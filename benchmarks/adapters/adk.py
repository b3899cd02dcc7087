"""The cost of a guard per tool call in Google ADK, through the host's own step from a function call to its response."""

from __future__ import annotations

import asyncio
import time
from typing import Any


def measure(calls: int) -> tuple[list[float], list[float]]:
    """Seconds of each call, alternating unguarded and guarded, in sessions that grow by ten calls."""
    return asyncio.run(_measured(calls))


async def _measured(calls: int) -> tuple[list[float], list[float]]:
    from benchmarks.limit_guard import limit_guard
    from guardagent.frameworks.adk import GuardPlugin

    plugin = GuardPlugin(limit_guard())
    taken: tuple[list[float], list[float]] = ([], [])
    for at in range(calls + 20):
        if at % 10 == 0:
            contexts = [await _context(plugins, f"c{at}") for plugins in ([], [plugin])]
        for context, seconds in zip(contexts, taken, strict=True):
            seconds.append(await _called(context, f"W{at}"))
    return taken[0][20:], taken[1][20:]  # the first ones load and compile


async def _context(plugins: list[Any], name: str) -> Any:
    from google.adk.agents import LlmAgent
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.agents.run_config import RunConfig
    from google.adk.plugins.plugin_manager import PluginManager
    from google.adk.sessions import InMemorySessionService

    async def refund(order_id: str, amount: int = 500) -> str:
        return f"{order_id} {amount}"

    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="shop", user_id="ann", session_id=name)
    agent = LlmAgent(name="clerk", tools=[refund])
    return InvocationContext(
        session_service=sessions,
        invocation_id=name,
        agent=agent,
        session=session,
        run_config=RunConfig(),
        plugin_manager=PluginManager(plugins),
    )


async def _called(context: Any, order: str) -> float:
    from google.adk.events.event import Event
    from google.adk.flows.llm_flows.functions import handle_function_calls_async
    from google.genai import types

    call = types.FunctionCall(id=f"call-{order}", name="refund", args={"order_id": order, "amount": 50})
    event = Event(author="clerk", content=types.Content(role="model", parts=[types.Part(function_call=call)]))
    await context.session_service.append_event(context.session, event)
    tools = {canonical_tool.name: canonical_tool for canonical_tool in await context.agent.canonical_tools()}
    begun = time.perf_counter()
    response = await handle_function_calls_async(context, event, tools)
    taken = time.perf_counter() - begun
    if response.get_function_responses()[0].response != {"result": f"{order} 50"}:
        raise SystemExit(f"a call that is in order was not made: {response.content}")
    await context.session_service.append_event(context.session, response)
    return taken
