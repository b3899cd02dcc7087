"""The host's own approval: an interrupt of the run, whose id stands for exactly the call that was shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from guardagent._support.execution import Procedure
from guardagent.enforcement import Approval, ApprovalRequest, EnforcementPoint, HostCall
from guardagent.enforcement.approval import with_edits
from guardagent.enforcement.enforcement_point import MAX_REQUESTS, JudgedCall
from guardagent.types import Decision, Verdict

_ELSEWHERE = Verdict(Decision.ESCALATE, reasons=("the approval was requested before, and has the reasons",))
_OURS = "v1:middleware_execute_tool:"  # so that no tool can raise it
_RACED = "this call needs human approval only since another call is in flight; propose it again"
_DIRECT = "a direct call cannot be interrupted for human approval; let the agent call the tool, or set an approver"


def ask_host(
    guard: EnforcementPoint, call: HostCall, context: Any, options: Mapping[str, Any]
) -> Procedure[JudgedCall | None]:
    """Asks a reviewer through the host if a rule escalates the call. Returns None if none does.

    The host runs the call again after the answer, here or in another process. The request is in the guard's ledger.

    Args:
        guard: decides.
        call: the call without its step, which a resumed run does not know.
        context: the host's context of the tool.
        options: the host's other arguments of the tool; in the background they have a context of their own.

    Raises:
        InterruptException: the call waits for an answer.
    """
    life, edits = guard.lifecycle, guard.notes(str(call.conversation)).setdefault("edits", {})
    for _ in range(MAX_REQUESTS):
        if call.digest in edits:  # when the call ran before
            call = with_edits(call, edits[call.digest])
            continue
        answer = _answer(call, context, options)
        if answer is None:
            verdict = _ELSEWHERE if guard.has_request(call) else (yield from life.preview(call))
            if verdict.decision is not Decision.ESCALATE:
                return None
            context.interrupt(_name(call), reason=_shown(life.request(call, verdict)))
        approval = Approval.read(answer)
        approval = replace(approval, of=approval.of or call.digest).validated(call.validate_edit)
        verdict = yield from life.resolve(call, approval)
        edited = with_edits(call, approval)
        if verdict.decision is not Decision.ESCALATE:
            return verdict, edited
        edits[call.digest], call = approval, edited
    return Verdict(Decision.DENY, reasons=("it was edited too often",)), call


def explained(verdict: Verdict, *, direct: bool) -> Verdict:
    """Returns the verdict on a call that escalates where the host cannot ask, with the reason."""
    if verdict.decision is not Decision.ESCALATE:
        return verdict
    return replace(verdict, errors=(*verdict.errors, _DIRECT if direct else _RACED))


def _answer(call: HostCall, context: Any, options: Mapping[str, Any]) -> Any:
    """Returns the answer to the request of exactly this call; None if there is none yet.

    `context.interrupt` would record an interrupt without a reason in the background, before anybody has seen one.
    """
    interrupts = [
        one
        for one in _state(context, options).interrupts.values()
        if one.name == _name(call) and one.id.startswith(_OURS)
    ]
    return next((one.response for one in interrupts if one.response is not None), None)


def is_resumed(context: Any, options: Mapping[str, Any]) -> bool:
    """Whether the host runs a call again that waited for an answer. A new call may have the id of an old one."""
    return bool(_state(context, options).activated)


def _state(context: Any, options: Mapping[str, Any]) -> Any:
    """Returns the host's interrupts of a call; in the background, a task has its own."""
    own = getattr(options.get("_tool_context"), "_task_interrupt_state", None)
    return context._interrupt_state if own is None else own  # noqa: SLF001 - the host has no public name


def _name(call: HostCall) -> str:
    """Returns the name of a call's interrupt. The host makes its id of it, so another call has another interrupt."""
    return f"guardagent:{call.digest}"


def _shown(request: ApprovalRequest) -> Any:
    return json.loads(json.dumps(request.to_dict(), default=str))  # the host stores it as JSON
