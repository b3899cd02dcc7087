"""The cost of a guard per tool call in CrewAI, of a native call and of one in the text of ReAct."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

Taken = tuple[list[float], list[float]]


def _measured(calls: int, step: Callable[[Any, int], str], *, native: bool) -> Taken:
    """Seconds per call, alternating unguarded and guarded, from the host's call to the tool's output."""
    for name in ("CREWAI_DISABLE_TELEMETRY", "OTEL_SDK_DISABLED", "CREWAI_TESTING"):
        os.environ.setdefault(name, "true")
    from crewai import Agent, BaseLLM
    from crewai.events.event_bus import crewai_event_bus
    from crewai.events.event_listener import event_listener
    from crewai.tools import tool

    from benchmarks.limit_guard import limit_guard
    from guardagent.frameworks.crewai import guarded
    from guardagent.frameworks.crewai.adapter.runs import CrewRun, CrewScope, enter

    class Silent(BaseLLM):
        def call(self, *_: Any, **__: Any) -> str:
            return "done"

        def supports_function_calling(self) -> bool:
            return native

    @tool
    def refund(order_id: str, amount: int = 500) -> str:
        """Pays."""
        return f"{order_id} {amount}"

    event_listener.formatter.verbose = False  # it would draw each call
    guard = limit_guard()
    executors, taken = [], (list[float](), list[float]())
    for with_guard in (False, True):
        agent = Agent(role="r", goal="g", backstory="b", tools=[refund], llm=Silent(model="silent"))
        if with_guard:
            guarded(agent, guard)
        agent.create_agent_executor()
        executor = agent.agent_executor
        executor._setup_native_tools()  # noqa: SLF001 - as at the start of a run
        executors.append(executor)
    for at in range(calls + 20):
        for executor, seconds in zip(executors, taken, strict=True):
            with enter(CrewScope(f"c{at % 10}", CrewRun(executor=executor))):  # as in a run
                started = time.perf_counter()
                output = step(executor, at)
                seconds.append(time.perf_counter() - started)
            crewai_event_bus.flush()  # its listeners run in threads
            if output != f"W{at} 50":
                raise SystemExit(f"a call that is in order was not made: {output}")
    return taken[0][20:], taken[1][20:]  # the first ones load and compile


def measure_native(calls: int) -> Taken:
    def step(executor: Any, at: int) -> str:
        call = {"id": f"call_{at}", "function": {"name": "refund", "arguments": _arguments(at)}}
        return str(executor._execute_single_native_tool_call(call)["result"])  # noqa: SLF001 - as in a run

    return _measured(calls, step, native=True)


def measure_text(calls: int) -> Taken:
    def step(executor: Any, at: int) -> str:
        from crewai.agents.parser import AgentAction
        from crewai.utilities.tool_utils import execute_tool_and_check_finality

        text = f"Thought: I act\nAction: refund\nAction Input: {_arguments(at)}"
        action = AgentAction(thought="I act", tool="refund", tool_input=_arguments(at), text=text)
        return str(execute_tool_and_check_finality(action, executor.tools, agent=executor.agent).result)

    return _measured(calls, step, native=False)


def _arguments(at: int) -> str:
    return json.dumps({"order_id": f"W{at}", "amount": 50})


MEASURES = {"crewai": measure_native, "crewai, in text": measure_text}
