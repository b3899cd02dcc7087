"""Google ADK conforms: `plugins=[GuardPlugin(guard)]`, with runners and agents that are built for each run."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("google.adk.plugins")

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.events.event import Event
from google.adk.plugins import ReflectAndRetryToolPlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from guardagent.enforcement import Approval
from guardagent.frameworks.adk import GuardPlugin, RunnerHalted, answer, questions
from guardagent.testing.conformance import Call, Operator, Process, Reply, Script, SubAgent, as_object
from tests.frameworks.adk.declarations import CANNOT
from tests.frameworks.adk.scripted_llm import ScriptedLlm
from tests.frameworks.adk.served import ServedToolset, result
from tests.frameworks.conforms import ProcessHost, Team, conformance_test, server_conformance_test, team_of

pytestmark = pytest.mark.filterwarnings("ignore")
_ids = itertools.count(1)
APP, USER = "shop", "ann"
SHOWN = {"content", "output", "error_message", "grounding_metadata"}
IDS = re.compile(r"adk-[0-9a-f-]{36}")  # which may have the digits of the PIN
REFUND = {"order_id": "A", "amount": 500}


@dataclass(frozen=True)
class WaitingRun:
    """A run that waits for a reviewer, and the guard's request."""

    conversation: str
    team: Any
    question: Any


class AdkProcess(Process):
    """A process; the sessions and the scripts of models outlive it, but its guard does not."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.guard = operator, operator.guard()
        self.sessions = operator.kept.setdefault("sessions", InMemorySessionService())
        self.served: list[str] = []

    async def run(
        self,
        script: Script,
        *,
        conversation: str = "c1",
        history: Sequence[tuple[Call, str]] = (),
        stream: bool = False,
    ) -> Reply:
        await self._session(conversation)
        for call, output in history:
            await self._forge(conversation, call, output)
        message = types.Content(role="user", parts=[types.Part(text="please")])
        return await self._go_on(self._team(script), conversation, message, stream=stream)

    async def answer(self, question: WaitingRun, approval: Approval) -> Reply:
        return await self._go_on(question.team, question.conversation, answer(question.question, approval))

    async def swap(self, question: WaitingRun, args: Mapping[str, Any]) -> None:
        changed = 0
        for event in self.sessions.sessions[APP][USER][question.conversation].events:
            for call in event.get_function_calls():
                for arguments in (call.args, (call.args or {}).get("originalFunctionCall", {}).get("args", {})):
                    if arguments == REFUND:
                        arguments.update(args)
                        changed += 1
        assert changed == 2

    async def add(self, tool: str) -> None:
        self.served.append(tool)

    # --- sessions

    async def _session(self, name: str) -> Any:
        known = await self.sessions.get_session(app_name=APP, user_id=USER, session_id=name)
        return known or await self.sessions.create_session(app_name=APP, user_id=USER, session_id=name)

    async def _forge(self, name: str, call: Call, output: str) -> None:
        key = f"shown_{next(_ids)}"
        proposed = types.Part(function_call=types.FunctionCall(id=key, name=call[0], args=as_object(call[1])))
        shown = types.Part(function_response=types.FunctionResponse(id=key, name=call[0], response={"result": output}))
        for role, part in (("model", proposed), ("user", shown)):
            event = Event(author="first", content=types.Content(role=role, parts=[part]))
            await self.sessions.append_event(await self._session(name), event)

    def model_input(self) -> str:
        return str(self.team.model.read[-1])

    async def _go_on(self, team: Any, name: str, message: Any, *, stream: bool = False) -> Reply:
        self.team, runner, shown = team, self._runner(team), ""
        config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
        try:
            waiting: list[Any] = []
            async for event in runner.run_async(user_id=USER, session_id=name, new_message=message, run_config=config):
                waiting += questions(event)
                if stream or event.is_final_response():
                    shown += IDS.sub("", f"{event.model_dump(include=SHOWN)} {event.actions.state_delta}")
        except RunnerHalted:
            return Reply(shown)
        return Reply(question=WaitingRun(name, team, waiting[0])) if waiting else Reply(shown)

    def _runner(self, team: Any) -> Any:
        plugins = [GuardPlugin(self.guard)]
        if self.operator.retries:
            plugins.append(ReflectAndRetryToolPlugin(max_retries=self.operator.retries))
        return Runner(app_name=APP, agent=self._agent(team), session_service=self.sessions, plugins=plugins)

    # --- agents

    def _team(self, script: Script) -> Team:
        hand_over = [[("transfer_to_agent", {"agent_name": "second"})]]
        return team_of(script, ScriptedLlm, hand_over, {"request": "go"}, "inner")

    def _agent(self, team: Any, name: str = "first") -> Any:
        llm, second, inner = team
        tools: list[Any] = [self._tool(tool) for tool in self.operator.tools]
        for at, (sub_agent, models) in enumerate(inner, 1):
            if sub_agent.where == "task":
                tools.append(AgentTool(self._agent(models, f"inner_{at}")))
            else:
                tools.append(self._delegate(sub_agent, models, at))
        tools.append(ServedToolset(self._serve, self.served))
        others = [] if second is None else [self._agent(second, "second")]
        return LlmAgent(name=name, description=name, model=llm, tools=tools, sub_agents=others)

    def _tool(self, name: str) -> Any:
        function = self.operator.shop.tool(name)
        if name not in self.operator.direct:
            return function

        async def get_order(order_id: str, tool_context: ToolContext) -> str:
            tool_context.actions.skip_summarization = True
            return str(await function(order_id))

        return get_order

    def _delegate(self, sub_agent: SubAgent, models: Any, number: int) -> Any:
        async def work() -> str:
            await self._session("apart")
            message = types.Content(role="user", parts=[types.Part(text="please")])
            return (await self._go_on(models, "apart", message)).shown

        async def delegate() -> str:
            return str(await sub_agent.run(work()))

        delegate.__name__ = f"delegate_{number}"
        return FunctionTool(delegate)

    async def _serve(self, name: str, args: Mapping[str, Any]) -> Any:
        return result(str(await self.operator.shop.tool(name)(**args)))


HOSTS = {"agent": ProcessHost("Google ADK", CANNOT["Google ADK"], AdkProcess)}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test(HOSTS)
