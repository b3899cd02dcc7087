"""The answer to a request for a chat completion: whole, or as chunks of a stream."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

from guardagent.generation.local import GeneratedTurn
from guardagent.types import thaw

JSON = dict[str, Any]


class ChatCompletion:
    """Writes the answer to one request.

    Args:
        model: the name of the model.
    """

    def __init__(self, model: str) -> None:
        self._head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model}

    def whole(self, turn: GeneratedTurn, text: str, call_ids: Sequence[str], prompt_tokens: int) -> JSON:
        """Returns the answer.

        Args:
            turn: the turn.
            text: its text, or what replaces it.
            call_ids: the ids of its calls.
            prompt_tokens: the number of tokens of the prompt.
        """
        message: JSON = {"role": "assistant", "content": text or None, "refusal": None}
        if calls := _calls(turn, call_ids):
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": _reason(turn), "logprobs": None}
        kind = {"object": "chat.completion", "choices": [choice], "usage": _usage(turn, prompt_tokens)}
        return {**self._head, **kind, "guardagent": _report(turn)}

    def begin(self) -> JSON:
        """Returns the first chunk of a stream."""
        return self._chunk({"role": "assistant", "content": ""})

    def text(self, text: str) -> JSON:
        """Returns a chunk with a part of the text."""
        return self._chunk({"content": text})

    def end(self, turn: GeneratedTurn, call_ids: Sequence[str]) -> Iterator[JSON]:
        """Yields the last chunks: the calls, each as a whole, and the reason of the end."""
        for at, call in enumerate(_calls(turn, call_ids)):
            yield self._chunk({"tool_calls": [{"index": at, **call}]})
        yield {**self._chunk({}, _reason(turn)), "guardagent": _report(turn)}

    def usage(self, turn: GeneratedTurn, prompt_tokens: int) -> JSON:
        """Returns the chunk with the numbers of tokens."""
        return {**self._chunk({}), "choices": [], "usage": _usage(turn, prompt_tokens)}

    def _chunk(self, delta: JSON, reason: str | None = None) -> JSON:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}


def _calls(turn: GeneratedTurn, call_ids: Sequence[str]) -> list[JSON]:
    return [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(thaw(call.args), ensure_ascii=False)},
        }
        for call, call_id in zip(turn.calls, call_ids, strict=True)
    ]


def _reason(turn: GeneratedTurn) -> str:
    if turn.calls:
        return "tool_calls"
    return "length" if turn.ended == "length" else "stop"


def _usage(turn: GeneratedTurn, prompt_tokens: int) -> JSON:
    written = len(turn.tokens)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": written,
        "total_tokens": prompt_tokens + written,
    }


def _report(turn: GeneratedTurn) -> JSON:
    """The work of the guard, without the evidence of denials, as a user may read this."""
    return {
        "ended": turn.ended,
        "denied": dict(turn.denied),
        "backtracks": turn.backtracks,
        "discarded_tokens": turn.discarded,
    }
