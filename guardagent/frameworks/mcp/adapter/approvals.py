"""Human approval through a form that the client shows (elicitation)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guardagent.enforcement import Approval, ApprovalRequest
from guardagent.enforcement.schema import read_object
from guardagent.errors import InputError
from guardagent.frameworks.mcp.adapter.wire import CAPABILITIES_KEY, envelope_of

KEY = "guardagent.approval"
"""The key of the guard's request among the input requests of a result (protocol 2026-07-28)."""

_FORM = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": ["reject", "approve", "edit"]},
        "arguments": {
            "type": "string",
            "title": "Edited arguments",
            "description": "Only with edit: all arguments, as a JSON object",
        },
        "reason": {"type": "string", "title": "Reason", "description": "Only with reject: feedback to the agent"},
    },
    "required": ["decision"],
}


def question(request: ApprovalRequest) -> dict[str, Any]:
    """Returns the parameters of `elicitation/create` for a call with all its arguments."""
    return {"mode": "form", "message": request.text(), "requestedSchema": _FORM}


def asking_result(request: ApprovalRequest, state: str) -> dict[str, Any]:
    """Builds the result that requests approval; the client calls again with the answer and the state."""
    elicitation = {"method": "elicitation/create", "params": question(request)}
    return {"resultType": "input_required", "inputRequests": {KEY: elicitation}, "requestState": state}


def answer_in(params: Mapping[str, Any]) -> Approval:
    """Reads the reviewer's answer from the parameters of the repeated call."""
    found = params.get("inputResponses")
    return answer(found.get(KEY) if isinstance(found, Mapping) else None)


def asks_by_result(params: Mapping[str, Any]) -> bool:
    """Whether a call uses protocol 2026-07-28 or later, and its client shows forms."""
    envelope = envelope_of(params)
    return envelope is not None and can_ask(envelope.get(CAPABILITIES_KEY))


def can_ask(capabilities: Any) -> bool:
    """Whether a client shows forms; an empty `elicitation` capability means that it does."""
    found = capabilities.get("elicitation") if isinstance(capabilities, Mapping) else None
    return isinstance(found, Mapping) and (not found or isinstance(found.get("form"), Mapping))


def answer(response: Any) -> Approval:
    """Reads a filled-in form. Anything that is not an approval rejects."""
    if not isinstance(response, Mapping) or response.get("action") != "accept":
        action = response.get("action") if isinstance(response, Mapping) else None
        return Approval("reject", reason="the form was not filled in" if action in ("cancel", None) else "")
    content = response.get("content")
    if isinstance(content, Mapping) and content.get("decision") == "edit":
        return _edited(content.get("arguments"))
    decision = (
        {"choice": content.get("decision"), "reason": content.get("reason")} if isinstance(content, Mapping) else None
    )
    return Approval.read(decision)


def _edited(text: Any) -> Approval:
    try:
        return Approval("edit", read_object(text if isinstance(text, str) and text else "null", "the edited call"))
    except InputError as error:
        return Approval("reject", reason=str(error))
