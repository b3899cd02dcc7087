"""The adapter conforms: every scenario of the suite is played by plain clients of the real proxy, over three APIs."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("litellm")

from guardagent.testing.conformance import Desk, HandOff, Operator, Reply, SubAgent
from guardagent.testing.conformance.host import Call, Script
from tests.frameworks.conforms import DeskProcess, ProcessHost, conformance_test, server_conformance_test
from tests.frameworks.litellm.clients import CLIENTS, GatewayClient
from tests.frameworks.litellm.declarations import CANNOT
from tests.frameworks.litellm.gateway import guardrail, inside, model, post

_numbers = itertools.count(1)
SCHEMAS: dict[str, dict[str, Any]] = {
    "authenticate": {"email": {"type": "string"}, "code": {"type": "string", "default": "right"}},
    "refund": {"order_id": {"type": "string"}, "amount": {"type": "integer", "default": 500}},
    "get_order": {"order_id": {"type": "string"}},
    "payout": {"amount": {"type": "integer"}},
}


class GatewayProcess(DeskProcess):
    """A process of the proxy. Its clients keep the messages of their conversations."""

    def __init__(self, operator: Operator, client: GatewayClient) -> None:
        self.operator, self.client, self.tools = operator, client, list(operator.tools)
        unknown = "refuse" if operator.ledger else "judge"
        self.guardrail = guardrail(operator.guard(approver=Desk.ask), unknown_calls=unknown)

    async def talk(
        self, script: Script, name: str, history: Sequence[tuple[Call, str]] = (), *, stream: bool = False
    ) -> Reply:
        client, kept = self.client, self.operator.kept.setdefault(name, [])
        agents: dict[str, Any] = {}
        items = [*kept, client.user(model().script([self._turn(turn, agents) for turn in script]))]
        for (tool, args), output in history:
            shown = f"shown_{next(_numbers)}"
            items = [client.call((shown, tool, args)), *client.results([(shown, output)]), *items]
        shown_text = ""
        while True:
            answer = await self._ask(items, agents, name, stream=stream)
            if isinstance(answer, str):
                return Reply(shown_text + answer)
            text, calls, more = answer
            shown_text, items = shown_text + text, [*items, *more]
            if not calls:
                break
            outputs = await asyncio.gather(*(self._run(tool, args, agents, name) for _, tool, args in calls))
            items += client.results([(call[0], output) for call, output in zip(calls, outputs, strict=True)])
        self.operator.kept[name] = items
        return Reply(shown_text)

    def model_input(self) -> str:
        return json.dumps(model().requests[-1], ensure_ascii=False)

    def _turn(self, turn: Any, agents: dict[str, Any]) -> Any:
        if not isinstance(turn, SubAgent | HandOff):
            return turn
        name = f"delegate_{len(agents)}"
        agents[name] = turn
        return [(name, {})]

    async def _ask(self, items: list[Any], agents: Mapping[str, Any], conversation: str, *, stream: bool) -> Any:
        client = self.client
        tools = {name: client.tool(name, {"type": "object", "properties": SCHEMAS[name]}) for name in self.tools}
        tools |= {name: client.tool(name, {"type": "object", "properties": {}}) for name in agents}
        with inside(self.guardrail):
            response = await post(client.path, client.body(items, tools, stream=stream), conversation=conversation)
        if response.status_code != 200:
            return response.text  # refused
        return client.read_text(response.text, stream=stream)

    async def _run(self, name: str, args: Mapping[str, Any], agents: Mapping[str, Any], conversation: str) -> Any:
        if name not in agents:
            return await self.operator.shop.tool(name)(**args)
        agent = agents[name]
        if isinstance(agent, HandOff):
            return (await self.talk(agent.script, conversation)).shown
        return (await agent.run(self.talk(agent.script, conversation))).shown


def host(_scenario: str, api: str) -> ProcessHost:
    model()  # outside of any loop
    name = "LiteLLM proxy"
    return ProcessHost(name, CANNOT[name], lambda operator: GatewayProcess(operator, CLIENTS[api]))


HOSTS = {api: functools.partial(host, api=api) for api in CLIENTS}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test({api: HOSTS[api] for api in ("chat", "messages")})
