"""A person's approval through the host's own interrupt, which a Command answers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any

from guardagent.enforcement import Approval, HostCall
from guardagent.enforcement.approval import applied
from guardagent.frameworks.langgraph.adapter.plain import plain_arguments
from guardagent.frameworks.langgraph.adapter.proposal import Proposal
from guardagent.frameworks.langgraph.adapter.tasks import CannotAskError
from guardagent.types import Decision, Verdict

Steps = Generator[tuple[Any, ...], Any, Any]
"""What is to be done, which the caller does with or without await, and sends back what came of it."""

Edited = Callable[[Mapping[str, Any]], tuple[dict[str, Any], dict[str, Any]]]
"""Arguments that a person has written -> all arguments as the tool gets them, and those of them that are judged."""

_NO_CHECKPOINTER = (
    "it needs a person's approval, and this graph cannot wait for one: it has no checkpointer; "
    "compile it with checkpointer=..., or give the guard an approver"
)


def decided(proposal: Proposal, call: HostCall, live: dict[str, Any], edited: Edited) -> Steps:
    """Judges a call and has people asked where it is escalated.

    The host runs the whole task again when a person has answered. Then the call is resolved by the answer that names
    it, and not judged as a new one.

    Args:
        proposal: what the call belongs to.
        call: the call.
        live: its arguments, as the tool gets them.
        edited: gives these for arguments that a person has written.

    Returns:
        The verdict, the call as a person left it, and its arguments.
    """
    verdict: Verdict | None = None
    while verdict is None or (verdict.decision is Decision.ESCALATE and proposal.guard.approver is None):
        said = proposal.answer(call)
        if said is None and verdict is None:
            verdict = yield ("before", call)
            continue
        approval = Approval.read(said) if verdict is None or said is not None else _asked(proposal, call, verdict)
        if approval.choice == "edit":
            approval, live = _as_edited(approval, live, edited)
        verdict = yield ("resolve", call, approval)
        call = applied(call, approval)
    return verdict, call, live


def _asked(proposal: Proposal, call: HostCall, verdict: Verdict) -> Approval:
    if not _can_wait(proposal.config):
        return Approval("reject", reason=_NO_CHECKPOINTER)
    assert proposal.run is not None
    try:
        shown = proposal.guard.request(call, verdict).to_dict()
        return Approval.read(proposal.task.ask(proposal.run, shown, alone=proposal.alone))
    except CannotAskError as error:
        return Approval("reject", reason=f"a person could not be asked: {error}")


def _as_edited(said: Approval, live: dict[str, Any], edited: Edited) -> tuple[Approval, dict[str, Any]]:
    """What a person wrote goes through the tool's validation, too."""
    try:
        new, judged = edited(said.args)
        args = plain_arguments(judged)
    except Exception as error:  # noqa: BLE001 - whatever a validation raises
        return Approval("reject", reason=f"the edited arguments do not fit: {error}", by=said.by), live
    return replace(said, args=args), new


def _can_wait(config: Mapping[str, Any]) -> bool:
    return bool((config.get("configurable") or {}).get("__pregel_checkpointer"))
