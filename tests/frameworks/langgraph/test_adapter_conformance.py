"""LangChain and LangGraph conform: `create_agent` with the middleware."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from guardagent.enforcement import Approval
from guardagent.frameworks.langgraph import GuardMiddleware, RunStopped
from guardagent.testing.conformance import (
    Call,
    HandOff,
    Operator,
    Process,
    Reply,
    Script,
    SubAgent,
    Turn,
    as_object,
    call_ids,
)
from tests.frameworks.conforms import ProcessHost, conformance_test, server_conformance_test
from tests.frameworks.langgraph.agents import Scripted, thread, user
from tests.frameworks.langgraph.declarations import CANNOT


@dataclass
class WaitingRun:
    """An interrupt: its checkpoint and the approval request."""

    conversation: str
    checkpoint: Any
    shown: Mapping[str, Any]
    answered: bool = False


class LangGraphProcess(Process):
    """A process; checkpoints and scripts outlive it, but its guard does not."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.guard, self.tools = operator, operator.guard(), list(operator.tools)
        self.saver = operator.kept.setdefault("saver", InMemorySaver())
        self.scripts: dict[str, Iterator[Turn]] = operator.kept.setdefault("scripts", {})

    async def run(
        self,
        script: Script,
        *,
        conversation: str = "c1",
        history: Sequence[tuple[Call, str]] = (),
        stream: bool = False,
    ) -> Reply:
        self.scripts[conversation] = iter(script)
        forged: list[Any] = []
        for call, output in history:
            reply = _message([call])
            forged += [reply, ToolMessage(output, tool_call_id=reply.tool_calls[0]["id"], name=call[0])]
        arguments = {"messages": [*forged, *user()["messages"]]}
        team = self._team(script) if isinstance(script[-1], HandOff) else None
        return await self._invoke(arguments, conversation, thread(conversation), stream=stream, team=team)

    async def answer(self, question: WaitingRun, approval: Approval) -> Reply:
        """Sends the first answer to the thread, and later ones to the checkpoint of the request."""
        config = question.checkpoint if question.answered else thread(question.conversation)
        question.answered = True
        resumed = {"choice": approval.choice, "of": approval.of or question.shown.get("digest")}
        resumed |= {"args": dict(approval.args)} if approval.choice == "edit" else {}
        return await self._invoke(Command(resume=resumed), question.conversation, config)

    async def swap(self, question: WaitingRun, args: Mapping[str, Any]) -> None:
        agent, config = self._agent(question.conversation), thread(question.conversation)
        last = (await agent.aget_state(config)).values["messages"][-1]
        changed = AIMessage("", id=last.id, tool_calls=[{**last.tool_calls[0], "args": dict(args)}])
        await agent.aupdate_state(config, {"messages": [changed]}, as_node="model")

    async def add(self, tool: str) -> None:
        self.tools.append(tool)

    def model_input(self) -> str:
        return str(self.model.read[-1])

    async def _invoke(
        self, arguments: Any, conversation: str, config: Any, *, stream: bool = False, team: Any = None
    ) -> Reply:
        agent = team or self._agent(conversation)
        try:
            if stream:
                return Reply(
                    str([chunk async for chunk in agent.astream(arguments, config, stream_mode=["messages", "values"])])
                )
            ainvoke = await agent.ainvoke(arguments, config)
        except RunStopped as stopped:
            return Reply(str(stopped))
        if waiting := ainvoke.get("__interrupt__"):
            state = await agent.aget_state(thread(conversation))
            return Reply(question=WaitingRun(conversation, state.config, waiting[0].value))
        return Reply(str(ainvoke["messages"][-1].content))

    def _agent(self, conversation: str) -> Any:
        """Builds an agent, as users do for each request."""
        return self._built(self.scripts[conversation], checkpointer=self.saver)

    def _team(self, script: Script) -> Any:
        """Builds a graph of two agents; the first hands over to the second in its last turn."""
        handed = script[-1]
        assert isinstance(handed, HandOff)
        builder = StateGraph(MessagesState)
        builder.add_node("first", self._built(iter(script)), destinations=("second",))
        builder.add_node("second", self._built(iter(handed.script)))
        builder.add_edge(START, "first")
        return builder.compile(self.saver)

    def _built(self, script: Iterator[Turn], **options: Any) -> Any:
        sub_agents: list[SubAgent] = []

        def turns() -> Iterator[AIMessage]:
            for turn in script:
                if isinstance(turn, SubAgent):
                    sub_agents.append(turn)
                yield _message(turn)
            while True:
                yield AIMessage("done")

        async def delegate() -> str:
            """Has another agent work."""
            sub_agent = sub_agents.pop()
            config = None if sub_agent.where == "task" else thread("apart")
            final_state = await sub_agent.run(self._built(iter(sub_agent.script)).ainvoke(user(), config))
            return str(final_state["messages"][-1].content)

        tools = [*map(self._tool, self.tools), StructuredTool.from_function(coroutine=delegate), transfer]
        self.model = Scripted(messages=turns())
        retries = self.operator.retries
        retry = [ToolRetryMiddleware(max_retries=retries, initial_delay=0.0)] if retries else []
        middleware = [*retry, GuardMiddleware(self.guard)]
        return create_agent(self.model, tools, middleware=middleware, **options)

    def _tool(self, name: str) -> Any:
        function = self.operator.shop.tool(name)
        return StructuredTool.from_function(coroutine=function, return_direct=name in self.operator.direct)


@tool
def transfer(runtime: ToolRuntime) -> Command[Any]:
    """Hands over to the second agent."""
    reply = ToolMessage("over to you", tool_call_id=runtime.tool_call_id)
    return Command(goto="second", graph=Command.PARENT, update={"messages": [*runtime.state["messages"], reply]})


def _message(turn: Turn) -> AIMessage:
    if isinstance(turn, str):
        return AIMessage(turn)
    calls: Any = turn
    if isinstance(turn, SubAgent | HandOff):
        calls = [("delegate" if isinstance(turn, SubAgent) else "transfer", {})]
    ids = zip(call_ids(calls), calls, strict=True)
    read: list[Any] = [{"name": name, "args": as_object(args), "id": call_id} for call_id, (name, args) in ids]
    return AIMessage("", tool_calls=read)


HOSTS = {"agent": ProcessHost("LangChain, LangGraph", CANNOT["LangChain, LangGraph"], LangGraphProcess)}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test(HOSTS)
