"""The SDK's own approval: `needs_approval`, `result.interruptions`, `state.approve` and `state.reject`."""

from __future__ import annotations

import inspect
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from agents import FunctionTool, ModelBehaviorError, ToolApprovalItem
from agents.tool_context import ToolContext

from guardagent.adapters.openai_agents.bodies import Body
from guardagent.enforcement.approval import Approval, ApprovalRequest
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.schema import read_object
from guardagent.errors import InputError
from guardagent.types import Decision, Verdict, freeze

if TYPE_CHECKING:
    from guardagent.adapters.openai_agents.attachment import Attachment

APPROVED = Approval("approve", by="the host's approval")
_ELSEWHERE = Verdict(Decision.ESCALATE, reasons=("it was asked in another process, where its reasons are known",))


@dataclass(slots=True)
class Asked:
    """A call that a person is asked about.

    Attributes:
        call: as it was shown.
        verdict: why.
        said: what that person said, where `answer` was told; the SDK's own approval approves it as it is.
    """

    call: HostCall
    verdict: Verdict
    said: Approval = APPROVED


class NeedsApproval:
    """`FunctionTool.needs_approval` of a guarded tool: where a rule escalates, and where the operator asks anyway.

    Args:
        attachment: knows the guard.
        tool: as it was, without the guard.
        body: what stands behind it.
    """

    def __init__(self, attachment: Attachment, tool: FunctionTool, body: Body) -> None:
        self._attachment, self._tool, self._body = attachment, tool, body

    async def __call__(self, context: Any, params: dict[str, Any], call_id: str) -> bool:
        try:
            args = self._body.bind(params).shown()
        except (InputError, ModelBehaviorError):
            args = None  # refused at the tool, so that there is nothing to ask a person
        if args is not None and await self._escalates(context, args, call_id):
            return True
        return await self._operator_asks(context, params, call_id, args)

    async def _escalates(self, context: Any, args: dict[str, Any], call_id: str) -> bool:
        call = self._attachment.call(self._tool.qualified_name, args, context, id=call_id)
        if call.conversation is None:
            return False  # denied at the tool, with what to configure
        verdict = await self._attachment.guard.apreview(call)
        return self._attachment.ask(call, verdict)

    async def _operator_asks(self, context: Any, params: dict[str, Any], call_id: str, args: Any) -> bool:
        asks = self._tool.needs_approval
        if not callable(asks):
            return bool(asks)
        if hasattr(self._tool, "__wrapped__") and freeze(args) != freeze(params):
            return True  # as the SDK has it: what validation changed is for a person
        needed = asks(context, params, call_id)
        return bool(await needed if inspect.isawaitable(needed) else needed)


def host_said(context: Any, tool: FunctionTool) -> Literal["once", "always"] | None:
    """Whether the SDK holds an approval of the call that this context is for: of this one, or of all of the tool's."""
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


def request(item: ToolApprovalItem) -> ApprovalRequest:
    """What a person is asked by an interruption: every argument as the tool will get it, and why.

    Args:
        item: one of `result.interruptions`, of a guarded agent.

    Raises:
        InputError: it is none.
    """
    attachment = _attachment(item)
    asked = attachment.waiting(item)
    if len(asked) == 1:
        return attachment.guard.request(asked[0].call, asked[0].verdict)
    tool = item.qualified_name or item.tool_name or ""
    args, agent = read_object(item.arguments or "", tool), getattr(item.agent, "name", None)
    return ApprovalRequest(tool, args, _ELSEWHERE, id=item.call_id or "", agent=agent)


def answer(state: Any, item: ToolApprovalItem, said: Any) -> None:
    """Tells a run's state what a person said of an interruption; the SDK itself knows no edit.

    Args:
        state: of `result.to_state()`.
        item: one of its interruptions.
        said: an `Approval`, or what `Approval.read` takes: `True`, `{"choice": "edit", "args": {...}}`, ...

    Raises:
        InputError: it is no interruption of a guarded agent, or an edit of a call that was not asked about here.
    """
    approval, attachment = Approval.read(said), _attachment(item)
    asked = attachment.waiting(item)
    if approval.choice == "edit" and len(asked) != 1:
        raise InputError(
            f"{item.tool_name} was not asked about here, so that it cannot be edited; approve or reject it"
        )
    if len(asked) == 1:
        asked[0].said = approval
    if approval.choice == "reject":
        reason = f": {approval.reason}" if approval.reason else ""
        state.reject(item, rejection_message=f"A person rejected this call{reason}")
        attachment.rejected(asked)
    else:
        state.approve(item)


def _attachment(item: ToolApprovalItem) -> Attachment:
    found = getattr(item.agent, "guardagent_attachment", None)
    if found is None:
        raise InputError("this is no interruption of a guarded agent; expected one of result.interruptions")
    return found  # type: ignore[no-any-return]
