"""LlamaIndex conforms: `guarded(agent, guard)`, with agents and workflows that are built for each run."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

pytest.importorskip("llama_index.core.agent.workflow")

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from workflows.events import InputRequiredEvent

from guardagent.enforcement import Approval
from guardagent.frameworks.llama_index import WorkflowHalted, answer, conversation, guarded
from guardagent.testing.conformance import Call, Operator, Process, Reply, Script, Shop, SubAgent
from tests.frameworks.conforms import ProcessHost, conformance_test, page_test, server_conformance_test, team_of
from tests.frameworks.llama_index.declarations import CANNOT
from tests.frameworks.llama_index.scripted_llm import ScriptedLLM

mcp = pytest.importorskip("llama_index.tools.mcp")
mcp_types = pytest.importorskip("mcp.types")
_ids = itertools.count(1)


@dataclass(frozen=True)
class WaitingRun:
    """A run that waits for a reviewer and was stored, and the guard's request."""

    conversation: str
    team: Any
    key: str
    event: InputRequiredEvent


HAND_OVER = [[("handoff", {"to_agent": "second", "reason": "he knows"})]]


class LlamaProcess(Process):
    """A process; contexts and the scripts of models outlive it, but its guard does not."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.guard = operator, operator.guard()
        self.server = Served(operator.shop)

    async def run(
        self,
        script: Script,
        *,
        conversation: str = "c1",
        history: Sequence[tuple[Call, str]] = (),
        stream: bool = False,
    ) -> Reply:
        team = team_of(script, ScriptedLLM, HAND_OVER)
        agent = await self._agent(team)
        shown = [message for call, output in history for message in _shown(call, output)]
        return await self._go_on(agent, team, conversation, stream=stream, user_msg="please", chat_history=shown)

    async def answer(self, question: WaitingRun, approval: Approval) -> Reply:
        agent = await self._agent(question.team)
        ctx = Context.from_dict(agent, json.loads(self.operator.kept[question.key]))
        shown = replace(approval, of=approval.of or question.event.digest)
        return await self._go_on(agent, question.team, question.conversation, decision=(question.event, shown), ctx=ctx)

    async def swap(self, question: WaitingRun, args: Mapping[str, Any]) -> None:
        stored = self.operator.kept[question.key]
        self.operator.kept[question.key] = stored.replace('\\"amount\\": 500', '\\"amount\\": 900').replace(
            '"amount": 500', '"amount": 900'
        )
        assert stored != self.operator.kept[question.key]

    async def add(self, tool: str) -> None:
        self.server.tools.append(tool)

    def model_input(self) -> str:
        return str(self.team.model.read[-1])

    async def _go_on(
        self, agent: Any, team: Any, name: str, *, stream: bool = False, decision: Any = None, **options: Any
    ) -> Reply:
        self.team, shown, answered = team, "", False
        with conversation(name):
            handler = agent.run(**options)
        if decision is not None:
            await handler.ctx.store.set("memory", Memory.from_defaults())  # the host does not store it with the context
        try:
            async for event in handler.stream_events():
                shown += f"{event} {event.model_dump()}" if stream else ""
                if decision is not None and not answered:
                    answer(handler.ctx, *decision)
                    answered = True
                elif isinstance(event, InputRequiredEvent):
                    return await self._stored(handler, WaitingRun(name, team, f"context {next(_ids)}", event))
            return Reply(shown + str(await handler))
        except WorkflowHalted:
            return Reply(shown)
        except asyncio.CancelledError:
            await handler.cancel_run()
            raise

    async def _stored(self, handler: Any, question: WaitingRun) -> Reply:
        await asyncio.sleep(0.3)  # the other calls of the message end
        self.operator.kept[question.key] = json.dumps(handler.ctx.to_dict())
        await handler.cancel_run()
        return Reply(question=question)

    # --- agents

    async def _agent(self, team: Any) -> Any:
        first = await self._built("first", *team)
        if team[1] is None:
            return guarded(first, self.guard)
        second = await self._built("second", *team[1])
        return guarded(AgentWorkflow(agents=[first, second], root_agent="first"), self.guard)

    async def _built(self, name: str, llm: Any, second: Any, inner: list[tuple[SubAgent, Any]]) -> Any:
        direct = self.operator.direct
        tools = [
            FunctionTool.from_defaults(async_fn=self.operator.shop.tool(tool), return_direct=tool in direct)
            for tool in self.operator.tools
        ]
        for at, (sub_agent, team) in enumerate(inner, 1):
            tools.append(self._delegate(sub_agent, await self._agent(team), at))
        tools += await mcp.McpToolSpec(client=self.server).to_tool_list_async()
        return FunctionAgent(name=name, description=name, tools=tools, llm=llm)

    def _delegate(self, sub_agent: SubAgent, agent: Any, number: int) -> Any:
        async def work() -> str:
            with conversation("apart"):
                return str(await agent.run("please"))

        async def delegate() -> str:
            return str(await sub_agent.run(work()))

        return FunctionTool.from_defaults(async_fn=delegate, name=f"delegate_{number}", description="delegates")


class Served:
    """The client of an MCP server that has no tools at the start."""

    command_or_url = "http://shop.example/mcp"

    def __init__(self, shop: Shop) -> None:
        self.shop, self.tools = shop, list[str]()

    async def list_tools(self) -> Any:
        properties = {"order_id": {"type": "string"}, "amount": {"type": "integer"}}
        schema = {"type": "object", "properties": properties}
        return mcp_types.ListToolsResult(tools=[mcp_types.Tool(name=tool, inputSchema=schema) for tool in self.tools])

    async def call_tool(self, tool_name: str, arguments: Any) -> Any:
        reply = await self.shop.tool(tool_name)(**(arguments or {}))
        return mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text=reply)])


def _shown(call: Call, output: str) -> list[Any]:
    shown = {"tool_call_id": f"shown_{next(_ids)}"}
    return [
        ChatMessage(role="assistant", content=f"I call {call[0]}."),
        ChatMessage(role="tool", content=output, additional_kwargs=shown),
    ]


HOSTS = {"agent": ProcessHost("LlamaIndex", CANNOT["LlamaIndex"], LlamaProcess)}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test(HOSTS)
test_the_page_does_what_it_says = page_test("llama-index", "llama_index.llms.openai")
