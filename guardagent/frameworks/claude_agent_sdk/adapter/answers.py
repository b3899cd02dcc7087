"""The final answers of a session: its messages are held until their text is judged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ResultMessage,
    StreamEvent,
    TaskNotificationMessage,
    TaskUpdatedMessage,
    TextBlock,
    ThinkingBlock,
)

from guardagent.frameworks.claude_agent_sdk.adapter.hook_outputs import denial_text
from guardagent.types import Verdict

_PERMISSIONS = "the host's permissions refused it"


async def judged_messages(attachment: Any, messages: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Passes on messages. A turn's messages wait from its first text on until its answer is judged."""
    judges, held = attachment.guard.judges_answers, list[Any]()
    async for message in messages:
        ends = isinstance(message, ResultMessage)
        shown = await _ended(attachment, message) if ends else _without_inner_text(message) if judges else message
        if shown is None:
            continue
        if not judges or not (held or ends or _shows_text(shown)):
            yield shown
            continue
        held.append(shown)
        if ends:
            for one in await _judged(attachment, held):
                yield one
            held = []
    for one in await _judged(attachment, held):
        yield one


async def _ended(attachment: Any, result: Any) -> Any:
    """Withdraws the calls that the host refused. Returns a run's result, with the reason if the guard ended the run."""
    for one in result.permission_denials or ():
        await attachment.calls.withdraw(str(one.get("tool_use_id")), _PERMISSIONS)
    session = attachment.sessions.known(result.session_id)
    if session is None or session.ended is None:
        return result
    return replace(result, result=denial_text(session.ended), is_error=True)


async def _judged(attachment: Any, held: list[Any]) -> list[Any]:
    """Returns the messages as the user may see them."""
    answer, last = _answer(held), held[-1] if held else None
    session = attachment.sessions.known(getattr(last, "session_id", None))
    if not answer or (session is not None and session.ended is not None):
        return _withheld(held, None) if answer else held
    name = session.conversation if session is not None else attachment.sessions.conversation(_session_of(held))
    verdict = await attachment.guard.aanswer(name or "", session.last_prompt if session is not None else "", answer)
    return _withheld(held, verdict) if verdict.label else held


def _answer(held: list[Any]) -> str:
    """Returns all text of a turn."""
    texts = [one.text for message in held for one in _blocks(message) if isinstance(one, TextBlock)]
    if (streamed := "".join(_deltas(held))) != "".join(texts):  # the turn was cut off in a later message
        texts.append(streamed)
    for result in (one for one in held if isinstance(one, ResultMessage)):
        structured = result.structured_output
        more = [result.result or "", "" if structured is None else json.dumps(structured, ensure_ascii=False)]
        texts += [one for one in more if one and one not in texts]
    return "\n\n".join(one for one in texts if one)


def _withheld(held: list[Any], verdict: Verdict | None) -> list[Any]:
    """Returns the messages without their text, and with the reason in place of the last one."""
    reason = "" if verdict is None else f"The answer is withheld.\n{verdict.feedback()}"
    last = max((at for at, one in enumerate(held) if _main_text(one)), default=None)
    kept: list[Any] = []
    for at, message in enumerate(held):
        if isinstance(message, StreamEvent):
            continue
        if isinstance(message, ResultMessage) and verdict is not None:
            kept.append(replace(message, result=reason, structured_output=None, is_error=True))
        elif isinstance(message, AssistantMessage):
            blocks = [one for one in message.content if not isinstance(one, TextBlock | ThinkingBlock)]
            blocks = [*([TextBlock(reason)] if at == last and reason else []), *blocks]
            kept += [replace(message, content=blocks)] if blocks else []
        else:
            kept.append(message)
    return kept


def _without_inner_text(message: Any) -> Any:
    """Returns a message without the text of a sub-agent, which is for the agent that called it; None if it is empty."""
    if isinstance(message, TaskNotificationMessage):
        return replace(message, summary="", data={**message.data, "summary": ""})
    if isinstance(message, TaskUpdatedMessage):
        patch = {name: one for name, one in message.patch.items() if name not in ("result", "error")}
        return replace(message, patch=patch, data={**message.data, "patch": patch})
    if getattr(message, "parent_tool_use_id", None) is None:
        return message
    if isinstance(message, StreamEvent):
        return None
    if isinstance(message, AssistantMessage):
        blocks = [one for one in message.content if not isinstance(one, TextBlock | ThinkingBlock)]
        return replace(message, content=blocks) if blocks else None
    return message


def _shows_text(message: Any) -> bool:
    return isinstance(message, StreamEvent) or any(
        isinstance(one, TextBlock | ThinkingBlock) for one in _blocks(message)
    )


def _main_text(message: Any) -> bool:
    return any(isinstance(one, TextBlock) for one in _blocks(message))


def _blocks(message: Any) -> list[Any]:
    return list(message.content) if isinstance(message, AssistantMessage) else []


def _deltas(held: list[Any]) -> Iterator[str]:
    """Returns the streamed text of a turn."""
    events = [one.event for one in held if isinstance(one, StreamEvent)]
    for delta in (one.get("delta") or one.get("content_block") for one in events):
        if isinstance(delta, dict) and isinstance(delta.get("text"), str):
            yield delta["text"]


def _session_of(held: list[Any]) -> str | None:
    return next((one.session_id for one in held if getattr(one, "session_id", None)), None)
