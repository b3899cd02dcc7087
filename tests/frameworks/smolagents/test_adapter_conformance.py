"""smolagents conforms: `guarded(agent, guard)`, for agents that call tools in messages and in generated code."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Sequence
from typing import Any, get_args

import pytest

pytest.importorskip("smolagents")

from smolagents import Tool, tool
from smolagents.memory import ActionStep, TaskStep, Timing, ToolCall

from guardagent.enforcement import Approval
from guardagent.frameworks.smolagents import AgentHalted, conversation, guarded
from guardagent.testing.conformance import Call, Desk, Operator, Reply, Script, Shop, SubAgent, as_object
from tests.docs.host_page import REFUNDS
from tests.frameworks.conforms import DeskProcess, ProcessHost, conformance_test, page_test, server_conformance_test
from tests.frameworks.smolagents.agents import Kind, ScriptedModel, agent_of
from tests.frameworks.smolagents.declarations import CANNOT

_ids = itertools.count(1)


class SmolagentsProcess(DeskProcess):
    def __init__(self, operator: Operator, kind: Kind) -> None:
        self.operator, self.kind, self.tools = operator, kind, list(operator.tools)
        self.guard = operator.guard(approver=self._ask)
        self._loop = asyncio.get_running_loop()

    async def talk(
        self, script: Script, name: str, history: Sequence[tuple[Call, str]] = (), *, stream: bool = False
    ) -> Reply:
        return await asyncio.to_thread(self._talk, script, name, history, stream=stream)

    def _ask(self, request: Any) -> Approval:
        """Asks at the desk of the run, from the thread of its agent."""
        return asyncio.run_coroutine_threadsafe(Desk.ask(request), self._loop).result()

    def model_input(self) -> str:
        return str(self.model.read[-1])

    def _talk(self, script: Script, name: str, history: Sequence[tuple[Call, str]] = (), *, stream: bool) -> Reply:
        agent, shown = self._agent(script, stream=stream), ""
        agent.memory.steps += _shown(history)
        try:
            with conversation(name):
                result = agent.run("please", reset=False, stream=stream)
                if not stream:
                    return Reply(str(result))
            for event in result:
                shown += str(event)
        except AgentHalted:
            pass
        return Reply(shown)

    def _agent(self, script: Script, *, stream: bool = False, **options: Any) -> Any:
        turns: list[Any] = []
        tools, managed = [shop_tools(self.operator.shop)[tool] for tool in self.tools], []
        for turn in script:
            if not isinstance(turn, SubAgent):
                turns.append(self._spoken(turn))
                continue
            name = f"delegate_{len(turns)}"
            inner = self._agent(turn.script, name=name, description="delegates")
            managed += [inner] if turn.where == "task" else []
            tools += [] if turn.where == "task" else [_delegate(turn, inner, name)]
            turns.append([(name, {"task": "please"})])
        model = ScriptedModel(self.kind, turns)
        self.model = model
        agent = agent_of(self.kind, tools, model, managed_agents=managed, stream_outputs=stream, **options)
        return guarded(agent, self.guard)

    def _spoken(self, turn: Any) -> Any:
        if self.kind == "code" and not isinstance(turn, str) and turn[0][0] in self.operator.direct:
            name, args = turn[0]
            return f"<code>\nfinal_answer({name}(**{as_object(args)!r}))\n</code>"
        return turn


def _delegate(sub_agent: SubAgent, inner: Any, name: str) -> Tool:
    """Returns a tool that runs an agent by hand, under its own id."""

    @tool
    def delegate(task: str) -> str:
        """Delegates.

        Args:
            task: the task.
        """

        async def work() -> str:
            with conversation("apart"):
                return str(inner.run(task))

        return str(asyncio.run(sub_agent.run(work())))

    delegate.name = name
    return delegate


def shop_tools(shop: Shop) -> dict[str, Any]:
    """Returns the shop's tools, which run in the agent's thread."""

    @tool
    def authenticate(email: str, code: str = "right") -> Any:
        """Lets a customer in.

        Args:
            email: the address.
            code: the code.
        """
        return asyncio.run(shop.authenticate(email, code))

    @tool
    def refund(order_id: str, amount: int = 500) -> str:
        """Pays an order back.

        Args:
            order_id: the order.
            amount: the amount.
        """
        return asyncio.run(shop.refund(order_id, amount))

    @tool
    def get_order(order_id: str) -> str:
        """Looks an order up.

        Args:
            order_id: the order.
        """
        return asyncio.run(shop.get_order(order_id))

    return {named_tool.name: named_tool for named_tool in (authenticate, refund, get_order)}


def _shown(history: Sequence[tuple[Call, str]]) -> list[Any]:
    steps: list[Any] = [TaskStep("before")] if history else []
    for (name, args), output in history:
        call = ToolCall(name, args, f"shown_{next(_ids)}")
        steps.append(ActionStep(1, Timing(0.0, 1.0), tool_calls=[call], observations=output))
    return steps


def host(kind: Kind) -> ProcessHost:
    no_ids = {"repeated ids": "cannot occur because a call in code has no id"} if kind == "code" else {}
    return ProcessHost("smolagents", CANNOT["smolagents"] | no_ids, functools.partial(SmolagentsProcess, kind=kind))


HOSTS = {kind: host(kind) for kind in get_args(Kind)}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test(HOSTS)
test_the_page_does_what_it_says = page_test(
    "smolagents", "smolagents", "openai", turns=[*REFUNDS[:2], [("final_answer", {"answer": "You get 50 back."})]]
)
