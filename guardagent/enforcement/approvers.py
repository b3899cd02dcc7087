"""Calls an approver. Any error in it rejects the call."""

from __future__ import annotations

import asyncio
import inspect

from guardagent.enforcement.approval import Approval, ApprovalRequest, Approver
from guardagent.errors import error_text


def ask(approver: Approver, request: ApprovalRequest) -> Approval:
    """Calls an approver in this thread."""
    try:
        answer = approver(request)
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            return Approval(
                "reject", reason="the approver is a coroutine function, but these tools are called without await"
            )
        return Approval.read(answer)
    except Exception as error:  # noqa: BLE001 - any error rejects
        return _failed(error)


async def aask(approver: Approver, request: ApprovalRequest) -> Approval:
    """As `ask`, without blocking the event loop: a plain function is called in a thread."""
    try:
        if inspect.iscoroutinefunction(approver):
            return Approval.read(await approver(request))
        answer = await asyncio.to_thread(approver, request)
        return Approval.read(await answer if inspect.isawaitable(answer) else answer)
    except Exception as error:  # noqa: BLE001 - as above
        return _failed(error)


def _failed(error: Exception) -> Approval:
    return Approval("reject", reason=f"the approval request failed: {error_text(error)}")
