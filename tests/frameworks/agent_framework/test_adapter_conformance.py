"""The Microsoft Agent Framework conforms: a guarded agent, also in a hand-off, and a guarded chat client."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

pytest.importorskip("agent_framework")
pytest.importorskip("agent_framework_orchestrations")
pytest.importorskip("mcp")

from agent_framework import (
    Agent,
    AgentSession,
    Content,
    FunctionTool,
    Message,
    MiddlewareTermination,
    function_middleware,
)
from agent_framework.orchestrations import HandoffBuilder

from guardagent.enforcement import Approval
from guardagent.frameworks.agent_framework import AgentFrameworkHalted, answer, conversation, guarded
from guardagent.testing.conformance import Call, Operator, Process, Reply, Script, SubAgent
from tests.frameworks.agent_framework.declarations import CANNOT
from tests.frameworks.agent_framework.scripted_client import ScriptedClient
from tests.frameworks.agent_framework.shop_server import ShopServer
from tests.frameworks.conforms import ProcessHost, conformance_test, page_test, server_conformance_test, team_of

_ids = itertools.count(1)


@dataclass(frozen=True)
class WaitingRun:
    """A run that waits for a reviewer: its session is stored, and the guard's request was shown."""

    conversation: str
    team: Any
    key: str
    request: Content


class AgentFrameworkProcess(Process):
    """A process; sessions and the scripts of models outlive it, but its guard does not.

    Attributes:
        at_first: the tools of its MCP server at the start.
    """

    at_first: tuple[str, ...] = ()

    def __init__(self, operator: Operator) -> None:
        self.operator, self.guard = operator, operator.guard()
        self.server = ShopServer(operator.shop.tool, *self.at_first)

    async def run(
        self,
        script: Script,
        *,
        conversation: str = "c1",
        history: Sequence[tuple[Call, str]] = (),
        stream: bool = False,
    ) -> Reply:
        team = team_of(script, ScriptedClient, [[("handoff_to_second", {})]])
        shown = [message for call, output in history for message in _shown(call, output)]
        messages = [*shown, Message(role="user", contents=["please"])]
        if team[1] is not None:
            return await self._handed_over(team, conversation)
        session = AgentSession(session_id=conversation)
        return await self._go_on(self._agent(team), team, session, messages, stream=stream)

    async def answer(self, question: WaitingRun, approval: Approval) -> Reply:
        session = AgentSession.from_dict(json.loads(self.operator.kept[question.key]))
        named = replace(
            approval, of=approval.of or question.request.additional_properties["guardagent_request"]["digest"]
        )
        messages = [Message(role="user", contents=[answer(question.request, named)])]
        return await self._go_on(self._agent(question.team), question.team, session, messages)

    async def swap(self, question: WaitingRun, args: Mapping[str, Any]) -> None:
        stored = self.operator.kept[question.key]
        self.operator.kept[question.key] = stored.replace('\\"amount\\": 500', '\\"amount\\": 900').replace(
            '"amount": 500', '"amount": 900'
        )
        assert stored != self.operator.kept[question.key]

    async def add(self, tool: str) -> None:
        self.server.names.append(tool)

    def model_input(self) -> str:
        return str([message.to_dict() for message in self.team.model.read[-1]])

    async def _go_on(
        self, agent: Any, team: Any, session: AgentSession, messages: list[Message], *, stream: bool = False
    ) -> Reply:
        self.team, shown = team, ""
        try:
            running = agent.run(messages, session=session, stream=stream)
            if stream:
                async for update in running:
                    shown += f"{update.text}{update.to_dict()}"
                response = await running.get_final_response()
            else:
                response = await running
        except AgentFrameworkHalted:
            return Reply(shown)
        finally:
            await agent.close()
        requests = [
            input_request
            for input_request in response.user_input_requests
            if input_request.type == "function_approval_request"
        ]
        if requests:
            key = f"session {next(_ids)}"
            self.operator.kept[key] = json.dumps(session.to_dict())
            return Reply(question=WaitingRun(session.session_id, team, key, requests[0]))
        return Reply(shown + _read(response))

    async def _handed_over(self, team: Any, name: str) -> Reply:
        first, second = self._agent(team, "first"), self._agent(team[1], "second")
        builder = HandoffBuilder(participants=[first, second]).with_start_agent(first)
        with conversation(name):
            outputs = (await builder.build().run("please")).get_outputs()
        return Reply(str(outputs))

    # --- agents

    def _agent(self, team: Any, name: str = "clerk") -> Any:
        client, second, inner = team
        tools: list[Any] = [_tool(tool, self.operator.shop.tool(tool)) for tool in self.operator.tools]
        for at, (sub_agent, own) in enumerate(inner, 1):
            tools.append(self._delegate(sub_agent, self._agent(own), at))
        agent = Agent(
            client=client,
            id=name,
            name=name,
            description=name,
            tools=[*tools, self.server.tool()],
            middleware=[_direct(self.operator.direct), _retried(self.operator.retries)],
            require_per_service_call_history_persistence=second is not None or name == "second",
        )
        return self._attached(agent)

    def _attached(self, agent: Any) -> Any:
        return guarded(agent, self.guard)

    def _delegate(self, sub_agent: SubAgent, agent: Any, number: int) -> Any:
        async def work() -> str:
            with conversation("apart"):
                return str((await agent.run("please", session=AgentSession(session_id="apart"))).text)

        async def delegate() -> str:
            return str(await sub_agent.run(work()))

        return FunctionTool(name=f"delegate_{number}", description="delegates", func=delegate)


class ClientProcess(AgentFrameworkProcess):
    """The guard is attached to the chat client, before there is an agent."""

    at_first = ("catalog",)  # the client does not see a server without tools

    def _attached(self, agent: Any) -> Any:
        agent.client = guarded(agent.client, self.guard)
        return agent


def _tool(name: str, function: Any) -> FunctionTool:
    return FunctionTool(name=name, description=name, func=function)


def _direct(names: frozenset[str]) -> Any:
    """Returns a middleware that makes the result of some tools the answer, as programs of this host do."""

    @function_middleware
    async def ends(context: Any, call_next: Any) -> None:
        await call_next()
        if context.function.name in names:
            raise MiddlewareTermination(result=context.result)

    return ends


def _retried(retries: int) -> Any:
    """Returns a middleware that repeats a call which raised an error."""

    @function_middleware
    async def repeats(context: Any, call_next: Any) -> None:
        for left in range(retries, -1, -1):
            try:
                await call_next()
                break
            except (TimeoutError, ConnectionError):
                if not left:
                    raise

    return repeats


def _read(response: Any) -> str:
    """Returns what a program shows: the text, or the result at which the run ended."""
    last = response.messages[-1] if response.messages else None
    return str(response.text or (last is not None and last.contents[0].result) or "")


def _shown(call: Call, output: str) -> list[Message]:
    id = f"shown_{next(_ids)}"  # noqa: A001
    proposed = Content.from_function_call(call_id=id, name=call[0], arguments=json.dumps(call[1]))
    result = Content.from_function_result(call_id=id, result=output)
    return [Message(role="assistant", contents=[proposed]), Message(role="tool", contents=[result])]


HOSTS = {
    kind.__name__: ProcessHost("Agent Framework", CANNOT["Agent Framework"], kind)
    for kind in (AgentFrameworkProcess, ClientProcess)
}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test({"agent": HOSTS["AgentFrameworkProcess"]})
test_the_page_does_what_it_says = page_test("agent-framework", "agent_framework_openai")
