"""Test agents of LangChain and graphs of LangGraph whose model follows a script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import tools_condition
from pydantic import Field

from guardagent.enforcement import ToolGuard
from guardagent.frameworks.langgraph import GuardMiddleware, guarded_tool_node, unless_stopped
from tests.frameworks.scenarios import Shop

REFUND = "refund"


class Scripted(GenericFakeChatModel):
    """The host's fake model, which accepts tools and ignores them.

    Attributes:
        read: what it has read in each request.
    """

    read: list[str] = Field(default_factory=list)

    def _generate(self, messages: Any, *args: Any, **options: Any) -> Any:
        self.read.append(str(messages))
        return super()._generate(messages, *args, **options)

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def says(*turns: Any) -> Scripted:
    """Returns a model that plays these turns (strings, or calls as (tool, args) with generated ids), then `done`."""
    return Scripted(messages=_messages(turns))


def _messages(turns: Any) -> Iterator[AIMessage]:
    at = 0
    for turn in turns:
        calls = []
        for name, args in [] if isinstance(turn, str) else turn:
            at += 1
            calls.append({"name": name, "args": args, "id": f"c{at}"})
        yield AIMessage(content=turn if isinstance(turn, str) else "", tool_calls=calls)
    while True:
        yield AIMessage(content="done")


def tools_of_shop(shop: Shop) -> list[Any]:
    """Returns the shop's tools, which the host builds from functions."""
    return [tool(shop.authenticate), tool(shop.refund), tool(shop.wire), tool(shop.get_order), tool(shop.break_down)]


def awaited_tools(shop: Shop) -> list[Any]:
    """Returns the shop's tools, with a refund that is a coroutine function only."""
    refund = StructuredTool.from_function(coroutine=shop.arefund, name=REFUND)
    return [refund, *(tool for tool in tools_of_shop(shop) if tool.name != REFUND)]


def thread(name: str = "t") -> Any:
    return {"configurable": {"thread_id": name}}


def user(text: str = "please") -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def agent(
    guard: ToolGuard,
    model: Any,
    tools: Any,
    *after: AgentMiddleware,
    before: Any = (),
    nested: bool = False,
    **options: Any,
) -> Any:
    """Returns `create_agent` with the guard, and with middlewares before it and after it (nearer to the tools)."""
    options.setdefault("checkpointer", InMemorySaver())
    return create_agent(model, tools, middleware=[*before, GuardMiddleware(guard, nested=nested), *after], **options)


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]


def graph(guard: ToolGuard, model: Any, tools: Any, *, checkpointer: Any = True, **options: Any) -> Any:
    """Returns a hand-written graph with a guarded ToolNode; all calls of a message run in one task."""
    builder = StateGraph(State)
    builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_node("tools", guarded_tool_node(guard, tools, **options))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_conditional_edges("tools", unless_stopped("model"), ["model", "__end__"])
    return builder.compile(checkpointer=InMemorySaver() if checkpointer is True else checkpointer)


def results(state: Any) -> list[Any]:
    """Returns the messages of tools."""
    return [message for message in state["messages"] if message.type == "tool"]
