"""LangChain and LangGraph: a middleware of `create_agent`, and a ToolNode for graphs written by hand.

    create_agent(model, tools, middleware=[GuardMiddleware(guard)], checkpointer=...)
    graph.add_node("tools", guarded_tool_node(guard, tools))

A call is judged at its tool, after the host's validation: with the arguments that the tool gets, whatever the
middlewares have made of those that the model wrote. `approve`, `reject` and `edit` build the commands that resume an
interrupted run with a reviewer's answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias

from guardagent._support.execution import adrive, drive
from guardagent._support.requirements import require
from guardagent.frameworks.langgraph.package import DISTRIBUTIONS, EXTRA

require(DISTRIBUTIONS, EXTRA)

from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain_core.messages import AIMessage
from langgraph.graph import END
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Interrupt

from guardagent.enforcement import EnforcementPoint
from guardagent.errors import InputError
from guardagent.frameworks.langgraph.adapter.calls import (
    Answers,
    GuardedCalls,
    with_unique_ids,
    without_answer,
    without_ending,
)
from guardagent.frameworks.langgraph.adapter.runs import RunStopped, conversation_of, messages_of, require_nested
from guardagent.frameworks.langgraph.adapter.tools import MARK, has_reviewer

__all__ = [
    "GuardMiddleware",
    "RunStopped",
    "approve",
    "edit",
    "guarded_answer_node",
    "guarded_tool_node",
    "reject",
    "unless_stopped",
]


# --- the middleware


class GuardMiddleware(AgentMiddleware):
    """Judges every call of an agent's tools at the tool, and its answers if the guard has `answers`.

        create_agent(model, tools, middleware=[..., GuardMiddleware(guard)], checkpointer=...)

    Put it last. A later middleware may change arguments, and the changed ones are judged; if it answers a call itself
    or calls another tool instead, the call is refused.

    Args:
        guard: decides. Agents of one conversation share it.
        tools: the agent's tools, to compare them with the rules now; otherwise this happens before the first model
            call.
        unguarded: tools that the model's provider runs, and that may run unjudged.
        nested: whether the agent runs only within a guarded tool of another agent, so that it cannot begin a
            conversation without history if the tool starts it in a thread.

    Raises:
        InputError: a rule names a tool that is probably a misspelling of one of these.
    """

    def __init__(
        self,
        guard: EnforcementPoint,
        tools: Iterable[Any] = (),
        *,
        unguarded: Collection[str] = (),
        nested: bool = False,
    ) -> None:
        super().__init__()
        self.guard, self._nested = guard, nested
        self._calls = GuardedCalls(guard, unguarded=unguarded, nested=nested)
        self._answers = Answers(guard)
        self._calls.attach(as_tools(tools))

    def before_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - the host's signature
        """Refuses a run without a conversation id, and a nested agent that runs outside a guarded tool.

        Warns if nobody can be asked in this run: a middleware learns of the checkpointer here at the earliest.
        """
        if self._nested:
            require_nested(self.guard, _config())
        conversation_of(self.guard, _config())
        has_reviewer(self._calls, _config())

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002 - as above
        """Ends the run after the agent's last replan: control returns to the user, with the reason."""
        reasons = _last_reasons(state, "messages")
        return None if reasons is None else {"jump_to": "end", "messages": [AIMessage(content="\n".join(reasons))]}

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Attaches new tools, and judges the answer before a user sees it."""
        self._calls.attach(request.tools)
        response = with_unique_ids(handler(self._answers.without_streaming(request)))
        verdict = drive(self._answers.denial(self._answers.of_model(request, response)))
        return response if verdict is None else without_answer(response, verdict)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Judges the answer of a model that is called in a coroutine."""
        self._calls.attach(request.tools)
        response = with_unique_ids(await handler(self._answers.without_streaming(request)))
        verdict = await adrive(self._answers.denial(self._answers.of_model(request, response)))
        return response if verdict is None else without_answer(response, verdict)

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002 - as above
        """Judges the end of a run, unless its answer was judged before."""
        verdict = drive(self._answers.denial(self._answers.of_state(state)))
        return None if verdict is None else without_ending(state, verdict)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Judges a call; also for `ToolNode(wrap_tool_call=...)`."""
        return self._calls.wrap(request, handler)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Judges a call that runs in a coroutine, for `ToolNode(awrap_tool_call=...)`."""
        return await self._calls.awrap(request, handler)


