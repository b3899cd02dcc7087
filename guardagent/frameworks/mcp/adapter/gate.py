"""The gate of a server's tools: judges each call, and requests approval through the client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import mcp_types as types
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import ToolResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_core import to_jsonable_python

from guardagent._support.execution import Operation, Procedure, adrive
from guardagent.enforcement import Approval, ApprovalRequest, EnforcementPoint, HostCall, Outcome
from guardagent.enforcement.enforcement_point import JudgedCall, PermitVoidError
from guardagent.errors import ToolDenied
from guardagent.frameworks.mcp.adapter import approvals
from guardagent.frameworks.mcp.adapter.calls import outcome_of_result
from guardagent.frameworks.mcp.adapter.denial_message import denial_message
from guardagent.frameworks.mcp.adapter.rounds import InputRequiredSignal, Rounds
from guardagent.frameworks.mcp.adapter.sessions import MISSING, session_of
from guardagent.types import Verdict, thaw


class Gate:
    """Judges calls in the tools of a server.

    Args:
        guard: makes the decisions.
        conversation: returns the conversation id from the context of a request; by default the client's session.

    Attributes:
        problem: why the rules do not fit the server's tools, so that no call may run; None if they do.
    """

    problem: str | None = None

    def __init__(self, guard: EnforcementPoint, conversation: Callable[[Context], str | None] | None = None) -> None:
        self._guard, self._conversation = guard, conversation
        self._rounds = Rounds(guard)

    def conversation(self) -> str | None:
        """Returns the conversation id of the current request; None if it has no session."""
        try:
            context = get_context()
        except RuntimeError:
            return None
        if self._conversation is not None:
            return self._conversation(context)
        request = context.request_context
        return session_of(request.session, request.request) if request is not None else None

    async def run(self, call: HostCall, execute: Callable[[Mapping[str, Any]], Awaitable[Any]]) -> Any:
        """Judges a call, and runs it if it is allowed.

        Args:
            call: has the arguments that the tool will receive.
            execute: runs the tool; raises InputError if the tool would receive other arguments than the judged ones.

        Raises:
            ToolDenied: the call may not run.
        """
        if (problem := self.problem if call.conversation else MISSING) is not None:
            raise ToolDenied(call.tool, await self._guard.arefuse(call, problem))
        context, proposed = get_context(), call
        state = context.request_state  # FastMCP validates the request's parameters each time that it is read
        known = self._rounds.resume(proposed, state) if state else None
        if known is not None:
            return await self._execute(known, proposed, thaw(known.args), execute)
        try:
            call, args = await adrive(self._guard.lifecycle.authorize(call, self._decide(context, call, state)))
        except InputRequiredSignal as signal:
            return signal.args[0]
        except PermitVoidError:
            raise
        except ToolDenied as denied:
            raise GateDenial(call.tool, denied.verdict) from None
        return await self._execute(call, proposed, args, execute)

    async def refuse(self, call: HostCall, error: Exception) -> str:
        """Refuses a call that cannot be judged. Returns the message for the model."""
        return denial_message(await self._guard.arefuse(call, str(error)))

    async def _execute(
        self,
        call: HostCall,
        proposed: HostCall,
        args: Mapping[str, Any],
        execute: Callable[[Mapping[str, Any]], Awaitable[Any]],
    ) -> Any:
        def outcome(output: Any) -> Outcome:
            wanted = getattr(output, "input_required", output)
            if isinstance(wanted, types.InputRequiredResult):
                self._rounds.leave_open(proposed, wanted.request_state, call)
            return outcome_of(output)

        work = partial(execute, args)
        return await adrive(self._guard.lifecycle.execute(call, Operation(work, work), outcome))

    # --- human approval

    def _decide(self, context: Context, proposed: HostCall, state: str | None) -> Procedure[JudgedCall]:
        async def ask(call: HostCall, verdict: Verdict) -> Approval | None:
            if not approvals.can_ask(_capabilities(context)):
                return None
            request = self._guard.request(call, verdict)
            if context.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
                asking = approvals.asking_result(request, self._rounds.ask(proposed, call))
                raise InputRequiredSignal(types.InputRequiredResult.model_validate(asking))
            return await _ask_by_form(context, request)

        return self._rounds.decide(proposed, state, partial(_form_answer, context), ask)


class GateDenial(ToolDenied):
    """A denial whose text also tells the agent what to do next."""

    def __str__(self) -> str:
        return denial_message(self.verdict)


def outcome_of(output: Any) -> Outcome:
    """Returns a call's outcome from the tool's result."""
    if isinstance(getattr(output, "input_required", output), types.InputRequiredResult):
        return Outcome("input is asked for", failed=None, ended=False)
    if isinstance(output, ToolResult | types.CallToolResult):
        structured, content = output.structured_content, [one.model_dump(mode="json") for one in output.content]
        answer = {"content": content, **({} if structured is None else {"structuredContent": structured})}
        return outcome_of_result({**answer, "isError": output.is_error is True})
    return Outcome(to_jsonable_python(output, fallback=repr))  # in the form that the client reads


async def _ask_by_form(context: Context, request: ApprovalRequest) -> Approval:
    question = approvals.question(request)
    response = await context.session.elicit_form(
        question["message"], question["requestedSchema"], related_request_id=context.request_id
    )
    return approvals.answer({"action": response.action, "content": response.content})


def _form_answer(context: Context) -> Approval:
    found = (context.input_responses or {}).get(approvals.KEY)
    if found is None:
        return approvals.answer(None)
    return approvals.answer({"action": getattr(found, "action", None), "content": getattr(found, "content", None)})


def _capabilities(context: Context) -> Any:
    found = context.session.client_capabilities
    return found.model_dump(by_alias=True, exclude_none=True) if found is not None else None
