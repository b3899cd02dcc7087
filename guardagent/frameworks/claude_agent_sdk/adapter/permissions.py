"""The host's reviewer, `can_use_tool`: answers escalations, and the host's own questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny

from guardagent._support.execution import adrive
from guardagent.enforcement import Approval, HostCall
from guardagent.enforcement.approval import with_edits
from guardagent.enforcement.enforcement_point import MAX_REQUESTS
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.frameworks.claude_agent_sdk.adapter.calls import ClaudeCalls, same
from guardagent.frameworks.claude_agent_sdk.adapter.hook_outputs import denial_text, ends_run
from guardagent.types import Decision, Verdict, thaw

_UNJUDGED = "the guard has judged no such call; it is denied"
_CHANGED = "the host asks about other arguments than the judged ones"
_EDITED = "the reviewer changed the call"
_REFUSED = "the host's reviewer refused it"
_TOO_OFTEN = "it was edited too often"


class ReviewedCalls:
    """Stands before the operator's `can_use_tool`, and binds its answers to the calls that it was shown.

    Args:
        calls: knows the judged calls.
        own: the operator's callback.
    """

    def __init__(self, calls: ClaudeCalls, own: Any) -> None:
        self._calls, self._own, self._life = calls, own, calls.guard.lifecycle

    async def can_use_tool(self, tool: str, args: dict[str, Any], context: Any) -> Any:
        """Answers a question of the host. Any error denies."""
        call_id = str(context.tool_use_id)
        escalated = self._calls.take_escalated(call_id)
        call = self._calls.released(call_id) if escalated is None else escalated[1]
        try:
            if call is None or call.tool != tool:
                return PermissionResultDeny(message=_UNJUDGED)
            if not same(call.args, args):
                await self._calls.withdraw(call_id, _CHANGED)
                return PermissionResultDeny(message=_CHANGED)
            return await (
                self._permitted(call, context) if escalated is None else self._answered(call, escalated[0], context)
            )
        except Exception as error:  # noqa: BLE001 - of the operator's callback
            await self._calls.withdraw(call_id, _REFUSED)
            return PermissionResultDeny(message=f"the approval request failed: {error_text(error)}")

    async def _answered(self, call: HostCall, verdict: Verdict, context: Any) -> Any:
        """Asks about an escalated call, and judges it with the answer."""
        for _ in range(MAX_REQUESTS):
            result = await self._shown(call, context, self._life.request(call, verdict).text())
            approval = _approval(result, call).validated(call.validate_edit)
            verdict = await adrive(self._life.resolve(call, approval))
            call = with_edits(call, approval)
            if verdict.decision is not Decision.ESCALATE:
                return await self._ended(call, verdict, result)
        return PermissionResultDeny(message=_TOO_OFTEN)

    async def _permitted(self, call: HostCall, context: Any) -> Any:
        """Asks about a call that the guard allowed and the host does not by itself."""
        result = await self._shown(call, context, context.decision_reason)
        if not isinstance(result, PermissionResultAllow):
            await self._calls.withdraw(call.id, _REFUSED)
            return result
        if result.updated_input is None or same(call.args, result.updated_input):
            return replace(result, updated_input=thaw(call.args))
        await self._calls.withdraw(call.id, _EDITED)
        return await self._edited(call, result, context)

    async def _edited(self, call: HostCall, result: Any, context: Any) -> Any:
        """Judges a call that the reviewer changed though no rule had escalated it."""
        try:
            edited = replace(call, args=self._calls.fit(call.tool, result.updated_input))
        except InputError as error:
            return _denied(await self._calls.guard.arefuse(call, str(error)))
        try:
            edited, args = await adrive(self._life.authorize(edited))
        except ToolDenied as denied:
            if denied.verdict.decision is not Decision.ESCALATE:
                return _denied(denied.verdict)
            return await self._answered(edited, denied.verdict, context)
        self._calls.release(edited)
        return replace(result, updated_input=args)

    async def _ended(self, call: HostCall, verdict: Verdict, result: Any) -> Any:
        if verdict.label:
            return _denied(verdict, interrupt=getattr(result, "interrupt", False))
        args = await adrive(self._life.use(call))
        self._calls.release(call)
        return replace(result, updated_input=args)

    async def _shown(self, call: HostCall, context: Any, why: str | None) -> Any:
        return await self._own(call.tool, thaw(call.args), replace(context, decision_reason=why))


def _approval(result: Any, call: HostCall) -> Approval:
    """Reads the callback's answer, which is about the call that it was shown just now."""
    if not isinstance(result, PermissionResultAllow):
        return Approval("reject", reason=str(getattr(result, "message", "")))
    changed: Mapping[str, Any] | None = result.updated_input
    if changed is None or same(call.args, changed):
        return Approval("approve", of=call.digest)
    return Approval("edit", changed, of=call.digest)


def _denied(verdict: Verdict, *, interrupt: bool = False) -> Any:
    return PermissionResultDeny(message=denial_text(verdict), interrupt=interrupt or ends_run(verdict))