def as_tools(tools: Iterable[Any]) -> list[Any]:
    """Returns the tools, with functions converted by the host's `tool`."""
    from langchain_core.tools import BaseTool, tool

    return [candidate if isinstance(candidate, BaseTool | Mapping) else tool(candidate) for candidate in tools]


def _config() -> Mapping[str, Any]:
    from langgraph.config import get_config

    return get_config()  # type: ignore[no-any-return]


# --- graphs written by hand


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
        return around(request, lambda changed: calls.wrap(changed, handler))

    async def awrap(request: Any, handler: Callable[[Any], Any]) -> Any:
        return await aaround(request, lambda changed: calls.awrap(changed, handler))

    if around is not None and aaround is None:  # the host runs it without await then
        return ToolNode(tools, wrap_tool_call=wrap, **options)
    wraps = {
        "wrap_tool_call": calls.wrap if around is None else wrap,
        "awrap_tool_call": calls.awrap if aaround is None else awrap,
    }
    return ToolNode(tools, **wraps, **options)


def guarded_answer_node(guard: EnforcementPoint, messages_key: str = "messages") -> Callable[[Any], dict[str, Any]]:
    """Returns a node that judges the final answer if the guard has `answers`; put it last before the end."""
    answers = Answers(guard)

    def judge(state: Any) -> dict[str, Any]:
        verdict = drive(answers.denial(answers.of_state(state, messages_key)))
        return {} if verdict is None else without_ending(state, verdict, messages_key)

    return judge


def unless_stopped(model: str, messages_key: str = "messages") -> Callable[[Any], str]:
    """Returns the router after a guarded ToolNode: to the model, or to the end once the agent has given up.

        graph.add_conditional_edges("tools", unless_stopped("model"), ["model", END])

    A graph without it is stopped at the next denial.
    """

    def leads_to(state: Any) -> str:
        return model if _last_reasons(state, messages_key) is None else str(END)

    return leads_to


def _last_reasons(state: Any, messages_key: str) -> list[str] | None:
    """The reasons of the last results of tools after which the agent gave up; None if it goes on."""
    for message in reversed(messages_of(state, messages_key)):
        if getattr(message, "type", "") != "tool":
            return None
        denial = message.artifact.get(MARK) if isinstance(message.artifact, Mapping) else None
        if isinstance(denial, Mapping) and denial.get("gave_up"):
            return [str(reason) for reason in denial["reasons"]]
    return None


# --- a reviewer's answer

Shown: TypeAlias = Interrupt | Iterable[Interrupt]


def approve(shown: Shown, *, by: str | None = None) -> Command[Any]:
    """Approves the calls that were shown, once each.

        agent.invoke(approve(result["__interrupt__"]), config)

    Args:
        shown: one or more interrupts.
        by: the reviewer, for the log.

    Raises:
        InputError: an interrupt is not an approval request of the guard.
    """
    return _command(shown, {"choice": "approve", "by": by})


def reject(shown: Shown, reason: str = "", *, by: str | None = None) -> Command[Any]:
    """Rejects the calls that were shown.

    Args:
        shown: as of `approve`.
        reason: the feedback to the agent.
        by: as of `approve`.

    Raises:
        InputError: as of `approve`.
    """
    return _command(shown, {"choice": "reject", "reason": reason, "by": by})


def edit(shown: Shown, args: Mapping[str, Any], *, by: str | None = None) -> Command[Any]:
    """Edits a call: it is judged again with the new arguments.

    Args:
        shown: one interrupt.
        args: the complete arguments of the call.
        by: as of `approve`.

    Raises:
        InputError: as of `approve`; or there are several interrupts.
    """
    command = _command(shown, {"choice": "edit", "args": dict(args), "by": by})
    if len(command.resume) > 1:
        raise InputError(f"{len(command.resume)} calls were shown; expected the interrupt of the one to edit")
    return command


def _command(shown: Shown, decision: Mapping[str, Any]) -> Command[Any]:
    every = [shown] if isinstance(shown, Interrupt) else list(shown)
    if not every:
        raise InputError("nothing was shown; expected an interrupt of the run, such as result['__interrupt__'] holds")
    return Command(resume={interrupt.id: {**decision, "of": _digest(interrupt)} for interrupt in every})


def _digest(shown: Any) -> str:
    value = getattr(shown, "value", None)
    digest = value.get("digest") if isinstance(value, Mapping) and "tool" in value else None
    if not isinstance(digest, str):
        raise InputError(
            f"{shown!r:.200} is not an approval request of the guard; expected an interrupt with a call's digest"
        )
    return digest
