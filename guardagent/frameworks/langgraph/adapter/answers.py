"""An agent's final answers: each is judged where it arises, before a user sees it, and again where a run ends.

An answer arises in the model's node, or as the output of a tool with `return_direct` or with a Command that ends the
run. An answer that a middleware or node makes is judged at the end of the run. An answer that passed is not judged
twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from guardagent._support.execution import Operation, Procedure
from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.calls import plain_value
from guardagent.enforcement.host_adapter import withheld
from guardagent.errors import InputError
from guardagent.frameworks.langgraph.adapter.runs import (
    conversation_of,
    last_of,
    messages_of,
    returned_messages,
    state_of,
    text_of,
)
from guardagent.types import Verdict


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """A final answer that a user is about to read.

    Attributes:
        conversation: its conversation's id.
        user_message: the user's last message.
        parts: its strings.
        copies: strings that the host makes of the parts.
    """

    conversation: str
    user_message: str
    parts: Sequence[str]
    copies: Sequence[str] = ()


class Answers:
    """Judges answers if the guard has `answers`, or a rule speaks of them."""

    def __init__(self, guard: EnforcementPoint) -> None:
        self._guard = guard
        self._passed = state_of(guard).passed

    def without_streaming(self, request: Any) -> Any:
        """Returns the request with streaming disabled.

        Raises:
            InputError: the model is not a chat model.
        """
        from langchain_core.language_models import BaseChatModel

        if not self._guard.judges_answers:
            return request
        if not isinstance(request.model, BaseChatModel):
            raise InputError(f"a {type(request.model).__name__} cannot be held back; expected a chat model")
        tags = [*(getattr(request.model, "tags", None) or ()), "nostream", "langsmith:nostream"]
        return request.override(model=request.model.model_copy(update={"tags": tags, "disable_streaming": True}))

    def denial(self, answer: FinalAnswer | None) -> Procedure[Verdict | None]:
        """Judges the parts of an answer that were not judged before.

        Returns:
            The verdict that denies the answer; None if it may pass.
        """
        if answer is None or not self._guard.judges_answers:
            return None
        parts = [part for part in answer.parts if (answer.conversation, _digest(part)) not in self._passed]
        if not parts:
            return None
        judged = answer.conversation, answer.user_message, "\n".join(parts)
        verdict: Verdict = yield Operation(partial(self._guard.answer, *judged), partial(self._guard.aanswer, *judged))
        if verdict.label:
            self._passed.put((answer.conversation, _digest(withheld(verdict))))  # the guard's own text is not an answer
            return verdict
        for part in (*answer.parts, *answer.copies):
            self._passed.put((answer.conversation, _digest(part)))
        return None

    # --- where answers arise

    def of_model(self, request: Any, response: Any) -> FinalAnswer | None:
        """Returns the answer in a model's response; None if it calls tools."""
        own = [message for message in response.result if message.type == "ai"]
        structured = getattr(response, "structured_response", None)
        if structured is None and any(message.tool_calls for message in own):
            return None
        others = [text_of(message) for message in response.result if message.type == "tool"]
        texts = [text_of(message) for message in own]
        if structured is not None:
            texts = [*filter(None, texts), _structured(structured)]
        return self._answer(request.messages, texts, others)

    def of_tool(self, messages: Sequence[Any], answer: Any) -> FinalAnswer | None:
        """Returns the output of a tool that ends the run."""
        return self._answer(messages, [text_of(returned_message) for returned_message in returned_messages(answer)])

    def of_state(self, state: Any, key: str = "messages") -> FinalAnswer | None:
        """Returns the answer at the end of a run: its last messages and structured response."""
        messages = messages_of(state, key)
        texts = [text for message in last_of(messages) if (text := text_of(message))]
        structured = state.get("structured_response") if isinstance(state, Mapping) else None
        return self._answer(messages, [*texts, *([] if structured is None else [_structured(structured)])])

    def _answer(self, messages: Sequence[Any], parts: Sequence[str], copies: Sequence[str] = ()) -> FinalAnswer | None:
        from langgraph.config import get_config

        if not self._guard.judges_answers:
            return None
        user_message = next((message for message in reversed(messages) if message.type == "human"), None)
        conversation = conversation_of(self._guard, get_config())
        return FinalAnswer(conversation, str(user_message.text) if user_message is not None else "", parts, copies)


def without_answer(response: Any, verdict: Verdict) -> Any:
    """Replaces the answer in a model's response with the reason why it is withheld."""
    from langchain_core.messages import AIMessage

    first = next((ai_message for ai_message in response.result if ai_message.type == "ai"), None)
    message = AIMessage(content=withheld(verdict), id=first.id if first else None)
    return replace(response, result=[message], structured_response=None)


def without_ending(state: Any, verdict: Verdict, key: str = "messages") -> dict[str, Any]:
    """Returns the state update that replaces a run's answer with the reason why it is withheld.

    Raises:
        InputError: a message has no id, so that the host would keep it.
    """
    from langchain_core.messages import AIMessage, ToolMessage

    instead: list[Any] = []
    for message in last_of(messages_of(state, key)):
        if message.id is None:
            raise InputError("an answer that is withheld cannot be taken back: its message has no id; use add_messages")
        if message.type == "tool":
            call = {"tool_call_id": message.tool_call_id, "name": message.name, "status": "error"}
            instead.append(ToolMessage(content=withheld(verdict), id=message.id, **call))
        else:
            instead.append(
                AIMessage(content=withheld(verdict), id=message.id, tool_calls=getattr(message, "tool_calls", []))
            )
    structured = isinstance(state, Mapping) and state.get("structured_response") is not None
    return {key: instead, **({"structured_response": None} if structured else {})}


def without_result(call: Mapping[str, Any], verdict: Verdict) -> Any:
    """Builds the message that replaces a withheld answer of a tool."""
    from langchain_core.messages import ToolMessage

    return ToolMessage(content=withheld(verdict), tool_call_id=call.get("id") or "", name=call["name"], status="error")


def _structured(value: Any) -> str:
    return json.dumps(plain_value(value, "the structured response"), default=str)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
