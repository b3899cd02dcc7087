"""An agent's answers, judged within the model's node: nobody has seen them before."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from guardagent.adapters.langgraph.plain import plain
from guardagent.adapters.langgraph.proposal import conversation_of
from guardagent.enforcement import ToolGuard
from guardagent.errors import InputError
from guardagent.types import Verdict


class Answers:
    """Judges what a model's node gives back, where it is an answer and the guard has `answers`."""

    def __init__(self, guard: ToolGuard) -> None:
        self._guard = guard

    def held(self, request: Any) -> Any:
        """The request with a model whose words are not passed on while they come.

        Raises:
            InputError: it is no chat model.
        """
        from langchain_core.language_models import BaseChatModel

        if self._guard.answers is None:
            return request
        if not isinstance(request.model, BaseChatModel):
            raise InputError(f"a {type(request.model).__name__} cannot be held back; expected a chat model")
        tags = [*(getattr(request.model, "tags", None) or ()), "nostream", "langsmith:nostream"]
        return request.override(model=request.model.model_copy(update={"tags": tags, "disable_streaming": True}))

    def judged(self, request: Any, response: Any) -> Any:
        """The response, or one in its place that says why it is withheld."""
        given = self._given(request, response)
        return response if given is None else _passed(response, self._guard.answer(*given))

    async def ajudged(self, request: Any, response: Any) -> Any:
        """As `judged`."""
        given = self._given(request, response)
        return response if given is None else _passed(response, await self._guard.aanswer(*given))

    def _given(self, request: Any, response: Any) -> tuple[str, str, str] | None:
        """Conversation, input and output; None where there is no answer to judge."""
        from langgraph.config import get_config

        if self._guard.answers is None:
            return None
        structured = getattr(response, "structured_response", None)
        text = _text(response) if structured is None else json.dumps(plain(structured), default=str)
        if text is None:
            return None
        asked = next((one for one in reversed(request.messages) if one.type == "human"), None)
        return conversation_of(self._guard, get_config()), str(asked.text) if asked is not None else "", text


def _text(response: Any) -> str | None:
    """What the model says, where it calls no tool."""
    messages = [one for one in response.result if one.type == "ai"]
    if any(one.tool_calls for one in messages):
        return None
    return "\n".join(
        one.content if isinstance(one.content, str) else json.dumps(one.content, default=str) for one in messages
    )


def _passed(response: Any, verdict: Verdict) -> Any:
    from langchain_core.messages import AIMessage

    if verdict.label == 0:
        return response
    first = next((one for one in response.result if one.type == "ai"), None)
    said = AIMessage(content=f"The answer is withheld.\n{verdict.feedback()}", id=first.id if first else None)
    return replace(response, result=[said], structured_response=None)
