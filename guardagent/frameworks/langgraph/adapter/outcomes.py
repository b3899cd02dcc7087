"""Tool results and the host's messages, as rules read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guardagent.enforcement import Outcome
from guardagent.enforcement.calls import plain_value
from guardagent.errors import InputError


def _output(value: Any) -> Any:
    """Returns a tool's result as a plain value; unchanged if it has no plain form."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return plain_value(value)
    except InputError:
        try:
            return to_jsonable_python(value)
        except (PydanticSerializationError, ValueError):
            return value


def outcome_of(response: Any, call_id: str, *, with_artifact: bool = False) -> Outcome:
    """Returns a call's outcome from the tool's result.

    Args:
        response: a value, a ToolMessage, a Command, or a list of these.
        call_id: the call's id, which selects the message of a Command.
        with_artifact: whether the result is a pair of content and artifact.
    """
    artifact = None
    if with_artifact and isinstance(response, tuple) and len(response) == 2:
        response, artifact = response
    if type(response) is str:  # most are
        return Outcome(response, other_outputs=(response, _structured(artifact)))
    message = answer_message(response, call_id)
    if message is not None:
        parts = (message.content, _structured(message.artifact))
        return Outcome(_text(message.content), failed=message.status == "error", other_outputs=parts)
    update = getattr(response, "update", None)
    output = response if update is None or isinstance(response, Mapping) else update
    return Outcome(_output(_text(output)), other_outputs=(_output(output), _structured(artifact)))


def _structured(artifact: Any) -> Any:
    """Returns the structured content of an MCP tool's artifact."""
    return artifact.get("structured_content") if isinstance(artifact, Mapping) else None


def answer_message(response: Any, call_id: str) -> Any:
    """Returns the ToolMessage that answers a call, alone, in a list or in a Command; None if there is none."""
    from langchain_core.messages import ToolMessage
    from langgraph.types import Command

    if isinstance(response, ToolMessage):
        return response
    if isinstance(response, Command):
        update = response.update
        parts = update.values() if isinstance(update, Mapping) else [update]
        found = [answer_message(part, call_id) for part in parts if isinstance(part, list)]
        return next((one for one in found if one is not None and one.tool_call_id == call_id), None)
    if isinstance(response, list):
        found = [answer_message(one, call_id) for one in response if isinstance(one, ToolMessage | Command)]
        return next((one for one in found if one is not None and one.tool_call_id == call_id), None)
    return None


def _text(content: Any) -> Any:
    """Joins the text blocks of an MCP tool's content."""
    if isinstance(content, list) and content and all(_is_text(block) for block in content):
        return "\n".join(block["text"] for block in content)
    return content


def _is_text(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str)


@dataclass(frozen=True, slots=True, eq=False)
class Chat(Sequence[Mapping[str, Any]]):
    """The host's messages as rules read them, converted on access."""

    messages: Sequence[Any]

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, at: Any) -> Any:
        found = self.messages[at]
        return [_chat(one) for one in found] if isinstance(at, slice) else _chat(found)


_ROLES = {"human": "user", "ai": "assistant"}


def _chat(message: Any) -> dict[str, Any]:
    kind = getattr(message, "type", "")
    return {"role": _ROLES.get(kind, kind), "content": _text(getattr(message, "content", ""))}
