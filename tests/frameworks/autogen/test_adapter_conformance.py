"""AutoGen conforms: `guarded(agent, guard)`, with agents and teams that are built for each run."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pytest

pytest.importorskip("autogen_agentchat.agents")
pytest.importorskip("autogen_ext.models.replay")

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Handoff
from autogen_agentchat.conditions import MaxMessageTermination, TextMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_agentchat.tools import AgentTool
from autogen_core import CancellationToken, FunctionCall
from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage
from autogen_core.tools import FunctionTool, StaticStreamWorkbench, TextResultContent, ToolResult, Workbench

from guardagent.frameworks.autogen import TeamHalted, conversation, guarded
from guardagent.testing.conformance import Call, Desk, HandOff, Operator, Reply, Script, Shop, SubAgent
from tests.frameworks.autogen.declarations import CANNOT
from tests.frameworks.autogen.scripted_client import ScriptedClient
from tests.frameworks.conforms import DeskProcess, ProcessHost, conformance_test, page_test, server_conformance_test

pytestmark = pytest.mark.filterwarnings("ignore")
Form = Literal["agent", "team"]
_ids = itertools.count(1)


@dataclass(frozen=True)
class Models:
    """The scripts of an agent, of its hand-off target and of its sub-agents, which outlive the agents."""

    own: ScriptedClient
    second: Models | None
    inner: Sequence[tuple[SubAgent, Models]]
    iterations: int


class AutoGenProcess(DeskProcess):
    """A process; the states of agents outlive it, but its guard does not."""

    def __init__(self, operator: Operator, form: Form) -> None:
        self.operator, self.form, self.guard = operator, form, operator.guard(approver=Desk.ask)
        self.server = ShopWorkbench(operator.shop)
        self.tools = self.server.tools

    async def talk(
        self, script: Script, name: str, history: Sequence[tuple[Call, str]] = (), *, stream: bool = False
    ) -> Reply:
        models = self._models(script)
        self.model = models.own
        shown_before = [message for call, output in history for message in _shown(call, output)]
        agent = self._agent("first", models, shown_before, stream=stream)
        runner = guarded(self._team(agent, models, stream=stream), self.guard)
        kept = self.operator.kept.get(f"{name} {type(runner).__name__}")
        if kept is not None:
            await runner.load_state(json.loads(kept))
        shown = ""
        try:
            with conversation(name):
                if not stream:
                    return await self._kept(name, runner, str((await _cancellable(runner)).model_dump()))
                async for event in runner.run_stream(task="please"):
                    shown += str(event.model_dump())
        except TeamHalted:
            return Reply(shown)
        return await self._kept(name, runner, shown)

    def model_input(self) -> str:
        return str(self.model.read[-1])

    async def _kept(self, name: str, runner: Any, shown: str) -> Reply:
        """Stores the state of an agent, as a web service does."""
        self.operator.kept[f"{name} {type(runner).__name__}"] = json.dumps(await runner.save_state(), default=str)
        return Reply(shown)

    # --- agents

    def _models(self, script: Script) -> Models:
        turns: list[Any] = []
        inner: list[tuple[SubAgent, Models]] = []
        second = None
        for turn in script:
            if isinstance(turn, HandOff):
                second = self._models(turn.script)
                turns.append([("transfer_to_second", {})])
            elif isinstance(turn, SubAgent):
                inner.append((turn, self._models(turn.script)))
                turns.append([(f"delegate_{len(inner)}", {"task": "please"} if turn.where == "task" else {})])
            else:
                turns.append(turn)
        last = turns[-1] if turns else ""
        direct = not isinstance(last, str) and all(name in self.operator.direct for name, _ in last)
        return Models(ScriptedClient(turns), second, inner, len(turns) if direct else 20)

    def _team(self, agent: Any, models: Models, *, stream: bool) -> Any:
        if models.second is not None:
            second = self._agent("second", models.second, [], stream=stream)
            return Swarm([agent, second], termination_condition=TextMessageTermination("second"))
        if self.form == "agent":
            return agent
        return RoundRobinGroupChat([agent], termination_condition=MaxMessageTermination(20), max_turns=1)

    def _agent(self, name: str, models: Models, history: list[Any], *, stream: bool = False) -> Any:
        tools: list[Any] = [FunctionTool(self.operator.shop.tool(tool), tool) for tool in self.operator.tools]
        tools += [self._delegate(sub_agent, inner, at) for at, (sub_agent, inner) in enumerate(models.inner, 1)]
        return AssistantAgent(
            name,
            models.own,
            workbench=[StaticStreamWorkbench(tools), self.server],
            handoffs=[Handoff(target="second")] if models.second is not None else [],
            model_context=UnboundedChatCompletionContext(history),
            max_tool_iterations=models.iterations,
            model_client_stream=stream,
        )

    def _delegate(self, sub_agent: SubAgent, models: Models, number: int) -> Any:
        agent = self._agent(f"delegate_{number}", models, [])
        if sub_agent.where == "task":
            return AgentTool(agent)
        guarded(agent, self.guard)

        async def work() -> str:
            with conversation("apart"):
                return str((await agent.run(task="please")).messages[-1])

        async def delegate() -> str:
            return str(await sub_agent.run(work()))

        return FunctionTool(delegate, "delegates", name=f"delegate_{number}")


class ShopWorkbench(Workbench):
    """The workbench of a server that has no tools at the start."""

    component_config_schema = None

    def __init__(self, shop: Shop) -> None:
        self.shop, self.tools = shop, list[str]()

    async def list_tools(self) -> list[Any]:
        properties = {"order_id": {"type": "string"}, "amount": {"type": "integer"}}
        schema = {"type": "object", "properties": properties}
        return [{"name": tool, "description": tool, "parameters": schema} for tool in self.tools]

    async def call_tool(self, name: str, arguments: Any = None, *_: Any, **__: Any) -> ToolResult:
        output = await self.shop.tool(name)(**(arguments or {}))
        return ToolResult(name=name, result=[TextResultContent(content=output)])

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def reset(self) -> None: ...

    async def save_state(self) -> Mapping[str, Any]:
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None: ...


async def _cancellable(runner: Any) -> Any:
    """Runs an agent. A team that is cancelled as a task waits for its tools; a token cancels them, too."""
    token = CancellationToken()
    work = asyncio.ensure_future(runner.run(task="please", cancellation_token=token))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        token.cancel()
        await asyncio.gather(work, return_exceptions=True)
        raise


def _shown(call: Call, output: str) -> list[Any]:
    made = FunctionCall(id=f"shown_{next(_ids)}", name=call[0], arguments=json.dumps(call[1]))
    result = FunctionExecutionResult(content=output, name=call[0], call_id=made.id, is_error=False)
    return [AssistantMessage(content=[made], source="first"), FunctionExecutionResultMessage(content=[result])]


HOSTS = {
    form: ProcessHost("AutoGen", CANNOT["AutoGen"], functools.partial(AutoGenProcess, form=form))
    for form in get_args(Form)
}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test({"agent": HOSTS["agent"]})
test_the_page_does_what_it_says = page_test("autogen", "autogen_ext.models.openai")
