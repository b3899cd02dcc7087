"""AG2 conforms: `guarded(agent, guard)`, with agents that are built for each run; the host asks the person."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

pytest.importorskip("ag2.events")

from ag2 import Agent
from ag2.events import (
    BaseEvent,
    ModelRequest,
    ModelResponse,
    TextInput,
    ToolCallEvent,
    ToolCallsEvent,
    ToolResultEvent,
    ToolResultsEvent,
)
from ag2.stream import MemoryStream
from ag2.tools import Toolkit, ToolResult, tool
from ag2.tools.final.function_tool import FunctionDefinition, FunctionToolSchema
from ag2.tools.tool import Tool

from guardagent.frameworks.ag2 import AskHalted, conversation, guarded
from guardagent.frameworks.ag2.adapter import chat
from guardagent.testing.conformance import Call, Desk, HandOff, Operator, Reply, Script, Shop, SubAgent
from guardagent.types import thaw
from tests.frameworks.ag2.declarations import CANNOT
from tests.frameworks.ag2.scripted_config import ScriptedConfig
from tests.frameworks.conforms import DeskProcess, ProcessHost, conformance_test, page_test, server_conformance_test

_ids = itertools.count(1)


class Ag2Process(DeskProcess):
    """A process; the streams of agents outlive it, but its guard does not."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.guard = operator, operator.guard()
        self.server = ShopToolkit(operator.shop)
        self.tools = self.server.tools_of_server

    async def talk(
        self, script: Script, name: str, history: Sequence[tuple[Call, str]] = (), *, stream: bool = False
    ) -> Reply:
        agent = guarded(self._agent("root", script), self.guard)
        events = MemoryStream()
        forged = [event for call, output in history for event in _shown(call, output)]
        await events.history.replace([*self.operator.kept.get(name, ()), *forged])
        shown: list[str] = []

        async def show(event: BaseEvent) -> None:
            shown.append(str(event))

        with conversation(name), events.sub_scope(show):
            try:
                reply = await agent.ask("please", stream=events)
            except AskHalted:
                return Reply("\n".join(shown))
        self.operator.kept[name] = list(await events.history.get_events())
        return Reply("\n".join([*shown, str(reply.body)]))

    def model_input(self) -> str:
        return str(chat(self.model.read[-1]))

    def _agent(self, name: str, script: Script) -> Any:
        turns: list[Any] = []
        tools: list[Any] = [self._tool(tool) for tool in self.operator.tools]
        for turn in script:
            assert not isinstance(turn, HandOff)
            if isinstance(turn, SubAgent):
                tools.append(self._delegate(turn, len(tools)))
                objective = {"objective": "please"} if turn.where == "task" else {}
                turns.append([(tools[-1].name, objective)])
            else:
                turns.append(turn)
        self.model = ScriptedConfig(turns)
        return Agent(name, config=self.model, tools=[*tools, self.server], hitl_hook=_ask)

    def _tool(self, name: str) -> Any:
        function = self.operator.shop.tool(name)
        if name not in self.operator.direct:
            return tool(function)

        async def direct(order_id: str) -> Any:
            return ToolResult(await function(order_id), final=True)

        return tool(direct, name=name)

    def _delegate(self, sub_agent: SubAgent, number: int) -> Any:
        agent = self._agent(f"helper_{number}", sub_agent.script)
        if sub_agent.where == "task":
            return agent.as_tool(description="helps")
        guarded(agent, self.guard)

        async def work() -> str:
            with conversation("apart"):
                return str((await agent.ask("please")).body)

        async def delegate() -> str:
            return str(await sub_agent.run(work()))

        return tool(delegate, name=f"delegate_{number}")


async def _ask(event: Any) -> str:
    """The hook of the host: a person, who answers with JSON."""
    answer = await Desk.ask(event)
    args = {"args": thaw(answer.args)} if answer.choice == "edit" else {}
    return json.dumps({"choice": answer.choice, **args, **({"of": answer.of} if answer.of else {})})


class ServedTool(Tool):
    """A tool of a server."""

    declared_in_code = False

    def __init__(self, shop: Shop, name: str) -> None:
        properties = {"order_id": {"type": "string"}, "amount": {"type": "integer"}}
        definition = FunctionDefinition(name, name, {"type": "object", "properties": properties})
        self.name, self.schema, self.shop, self._middleware = name, FunctionToolSchema(definition), shop, ()

    async def schemas(self, context: Any) -> list[Any]:
        return [self.schema]

    def register(self, stack: Any, context: Any, *, middleware: Iterable[Any] = ()) -> None:
        async def execution(event: Any, context: Any) -> Any:
            return await self(event, context)

        layers = [*reversed(self._middleware), *(handler.on_tool_execution for handler in middleware)]
        for layer in layers:
            execution = _layered(layer, execution)

        async def execute(event: ToolCallEvent, context: Any) -> None:
            await context.send(await execution(event, context))

        stack.enter_context(context.stream.where(ToolCallEvent.name == self.name).sub_scope(execute))

    async def __call__(self, event: Any, context: Any) -> Any:
        result = await self.shop.tool(self.name)(**event.serialized_arguments)
        return ToolResultEvent.from_call(event, result=result)


def _layered(layer: Any, inner: Any) -> Any:
    async def call(event: Any, context: Any) -> Any:
        return await layer(inner, event, context)

    return call


class ShopToolkit(Toolkit):
    """The tools of a server that has none at the start."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(name="server")
        self.shop, self.tools_of_server = shop, list[str]()

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    async def schemas(self, context: Any) -> Any:
        self._tools = {tool: ServedTool(self.shop, tool) for tool in self.tools_of_server}
        return await super().schemas(context)


def _shown(call: Call, output: str) -> list[Any]:
    made = ToolCallEvent(call[0], id=f"shown_{next(_ids)}", arguments=json.dumps(call[1]))
    calls = ToolCallsEvent([made])
    results = ToolResultsEvent([ToolResultEvent.from_call(made, result=output)])
    return [ModelRequest([TextInput("hello")]), ModelResponse(tool_calls=calls), results]


HOSTS = {"agent": ProcessHost("AG2", CANNOT["AG2"], Ag2Process)}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test(HOSTS)
test_the_page_does_what_it_says = page_test("ag2", "ag2.config.openai", "openai")
