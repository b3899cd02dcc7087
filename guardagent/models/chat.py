"""Calls of models: chat with tools, flows that yield model calls and end with a verdict, and the kinds of errors.

A chat answer has its tool calls unparsed and unjudged. A flow has one sync and one async driver; a failed model call is
raised in it, at the point of the call. The errors that stop a program are of the kinds that the paper counts (Appendix
K), and those of a sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from guardagent._support import execution
from guardagent.errors import LimitError, ModelError, SandboxError
from guardagent.models import Completion, Model
from guardagent.models.metering import Meter
from guardagent.models.prompts import ModelCall
from guardagent.models.redaction import scrub
from guardagent.types import Usage, Verdict

MAX_CALLS = 32  # in one answer
_ENDED_EARLY = {
    "length": "it exceeds the token limit and is cut off",
    "content_filter": "a content filter stopped it",
}


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A tool call as a model wrote it.

    Attributes:
        name: of the tool.
        arguments: their text, which should be JSON.
        id: the model's id for the call; empty if it has none.
        problem: the reason why it is not a function call; empty if it is one.
    """

    name: str
    arguments: str
    id: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ChatCandidate:
    """One of a model's answers to the same request: text, calls, or both.

    Attributes:
        problem: the reason why the answer is unusable as a whole; empty if it is usable.
    """

    text: str = ""
    calls: tuple[WrittenCall, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A model's answer: one or more candidates, and their usage together."""

    candidates: tuple[ChatCandidate, ...]
    usage: Usage = field(default_factory=Usage)


@runtime_checkable
class ChatModel(Protocol):
    """Answers a conversation, with tools to call.

    Optional: `achat`, a coroutine of the same shape (otherwise `chat` is called in a thread).
    """

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        candidates: int,
        stream: bool,
        temperature: float,
    ) -> ChatAnswer:
        """Returns the answer to a conversation.

        Args:
            messages: in the format of the chat completions API.
            tools: in the same format.
            candidates: the number of requested answers; there may be fewer.
            stream: whether the endpoint streams the answer. The result is complete either way.
            temperature: the sampling temperature.

        Raises:
            ModelError: there is no answer.
        """
        ...


def checked_candidate(
    text: object, calls: Sequence[WrittenCall], finish_reason: object, max_characters: int
) -> ChatCandidate:
    """Returns an answer with its form checked: a non-string, a truncated or an oversized one has a `problem`."""
    if isinstance(finish_reason, str) and finish_reason in _ENDED_EARLY:
        return ChatCandidate(problem=_ENDED_EARLY[finish_reason])
    if text is not None and not isinstance(text, str):
        return ChatCandidate(problem="its content is not a string")
    size = len(text or "") + sum(len(call.name) + len(call.arguments) for call in calls)
    if size > max_characters:
        return ChatCandidate(problem=f"it has {size:,} characters; expected at most {max_characters:,}")
    ids = [call.id for call in calls if call.id]
    if len(ids) > len(set(ids)):
        return ChatCandidate(problem="two of its calls have the same id")
    if len(calls) > MAX_CALLS:
        return ChatCandidate(problem=f"it has {len(calls)} calls; expected at most {MAX_CALLS} at once")
    if not calls and not (text or "").strip():
        return ChatCandidate(problem="it is empty")
    valid_text = (text or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # without lone surrogates
    return ChatCandidate(scrub(valid_text), tuple(calls))


def written_calls(message: Any) -> list[WrittenCall]:
    """Returns the calls of a complete answer, including the form before `tool_calls`."""
    legacy = getattr(message, "function_call", None)
    calls = [_call(call) for call in _list(getattr(message, "tool_calls", None))]
    return calls + ([_function(legacy, "")] if legacy else [])


def _call(call: Any) -> WrittenCall:
    name = _text(getattr(call, "id", None))
    function = getattr(call, "function", None)
    if getattr(call, "type", "function") not in ("function", None) or function is None:
        return WrittenCall("", "", name, "it is not a function call")
    return _function(function, name)


def _function(function: Any, call_id: str) -> WrittenCall:
    name, arguments = getattr(function, "name", None), getattr(function, "arguments", None)
    problem = "" if isinstance(name, str) else "its name is not a string"
    problem = problem or ("" if isinstance(arguments, str) else "its arguments are not a JSON string")
    return WrittenCall(_text(name), _text(arguments), call_id, problem)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


T = TypeVar("T")

Flow = Generator[ModelCall, Completion, Verdict]


def drive(flow: Flow, meter: Meter) -> Verdict:
    """Runs a flow and returns its verdict, with the model usage."""
    return execution.drive(_steps(flow, meter))


async def adrive(flow: Flow, meter: Meter) -> Verdict:
    """Runs a flow without blocking the event loop: its own work runs in a thread."""
    return await execution.adrive(_steps(flow, meter))


def _steps(flow: Flow, meter: Meter) -> execution.Procedure[Verdict]:
    try:
        reached: ModelCall | Verdict = yield _work(_advance, next, flow)
        while isinstance(reached, ModelCall):
            with meter.metered_call(reached) as asking:
                if asking.needs_model and meter.model is not None:
                    asking.answer = yield _completion(meter.model, reached)
            outcome = asking.outcome
            reached = yield _work(_advance, flow.throw if isinstance(outcome, ModelError) else flow.send, outcome)
    finally:
        flow.close()
    return reached.changed(usage=meter.usage) if meter.usage.calls else reached


def _advance(step: Callable[[Any], ModelCall], argument: Any) -> ModelCall | Verdict:
    """Returns the next model call of a flow, or its verdict if it has ended."""
    try:
        return step(argument)
    except StopIteration as stop:
        return cast("Verdict", stop.value)


def _completion(model: Model, call: ModelCall) -> execution.Operation:
    options = {"temperature": call.temperature} if call.temperature else {}
    complete = partial(model.complete, call.prompt.messages, **options)
    acomplete = getattr(model, "acomplete", None)
    if acomplete is None:
        return execution.Operation(complete, partial(asyncio.to_thread, complete))
    return execution.Operation(complete, partial(acomplete, call.prompt.messages, **options))


def _work(function: Callable[..., Any], *arguments: Any) -> execution.Operation:
    work = partial(function, *arguments)
    return execution.Operation(work, partial(_in_thread, work))


async def _in_thread(work: Callable[[], T]) -> T:
    """Runs work in a thread. On cancellation, even a second one, it waits for the end: nothing is left running."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise


NO_PROGRAM = "no program"
"""The model's answer contains no program."""

_RAISED = re.compile(r"\b([A-Z][A-Za-z]*?)(?:Error|Exception)\b: ")
_CONTRACT = re.compile(r"\b(?:check'? returned|returned a|called no check|a check failed)\b")


def error_kind(error: SandboxError, *, passed_gate: bool) -> str:
    """Returns `name`, `type`, `value` and so on for an exception of a program; otherwise the layer that rejected it.

    Args:
        error: the error that stopped the program.
        passed_gate: whether the program had passed the static gate.

    Returns:
        `syntax` if it is not Python, `gate` if the gate or an engine rejects it, `limit` if it exceeded a limit,
        `contract` for an invalid result, or the kind of the exception in lower case.
    """
    text = str(error)
    if not passed_gate:
        return "syntax" if "not Python" in text else "gate"
    if isinstance(error, LimitError):
        return "limit"
    if raised := _RAISED.search(text):
        return raised[1].lower()
    if "not supported by the engine" in text:
        return "gate"
    return "contract" if _CONTRACT.search(text) else "value"
