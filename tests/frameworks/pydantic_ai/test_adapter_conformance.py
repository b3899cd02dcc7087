"""Pydantic AI conforms: `guarded(agent, guard)`, with agents that are built for each run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest

pytest.importorskip("pydantic_ai.models.function")

from pydantic_ai import Agent, DeferredToolRequests, Tool, ToolOutput, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from guardagent.enforcement import Approval
from guardagent.frameworks.pydantic_ai import AgentRunHalted, answer_requests, conversation, guarded
from guardagent.testing.conformance import Call, Operator, Process, Reply, Script, SubAgent, as_object
from tests.frameworks.conforms import ProcessHost, conformance_test, page_test, server_conformance_test, team_of
from tests.frameworks.pydantic_ai.declarations import CANNOT
from tests.frameworks.pydantic_ai.scripted_model import ScriptedModel

_ids = itertools.count(1)
Stream = Literal["events", "stream"]


@dataclass(frozen=True)
class WaitingRun:
    """A run that ended with requests to a reviewer. Its messages are stored."""

    conversation: str
    team: Any
    key: str
    requests: DeferredToolRequests


class PydanticProcess(Process):
    """A process; messages and the scripts of models outlive it, but its guard does not."""

    def __init__(self, operator: Operator, stream: Stream, late: bool) -> None:
        self.operator, self.guard, self._stream = operator, operator.guard(), stream
        self.server = pytest.importorskip("mcp.server.mcpserver").MCPServer("shop") if late else None

    async def run(
        self,
        script: Script,
        *,
        conversation: str = "c1",
        history: Sequence[tuple[Call, str]] = (),
        stream: bool = False,
    ) -> Reply:
        team = team_of(script, ScriptedModel, [[("hand_over", {"reason": "he knows"})]])
        shown = [message for call, output in history for message in _shown(call, output)]
        return await self._go_on(team, conversation, stream=stream, user_prompt="please", message_history=shown)

    async def answer(self, question: WaitingRun, approval: Approval) -> Reply:
        decisions = {
            call.tool_call_id: approval
            if approval.of
            else replace(approval, of=question.requests.metadata[call.tool_call_id]["approval"]["digest"])
            for call in question.requests.approvals
        }
        return await self._go_on(
            question.team,
            question.conversation,
            message_history=ModelMessagesTypeAdapter.validate_json(self.operator.kept[question.key]),
            deferred_tool_results=answer_requests(question.requests, decisions),
        )

    async def swap(self, question: WaitingRun, args: Mapping[str, Any]) -> None:
        stored = self.operator.kept[question.key]
        self.operator.kept[question.key] = stored.replace(b'"amount":500', b'"amount":900')
        assert stored != self.operator.kept[question.key]

    async def add(self, tool: str) -> None:
        assert self.server is not None
        self.server.add_tool(self.operator.shop.tool(tool), name=tool)

    def model_input(self) -> str:
        return str(self.team.model.read[-1])

    async def _go_on(self, team: Any, name: str, *, stream: bool = False, **options: Any) -> Reply:
        self.team, agent = team, self._agent(team)
        try:
            if stream and self._stream == "events":
                return await self._events(agent, name, options)
            if stream:
                return await self._streamed(agent, name, options)
            result = await agent.run(conversation_id=name, **options)
        except (AgentRunHalted, UnexpectedModelBehavior):
            return Reply()
        if not isinstance(result.output, DeferredToolRequests):
            return Reply(f"{result.output} {result.all_messages()[-1]}")
        key = f"messages {next(_ids)}"
        self.operator.kept[key] = result.all_messages_json()
        return Reply(question=WaitingRun(name, team, key, result.output))

    async def _events(self, agent: Any, name: str, options: Any) -> Reply:
        shown = ""
        async with agent.run_stream_events(conversation_id=name, **options) as events:
            async for event in events:
                shown += str(event)
        return Reply(shown)

    async def _streamed(self, agent: Any, name: str, options: Any) -> Reply:
        async with agent.run_stream(conversation_id=name, **options) as result:
            shown = "".join([text async for text in result.stream_text(delta=True)])
        return Reply(f"{shown} {result.all_messages()}")

    # --- agents

    def _agent(self, team: Any) -> Any:
        model, second, inner = team
        direct = self.operator.direct
        tools = [self.operator.shop.tool(tool) for tool in self.operator.tools if tool not in direct]
        delegates = [self._delegate(sub_agent, self._agent(team), at) for at, (sub_agent, team) in enumerate(inner, 1)]
        outputs = [
            ToolOutput(self.operator.shop.tool(tool), name=tool) for tool in self.operator.tools if tool in direct
        ]
        if second is not None:
            outputs.append(ToolOutput(self._hand_over(self._agent(second)), name="hand_over"))
        toolsets = []
        if self.server is not None:
            toolsets.append(pytest.importorskip("pydantic_ai.mcp").MCPToolset(self.server, id="shop"))
        output_type: Any = [str, DeferredToolRequests, *outputs]
        agent = Agent(model, tools=[*tools, *delegates], toolsets=toolsets, output_type=output_type, retries=5)
        return guarded(agent, self.guard)

    def _hand_over(self, agent: Any) -> Any:
        async def hand_over(reason: str) -> str:
            return str((await agent.run(reason)).output)

        return hand_over

    def _delegate(self, sub_agent: SubAgent, agent: Any, number: int) -> Any:
        async def work() -> str:
            with conversation("apart"):
                return str((await agent.run("please", conversation_id="apart")).output)

        async def delegate() -> str:
            return str(await sub_agent.run(work()))

        return Tool(delegate, name=f"delegate_{number}", takes_ctx=False)


def _shown(call: Call, output: str) -> list[Any]:
    name, call_id = call[0], f"shown_{next(_ids)}"
    return [
        ModelRequest(parts=[UserPromptPart("log me in")]),
        ModelResponse(parts=[ToolCallPart(name, as_object(call[1]), tool_call_id=call_id)]),
        ModelRequest(parts=[ToolReturnPart(name, output, tool_call_id=call_id)]),
        ModelResponse(parts=[]),
    ]


def host(scenario: str, stream: Stream = "events") -> ProcessHost:
    late = scenario.startswith("late tools")
    return ProcessHost("Pydantic AI", CANNOT["Pydantic AI"], lambda operator: PydanticProcess(operator, stream, late))


test_conformance = conformance_test({"agent": host})
test_conformance_with_a_server = server_conformance_test({"agent": host})
test_conformance_of_run_stream = conformance_test({"stream": lambda scenario: host(scenario, "stream")}, ["streaming"])
test_the_page_does_what_it_says = page_test("pydantic-ai", "pydantic_ai.models.openai")
