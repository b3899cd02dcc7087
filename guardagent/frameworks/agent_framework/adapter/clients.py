"""The middlewares of one run, around all others, behind all others, and at the model, and the setup of the run.

The setup determines the conversation of a run, and the tools and middlewares of its request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_framework import (
    AgentSession,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    MiddlewareTermination,
)

from guardagent._support.execution import adrive
from guardagent._support.requirements import require_parts
from guardagent.enforcement import Approval, HostCall
from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.host_adapter import HANDOFF
from guardagent.enforcement.host_runs import awaited
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.agent_framework.adapter.approvals import (
    ANSWER,
    ClientAnswers,
    FunctionApprovalNeeded,
    call_shown,
    decision_in,
    held_stream,
    request_content,
)
from guardagent.frameworks.agent_framework.adapter.calls import ClientInvocation, guard_of
from guardagent.frameworks.agent_framework.adapter.runs import (
    IN_WORKFLOW,
    OWN_SESSION,
    AgentFrameworkHalted,
    ClientRun,
    ClientScope,
    call_ids,
    chat,
    enter,
)

if TYPE_CHECKING:
    from guardagent.frameworks.agent_framework.adapter import ClientAttachment

# --- middlewares

_FIRST = "guardagent_function"
Next = Callable[[], Awaitable[None]]


class OuterMiddleware(FunctionMiddleware):
    """Around the other middlewares: tells the tool which call it runs, and judges hand-offs, which these carry out."""

    def __init__(self, attachment: ClientAttachment, around: ClientScope, run: ClientRun) -> None:
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
            args = {**context.arguments, "to": target}
            invocation = ClientInvocation(self._attachment, HANDOFF, args, handoff=True)
            call, _ = await adrive(invocation.allowed())
            await adrive(invocation.execute(call, awaited(hand_over)))

        return judged


class InnerMiddleware(FunctionMiddleware):
    """Behind the other middlewares: turns denials into results, and runs tools that came by another way guarded."""

    def __init__(self, attachment: ClientAttachment, run: ClientRun) -> None:
        self._attachment, self._run = attachment, run

    async def process(self, context: FunctionInvocationContext, call_next: Next) -> None:
        async def late() -> None:
            try:
                tool = self._attachment.tool(context.function)
            except InputError as error:
                invocation = ClientInvocation(self._attachment, context.function.name, {})
                raise await adrive(invocation.refusal(str(error))) from None
            call_id = context.metadata.get("call_id")
            context.result = await tool.invoke(arguments=context.arguments, context=context, tool_call_id=call_id)

        tools = (context.function, context.metadata.get(_FIRST))  # a middleware may have put in another one
        known = all(guard_of(tool) is self._attachment for tool in tools)
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

    def __init__(self, attachment: ClientAttachment, run: ClientRun, judge: ClientAnswers) -> None:
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


# --- the setup

_HANDOFFS, _HANDS_OVER = "_handoff_functions", "_AutoHandoffMiddleware"


class RunSetup:
    """Sets up one run of a guarded client.

    Args:
        attachment: the guard and the tools.
        config: the host's configuration of function invocation.
        agent: the name of the agent.

    Attributes:
        around: the surroundings of the run.
        answers: judges its answers.
    """

    def __init__(
        self,
        attachment: ClientAttachment,
        config: Mapping[str, Any],
        agent: str | None,
        messages: Iterable[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        self._attachment, self._config, self._messages, self._kwargs = attachment, config, messages, kwargs
        self.around, self._run = self._begin(agent)
        self.answers = ClientAnswers(attachment.guard, self.around, self._run)

    def options(self, options: Mapping[str, Any] | None, middleware: Sequence[Any] | None) -> dict[str, Any]:
        """Returns the options of the request, with guarded tools, and the guard's middlewares around the others.

        Raises:
            InputError: a tool cannot be guarded.
        """
        attachment, run, options = self._attachment, self._run, dict(options or {})
        if options.get("tools") or attachment.servers:
            if not self._config.get("enabled", True):
                raise InputError("function invocation is not enabled, so the program runs the calls; expected the host")
            tools = attachment.tools(options.get("tools"), run.handoffs)
            options |= {"tools": tools} if tools else {}
            attachment.listed.check()
        others = [*_listed(self._kwargs.get("middleware")), *_listed(middleware)]
        own = [InnerMiddleware(attachment, run), ModelMiddleware(attachment, run, self.answers)]
        ordered = [OuterMiddleware(attachment, self.around, run), *others, *own]
        return {"options": options, "client_kwargs": {**self._kwargs, "middleware": ordered}}

    async def note_rejections(self) -> None:
        """Records the rejections in the messages, so that nobody can approve the same request later."""
        for content in (one for message in self._messages for one in message.contents):
            decided = decision_in(content) if content.type == "function_approval_response" else None
            if decided is None or content.approved is True or not self.around.conversation:
                continue
            if (call := self._rejected(content.function_call, decided)) is not None:
                await adrive(self._attachment.guard.lifecycle.resolve(call, Approval.read(decided[ANSWER])))

    def _begin(self, agent: str | None) -> tuple[ClientScope, ClientRun]:
        attachment, session = self._attachment, self._kwargs.get("session")
        handoffs, id_of_session, asks = _handoffs(self._kwargs.get("middleware")), None, False
        if isinstance(session, AgentSession) and self._kwargs.get(OWN_SESSION, True) is not False:
            asks = True
            id_of_session = None if handoffs or IN_WORKFLOW in session.state else session.session_id
        around = attachment.begin(ClientRun, id_of_session)
        run = around.run or ClientRun()
        run.handoffs, run.messages, run.proposed = handoffs, chat(self._messages), attachment.proposed(around)
        run.seen = [call_id for call_id in call_ids(self._messages, "function_result") if call_id not in run.proposed]
        asks = asks or bool(self._config.get("disable_approval_response_binding", False))
        return replace(around, agent=agent, asks=asks), run

    def _rejected(self, function_call: Any, decided: Mapping[str, Any]) -> HostCall | None:
        """Returns the call that a rejection names; None if it is not the call that was shown."""
        arguments = self._attachment.arguments.get(getattr(function_call, "name", None) or "")
        if arguments is None:
            return None
        try:
            prepared = arguments.tool._prepare_arguments(function_call.parse_arguments() or {})  # noqa: SLF001
            args, named = plain_arguments(arguments.bind(prepared)[0]), arguments.spec.name
            around = self.around
            call = HostCall(named, args, around.conversation, id=function_call.call_id, agent=around.agent)
            call = call_shown(call, decided)
            return call if call.digest == str(decided.get("digest")).partition(".")[0] else None
        except Exception:  # noqa: BLE001 - what a client sends; the host has rejected the call in any case
            return None


def _listed(middleware: Any) -> list[Any]:
    if middleware is None:
        return []
    return list(middleware) if isinstance(middleware, Sequence) else [middleware]


def _handoffs(middleware: Any) -> dict[str, str]:
    """Returns the hand-off tools that a middleware of the host's workflows carries out, with their targets."""
    for one in _listed(middleware):
        if type(one).__name__ == _HANDS_OVER:
            require_parts(one, _HANDOFFS)
    return {name: to for one in _listed(middleware) for name, to in (getattr(one, _HANDOFFS, None) or {}).items()}
