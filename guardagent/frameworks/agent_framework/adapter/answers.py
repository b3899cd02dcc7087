"""The final answer, judged before the user sees it, also in a stream."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from agent_framework import ChatResponse, ChatResponseUpdate, Content, Message, ResponseStream

from guardagent.enforcement import EnforcementPoint
from guardagent.frameworks.agent_framework.adapter.messages import last_user_text
from guardagent.frameworks.agent_framework.adapter.runs import AgentScope, ClientRun
from guardagent.types import Verdict

_KEPT = frozenset({"function_call", "function_result", "function_approval_request"})
Start = Callable[[], Awaitable[None]]


async def answered(guard: EnforcementPoint, around: AgentScope, run: ClientRun, response: Any, start: Start) -> Any:
    """Returns the response to a run, without a denied answer.

    Raises:
        RunHalted: a rule halts the run.
    """
    await start()
    return await judged_response(guard, around, run, await response())


async def judged_response(guard: EnforcementPoint, around: AgentScope, run: ClientRun, response: Any) -> Any:
    """Returns a complete response, with the guard's own answer if it has ended the run, and without a denied one.

    Raises:
        RunHalted: a rule halts the run.
    """
    if run.halted is not None:
        raise run.halted
    if run.final is not None:
        response.messages.append(_message(run.final))
        return response
    verdict = await _denial(guard, around, run, response)
    if run.halted is not None:
        raise run.halted
    return response if verdict is None else _without_answer(response, verdict)


def streamed(
    guard: EnforcementPoint, around: AgentScope, run: ClientRun, stream: Callable[[], Any], start: Start, form: Any
) -> ResponseStream[Any, Any]:
    """Returns the stream of a run. If answers are judged, it begins once the run has ended.

    Args:
        guard: decides.
        around: the surroundings of the run.
        run: the run.
        stream: opens the host's stream.
        start: runs before.
        form: the format of a structured answer.
    """

    async def updates() -> AsyncIterator[Any]:
        await start()
        held: list[Any] = []
        judges = guard.judges_answers and around.call is None
        async with stream() as own:
            async for update in own:
                if judges:
                    held.append(update)
                else:
                    yield update
            whole = await own.get_final_response()
        response = await judged_response(guard, around, run, copy.copy(whole))
        for update in held if response is not None and not getattr(response, "guardagent_withheld", False) else ():
            yield update
        if run.final is not None:
            yield ChatResponseUpdate(role="assistant", contents=[Content.from_text(run.final)])
        elif getattr(response, "guardagent_withheld", False):
            for one in response.messages:
                yield ChatResponseUpdate(role=one.role, contents=one.contents, author_name=one.author_name)

    def whole(found: Any) -> Any:
        return ChatResponse.from_updates(found, output_format_type=form)

    return ResponseStream(updates(), finalizer=whole)


async def _denial(guard: EnforcementPoint, around: AgentScope, run: ClientRun, response: Any) -> Verdict | None:
    """Returns the verdict that denies the answer of a run; None if the user may see it."""
    if not guard.judges_answers or around.call is not None:
        return None  # the answer of an agent in a tool is for the agent that called it
    text = answer_text(run, response)
    if text is None or _compact(text) in run.passed:
        return None
    verdict = await guard.aanswer(around.conversation or "", last_user_text(run.messages), text)
    if verdict.label:
        run.note("answer", verdict)
        return verdict
    run.passed.add(_compact(text))
    return None


def answer_text(run: ClientRun, response: Any) -> str | None:
    """Returns what the user reads of a response; None if the run only pauses, or another agent takes over."""
    text = "".join(one.text for one in response.messages)
    if not text and (run.handed_over or _pauses(response)):
        return None
    last = response.messages[-1] if response.messages else None
    if last is None or run.handed_over or _pauses(response) or str(last.role) != "tool":
        return text
    results = (str(one.result or "") for one in last.contents if one.type == "function_result")
    return "\n".join([*([text] if text else []), *results])  # a middleware made a tool's result the answer


def _pauses(response: Any) -> bool:
    return any(one.user_input_request for message in response.messages for one in message.contents)


def _without_answer(response: Any, verdict: Verdict) -> Any:
    """Returns a response without its text, with the calls and their results."""
    messages = [_stripped(one) for one in response.messages]
    if messages and str(messages[-1].role) == "tool":
        messages[-1].contents = [_replaced(one, verdict) for one in messages[-1].contents]
    kept = [one for one in messages if one.contents]
    created = ChatResponse(
        messages=[*kept, _message(_withheld(verdict))],
        response_id=response.response_id,
        conversation_id=response.conversation_id,
        model=response.model,
        created_at=response.created_at,
        finish_reason=response.finish_reason,
        usage_details=response.usage_details,
        additional_properties=response.additional_properties,
    )
    created.guardagent_withheld = True
    return created


def _stripped(message: Any) -> Any:
    created = copy.copy(message)
    created.contents = [one for one in message.contents if one.type in _KEPT or one.user_input_request]
    created.raw_representation = None
    return created


def _replaced(content: Any, verdict: Verdict) -> Any:
    if content.type != "function_result":
        return content
    return Content.from_function_result(call_id=content.call_id, id=content.id, result=_withheld(verdict))


def _message(text: str) -> Message:
    return Message(role="assistant", contents=[Content.from_text(text)])


def _withheld(verdict: Verdict) -> str:
    return f"The answer is withheld.\n{verdict.feedback()}"


def _compact(text: str) -> str:
    return "".join(text.split())
