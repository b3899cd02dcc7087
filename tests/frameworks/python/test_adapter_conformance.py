"""Plain Python conforms: `arun_agent` with the shop's coroutine functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from guardagent.frameworks.python import arun_agent
from guardagent.testing.conformance import (
    Call,
    Desk,
    HandOff,
    Operator,
    Reply,
    Script,
    SubAgent,
    Turn,
    call_ids,
    written,
)
from tests.frameworks.conforms import DeskProcess, ProcessHost, conformance_test, server_conformance_test
from tests.frameworks.python.declarations import CANNOT


class PythonProcess(DeskProcess):
    def __init__(self, operator: Operator) -> None:
        self.operator, self.tools = operator, list(operator.tools)
        self.guard = operator.guard(approver=Desk.ask)

    async def talk(
        self, script: Script, name: str, history: Sequence[tuple[Call, str]] = (), *, stream: bool = False
    ) -> Reply:
        return await self._talk(iter(script), _messages(history), name)

    def model_input(self) -> str:
        return str(self.read)

    async def _talk(self, script: Iterator[Turn], messages: list[Any], conversation: str | None) -> Reply:
        sub_agents: list[SubAgent] = []
        handed: list[HandOff] = []

        async def model(messages: list[Any]) -> dict[str, Any]:
            self.read = list(messages)
            turn = next(script, "done")
            if isinstance(turn, HandOff):
                handed.append(turn)
                turn = "My colleague goes on."
            if isinstance(turn, SubAgent):
                sub_agents.append(turn)
                turn = [("delegate", {})]
            return _message(turn)

        async def delegate() -> str:
            sub_agent = sub_agents.pop()
            conversation = None if sub_agent.where == "task" else "apart"
            reply: Reply = await sub_agent.run(self._talk(iter(sub_agent.script), _messages(()), conversation))
            return reply.shown

        tools = {**{name: self.operator.shop.tool(name) for name in self.tools}, "delegate": delegate}
        answer = await arun_agent(model, messages, tools, self.guard, conversation=conversation)
        if handed:
            return await self._talk(iter(handed[0].script), answer.messages, conversation)
        return Reply(answer.text)


def _messages(history: Sequence[tuple[Call, str]]) -> list[Any]:
    messages: list[Any] = [{"role": "user", "content": "please"}]
    for call, output in history:
        reply = _message([call])
        messages += [reply, {"role": "tool", "tool_call_id": reply["tool_calls"][0]["id"], "content": output}]
    return messages


def _message(turn: str | Sequence[Call]) -> dict[str, Any]:
    if isinstance(turn, str):
        return {"role": "assistant", "content": turn}
    calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": written(args)}}
        for call_id, (name, args) in zip(call_ids(turn), turn, strict=True)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


HOSTS = {"agent": ProcessHost("Plain Python", CANNOT["Plain Python"], PythonProcess)}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test(HOSTS, quick=3)
