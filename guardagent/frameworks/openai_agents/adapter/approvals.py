"""The SDK's own approval: `needs_approval`, `result.interruptions`, `state.approve` and `state.reject`."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from agents import FunctionTool, ModelBehaviorError, ToolApprovalItem
from agents.tool_context import ToolContext

from guardagent.enforcement.approval import Approval, ApprovalRequest
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.schema import read_object
from guardagent.errors import InputError
from guardagent.frameworks.openai_agents.adapter.attachment_base import BaseAttachment
from guardagent.frameworks.openai_agents.adapter.bodies import ToolBody
from guardagent.types import Decision, Verdict, freeze

_REQUESTED_ELSEWHERE = Verdict(
    Decision.ESCALATE, reasons=("the approval was requested in another process, which has the reasons",)
)
_BY_THE_HOST = Verdict(Decision.ESCALATE, reasons=("its tool has needs_approval",))
_EDITED = "a reviewer edited this call; the edited call is judged"


class NeedsApproval:
    """`FunctionTool.needs_approval` of a guarded tool: true if a rule escalates or the operator requires approval.

    Args:
        attachment: knows the guard.
        tool: the tool without the guard.
        body: the tool's implementation.
    """

    def __init__(self, attachment: BaseAttachment, tool: FunctionTool, body: ToolBody) -> None:
        self._attachment, self._tool, self._body = attachment, tool, body

    async def __call__(self, context: Any, params: dict[str, Any], call_id: str) -> bool:
        try:
            call = self.shown_call(context, params, call_id)
        except (InputError, ModelBehaviorError):
            return False  # refused at the tool, so that there is nothing to ask a person
        if await self._escalates(call, params):
            return True
        if not await self._operator_asks(context, params, call_id, call.args):
            return False
        await self._attachment.guard.arecord_host_request(call)
        self._attachment.ask(call, _BY_THE_HOST, params)
        return True

    def shown_call(self, context: Any, params: Mapping[str, Any], call_id: str) -> HostCall:
        """Returns the call that is shown for approval. It has no step, since a resumed run does not know its step.

        Raises:
            InputError, ModelBehaviorError: the arguments do not fit.
        """
        args = self._body.bind(params).shown()
        return self._attachment.call(self._tool.qualified_name, args, context, id=call_id, step=None)

    async def _escalates(self, call: HostCall, params: Mapping[str, Any]) -> bool:
        if not self._attachment.escalates or call.conversation is None:
            return False  # without a conversation it is denied at the tool, with what to configure
        verdict = await self._attachment.guard.apreview(call)
        if verdict.decision is not Decision.ESCALATE:
            return False
        self._attachment.ask(call, verdict, params)
        return True

    async def _operator_asks(self, context: Any, params: dict[str, Any], call_id: str, args: Any) -> bool:
        asks = self._tool.needs_approval
        if not callable(asks):
            return bool(asks)
        if hasattr(self._tool, "__wrapped__") and args != freeze(params):
            return True  # as the SDK has it: what validation changed is for a person
        needed = asks(context, params, call_id)
        return bool(await needed if inspect.isawaitable(needed) else needed)


def host_approval(context: Any, tool: FunctionTool) -> Literal["once", "always"] | None:
    """Returns whether the SDK holds an approval of this call (`once`) or of the tool (`always`); None for neither."""
    if context.tool_call is None or context.agent is None or _status(context, tool, context.tool_call) is not True:
        return None
    other = context.tool_call.model_copy(update={"call_id": f"none-{secrets.token_hex(8)}"})
    return "once" if _status(context, tool, other) is None else "always"


def _status(context: ToolContext[Any], tool: FunctionTool, tool_call: Any) -> bool | None:
    namespace = context.tool_namespace
    item = ToolApprovalItem(agent=context.agent, raw_item=tool_call, tool_name=tool.name, tool_namespace=namespace)
    found = context.get_approval_status(
        tool.name, tool_call.call_id, tool_namespace=namespace, existing_pending=item, current_invocation=item
    )
    return found if isinstance(found, bool) else None


def request(item: ToolApprovalItem, state: Any = None) -> ApprovalRequest:
    """Returns the approval request of an interruption: every argument as the tool will get it, and the reasons.

    Args:
        item: one of `result.interruptions`, of a guarded agent.
        state: the run's state, if another process requested the approval; it names the conversation.

    Raises:
        InputError: the item is not an interruption of a guarded agent.
    """
    attachment = _attachment(item)
    if (pending := attachment.pending_approval(item)) is not None:
        return attachment.guard.request(pending.call, pending.verdict)
    if (call := _call_of(item, state)) is not None:
        return attachment.guard.request(call, _REQUESTED_ELSEWHERE)
    tool = item.qualified_name or item.tool_name or ""
    args, agent = read_object(item.arguments or "", tool), getattr(item.agent, "name", None)
    return ApprovalRequest(tool, args, _REQUESTED_ELSEWHERE, id=item.call_id or "", agent=agent)


def answer(state: Any, item: ToolApprovalItem, decision: Any) -> None:
    """Stores a reviewer's answer to an interruption in a run's state; adds edits, which the SDK does not support.

    Args:
        state: the result of `result.to_state()`.
        item: one of its interruptions.
        decision: an `Approval`, or a value that `Approval.read` accepts: `True`, `{"choice": "edit", "args": {...}}`,
            ... If it names a request as `of`, that must be the request of this item.

    Raises:
        InputError: the item is not an interruption of a guarded agent, the answer is for another request, or this
            process cannot apply it.
    """
    approval, attachment = Approval.read(decision), _attachment(item)
    pending = attachment.pending_approval(item)
    call = pending.call if pending is not None else _call_of(item, state)
    if call is None and (approval.choice == "edit" or approval.of is not None):
        raise InputError(f"{item.tool_name} has no approval request here; approve it unchanged, or reject it")
    if call is not None:
        approval = _record_answer(attachment, call, approval)
    if approval.choice == "reject":
        reason = f": {approval.reason}" if approval.reason else ""
        state.reject(item, rejection_message=f"A person rejected this call{reason}")
    else:
        state.approve(item)


def _record_answer(attachment: BaseAttachment, call: HostCall, approval: Approval) -> Approval:
    """Stores a reviewer's answer in the guard until the call reaches its tool.

    An edit also rejects the original call, so that a process that resumes the run without the edit does not run it.

    Raises:
        InputError: the answer is for another request.
    """
    approval = replace(approval, of=call.digest if approval.of is None else approval.of)
    if (approval.of or "").partition(".")[0] != call.digest:
        raise InputError(
            f"the answer is for another request than that of {call.tool!r} {call.id!r}; request approval again"
        )
    if approval.choice == "edit":
        attachment.guard.resolve(call, Approval("reject", reason=_EDITED, by=approval.by))
    if approval.choice == "reject":
        attachment.guard.resolve(call, approval)
        attachment.drop_pending(call)
    else:
        attachment.guard.notes(str(call.conversation))["said", call.digest] = approval
    return approval


def _call_of(item: ToolApprovalItem, state: Any) -> HostCall | None:
    """Returns the call of another process's interruption; None if state and tools do not determine it."""
    tools = {getattr(one, "qualified_name", None): one for one in getattr(item.agent, "tools", ())}
    needs = getattr(tools.get(item.qualified_name), "needs_approval", None)
    if state is None or not isinstance(needs, NeedsApproval):
        return None
    try:
        params = read_object(item.arguments or "", item.tool_name or "")
        call = needs.shown_call(state._context, params, item.call_id or "")  # noqa: SLF001 - no public way to it
    except (InputError, ModelBehaviorError):
        return None
    return replace(call, agent=getattr(item.agent, "name", None)) if call.conversation else None


def _attachment(item: ToolApprovalItem) -> BaseAttachment:
    found = getattr(item.agent, "guardagent_attachment", None)
    if found is None:
        raise InputError("this is not an interruption of a guarded agent; expected one of 'result.interruptions'")
    return found  # type: ignore[no-any-return]
