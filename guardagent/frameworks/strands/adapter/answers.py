"""The final answer, judged before the user sees it, also in the stream of events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from strands.tools.structured_output.structured_output_tool import StructuredOutputTool
from strands.types._events import EventLoopStopEvent, ModelStopReason, ModelStreamChunkEvent, TextStreamEvent

from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.calls import plain_value
from guardagent.enforcement.hosts import withheld
from guardagent.errors import InputError
from guardagent.frameworks.strands.adapter.messages import last_user_text, message_text, tool_uses
from guardagent.frameworks.strands.adapter.runs import StrandsRun, StrandsScope
from guardagent.types import Verdict

_UNFINISHED = ("interrupt", "checkpoint")


async def without_denied(
    guard: EnforcementPoint, around: StrandsScope, run: StrandsRun, agent: Any, events: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    """Yields the events of a model call after its end; in place of an answer that is denied, the reason.

    Text that is in the stream and not in the message, which alone is judged, is left out: that of a cancelled call,
    and what a filter or a second try of the model has replaced.
    """
    held = [event async for event in events]
    stop = next((one for one in reversed(held) if isinstance(one, ModelStopReason)), None)
    if stop is None:
        return  # the host refuses a model call without a message
    verdict = await _denial(guard, around, run, _answer_parts(agent, stop))
    if verdict is None and _is_streamed(held, stop):
        for event in held:
            yield event
        return
    for event in held:
        if isinstance(event, ModelStreamChunkEvent) and (event.chunk or {}).get("redactContent"):
            yield event  # the host redacts the user's message
    if verdict is None:
        if text := message_text(stop.message):
            yield TextStreamEvent({"text": text}, text)
        yield stop
        return
    reason, _, usage, metrics = stop["stop"]
    async for event in reply_events(withheld(verdict), "end_turn" if reason == "tool_use" else reason, usage, metrics):
        yield event


def _is_streamed(held: list[Any], stop: Any) -> bool:
    """Whether the stream of a model call shows the text of its message, and no other."""
    streamed = "".join(one["data"] for one in held if isinstance(one, TextStreamEvent))
    once = sum(isinstance(one, ModelStopReason) for one in held) == 1 and stop.stop_reason != "cancelled"
    return once and "".join(streamed.split()) == "".join(message_text(stop.message).split())


async def reply_events(
    text: str, reason: str = "end_turn", usage: Any = None, metrics: Any = None
) -> AsyncIterator[Any]:
    """Yields the events of a model call with this text."""
    message = {"role": "assistant", "content": [{"text": text}]}
    usage = usage or {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
    yield TextStreamEvent({"text": text}, text)
    yield ModelStopReason(stop_reason=reason, message=message, usage=usage, metrics=metrics or {"latencyMs": 0})


async def judged_end(guard: EnforcementPoint, around: StrandsScope, run: StrandsRun, agent: Any, event: Any) -> Any:
    """Returns the last event of a run; if its answer is denied, one with the reason.

    Answers that come from the model were judged before; this is for those of tools, hooks and cancellations.
    """
    reason, message, metrics, state, interrupts, structured, checkpoint = event["stop"]
    if reason in _UNFINISHED or message.get("role") != "assistant":
        return event
    text = message_text(message)
    parts = [*([text] if text else []), *([] if structured is None else [answer_text(structured)])]
    verdict = await _denial(guard, around, run, [one for one in parts if one not in run.passed])
    if verdict is None:
        return event
    calls = [{"toolUse": {**one, "input": {}}} for one in tool_uses(message)]
    message["content"] = [{"text": withheld(verdict)}, *calls]
    if agent._session_manager is not None and agent.messages and agent.messages[-1] is message:  # noqa: SLF001 - no public name
        agent._session_manager.redact_latest_message(message, agent)  # noqa: SLF001 - as above
    return EventLoopStopEvent(reason, message, metrics, state, interrupts, None, checkpoint)


def answer_text(answer: Any) -> str:
    """Returns an answer as rules read it."""
    if isinstance(answer, str):
        return answer
    try:
        return json.dumps(plain_value(answer), ensure_ascii=False, default=str)
    except (InputError, TypeError, ValueError):
        return str(answer)


async def _denial(guard: EnforcementPoint, around: StrandsScope, run: StrandsRun, parts: list[str]) -> Verdict | None:
    """Returns the verdict that denies an answer; None if the user may see it.

    Raises:
        StrandsHalted: a rule halts the run.
    """
    text = "\n".join(parts)
    if not parts or text in run.passed or (run.final is not None and text == run.final):
        return None
    verdict = await guard.aanswer(around.conversation or "", last_user_text(run.messages), text)
    run.passed.update([withheld(verdict)] if verdict.label else [text, *parts])
    if verdict.label:
        run.note("answer", verdict)
        if run.halted is not None:
            raise run.halted
    return verdict if verdict.label else None


def _answer_parts(agent: Any, stop: Any) -> list[str]:
    """Returns the parts of a model's message that would be the answer; none if the agent goes on after it."""
    calls, text = tool_uses(stop.message), message_text(stop.message)
    objects = [found for one in calls if (found := _structured(agent, one)) is not None]
    if calls and not objects and stop.stop_reason == "tool_use":
        return []
    return [*([text] if text or not objects else []), *objects]


def _structured(agent: Any, call: dict[str, Any]) -> str | None:
    """Returns the answer in a call of the host's tool for structured output; None for other calls."""
    tool = agent.tool_registry.dynamic_tools.get(call.get("name"))
    if not is_structured_output(tool):
        return None
    try:
        return answer_text(tool.structured_output_model(**call["input"]))
    except (TypeError, ValueError):
        return answer_text(call.get("input"))  # the tool refuses it, but it is in the stream


def is_structured_output(tool: Any) -> bool:
    """Whether it is the host's tool that takes a structured answer."""
    return type(tool) is StructuredOutputTool
