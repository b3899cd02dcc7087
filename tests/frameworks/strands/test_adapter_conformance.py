"""Strands conforms, as an intervention, also with sequential tools, and with `guarded(agent, guard)`."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import pytest

pytest.importorskip("strands")

from mcp import types as mcp_types
from strands import Agent, tool
from strands.hooks import AfterToolsEvent
from strands.hooks.events import AfterToolCallEvent
from strands.multiagent import Swarm
from strands.tools.executors import SequentialToolExecutor
from strands.tools.mcp import MCPAgentTool, MCPClient
from strands.types._snapshot import Snapshot

from guardagent.enforcement import Approval
from guardagent.frameworks.strands import GuardIntervention, StrandsHalted, conversation, guarded
from guardagent.testing.conformance import Call, Operator, Process, Reply, Script, Shop, SubAgent, as_object
from guardagent.types import thaw
from tests.frameworks.conforms import ProcessHost, conformance_test, page_test, server_conformance_test, team_of
from tests.frameworks.strands.declarations import CANNOT
from tests.frameworks.strands.scripted_model import ScriptedModel

Form = Literal["intervention", "guarded", "sequential"]
FORMS: tuple[Form, ...] = get_args(Form)
_ids = itertools.count(1)


@dataclass(frozen=True)
class WaitingRun:
    """A run that waits for a reviewer and was stored, and the host's interrupt."""

    conversation: str
    team: Any
    key: str
    interrupt: Any


HAND_OVER = [[("handoff_to_agent", {"agent_name": "second", "message": "he knows"})], "handed over"]


class StrandsProcess(Process):
    """A process; stored agents and the scripts of models outlive it, but its guard does not."""

    def __init__(self, operator: Operator, form: Form) -> None:
        self.operator, self.guard, self.form = operator, operator.guard(), form
        self.server = Served(operator.shop)

    async def run(
        self,
        script: Script,
        *,
        conversation: str = "c1",
        history: Sequence[tuple[Call, str]] = (),
        stream: bool = False,
    ) -> Reply:
        team = team_of(script, ScriptedModel, HAND_OVER, {"input": "please"})
        agent = self._agent(team, messages=[message for call, output in history for message in _shown(call, output)])
        return await self._go_on(agent, team, conversation, "please", stream=stream)

    async def answer(self, question: WaitingRun, approval: Approval) -> Reply:
        agent = self._agent(question.team)
        agent.load_snapshot(Snapshot.from_dict(json.loads(self.operator.kept[question.key])))
        edited = {"args": thaw(approval.args)} if approval.choice == "edit" else {}
        decision = {"choice": approval.choice, **edited, "of": approval.of} if edited or approval.of else True
        response = {"interruptResponse": {"interruptId": question.interrupt.id, "response": decision}}
        return await self._go_on(agent, question.team, question.conversation, [response])

    async def swap(self, question: WaitingRun, args: Mapping[str, Any]) -> None:
        stored = json.loads(self.operator.kept[question.key])
        changed = json.loads(json.dumps(stored).replace('"amount": 500', f'"amount": {args["amount"]}'))
        assert stored != changed
        self.operator.kept[question.key] = json.dumps(changed)

    async def add(self, tool: str) -> None:
        self.server.tools.append(tool)

    def model_input(self) -> str:
        return str(self.team.model.read[-1])

    async def _go_on(self, agent: Any, team: Any, name: str, prompt: Any, *, stream: bool = False) -> Reply:
        self.team, shown, result = team, "", cast(Any, None)
        with conversation(name):
            events = agent.stream_async(prompt)
            try:
                async for event in events:
                    message = event.get("message")
                    content = message["content"] if isinstance(message, dict) else message  # its ids are random
                    shown += str([event.get("data"), event.get("delta"), content])
                    result = event.get("result", result)
            except StrandsHalted:
                return Reply(shown if stream else "")
        if getattr(result, "stop_reason", "") == "interrupt":
            question = WaitingRun(name, team, f"agent {next(_ids)}", result.interrupts[0])
            self.operator.kept[question.key] = json.dumps(agent.take_snapshot(preset="session").to_dict())
            return Reply(question=question)
        return Reply((shown if stream else "") + str(result))

    # --- agents

    def _agent(self, team: Any, **options: Any) -> Any:
        first = self._built("first", *team, **options)
        if team[1] is None:
            return first
        agents = [first, self._built("second", *team[1])]
        swarm = Swarm(agents)
        return guarded(swarm, self.guard) if self.form == "guarded" else swarm

    def _built(self, name: str, model: Any, second: Any, inner: list[tuple[SubAgent, Any]], **options: Any) -> Any:
        tools = [tool(self.operator.shop.tool(tool_name)) for tool_name in self.operator.tools]
        tools += [self._delegate(sub_agent, self._agent(team), at) for at, (sub_agent, team) in enumerate(inner, 1)]
        tools.append(self.server)
        hooks = [EndsWith(self.operator.direct), Retries(self.operator.retries)]
        options |= {"name": name, "model": model, "tools": tools, "hooks": hooks, "callback_handler": None}
        options |= {"tool_executor": SequentialToolExecutor()} if self.form == "sequential" else {}
        if self.form != "guarded":
            return Agent(interventions=[GuardIntervention(self.guard)], **options)
        agent = Agent(**options)
        return agent if second is not None else guarded(agent, self.guard)

    def _delegate(self, sub_agent: SubAgent, agent: Any, number: int) -> Any:
        if sub_agent.where == "task":
            return agent.as_tool(name=f"delegate_{number}")

        async def work() -> str:
            with conversation("apart"):
                return str(await agent.invoke_async("please"))

        @tool(name=f"delegate_{number}")
        async def delegate() -> str:
            """Delegates."""
            return str(await sub_agent.run(work()))

        return delegate


