"""The final answer of a run, judged before the user sees it: everything that its models say."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_core.models import AssistantMessage

from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.hosts import withheld
from guardagent.frameworks.autogen.adapter.messages import spoken_text
from guardagent.frameworks.autogen.adapter.runs import AutoGenScope
from guardagent.types import Verdict


@dataclass(slots=True)
class AnswerHold:
    """Holds the events of a run until its answer has passed.

    Attributes:
        guard: judges the answer.
        around: the surroundings of the run.
        name: the name of the agent or team.
        task: the messages of the user.
        context: the context of the agent's model; None for a team.
    """

    guard: EnforcementPoint
    around: AutoGenScope
    name: str
    task: Sequence[Any]
    context: Any = None
    events: list[Any] = field(default_factory=list)

    async def judged(self, events: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """Yields the events if the answer may pass; else the reason why it is withheld."""
        start = len(_messages_of(self.context))
        async with aclosing(events) as found:
            async for event in found:
                self.events.append(event)
        verdict = await self._denial()
        if verdict is None:
            for event in self.events:
                yield event
            return
        self._forget(start, withheld(verdict))
        for event in self._withheld(withheld(verdict)):
            yield event

    async def _denial(self) -> Verdict | None:
        run = self.around.run
        final = run.final if run is not None else None
        texts = [spoken_text(one) for one in map(_message_of, self.events) if one is not None and not self._asks(one)]
        text = "\n".join(dict.fromkeys(one for one in texts if one is not None and one != final))
        if final is not None and not text:
            return None  # the guard's own answer
        requests = [one if isinstance(one, str) else one.to_text() for one in self.task]
        verdict = await self.guard.aanswer(self.around.conversation or "", requests[-1] if requests else "", text)
        if verdict.label and run is not None:
            run.note("answer", verdict)
            if run.halted is not None:
                raise run.halted
        return verdict if verdict.label else None

    def _withheld(self, text: str) -> list[Any]:
        """Returns the end of a run whose answer is denied."""
        message, last = TextMessage(content=text, source=self.name), self.events[-1]
        if not isinstance(last, TaskResult):
            return [Response(chat_message=message, inner_messages=[])]
        messages = [*(one for one in last.messages if self._asks(one)), message]
        return [*messages, TaskResult(messages=messages)]

    def _asks(self, message: Any) -> bool:
        """Whether it is the user's message."""
        if any(isinstance(one, str) and message.source == "user" and message.to_text() == one for one in self.task):
            return True
        return any(message.id == one.id for one in self.task if isinstance(one, BaseChatMessage))

    def _forget(self, start: int, text: str) -> None:
        """Replaces what the model said in this run in its context."""
        messages = _messages_of(self.context)
        for at in range(start, len(messages)):
            if isinstance(messages[at], AssistantMessage) and isinstance(messages[at].content, str):
                messages[at] = AssistantMessage(content=text, source=messages[at].source)


def _message_of(event: Any) -> Any:
    if isinstance(event, Response):
        return event.chat_message
    return None if isinstance(event, TaskResult) else event


def _messages_of(context: Any) -> list[Any]:
    messages = getattr(context, "_messages", None)
    return messages if isinstance(messages, list) else []
