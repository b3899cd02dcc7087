"""The guard's part of a turn, as the outermost middleware of an agent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from ag2.events import (
    ModelMessage,
    ModelMessageChunk,
    ModelReasoning,
    ModelResponse,
    ToolErrorEvent,
    ToolResultEvent,
)
from ag2.middleware import BaseMiddleware

from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.hosts import withheld
from guardagent.errors import ToolDenied
from guardagent.frameworks.ag2.adapter.messages import chat, last_user_text, result_ids, text_of
from guardagent.frameworks.ag2.adapter.runs import Ag2Run, Ag2Scope, enter, scope
from guardagent.types import Verdict

_SPOKEN = (ModelMessage, ModelMessageChunk, ModelReasoning)


class TurnOwner(Protocol):
    """Guards an agent."""

    guard: EnforcementPoint

    def begin(self, agent: str, context: Any) -> Ag2Scope:
        """Returns the surroundings of a new turn."""


class TurnMiddleware(BaseMiddleware):
    """Runs a turn in its conversation, judges its answer, and ends it when the guard does.

    Args:
        event: the request.
        context: the host's context.
        owner: guards the agent.
        agent: the name of the agent.
    """

    def __init__(self, event: Any, context: Any, owner: TurnOwner, agent: str) -> None:
        super().__init__(event, context)
        self._owner, self._agent = owner, agent

    async def on_turn(self, call_next: Any, event: Any, context: Any) -> Any:
        around = self._owner.begin(self._agent, context)
        with enter(around):
            response = await call_next(event, context)
        if around.run is not None and around.run.halted is not None:
            raise around.run.halted
        return response

    async def on_llm_call(self, call_next: Any, events: Any, context: Any) -> Any:
        around, run = _surroundings()
        if run.halted is not None:
            raise run.halted
        if run.final is not None:
            return ModelResponse(ModelMessage(run.final))
        run.step, run.messages = run.step + 1, chat(events)
        run.seen = [one for one in result_ids(events) if one not in run.proposed]
        if self._judges(around):
            response = await self._judged(call_next, events, context)
        else:
            response = await call_next(events, context)
        run.proposed.update(one.id for one in response.tool_calls.calls)
        return response

    async def on_tool_execution(self, call_next: Any, event: Any, context: Any) -> Any:
        """Runs a call. If its output would be the answer, it is judged."""
        result = await call_next(event, context)
        around, _ = _surroundings()
        final = isinstance(result, ToolResultEvent) and result.result.final
        verdict = await self._denial(text_of(result.result.parts)) if final and self._judges(around) else None
        return result if verdict is None else ToolErrorEvent.from_call(event, error=ToolDenied(event.name, verdict))

    async def _judged(self, call_next: Any, events: Any, context: Any) -> Any:
        held = HoldingStream(context.stream)
        response = await call_next(events, replace(context, stream=held))
        if not response.tool_calls or response.response_force:
            reasoning = [event.content for event, _ in held.events if isinstance(event, ModelReasoning)]
            answer = response.message.content if response.message is not None else ""
            verdict = await self._denial("\n".join([*reasoning, answer]))
            if verdict is not None:
                return ModelResponse(ModelMessage(withheld(verdict)), usage=response.usage, model=response.model)
        await held.release()
        return response

    async def _denial(self, text: str) -> Verdict | None:
        around, run = _surroundings()
        verdict = await self._owner.guard.aanswer(around.conversation or "", last_user_text(run.messages), text)
        if verdict.label:
            run.note("answer", verdict)
            if run.halted is not None:
                raise run.halted
        return verdict if verdict.label else None

    def _judges(self, around: Ag2Scope) -> bool:
        return self._owner.guard.judges_answers and around.call is None


class HoldingStream:
    """A stream that holds what a model says until it is released.

    Args:
        stream: the stream itself.
    """

    def __init__(self, stream: Any) -> None:
        self._stream, self.events = stream, list[tuple[Any, Any]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def send(self, event: Any, context: Any) -> None:
        if isinstance(event, _SPOKEN):
            self.events.append((event, context))
        else:
            await self._stream.send(event, context)

    async def release(self) -> None:
        """Sends the events."""
        for event, context in self.events:
            await self._stream.send(event, replace(context, stream=self._stream))


def _surroundings() -> tuple[Ag2Scope, Ag2Run]:
    around = scope() or Ag2Scope(None)
    return around, around.run or Ag2Run(agent="", proposed=set())
