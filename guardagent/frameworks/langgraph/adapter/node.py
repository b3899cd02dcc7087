"""A guarded ToolNode, for graphs written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langgraph.graph import END
from langgraph.prebuilt import ToolNode

from guardagent.enforcement import ToolGuard
from guardagent.frameworks.langgraph.adapter.answers import Answers, without_ending
from guardagent.frameworks.langgraph.adapter.calls import GuardedCalls
from guardagent.frameworks.langgraph.adapter.messages import messages_of
from guardagent.frameworks.langgraph.adapter.middleware import as_tools
from guardagent.frameworks.langgraph.adapter.proposal import MARK


def guarded_tool_node(guard: ToolGuard, tools: Iterable[Any], *, nested: bool = False, **options: Any) -> Any:
    """A ToolNode whose tools ask the guard.

    Args:
        guard: decides.
        tools: as of `ToolNode`.
        nested: as of `GuardMiddleware`.
        options: as of `ToolNode`; a `wrap_tool_call` of your own stands around the guard.

    Raises:
        InputError: as `ToolGuard.attach`.
    """
    tools = as_tools(tools)
    calls = GuardedCalls(guard, options.get("messages_key", "messages"), nested=nested)
    calls.attach(tools)
    around, aaround = options.pop("wrap_tool_call", None), options.pop("awrap_tool_call", None)

    def wrap(request: Any, handler: Callable[[Any], Any]) -> Any:
        return calls.wrap(request, handler) if around is None else around(request, lambda one: calls.wrap(one, handler))

    async def awrap(request: Any, handler: Callable[[Any], Any]) -> Any:
        if aaround is None:
            return await calls.awrap(request, handler)
        return await aaround(request, lambda one: calls.awrap(one, handler))

    if around is not None and aaround is None:  # the host runs it without await then
        return ToolNode(tools, wrap_tool_call=wrap, **options)
    return ToolNode(tools, wrap_tool_call=wrap, awrap_tool_call=awrap, **options)


def guarded_answer_node(guard: ToolGuard, messages_key: str = "messages") -> Callable[[Any], dict[str, Any]]:
    """A node that judges what a run ends with, where the guard has `answers`: the last one before the end."""
    answers = Answers(guard)

    def judge(state: Any) -> dict[str, Any]:
        verdict = answers.denial(answers.of_state(state, messages_key))
        return {} if verdict is None else without_ending(state, verdict, messages_key)

    return judge


def unless_given_up(model: str, messages_key: str = "messages") -> Callable[[Any], str]:
    """What leads on from a guarded ToolNode: to the model, or to the end where the agent has replanned often enough.

        graph.add_conditional_edges("tools", unless_given_up("model"), ["model", END])

    A graph that goes on all the same is stopped at the next denial.
    """

    def leads_to(state: Any) -> str:
        for message in reversed(messages_of(state, messages_key)):
            if getattr(message, "type", "") != "tool":
                break
            denial = message.artifact.get(MARK) if isinstance(message.artifact, Mapping) else None
            if isinstance(denial, Mapping) and denial.get("gave_up"):
                return str(END)
        return model

    return leads_to
