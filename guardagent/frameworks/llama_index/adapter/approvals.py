"""The host's own approval: a step waits for a HumanResponseEvent, and runs again once it is there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from workflows.events import HumanResponseEvent, InputRequiredEvent

from guardagent._support.execution import Operation, Procedure
from guardagent.enforcement import Approval, ApprovalRequest, EnforcementPoint, HostCall
from guardagent.enforcement.approval import with_edits
from guardagent.enforcement.enforcement_point import MAX_REQUESTS, JudgedCall
from guardagent.errors import InputError
from guardagent.types import Decision, Verdict, thaw

_ELSEWHERE = Verdict(Decision.ESCALATE, reasons=("the approval was requested before, and has the reasons",))
_RACED = "this call needs human approval only since another call is in flight; propose it again"


def answer(ctx: Any, event: Any, decision: Any) -> None:
    """Sends a reviewer's answer to a run that waits for it.

    Args:
        ctx: the run's context, such as `handler.ctx`.
        event: the guard's InputRequiredEvent.
        decision: an `Approval`, or a value that `Approval.read` accepts: `True`, `{"choice": "edit", "args": {...}}`,
            ... If it names a request as `of`, that must be the request of this event.

    Raises:
        InputError: the event is not one of a guard, or the answer is for another request.
    """
    digest = event.get("digest", None)
    if not isinstance(digest, str):
        raise InputError("this event is not an approval request of a guard; expected one with a 'digest'")
    approval = Approval.read(decision)
    if approval.of is not None and approval.of.partition(".")[0] != digest.partition(".")[0]:
        raise InputError("the answer is for another request than that of the event; request approval again")
    decided = {"choice": approval.choice, "reason": approval.reason, "by": approval.by, "of": approval.of or digest}
    edited = {"args": thaw(approval.args)} if approval.choice == "edit" else {}
    ctx.send_event(HumanResponseEvent(call=digest.partition(".")[0], decision={**decided, **edited}))


def ask_host(guard: EnforcementPoint, call: HostCall, ctx: Any) -> Procedure[JudgedCall | None]:
    """Asks a reviewer through the host if a rule escalates the call. Returns None if none does.

    The step runs again after the answer, here or in another process, and finds the request in the guard's ledger.
    """
    life, edits = guard.lifecycle, guard.notes(str(call.conversation)).setdefault("edits", {})
    for _ in range(MAX_REQUESTS):
        if call.digest in edits:  # in an earlier run of the step
            call = with_edits(call, edits[call.digest])
            continue
        verdict = _ELSEWHERE if guard.has_request(call) else (yield from life.preview(call))
        if verdict.decision is not Decision.ESCALATE:
            return None
        request = life.request(call, verdict)
        response = yield Operation(_no_sync, lambda request=request, shown=call: _wait(ctx, request, shown))  # type: ignore[misc]
        approval = Approval.read(response.get("decision", None)).validated(call.validate_edit)
        verdict = yield from life.resolve(call, approval)
        edited = with_edits(call, approval)
        if verdict.decision is not Decision.ESCALATE:
            return verdict, edited
        edits[call.digest], call = approval, edited
    return Verdict(Decision.DENY, reasons=("it was edited too often",)), call


async def _wait(ctx: Any, request: ApprovalRequest, call: HostCall) -> Any:
    shown = InputRequiredEvent(prefix=request.text(), digest=request.digest, request=request.to_dict())
    return await ctx.wait_for_event(
        HumanResponseEvent,
        waiter_event=shown,
        waiter_id=call.digest,
        requirements={"call": call.digest},
        timeout=None,
    )


def explained(verdict: Verdict) -> Verdict:
    """Returns the verdict on a call that escalates, though it did not when it was judged ahead of its tool."""
    return replace(verdict, errors=(*verdict.errors, _RACED)) if verdict.decision is Decision.ESCALATE else verdict


def _no_sync() -> Any:
    raise InputError("a call that needs human approval has to be awaited; expected acall(), or an approver")
