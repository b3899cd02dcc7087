"""The cost of a guard per tool call in smolagents, of a call in a message and of one in generated code."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Taken = tuple[list[float], list[float]]


def _measured(calls: int, step: Callable[[Any, int], Any], made: Callable[..., Any]) -> Taken:
    """Seconds per call, alternating unguarded and guarded, from the host's call to the tool's output."""
    from smolagents import LogLevel, Model, tool

    from benchmarks.limit_guard import limit_guard
    from guardagent.frameworks.smolagents import conversation, guarded

    def refund(order_id: str, amount: int = 500) -> str:
        """Pays.

        Args:
            order_id: the order.
            amount: the amount.
        """
        return f"{order_id} {amount}"

    guard = limit_guard()
    plain, with_guard = (made(tools=[tool(refund)], model=Model(), verbosity_level=LogLevel.OFF) for _ in range(2))
    agents, taken = (plain, guarded(with_guard, guard)), (list[float](), list[float]())
    for agent in agents:
        if hasattr(agent, "python_executor"):
            agent.python_executor.send_tools(agent.tools)
    for at in range(calls + 20):
        for agent, seconds in zip(agents, taken, strict=True):
            with conversation(f"c{at % 10}"):
                started = time.perf_counter()
                output = step(agent, at)
                seconds.append(time.perf_counter() - started)
            if str(output) != f"W{at} 50":
                raise SystemExit(f"a call that is in order was not made: {output}")
    return taken[0][20:], taken[1][20:]  # the first ones load and compile


def measure_calls(calls: int) -> Taken:
    from smolagents import ToolCallingAgent

    def step(agent: Any, at: int) -> Any:
        return agent.execute_tool_call("refund", {"order_id": f"W{at}", "amount": 50})

    return _measured(calls, step, ToolCallingAgent)


def measure_code(calls: int) -> Taken:
    from smolagents import CodeAgent

    def step(agent: Any, at: int) -> Any:
        return agent.python_executor(f"refund('W{at}', 50)").output

    return _measured(calls, step, CodeAgent)


MEASURES = {"smolagents": measure_calls, "smolagents, in code": measure_code}
