"""The host's own approval: a request in the response, and an answer in the messages of a later run."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_framework import Content
from pydantic_core import to_jsonable_python

from guardagent.enforcement import Approval, ApprovalRequest, HostCall
from guardagent.enforcement.approval import with_edits
from guardagent.errors import InputError
from guardagent.frameworks.agent_framework.adapter.host_names import REQUEST_ID
from guardagent.types import freeze, thaw

REQUEST, ANSWER = "guardagent_request", "guardagent_answer"


class FunctionApprovalNeeded(Exception):  # noqa: N818 - a request, and no error
    """A call waits for a reviewer.

    Attributes:
        request: the guard's request.
        call: as it is shown.
        edited: whether a reviewer has changed it before.
    """

    def __init__(self, request: ApprovalRequest, call: HostCall, *, edited: bool) -> None:
        super().__init__(f"{request.tool} needs human approval")
        self.request, self.call, self.edited = request, call, edited


def answer(request: Content, decision: Any) -> Content:
    """Returns a reviewer's answer to an approval request of the guard, as a content for the next run's messages.

    Args:
        request: one of `response.user_input_requests`.
        decision: an `Approval`, or a value that `Approval.read` accepts: `True`, `{"choice": "edit", "args": {...}}`,
            ... If it names a request as `of`, that must be this one.

    Raises:
        InputError: the request is not one of a guard, or the answer is for another request.
    """
    shown = request.additional_properties.get(REQUEST) if request.type == "function_approval_request" else None
    if not isinstance(shown, Mapping) or not isinstance(shown.get("digest"), str):
        raise InputError(
            "this is not an approval request of a guard; for one of the host's own, use "
            "request.to_function_approval_response(...)"
        )
    digest, approval = shown["digest"], Approval.read(decision)
    if approval.of is not None and approval.of.partition(".")[0] != digest.partition(".")[0]:
        raise InputError("the answer is for another request than this one; request approval again")
    decided = {"choice": approval.choice, "reason": approval.reason, "by": approval.by, "of": approval.of or digest}
    edits = {"args": thaw(approval.args)} if approval.choice == "edit" else {}
    response = request.to_function_approval_response(approved=approval.choice != "reject")
    response.additional_properties = {**request.additional_properties, ANSWER: {**decided, **edits}}
    return response


def request_content(needed: FunctionApprovalNeeded, context: Any) -> Content:
    """Returns the host's form of a request; a repeated one of the same call is a replacement, as the host knows it."""
    call_id = context.metadata["call_id"]
    own = context.metadata.get("function_call_occurrence_id") or call_id
    tool, args = context.function.name, to_jsonable_python(dict(context.arguments), fallback=str)
    shown = {**needed.request.to_dict(), "step": needed.call.step, "edited": needed.edited}
    more: dict[str, Any] = {REQUEST: json.loads(json.dumps(shown, default=str))}
    if context.metadata.get("approval_response") is not None:
        more |= {REQUEST_ID: f"{own}:replacement:{secrets.token_hex(8)}", "_replacement_approval_request": True}
    return Content.from_function_approval_request(
        id=more.get(REQUEST_ID, own),
        function_call=Content.from_function_call(call_id=call_id, name=tool, arguments=args, id=own),
        additional_properties=more,
    )


def decision_in(content: Any) -> Mapping[str, Any] | None:
    """Returns the guard's request that an approval response answers, with the decision; None for other responses.

    A bare yes names no call, so that it approves nothing: standing approvals of the host say it, too. A yes to a
    request of the host itself is no answer here; the rules decide on that call as on any other.
    """
    more = getattr(content, "additional_properties", None) or {}
    shown, decision = more.get(REQUEST), more.get(ANSWER)
    if not isinstance(shown, Mapping):
        return None
    bare = {"choice": "approve" if content.approved is True else "reject"}
    return {**shown, ANSWER: decision if isinstance(decision, Mapping) else bare}


def call_shown(call: HostCall, answered: Mapping[str, Any]) -> HostCall:
    """Returns the call of an answer as it was shown, in the turn of its request.

    Raises:
        InputError: earlier edits do not fit the tool.
    """
    step = answered.get("step")
    call = replace(call, step=step if isinstance(step, str) else None, messages=None, seen=None)
    args = answered.get("args")
    if answered.get("edited") is not True or not isinstance(args, Mapping):
        return call
    fitting = args if call.validate_edit is None else call.validate_edit(args)
    return with_edits(call, Approval("edit", freeze(fitting)))
