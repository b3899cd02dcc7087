"""The host's own approval: a run ends with `DeferredToolRequests`, and a later run has the answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_ai import ApprovalRequired, DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied

from guardagent._support.execution import Procedure
from guardagent.enforcement import Approval, EnforcementPoint, HostCall
from guardagent.enforcement.approval import with_edits
from guardagent.enforcement.enforcement_point import JudgedCall
from guardagent.errors import InputError
from guardagent.types import Decision, Verdict, thaw

KEY = "approval"
_BY_THE_HOST = Verdict(Decision.ESCALATE, reasons=("its tool requires approval",))
_WAITS = (
    "this run cannot wait for a reviewer: add DeferredToolRequests to its output types, or use ToolGuard(approver=...)"
)
_OUTPUT = "an output function cannot wait for a reviewer; use ToolGuard(approver=...)"


def answer_requests(requests: DeferredToolRequests, decisions: Mapping[str, Any]) -> DeferredToolResults:
    """Returns the results with which a run continues, bound to what the reviewers were shown.

    Args:
        requests: the output of the run that waits.
        decisions: the id of a call -> an `Approval`, or a value that `Approval.read` accepts: `True`,
            `{"choice": "edit", "args": {...}}`, ... with arguments as the model writes them. If it names a request as
            `of`, that must be the request of the call.

    Raises:
        InputError: there is no such call, or the answer is for another request.
    """
    results = DeferredToolResults()
    waiting = {one.tool_call_id for one in requests.approvals}
    for call_id, decision in decisions.items():
        if call_id not in waiting:
            raise InputError(f"no call {call_id!r} waits for approval; expected one of {sorted(waiting)}")
        request = requests.metadata.get(call_id, {}).get(KEY, {})
        digest = request.get("digest")
        approval = Approval.read(decision)
        if approval.of is not None and (digest is None or _call_digest(approval.of) != _call_digest(digest)):
            raise InputError(f"the answer is for another request than that of {call_id!r}; request approval again")
        results.approvals[call_id] = _host_answer(approval, request)
        results.metadata[call_id] = {KEY: {"digest": approval.of or digest, "by": approval.by, "request": request}}
    return results


def rejections(results: Any) -> Mapping[str, Any]:
    """Returns the ids of the calls that a reviewer has rejected, and the host's metadata of each."""
    decisions = results.approvals if isinstance(results, DeferredToolResults) else {}
    denied = [one for one, decision in decisions.items() if decision is False or isinstance(decision, ToolDenied)]
    return {one: results.metadata.get(one) for one in denied}


def answered_call(conversation: str, call_id: str, metadata: Any, shown: Mapping[str, HostCall]) -> HostCall | None:
    """Returns the call that a reviewer has answered; None if nothing tells it.

    Args:
        conversation: its conversation.
        call_id: its id.
        metadata: the host's, with the request if the answer is one of `answer_requests`.
        shown: the calls that this process has shown, by their ids.
    """
    found = metadata.get(KEY) if isinstance(metadata, Mapping) else None
    request = found.get("request") if isinstance(found, Mapping) else None
    if not isinstance(request, Mapping):
        return shown.get(call_id)
    call = HostCall(str(request.get("tool")), request.get("args") or {}, conversation, id=call_id)
    same = _call_digest(str(request.get("digest"))) == call.digest
    return call if same else shown.get(call_id)


def _host_answer(approval: Approval, request: Mapping[str, Any]) -> ToolApproved | ToolDenied:
    if approval.choice == "reject":
        reason = f": {approval.reason}" if approval.reason else ""
        return ToolDenied(f"A person rejected this call{reason}")
    edited = request.get("args") if request.get("edited") else None  # the host itself knows only the model's call
    return ToolApproved(override_args=thaw(approval.args) if approval.choice == "edit" else edited)


