"""The host's own approval: a tool requests a confirmation, and runs again once it is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from google.adk.flows.llm_flows.functions import REQUEST_CONFIRMATION_FUNCTION_CALL_NAME as CONFIRMATION
from google.genai import types

from guardagent.enforcement import Approval
from guardagent.errors import InputError
from guardagent.types import thaw

_CALL, _REQUESTED = "originalFunctionCall", "toolConfirmation"


@dataclass(frozen=True, slots=True)
class AdkQuestion:
    """An approval request that a run waits for.

    Attributes:
        id: the host's id of the request, which its answer repeats.
        request: the request, as `ApprovalRequest.to_dict` writes it.
    """

    id: str
    request: Mapping[str, Any] = field(repr=False)

    @property
    def digest(self) -> str:
        """Identifies what the reviewer sees."""
        return str(self.request["digest"])


def questions(event: Any) -> list[AdkQuestion]:
    """Returns the approval requests of a guard in an event of a run; a model cannot write one."""
    found, of_the_host = [], event.long_running_tool_ids or ()
    for call in event.get_function_calls():
        payload = _payload(call)
        if call.name == CONFIRMATION and call.id in of_the_host and payload is not None:
            found.append(AdkQuestion(call.id, payload))
    return found


def answer(question: AdkQuestion, decision: Any) -> types.Content:
    """Returns a reviewer's answer, as the next message of the session: `runner.run_async(new_message=answer(...))`.

    Args:
        question: one of `questions(event)`.
        decision: an `Approval`, or a value that `Approval.read` accepts: `True`, `{"choice": "edit", "args": {...}}`,
            ... If it names a request as `of`, that must be this one.

    Raises:
        InputError: the answer is for another request.
    """
    approval = Approval.read(decision)
    if approval.of is not None and approval.of.partition(".")[0] != question.digest.partition(".")[0]:
        raise InputError("the answer is for another request than that of the question; request approval again")
    decided: dict[str, Any] = {
        "choice": approval.choice,
        "reason": approval.reason,
        "of": approval.of or question.digest,
    }
    decided |= {"by": approval.by} if approval.by else {}
    decided |= {"args": thaw(approval.args)} if approval.choice == "edit" else {}
    response = {"confirmed": approval.choice != "reject", "payload": decided}
    part = types.Part(function_response=types.FunctionResponse(id=question.id, name=CONFIRMATION, response=response))
    return types.Content(role="user", parts=[part])


def approval_of(context: Any) -> Approval | None:
    """Returns the reviewer's answer with which a tool runs again; None if the guard has not asked about this call.

    A bare yes, such as that of ADK's web interface, is for the request that the session shows for it. An answer that
    names a request itself is for that one.
    """
    confirmation = context.tool_confirmation
    if confirmation is None:
        return None
    shown = _shown_digest(context)
    if shown is None:
        return None  # the host has asked by the tool's own `require_confirmation`
    payload = confirmation.payload if isinstance(confirmation.payload, Mapping) else {}
    if not confirmation.confirmed:
        return Approval("reject", reason=_text_or_nothing(payload.get("reason")), by=payload.get("by"))
    approval = (
        Approval.read(payload)
        if "choice" in payload
        else Approval("approve", of=_text_or_nothing(payload.get("digest")) or None)
    )
    return replace(approval, of=shown if approval.of is None else approval.of)


def _shown_digest(context: Any) -> str | None:
    """Returns the digest of the last request about a call that the session shows, and that the user has answered."""
    answered = set[str]()
    for event in reversed(context.session.events):
        if event.author == "user":
            answered.update(one.id for one in event.get_function_responses() if one.id)
        for call in event.get_function_calls():
            about = (call.args or {}).get(_CALL)
            if call.name != CONFIRMATION or call.id not in answered or not isinstance(about, Mapping):
                continue
            if about.get("id") == context.function_call_id:
                payload = _payload(call)
                return None if payload is None else str(payload["digest"])
    return None


def _payload(call: Any) -> Mapping[str, Any] | None:
    request = (call.args or {}).get(_REQUESTED)
    payload = request.get("payload") if isinstance(request, Mapping) else None
    return payload if isinstance(payload, Mapping) and isinstance(payload.get("digest"), str) else None


def _text_or_nothing(value: Any) -> str:
    return value if isinstance(value, str) else ""
