"""An agent's final answers: each is judged where it arises, before anybody has seen it, and again where a run ends.

An answer arises in the model's node, or it is what a tool gave back: one with `return_direct`, or one that ends the run
by a Command. Whatever becomes the answer in another way, by a middleware or a node, is judged as the last thing in a
run. What was judged and may pass is not judged twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from guardagent.enforcement import ToolGuard
from guardagent.enforcement.plain_values import plain_value
from guardagent.errors import InputError
from guardagent.frameworks.langgraph.adapter.guard_state import state_of
from guardagent.frameworks.langgraph.adapter.messages import ends_run, last_of, messages_of, returned_messages, text_of
from guardagent.frameworks.langgraph.adapter.proposal import conversation_of
from guardagent.types import Verdict


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """What a user is about to read.

    Attributes:
        conversation: the one that it belongs to.
        user_message: what the user said last.
        parts: its texts.
        copies: texts that the host makes of the parts.
    """

    conversation: str
    user_message: str
    parts: Sequence[str]
    copies: Sequence[str] = ()


class Answers:
    """Judges answers, where the guard has `answers`."""

    def __init__(self, guard: ToolGuard) -> None:
        self._guard = guard
        self._passed = state_of(guard).passed

    def without_streaming(self, request: Any) -> Any:
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

    def denial(self, answer: FinalAnswer | None) -> Verdict | None:
        """The verdict against an answer; None where it may pass."""
        if (text := self._unjudged_text(answer)) is None or answer is None:
            return None
        return self._record(answer, self._guard.answer(answer.conversation, answer.user_message, text))

    async def adenial(self, answer: FinalAnswer | None) -> Verdict | None:
        """As `against`."""
        if (text := self._unjudged_text(answer)) is None or answer is None:
            return None
        return self._record(answer, await self._guard.aanswer(answer.conversation, answer.user_message, text))

    def _unjudged_text(self, answer: FinalAnswer | None) -> str | None:
        """What of it was not judged yet."""
        if answer is None or self._guard.answers is None:
            return None
        parts = [one for one in answer.parts if (answer.conversation, _digest(one)) not in self._passed]
        return "\n".join(parts) if parts else None

    def _record(self, answer: FinalAnswer, verdict: Verdict) -> Verdict | None:
        if verdict.label:
            return verdict
        for one in (*answer.parts, *answer.copies):
            self._passed.put((answer.conversation, _digest(one)))
        return None

    # --- where answers arise

    def of_model(self, request: Any, response: Any) -> FinalAnswer | None:
        """What a model's node gives back; None where that is no answer."""
        own = [one for one in response.result if one.type == "ai"]
        structured = getattr(response, "structured_response", None)
        if structured is None and any(one.tool_calls for one in own):
            return None
        others = [text_of(one) for one in response.result if one.type == "tool"]
        texts = [text_of(one) for one in own]
        if structured is not None:
            texts = [*filter(None, texts), _structured(structured)]
        return self._answer(request.messages, texts, others)

    def of_tool(self, request: Any, messages: Sequence[Any], answer: Any) -> FinalAnswer | None:
        """What a tool gave back, where the run ends with it."""
        if not (getattr(request.tool, "return_direct", False) or ends_run(answer)):
            return None
        return self._answer(messages, [text_of(one) for one in returned_messages(answer)])

    def of_state(self, state: Any, key: str = "messages") -> FinalAnswer | None:
        """What a run ends with: its last messages, and what is structured."""
        messages = messages_of(state, key)
        texts = [text for one in last_of(messages) if (text := text_of(one))]
        structured = state.get("structured_response") if isinstance(state, Mapping) else None
        return self._answer(messages, [*texts, *([] if structured is None else [_structured(structured)])])

    def _answer(self, messages: Sequence[Any], parts: Sequence[str], copies: Sequence[str] = ()) -> FinalAnswer | None:
        from langgraph.config import get_config

        if self._guard.answers is None:
            return None
        user_message = next((one for one in reversed(messages) if one.type == "human"), None)
        conversation = conversation_of(self._guard, get_config())
        return FinalAnswer(conversation, str(user_message.text) if user_message is not None else "", parts, copies)


def without_answer(response: Any, verdict: Verdict) -> Any:
    """A model's response that says why its answer is withheld."""
    from langchain_core.messages import AIMessage

    first = next((one for one in response.result if one.type == "ai"), None)
    message = AIMessage(content=_withheld(verdict), id=first.id if first else None)
    return replace(response, result=[message], structured_response=None)


def without_ending(state: Any, verdict: Verdict, key: str = "messages") -> dict[str, Any]:
    """What takes the answer out of the state of a run.

    Raises:
        InputError: the host would keep it: a message has no id.
    """
    from langchain_core.messages import AIMessage, ToolMessage

    instead: list[Any] = []
    for one in last_of(messages_of(state, key)):
        if one.id is None:
            raise InputError("an answer that is withheld cannot be taken back: its message has no id; use add_messages")
        if one.type == "tool":
            call = {"tool_call_id": one.tool_call_id, "name": one.name, "status": "error"}
            instead.append(ToolMessage(content=_withheld(verdict), id=one.id, **call))
        else:
            instead.append(AIMessage(content=_withheld(verdict), id=one.id, tool_calls=getattr(one, "tool_calls", [])))
    structured = isinstance(state, Mapping) and state.get("structured_response") is not None
    return {key: instead, **({"structured_response": None} if structured else {})}


def without_result(call: Mapping[str, Any], verdict: Verdict) -> Any:
    """The message that answers a tool's call in place of one that is withheld."""
    from langchain_core.messages import ToolMessage

    return ToolMessage(content=_withheld(verdict), tool_call_id=call.get("id") or "", name=call["name"], status="error")


def _withheld(verdict: Verdict) -> str:
    return f"The answer is withheld.\n{verdict.feedback()}"


def _structured(value: Any) -> str:
    return json.dumps(plain_value(value, "the structured response"), default=str)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
