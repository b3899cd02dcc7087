"""The OpenAI Agents SDK conforms: `guarded(agent, guard)`, with an agent built for each run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

pytest.importorskip("agents")

from agents import (
    Agent,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunContextWrapper,
    RunState,
    StopAtTools,
    function_tool,
)
from agents.mcp import MCPServer
from agents.testing import ScriptedModel, assistant_message, function_call
from mcp.types import CallToolResult, TextContent, Tool

from guardagent.enforcement import Approval
from guardagent.frameworks.openai_agents import GuardedRunner, RunHalted, answer, guarded, request
from guardagent.testing.conformance import Call, Operator, Process, Reply, Script, Shop, SubAgent, call_ids, written
from tests.frameworks.conforms import ProcessHost, Team, conformance_test, server_conformance_test, team_of
from tests.frameworks.openai_agents.declarations import CANNOT

_ids = itertools.count(1)
CONFIG = RunConfig(tracing_disabled=True)


@dataclass(frozen=True)
class WaitingRun:
    """An interrupted run whose state was stored, and the digest of the shown call."""

    conversation: str
    team: Any
    key: str
    shown: str


class OpenAIProcess(Process):
    """A process; states, sessions and model scripts outlive it, but its guard does not."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.guard = operator, operator.guard()
        self.server = Served(operator.shop)
        self.states: dict[str, str] = operator.kept

    async def run(
        self,
        script: Script,
        *,
        conversation: str = "c1",
        history: Sequence[tuple[Call, str]] = (),
        stream: bool = False,
    ) -> Reply:
        reply: list[Any] = [{"role": "user", "content": "please"}]
        for call, output in history:
            made = function_call(call[0], json.dumps(call[1]), call_id=f"shown_{next(_ids)}")
            reply += [made, {"type": "function_call_output", "call_id": made.call_id, "output": output}]
        return await self._go_on(reply, conversation, self._team(script), stream=stream)

    async def answer(self, question: WaitingRun, approval: Approval) -> Reply:
        agent = self._agent(question.team)
        context = RunContextWrapper({"conversation_id": question.conversation})
        state = await RunState.from_string(agent, self.states[question.key], context_override=context)
        answer(state, state.get_interruptions()[0], replace(approval, of=approval.of or question.shown))
        return await self._go_on(state, question.conversation, question.team)

    async def swap(self, question: WaitingRun, args: Mapping[str, Any]) -> None:
        state, new = json.loads(self.states[question.key]), json.dumps(args)
        self.states[question.key] = json.dumps(state, default=str).replace(
            _escaped('"amount": 500'), _escaped(new[1:-1])
        )
        assert _escaped('"amount": 900') in self.states[question.key]

    async def add(self, tool: str) -> None:
        self.server.tools.append(tool)

    def model_input(self) -> str:
        return self.read

    async def _go_on(self, reply: Any, conversation: str, team: Any, *, stream: bool = False) -> Reply:
        agent, shown = self._agent(team), ""
        options = {"context": {"conversation_id": conversation}, "run_config": CONFIG}
        try:
            if stream:
                streamed = GuardedRunner.run_streamed(agent, reply, **options)
                async for event in streamed.stream_events():
                    shown += str(event)
                return Reply(shown)
            result = await GuardedRunner.run(agent, reply, **options)
        except (OutputGuardrailTripwireTriggered, RunHalted):
            return Reply(shown)
        self.read = str([item.output for item in result.new_items if item.type == "tool_call_output_item"])
        if not result.interruptions:
            return Reply(str(result.final_output))
        key = f"state {next(_ids)}"
        self.states[key] = result.to_state().to_string()
        return Reply(question=WaitingRun(conversation, team, key, request(result.interruptions[0]).digest))

    # --- agents

    def _team(self, script: Script) -> Team:
        return team_of(script, _model, [[("transfer_to_second", {})]], {"input": "x"})

    def _agent(self, team: Any) -> Any:
        return guarded(self._built("first", *team), self.guard)

    def _built(self, name: str, model: Any, second: Any, inner: list[tuple[SubAgent, Any]]) -> Any:
        tools = [function_tool(self.operator.shop.tool(tool), strict_mode=False) for tool in self.operator.tools]
        for at, (sub_agent, team) in enumerate(inner, 1):
            agent = self._built("inner", *team)
            as_tool = agent.as_tool(f"delegate_{at}", "delegates")
            tools.append(as_tool if sub_agent.where == "task" else self._apart(sub_agent, agent, at))
        handoffs = [self._built("second", *second)] if second else []
        direct = StopAtTools(stop_at_tool_names=sorted(self.operator.direct))
        return Agent(
            name, tools=tools, handoffs=handoffs, model=model, tool_use_behavior=direct, mcp_servers=[self.server]
        )

    def _apart(self, sub_agent: SubAgent, agent: Any, number: int) -> Any:
        async def delegate(input: str) -> str:  # noqa: A002 - the argument name of agents as tools
            work = GuardedRunner.run(
                guarded(agent, self.guard), input, context={"conversation_id": "apart"}, run_config=CONFIG
            )
            return str((await sub_agent.run(work)).final_output)

        return function_tool(delegate, name_override=f"delegate_{number}", strict_mode=False)


class Served(MCPServer):
    """An MCP server that has no tools at the start."""

    def __init__(self, shop: Shop) -> None:
        super().__init__()
        self.shop, self.tools = shop, list[str]()

    @property
    def name(self) -> str:
        return "shop"

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        properties = {"order_id": {"type": "string"}, "amount": {"type": "integer"}}
        return [Tool(name=tool, inputSchema={"type": "object", "properties": properties}) for tool in self.tools]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any:
        reply = await self.shop.tool(tool_name)(**(arguments or {}))
        return CallToolResult(content=[TextContent(type="text", text=reply)])

    async def list_prompts(self) -> Any:
        raise NotImplementedError

    async def get_prompt(self, name: str, arguments: Any = None) -> Any:
        raise NotImplementedError


def _model(turns: list[Any]) -> Any:
    return ScriptedModel([*map(_spoken, turns), *[[assistant_message("done")]] * 9])


def _spoken(turn: Any) -> list[Any]:
    if isinstance(turn, str):
        return [assistant_message(turn)]
    calls = zip(call_ids(turn), turn, strict=True)
    return [function_call(name, written(args), call_id=call_id) for call_id, (name, args) in calls]


def _escaped(text: str) -> str:
    """Returns the string as it appears inside a JSON string."""
    return json.dumps(text)[1:-1]


HOSTS = {"agent": ProcessHost("OpenAI Agents SDK", CANNOT["OpenAI Agents SDK"], OpenAIProcess)}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test(HOSTS)
