"""The host's own approval, and final answers, judged before the user sees them, also in the stream of events.

An approval is an interrupt of the run, whose id identifies exactly the call that was shown.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from strands.tools.structured_output.structured_output_tool import StructuredOutputTool
from strands.types._events import EventLoopStopEvent, ModelStopReason, ModelStreamChunkEvent, TextStreamEvent

from guardagent._support.execution import adrive
from guardagent.enforcement import ApprovalRequest, HostCall
from guardagent.enforcement.host_adapter import HostAdapter, answer_text, last_user_text, withheld
from guardagent.frameworks.strands.adapter.runs import StrandsScope, message_text, tool_uses
from guardagent.types import Verdict

# --- approval

_OURS = "v1:middleware_execute_tool:"  # so that no tool can raise it


def recorded_answer(call: HostCall, context: Any, options: Mapping[str, Any]) -> Any:
    """Returns the answer to the request of exactly this call; None if there is none yet.

    `context.interrupt` would record an interrupt without a reason in the background, before anybody has seen one.
    """
    responses = [
        request.response
        for request in _state(context, options).interrupts.values()
        if request.name == _name(call) and request.id.startswith(_OURS)
    ]
    return next((response for response in responses if response is not None), None)


def interrupt(call: HostCall, request: ApprovalRequest, context: Any) -> None:
    """Interrupts the run until a reviewer has answered. The host runs the call again then, here or elsewhere.

    Raises:
        InterruptException: there is no answer yet.
    """
    shown = json.loads(json.dumps(request.to_dict(), default=str))  # the host stores it as JSON
    context.interrupt(_name(call), reason=shown)


def is_resumed(context: Any, options: Mapping[str, Any]) -> bool:
    """Whether the host runs a call again that waited for an answer. A new call may have the id of an old one."""
    return bool(_state(context, options).activated)


def _state(context: Any, options: Mapping[str, Any]) -> Any:
    """Returns the host's interrupts of a call; in the background, a task has its own."""
    own = getattr(options.get("_tool_context"), "_task_interrupt_state", None)
    return context._interrupt_state if own is None else own  # noqa: SLF001 - the host has no public name


def _name(call: HostCall) -> str:
    """Returns the name of a call's interrupt. The host makes its id of it, so another call has another interrupt."""
    return f"guardagent:{call.digest}"


# --- final answers

_UNFINISHED = ("interrupt", "checkpoint")


async def without_denied(
    adapter: HostAdapter[StrandsScope], around: StrandsScope, agent: Any, events: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    """Yields the events of a model call after its end; in place of an answer that is denied, the reason.

    Text that is in the stream and not in the message, which alone is judged, is left out: that of a cancelled call,
    and what a filter or a second try of the model has replaced.
    """
    held = [event async for event in events]
    stop = next((held_event for held_event in reversed(held) if isinstance(held_event, ModelStopReason)), None)
    if stop is None:
        return  # the host refuses a model call without a message
    verdict = await _denial(adapter, around, _answer_parts(agent, stop))
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
    streamed = "".join(event["data"] for event in held if isinstance(event, TextStreamEvent))
    once = sum(isinstance(event, ModelStopReason) for event in held) == 1 and stop.stop_reason != "cancelled"
    return once and "".join(streamed.split()) == "".join(message_text(stop.message).split())


async def reply_events(
    text: str, reason: str = "end_turn", usage: Any = None, metrics: Any = None
) -> AsyncIterator[Any]:
    """Yields the events of a model call with this text."""
    message = {"role": "assistant", "content": [{"text": text}]}
    usage = usage or {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
    yield TextStreamEvent({"text": text}, text)
    yield ModelStopReason(stop_reason=reason, message=message, usage=usage, metrics=metrics or {"latencyMs": 0})


async def judged_end(adapter: HostAdapter[StrandsScope], around: StrandsScope, agent: Any, event: Any) -> Any:
    """Returns the last event of a run; if its answer is denied, one with the reason.

    Answers that come from the model were judged before; this is for those of tools, hooks and cancellations.
    """
    reason, message, metrics, state, interrupts, structured, checkpoint = event["stop"]
    if reason in _UNFINISHED or message.get("role") != "assistant":
        return event
    text = message_text(message)
    parts = [*([text] if text else []), *([] if structured is None else [answer_text(structured)])]
    if around.run is not None and around.run.passed.issuperset(parts):
        return event
    verdict = await _denial(adapter, around, parts)
    if verdict is None:
        return event
    calls = [{"toolUse": {**tool_use, "input": {}}} for tool_use in tool_uses(message)]
    message["content"] = [{"text": withheld(verdict)}, *calls]
    if agent._session_manager is not None and agent.messages and agent.messages[-1] is message:  # noqa: SLF001 - no public name
        agent._session_manager.redact_latest_message(message, agent)  # noqa: SLF001 - as above
    return EventLoopStopEvent(reason, message, metrics, state, interrupts, None, checkpoint)


async def _denial(adapter: HostAdapter[StrandsScope], around: StrandsScope, parts: list[str]) -> Verdict | None:
    """Returns the verdict that denies an answer; None if the user may see it.

    Raises:
        StrandsHalted: a rule halts the run.
    """
    run, text = around.run, "\n".join(parts)
    if not parts or (run is not None and run.may_show(text)):
        return None
    request = "" if run is None else last_user_text(run.messages)
    verdict = await adrive(adapter.answer_denial(around, request, text))
    if verdict is None and run is not None:
        run.passed.update(parts)  # the end of a run shows them one by one
    return verdict


def _answer_parts(agent: Any, stop: Any) -> list[str]:
    """Returns the parts of a model's message that would be the answer; none if the agent goes on after it."""
    calls, text = tool_uses(stop.message), message_text(stop.message)
    objects = [output for call in calls if (output := _structured(agent, call)) is not None]
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
