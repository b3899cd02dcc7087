"""The middlewares of one run: around all others, behind all others, and at the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from agent_framework import (
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    MiddlewareTermination,
)

from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.agent_framework.adapter.answers import ClientAnswers, held_stream
from guardagent.frameworks.agent_framework.adapter.approvals import FunctionApprovalNeeded, decision_in, request_content
from guardagent.frameworks.agent_framework.adapter.calls import FunctionToolCalls
from guardagent.frameworks.agent_framework.adapter.guarded_tool import guard_of
from guardagent.frameworks.agent_framework.adapter.messages import call_ids, chat
from guardagent.frameworks.agent_framework.adapter.runs import AgentFrameworkHalted, ClientRun, ClientScope, enter

_FIRST = "guardagent_function"
Next = Callable[[], Awaitable[None]]


class MiddlewareAttachment(Protocol):
    """The part of an attachment that the middlewares of a run use."""

    calls: FunctionToolCalls

    def tool(self, tool: Any) -> Any: ...

    def refresh(self, tools: Any, run: ClientRun) -> None: ...


class OuterMiddleware(FunctionMiddleware):
    """Around the other middlewares: tells the tool which call it runs, and judges hand-offs, which these carry out."""

    def __init__(self, attachment: MiddlewareAttachment, around: ClientScope, run: ClientRun) -> None:
        self._attachment, self._around, self._run = attachment, around, run

    async def process(self, context: FunctionInvocationContext, call_next: Next) -> None:
        call_id = context.metadata.get("call_id")
        self._run.proposed.add(str(call_id))
        context.metadata[_FIRST] = context.function
        inside = self._around.of_call(call_id, decision_in(context.metadata.get("approval_response")))
        target = self._run.handoffs.get(context.function.name)
        with enter(inside):
            await delivered(
                context, self._run, call_next if target is None else self._handing(context, target, call_next)
            )

    def _handing(self, context: FunctionInvocationContext, target: str, call_next: Next) -> Next:
        async def hand_over() -> None:
            self._run.handed_over = True
            await call_next()

        async def judged() -> None:
            await self._attachment.calls.hand_over(target, dict(context.arguments), hand_over)

        return judged


class InnerMiddleware(FunctionMiddleware):
    """Behind the other middlewares: turns denials into results, and runs tools that came by another way guarded."""

    def __init__(self, attachment: MiddlewareAttachment, run: ClientRun) -> None:
        self._attachment, self._run = attachment, run

    async def process(self, context: FunctionInvocationContext, call_next: Next) -> None:
        async def late() -> None:
            try:
                tool = self._attachment.tool(context.function)
            except InputError as error:
                raise await self._attachment.calls.refuse(context.function.name, str(error)) from None
            call_id = context.metadata.get("call_id")
            context.result = await tool.invoke(arguments=context.arguments, context=context, tool_call_id=call_id)

        tools = (context.function, context.metadata.get(_FIRST))  # a middleware may have put in another one
        known = all(guard_of(one) is self._attachment.calls for one in tools)
        await delivered(context, self._run, call_next if known else late)


async def delivered(context: FunctionInvocationContext, run: ClientRun, work: Next) -> None:
    """Runs a call, and gives the model the reason if it is denied.

    Raises:
        AgentFrameworkHalted: a rule halts the run.
        MiddlewareTermination: the run ends, as the agent gave up.
    """
    try:
        await work()
    except AgentFrameworkHalted:
        raise
    except ToolDenied as denied:
        context.result = [Content.from_text(f"Error: {denied}")]
    except FunctionApprovalNeeded as needed:
        context.result = request_content(needed, context)
    if run.halted is not None:
        raise run.halted
    if run.final is not None:
        raise MiddlewareTermination("the agent gave up", result=context.result)


class ModelMiddleware(ChatMiddleware):
    """At the model: guards tools that were added to the run, and judges what the model writes before it is stored."""

    def __init__(self, attachment: MiddlewareAttachment, run: ClientRun, judge: ClientAnswers) -> None:
        self._attachment, self._run, self._judge = attachment, run, judge

    async def process(self, context: ChatContext, call_next: Next) -> None:
        run = self._run
        run.step, run.messages = run.step + 1, chat(context.messages)
        run.seen = [one for one in call_ids(context.messages, "function_result") if one not in run.proposed]
        self._attachment.refresh((context.options or {}).get("tools"), run)
        await call_next()
        if isinstance(context.result, ChatResponse):
            context.result = (await self._read(context.result))[0]
        elif self._judge.judges:
            context.result = held_stream(context.result, self._read)
        else:
            context.stream_result_hooks.append(self._note)

    async def _read(self, response: Any) -> tuple[Any, bool]:
        self._note(response)
        return await self._judge.of_model(response)

    def _note(self, response: Any) -> None:
        self._run.proposed.update(call_ids(response.messages, "function_call"))
