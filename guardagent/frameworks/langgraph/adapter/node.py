"""A guarded ToolNode, for graphs written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langgraph.graph import END
from langgraph.prebuilt import ToolNode

from guardagent.enforcement import EnforcementPoint
from guardagent.frameworks.langgraph.adapter.answers import Answers, without_ending
from guardagent.frameworks.langgraph.adapter.calls import GuardedCalls
from guardagent.frameworks.langgraph.adapter.messages import messages_of
from guardagent.frameworks.langgraph.adapter.middleware import as_tools
from guardagent.frameworks.langgraph.adapter.proposal import MARK


def guarded_tool_node(guard: EnforcementPoint, tools: Iterable[Any], *, nested: bool = False, **options: Any) -> Any:
    """Builds a ToolNode with guarded tools.

    Args:
        guard: decides.
        tools: as of `ToolNode`.
        nested: as of `GuardMiddleware`.
        options: as of `ToolNode`; your own `wrap_tool_call` runs outside the guard.

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


def guarded_answer_node(guard: EnforcementPoint, messages_key: str = "messages") -> Callable[[Any], dict[str, Any]]:
    """Returns a node that judges the final answer if the guard has `answers`; put it last before the end."""
    answers = Answers(guard)

    def judge(state: Any) -> dict[str, Any]:
        verdict = answers.denial(answers.of_state(state, messages_key))
        return {} if verdict is None else without_ending(state, verdict, messages_key)

    return judge


def unless_stopped(model: str, messages_key: str = "messages") -> Callable[[Any], str]:
    """Returns the router after a guarded ToolNode: to the model, or to the end once the agent has given up.

        graph.add_conditional_edges("tools", unless_stopped("model"), ["model", END])

    A graph without it is stopped at the next denial.
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