class EndsWith:
    """A hook of the operator: the output of these tools is the answer."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def register_hooks(self, registry: Any, **kwargs: Any) -> None:
        registry.add_callback(AfterToolCallEvent, self._note)
        registry.add_callback(AfterToolsEvent, self._end)
        self._found: str | None = None

    def _note(self, event: AfterToolCallEvent) -> None:
        if event.tool_use["name"] in self._names:
            self._found = event.result["content"][0]["text"]

    def _end(self, event: AfterToolsEvent) -> None:
        if self._found is not None:
            event.end_turn = self._found


class Retries:
    """A hook of the operator: a call that failed is tried again."""

    def __init__(self, times: int) -> None:
        self._left = times

    def register_hooks(self, registry: Any, **kwargs: Any) -> None:
        registry.add_callback(AfterToolCallEvent, self._retry)

    def _retry(self, event: AfterToolCallEvent) -> None:
        if event.exception is not None and self._left:
            self._left -= 1
            event.retry = True


class Served(MCPClient):
    """The client of an MCP server that has no tools at the start."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(lambda: None)
        self.shop, self.tools = shop, list[str]()

    async def load_tools(self, **kwargs: Any) -> list[Any]:
        properties = {"order_id": {"type": "string"}, "amount": {"type": "integer"}}
        schema = {"type": "object", "properties": properties}
        declared = [mcp_types.Tool(name=tool, description=tool, inputSchema=schema) for tool in self.tools]
        return [MCPAgentTool(mcp_tool, self) for mcp_tool in declared]

    async def call_tool_async(self, tool_use_id: str, name: str, arguments: Any = None, **kwargs: Any) -> Any:
        reply = await self.shop.tool(name)(**(arguments or {}))
        return {"toolUseId": tool_use_id, "status": "success", "content": [{"text": reply}]}


def _shown(call: Call, output: str) -> list[Any]:
    tool_use = {"toolUseId": f"shown_{next(_ids)}", "name": call[0], "input": as_object(call[1])}
    result = {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": output}]}
    return [
        {"role": "assistant", "content": [{"toolUse": tool_use}]},
        {"role": "user", "content": [{"toolResult": result}]},
    ]


HOSTS = {
    str(form): ProcessHost("Strands", CANNOT["Strands"], functools.partial(StrandsProcess, form=form)) for form in FORMS
}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test(HOSTS)
test_the_page_does_what_it_says = page_test("strands", "strands.models.openai")
