"""The final answer, judged before the user sees it, also in a stream."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from agent_framework import ChatResponse, ChatResponseUpdate, Content, Message, ResponseStream

from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.hosts import withheld
from guardagent.frameworks.agent_framework.adapter.messages import call_ids, last_user_text
from guardagent.frameworks.agent_framework.adapter.runs import ClientRun, ClientScope
from guardagent.types import Verdict

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

    return ResponseStream(updates(), finalizer=lambda found: ChatResponse.from_updates(found, output_format_type=form))


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
        self._texts.append("".join(one.text for one in response.messages))
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
        text = "".join(one.text for one in response.messages)
        if self._run.handed_over or _pauses(response):
            return text or None
        last = response.messages[-1] if response.messages else None
        if last is None or str(last.role) != "tool":
            return text
        results = (str(one.result or "") for one in last.contents if one.type == "function_result")
        return "\n".join([*([text] if text else []), *results])  # a middleware made a tool's result the answer


def _pauses(response: Any) -> bool:
    return any(one.user_input_request for message in response.messages for one in message.contents)


def _updates(response: Any, first: int = 0) -> list[Any]:
    """Returns the messages of a response, from one of them on, as updates of a stream."""
    about = {"conversation_id": response.conversation_id, "response_id": response.response_id, "model": response.model}
    return [
        ChatResponseUpdate(role=one.role, contents=one.contents, author_name=one.author_name, **about)
        for one in response.messages[first:]
    ]


def _without_answer(response: Any, verdict: Verdict) -> Any:
    """Returns a response without its text, with the calls and their results."""
    messages = [_stripped(one) for one in response.messages]
    if messages and str(messages[-1].role) == "tool":
        messages[-1].contents = [_replaced(one, verdict) for one in messages[-1].contents]
    kept = [one for one in messages if one.contents]
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
    created.contents = [one for one in message.contents if one.type in _KEPT or one.user_input_request]
    created.raw_representation = None
    return created


def _replaced(content: Any, verdict: Verdict) -> Any:
    if content.type != "function_result":
        return content
    return Content.from_function_result(call_id=content.call_id, id=content.id, result=withheld(verdict))


def _message(text: str) -> Message:
    return Message(role="assistant", contents=[Content.from_text(text)])