def ask_host(guard: EnforcementPoint, call: HostCall, *, by_host: bool = False) -> Procedure[Verdict]:
    """Ends the run with a request if a rule escalates the call, or if the host itself wants one.

    Returns:
        The verdict, if there is no request.

    Raises:
        ApprovalRequired: with the request as metadata.
    """
    life, shown = guard.lifecycle, as_shown(call)
    verdict = yield from life.preview(shown)
    if verdict.decision is not Decision.ESCALATE:
        if not by_host or verdict.label:
            return verdict
        recorded = yield from life.record_host_request(shown)
        if recorded.label:
            return recorded
        verdict = _BY_THE_HOST
    raise _required(guard, shown, verdict)


def answered(guard: EnforcementPoint, call: HostCall, original: HostCall, metadata: Any) -> Procedure[JudgedCall]:
    """Judges a call that the host's reviewer has approved.

    Args:
        guard: decides.
        call: as it is about to run.
        original: as the model proposed it; the reviewer may have edited it.
        metadata: the host's, of the answer.

    Raises:
        ApprovalRequired: nobody was shown this call, or the edited call needs approval, too.
    """
    of, by = _bound(metadata)
    named = answered_call(str(call.conversation), call.id, metadata, {})
    if named is not None and of is not None and _call_digest(of) == named.digest != original.digest:
        original = replace(original, args=named.args)  # an edited call, which has a request of its own
    life, shown = guard.lifecycle, as_shown(original)
    call = replace(as_shown(call), messages=shown.messages)
    if not guard.has_request(shown):  # of another guard, or the stored call has changed since
        verdict = yield from ask_host(guard, call, by_host=True)
        return verdict, call
    choice = "approve" if call.args == shown.args else "edit"
    approval = Approval(choice, call.args if choice == "edit" else {}, by=by, of=of or shown.digest)  # type: ignore[arg-type] # one of both
    verdict = yield from life.resolve_approval(shown, approval)
    edited = with_edits(shown, approval)
    if verdict.decision is Decision.ESCALATE:
        if life.approver is not None:
            return (yield from life.ask_approver(edited, verdict, life.approver))
        if choice == "edit":  # from now on a bare yes may mean the edited call: it never again covers this one
            yield from life.resolve_approval(shown, Approval("reject", reason="edited", by=by, of=of))
        raise _required(guard, edited, verdict, edited=choice == "edit")
    return verdict, edited


def shown_calls(guard: EnforcementPoint, conversation: str) -> dict[str, HostCall]:
    """Returns the calls that this process has shown to reviewers, by their ids."""
    shown: dict[str, HostCall] = guard.notes(conversation).setdefault("shown", {})
    return shown


def _required(guard: EnforcementPoint, shown: HostCall, verdict: Verdict, *, edited: bool = False) -> ApprovalRequired:
    shown_calls(guard, str(shown.conversation))[shown.id] = shown
    request = guard.request(shown, verdict).to_dict()
    return ApprovalRequired(metadata={KEY: {**request, "edited": True} if edited else request})


def as_shown(call: HostCall) -> HostCall:
    """Returns a call as a reviewer is shown it: a later run does not know its step and its messages."""
    return replace(call, step=None, messages=None, seen=None)


def explained(verdict: Verdict, *, output: bool) -> Verdict:
    """Returns the verdict on a call that needs approval, and cannot wait for it: in this run, or as an output."""
    why = _OUTPUT if output else _WAITS
    return replace(verdict, errors=(*verdict.errors, why)) if verdict.decision is Decision.ESCALATE else verdict


def _bound(metadata: Any) -> tuple[str | None, str | None]:
    """Returns the digest that an answer names, and the reviewer."""
    found = metadata.get(KEY) if isinstance(metadata, Mapping) else None
    found = found if isinstance(found, Mapping) else {}
    of, by = found.get("digest"), found.get("by")
    return (of if isinstance(of, str) else None), (by if isinstance(by, str) else None)


def _call_digest(digest: str) -> str:
    return digest.partition(".")[0]
