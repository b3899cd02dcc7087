"""A person's approval through the host's own interrupt: `Command(resume=...)` answers it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from guardagent.adapters.langgraph.plain import plain_arguments
from guardagent.adapters.langgraph.proposal import Proposal, written
from guardagent.adapters.langgraph.tasks import Asked, CannotAskError
from guardagent.enforcement import Approval, HostCall, Outcome
from guardagent.enforcement.tool_guard import applied
from guardagent.types import Decision, Verdict, unchecked

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

    The host runs the whole task again when a person has answered. Then the call is judged again, and the answers come
    in the order in which they were asked for.

    Args:
        proposal: what the call belongs to.
        call: the call.
        live: its arguments, as the tool gets them.
        edited: gives these for arguments that a person has written.

    Returns:
        The verdict, the call as a person left it, and its arguments.
    """
    chain: list[Asked] = []
    verdict = yield ("before", call)
    if not verdict.label and _answered(proposal, call):
        yield ("after", call, Outcome("not run: a person's answer stood against it", failed=True))
        why = "what the rules say of it has changed since a person was asked; propose it again"
        return unchecked(why, checked_by="policy"), call, live
    while verdict.decision is Decision.ESCALATE and proposal.guard.approver is None:
        asked, said = _said(proposal, call, verdict)
        if said.choice == "edit":
            said, live = _as_edited(said, live, edited)
        verdict = yield ("resolve", call, said)
        call = applied(call, said)
        chain += [asked] if asked is not None else []
    if not verdict.label:
        for asked in chain:
            asked.spent = True
    return verdict, call, live


def _answered(proposal: Proposal, call: HostCall) -> bool:
    """Whether a person has said anything but yes to a call that nothing stands against any more."""
    key = _key(call)
    return any(
        one.key == key and one.is_answered and not one.spent and Approval.read(one.answer).choice != "approve"
        for one in proposal.task.asked
    )


def _said(proposal: Proposal, call: HostCall, verdict: Verdict) -> tuple[Asked | None, Approval]:
    if not _can_wait(proposal.config):
        return None, Approval("reject", reason=_NO_CHECKPOINTER)
    try:
        request = proposal.guard.request(call, verdict).to_dict()
        asked = proposal.task.ask(_key(call), request, alone=proposal.alone)
    except CannotAskError as error:
        return None, Approval("reject", reason=f"a person could not be asked: {error}")
    return asked, Approval.read(asked.answer)


def _as_edited(said: Approval, live: dict[str, Any], edited: Edited) -> tuple[Approval, dict[str, Any]]:
    """What a person wrote goes through the tool's validation, too."""
    try:
        new, judged = edited(said.args)
        args = plain_arguments(judged)
    except Exception as error:  # noqa: BLE001 - whatever a validation raises
        return Approval("reject", reason=f"the edited arguments do not fit: {error}", by=said.by), live
    return Approval("edit", args, by=said.by), new


def _key(call: HostCall) -> Any:
    return (call.id, call.tool, written(call.args))


def _can_wait(config: Mapping[str, Any]) -> bool:
    return bool((config.get("configurable") or {}).get("__pregel_checkpointer"))
