"""The final answer, judged before the user sees it, also in a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import CompletedStreamedResponse, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel

from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.calls import plain_value
from guardagent.enforcement.hosts import withheld
from guardagent.errors import InputError
from guardagent.frameworks.pydantic_ai.adapter.messages import last_user_text
from guardagent.frameworks.pydantic_ai.adapter.runs import PydanticRun
from guardagent.types import Verdict

_SEARCH = "tool_search"  # only finds tools of the agent, whose calls are judged


class GuardedModel(WrapperModel):
    """The model of a run: no tool of its provider runs unguarded, and it holds a stream whose answer is judged.

    Args:
        wrapped: the model.
        guard: judges answers.
        run: the run.
        unguarded: the provider's tools that may run.
    """

    def __init__(self, wrapped: Any, guard: EnforcementPoint, run: PydanticRun, unguarded: Collection[str]) -> None:
        super().__init__(wrapped)
        self._guard, self._run, self._unguarded = guard, run, unguarded

    async def request(self, messages: Any, model_settings: Any, model_request_parameters: Any) -> ModelResponse:
        refuse_native_tools(model_request_parameters.native_tools, self._unguarded)
        return await super().request(messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self, messages: Any, model_settings: Any, model_request_parameters: Any, run_context: Any = None
    ) -> AsyncGenerator[Any]:
        refuse_native_tools(model_request_parameters.native_tools, self._unguarded)
        held = self._guard.judges_answers and self._run.call is None
        async with super().request_stream(messages, model_settings, model_request_parameters, run_context) as stream:
            if not held:
                yield stream
                return
            async for _ in stream:
                pass
            response = await judged_response(self._guard, self._run, stream.get(), model_request_parameters)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)


def refuse_native_tools(tools: Any, unguarded: Collection[str]) -> None:
    """Refuses the tools that run at the model's provider.

    Raises:
        InputError: the operator has not named one.
    """
    for tool in tools:
        names = [str(getattr(tool, name, "")) for name in ("unique_id", "kind")]
        if not set(names) & {*unguarded, _SEARCH}:
            kind = names[1] or type(tool).__name__
            raise InputError(
                f"{kind!r} runs at the model's provider, where no guard sees it; take it away, or say "
                f"unguarded={{{kind!r}}} if it may run without one"
            )


async def judged_response(
    guard: EnforcementPoint, run: PydanticRun, response: ModelResponse, parameters: ModelRequestParameters
) -> ModelResponse:
    """Judges what a streamed response would answer. Returns the response, or one without the denied answer."""
    outputs = {one.name for one in parameters.output_tools}
    calls = [one for one in response.parts if isinstance(one, ToolCallPart)]
    text = "".join(one.content for one in response.parts if isinstance(one, TextPart))
    answers = [one.args_as_json_str() for one in calls if one.tool_name in outputs]
    if text and (run.streamed or all(one.tool_name in outputs for one in calls)):
        answers.append(text)
    for answer in answers:
        verdict = await denial(guard, run, answer)
        if verdict is not None:
            return without_answer(response, outputs, withheld(verdict))
    return response


async def denial(guard: EnforcementPoint, run: PydanticRun, answer: Any) -> Verdict | None:
    """Returns the verdict that denies a run's final answer; None if the user may see it."""
    if not guard.judges_answers or run.call is not None:
        return None  # the answer of an agent in a tool is for the agent that called it
    text = _text(answer)
    if _key(text) in run.passed:
        return None
    verdict = await guard.aanswer(run.conversation or "", last_user_text(run.messages), text)
    run.passed.add(_key(withheld(verdict) if verdict.label else text))
    if verdict.label:
        run.note("answer", verdict)
        if run.halted is not None:
            raise run.halted
    return verdict if verdict.label else None


def without_answer(response: ModelResponse, outputs: Collection[str], text: str) -> ModelResponse:
    """Returns a response with a text in place of its answer."""
    kept = [one for one in response.parts if isinstance(one, ToolCallPart) and one.tool_name not in outputs]
    return replace(response, parts=[TextPart(text), *kept])


def forget_answer(messages: list[Any], text: str) -> None:
    """Replaces a denied answer in the messages of a run; an output tool's call stays, without its arguments."""
    last = next((one for one in reversed(messages) if isinstance(one, ModelResponse)), None)
    if last is not None:
        last.parts = [_forgotten(one, text) for one in last.parts if isinstance(one, TextPart | ToolCallPart)]


def _forgotten(part: Any, text: str) -> Any:
    if isinstance(part, TextPart):
        return TextPart(text)
    return replace(part, args={}) if isinstance(part, ToolCallPart) else part


def pass_text(run: PydanticRun, text: str) -> None:
    """Lets the user see a text of the guard's own."""
    run.passed.add(_key(text))


def _text(answer: Any) -> str:
    if isinstance(answer, str):
        return answer
    try:
        return json.dumps(plain_value(answer), ensure_ascii=False, default=str)
    except (InputError, TypeError, ValueError):
        return str(answer)


def _key(text: str) -> str:
    """Returns a text in the form in which equal answers are equal: a model and the JSON that it was read from."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return text
