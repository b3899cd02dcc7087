"""The host's own approval, and final answers, judged before the user sees them, also in a stream.

An approval is a request in the response, and an answer in the messages of a later run.
"""

from __future__ import annotations

import copy
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from agent_framework import ChatResponse, ChatResponseUpdate, Content, Message, ResponseStream
from pydantic_core import to_jsonable_python

from guardagent.enforcement import Approval, ApprovalRequest, EnforcementPoint, HostCall
from guardagent.enforcement.approval import with_edits
from guardagent.enforcement.host_adapter import last_user_text, withheld
from guardagent.errors import InputError
from guardagent.frameworks.agent_framework.adapter.runs import REQUEST_ID, ClientRun, ClientScope, call_ids
from guardagent.types import Verdict, freeze, thaw

# --- approval

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

    A plain yes names no call and therefore approves nothing: standing approvals of the host say it, too. A yes to a
    request of the host itself does not count here; the rules still judge the call.
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


# --- final answers

_KEPT = frozenset({"function_call", "function_result", "function_approval_request"})
Start = Callable[[], Awaitable[None]]


async def answered(judge: ClientAnswers, respond: Callable[[], Any], start: Start) -> Any:
    """Returns the response to a run, without a denied answer.

    Raises:
        AgentFrameworkHalted: a rule halts the run.
    """
    await start()
    response, _ = await judge.final(await respond())
    return response


def streamed(judge: ClientAnswers, stream: Callable[[], Any], start: Start, form: Any) -> ResponseStream[Any, Any]:
    """Returns the stream of a run. If answers are judged, it begins once the run has ended.

    Args:
        judge: judges the answer.
        stream: opens the host's stream.
        start: runs before.
        form: the format of a structured answer.
    """

    async def updates() -> AsyncIterator[Any]:
        await start()
        held: list[Any] = []
        async with stream() as own:
            async for update in own:
                if judge.judges:
                    held.append(update)
                else:
                    yield update
            whole = await own.get_final_response()
        shown = len(whole.messages)
        response, changed = await judge.final(whole)
        for update in _updates(response) if changed else [*held, *_updates(response, shown)]:
            yield update

    return ResponseStream(
        updates(), finalizer=lambda updates_: ChatResponse.from_updates(updates_, output_format_type=form)
    )


def held_stream(own: Any, read: Callable[[Any], Awaitable[tuple[Any, bool]]]) -> ResponseStream[Any, Any]:
    """Returns a model's stream, which begins once the whole message is read; `read` returns what may be shown."""

    async def updates() -> AsyncIterator[Any]:
        async with own:
            held = [update async for update in own]
            whole = await own.get_final_response()
        response, changed = await read(whole)
        for update in _updates(response) if changed else held:
            yield update

    return ResponseStream(updates(), finalizer=ChatResponse.from_updates)


class ClientAnswers:
    """Judges the answers of a run: as the model writes them, before the host stores them, and at the end.

    Args:
        guard: decides.
        around: the surroundings of the run.
        run: the run.
    """

    def __init__(self, guard: EnforcementPoint, around: ClientScope, run: ClientRun) -> None:
        self._guard, self._around, self._run = guard, around, run
        self.judges = guard.judges_answers and around.call is None  # that of an agent in a tool is for its caller
        self._texts: list[str] = []
        self._passed: set[str] = set()
        self._denied: Verdict | None = None

    async def of_model(self, response: Any) -> tuple[Any, bool]:
        """Returns a message of the model without a denied answer, and whether it was changed."""
        if not self.judges:
            return response, False
        self._texts.append("".join(message.text for message in response.messages))
        goes_on = call_ids(response.messages, "function_call") or _pauses(response)
        verdict = None if goes_on else await self._verdict("".join(self._texts))
        return (response, False) if verdict is None else (_without_answer(response, verdict), True)

    async def final(self, response: Any) -> tuple[Any, bool]:
        """Returns a complete response without a denied answer, and whether it was changed.

        If the guard has ended the run, its own answer is added.

        Raises:
            AgentFrameworkHalted: a rule halts the run.
        """
        verdict = self._denied
        if verdict is None and self._run.final is None and self.judges:
            text = self._text(response)
            verdict = None if text is None else await self._verdict(text)
        if self._run.halted is not None:
            raise self._run.halted
        if verdict is not None:
            return _without_answer(response, verdict), True
        if self._run.final is not None:
            response.messages.append(_message(self._run.final))
        return response, False

    async def _verdict(self, text: str) -> Verdict | None:
        """Returns the verdict that denies an answer; None if the user may see it."""
        if "".join(text.split()) in self._passed:
            return None
        user_text = last_user_text(self._run.messages)
        verdict = await self._guard.aanswer(self._around.conversation or "", user_text, text)
        if verdict.label:
            self._run.note("answer", verdict)
            self._denied = verdict
            return verdict
        self._passed.add("".join(text.split()))
        return None

    def _text(self, response: Any) -> str | None:
        """Returns what the user reads of a response; None if the run only pauses, or another agent takes over."""
        text = "".join(message.text for message in response.messages)
        if self._run.handed_over or _pauses(response):
            return text or None
        last = response.messages[-1] if response.messages else None
        if last is None or str(last.role) != "tool":
            return text
        results = (str(content.result or "") for content in last.contents if content.type == "function_result")
        return "\n".join([*([text] if text else []), *results])  # a middleware made a tool's result the answer


def _pauses(response: Any) -> bool:
    return any(content.user_input_request for message in response.messages for content in message.contents)


def _updates(response: Any, first: int = 0) -> list[Any]:
    """Returns the messages of a response, from one of them on, as updates of a stream."""
    about = {"conversation_id": response.conversation_id, "response_id": response.response_id, "model": response.model}
    return [
        ChatResponseUpdate(role=message.role, contents=message.contents, author_name=message.author_name, **about)
        for message in response.messages[first:]
    ]


def _without_answer(response: Any, verdict: Verdict) -> Any:
    """Returns a response without its text, with the calls and their results."""
    messages = [_stripped(message) for message in response.messages]
    if messages and str(messages[-1].role) == "tool":
        messages[-1].contents = [_replaced(content, verdict) for content in messages[-1].contents]
    kept = [message for message in messages if message.contents]
    return ChatResponse(
        messages=[*kept, _message(withheld(verdict))],
        response_id=response.response_id,
        conversation_id=response.conversation_id,
        model=response.model,
        created_at=response.created_at,
        finish_reason=response.finish_reason,
        usage_details=response.usage_details,
        additional_properties=response.additional_properties,
    )


def _stripped(message: Any) -> Any:
    created = copy.copy(message)
    created.contents = [content for content in message.contents if content.type in _KEPT or content.user_input_request]
    created.raw_representation = None
    return created


def _replaced(content: Any, verdict: Verdict) -> Any:
    if content.type != "function_result":
        return content
    return Content.from_function_result(call_id=content.call_id, id=content.id, result=withheld(verdict))


def _message(text: str) -> Message:
    return Message(role="assistant", contents=[Content.from_text(text)])
