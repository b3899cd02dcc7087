"""The host's own approval: a question to the person behind `hitl_hook`."""

from __future__ import annotations

import json
from typing import Any

from ag2.events import ToolApprovalRequest
from ag2.exceptions import HumanInputError

from guardagent._support.execution import Procedure
from guardagent.enforcement import Approval, ApprovalRequest, Approver, EnforcementPoint, HostCall
from guardagent.enforcement.enforcement_point import MAX_REQUESTS, JudgedCall
from guardagent.types import Decision

_YES = ("y", "yes", "1", "approve")  # as those of the host's own `approval_required`


def judged(guard: EnforcementPoint, call: HostCall, context: Any, tool_id: str | None) -> Procedure[JudgedCall]:
    """Judges a call. If a rule escalates it and the guard has no approver, the host asks a person."""
    life = guard.lifecycle
    verdict, call = yield from life.judge(call)
    for _ in range(MAX_REQUESTS if guard.approver is None and context is not None else 0):
        if verdict.decision is not Decision.ESCALATE:
            break
        verdict, call = yield from life.ask_approver(call, verdict, _approver(context, tool_id or call.id))
    return verdict, call


def _approver(context: Any, tool_id: str) -> Approver:
    async def ask(request: ApprovalRequest) -> Approval:
        question = ToolApprovalRequest(f"{request.text()}\nY/N?", tool_call_id=tool_id)
        try:
            return read_answer(await context.ask(question))
        except HumanInputError as error:
            return Approval("reject", reason=f"no reviewer has answered: {error}")

    return ask


def read_answer(text: str) -> Approval:
    """Reads a person's answer: a yes, or a JSON object that `Approval.read` accepts. Anything else rejects."""
    if text.strip().lower() in _YES:
        return Approval("approve")
    try:
        return Approval.read(json.loads(text))
    except ValueError:
        return Approval("reject")
