"""Human approval through the host's own interrupt, which a Command answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from guardagent._support.execution import Procedure
from guardagent.enforcement import Approval, HostCall
from guardagent.enforcement.approval import with_edits
from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.enforcement_point import JudgedCall
from guardagent.frameworks.langgraph.adapter.proposal import ToolCallProposal
from guardagent.frameworks.langgraph.adapter.runs import CannotAskError
from guardagent.types import Decision, Verdict

ValidateEdit = Callable[[Mapping[str, Any]], tuple[dict[str, Any], dict[str, Any]]]
"""Maps edited arguments to all arguments of the tool, and to the judged ones among them."""

_NO_CHECKPOINTER = (
    "it needs human approval, but this graph has no checkpointer and cannot wait for one; "
    "compile it with checkpointer=..., or give the guard an approver"
)


@dataclass(slots=True)
class LiveArguments:
    """The arguments of a call as the tool gets them.

    Attributes:
        args: the arguments by name.
        call: the call that was judged with them.
        validate_edit: validates a reviewer's edited arguments.
    """

    args: dict[str, Any]
    call: HostCall
    validate_edit: ValidateEdit


def decide(proposal: ToolCallProposal, live: LiveArguments) -> Procedure[JudgedCall]:
    """Judges a call, and requests approval if it is escalated.

    The host runs the whole task again after an answer. The call is then resolved by the answer that names it, and not
    judged as a new call.

    Args:
        proposal: the model's proposal.
        live: the call and its arguments; a reviewer's edits are stored here.
    """
    verdict: Verdict | None = None
    call, life = live.call, proposal.guard.lifecycle
    while verdict is None or (verdict.decision is Decision.ESCALATE and proposal.guard.approver is None):
        answer = _host_answer(proposal, call)
        if answer is None and verdict is None:
            verdict, call = yield from life.judge(call)
            continue
        approval = (
            Approval.read(answer) if verdict is None or answer is not None else _ask_host(proposal, call, verdict)
        )
        if approval.choice == "edit":
            approval = _validate_edit(approval, live)
        verdict = yield from life.resolve(call, approval)
        call = live.call = with_edits(call, approval)
    return verdict, call


def _host_answer(proposal: ToolCallProposal, call: HostCall) -> Any:
    """Takes the host's answer about a call; None if there is none, or if the guard has its own approver."""
    if proposal.run is None or not proposal.run.answers or proposal.guard.approver is not None:
        return None
    return proposal.run.answers.pop(call.digest, None)


def _ask_host(proposal: ToolCallProposal, call: HostCall, verdict: Verdict) -> Approval:
    if not _can_wait(proposal.config):
        return Approval("reject", reason=_NO_CHECKPOINTER)
    assert proposal.run is not None
    try:
        shown = proposal.guard.request(call, verdict).to_dict()
        return Approval.read(proposal.task.ask(proposal.run, shown, alone=proposal.alone))
    except CannotAskError as error:
        return Approval("reject", reason=f"the approval request failed: {error}")


def _validate_edit(approval: Approval, live: LiveArguments) -> Approval:
    """Validates a reviewer's edited arguments by the tool's own validation."""
    try:
        new, judged = live.validate_edit(approval.args)
        args = plain_arguments(judged)
    except Exception as error:  # noqa: BLE001 - whatever a validation raises
        return Approval("reject", reason=f"the edited arguments do not fit: {error}", by=approval.by)
    live.args = new
    return replace(approval, args=args)


def _can_wait(config: Mapping[str, Any]) -> bool:
    return bool((config.get("configurable") or {}).get("__pregel_checkpointer"))
