"""Replies of a server to requests with tools: calls, several candidates, and streams."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.models.server import Reply

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
Call = tuple[str, Mapping[str, Any] | str]


def message(*calls: Call, text: str | None = None) -> dict[str, Any]:
    """A message of the assistant; arguments that are a text are sent as they stand."""
    written = [
        {
            "id": f"id_{number}",
            "type": "function",
            "function": {"name": name, "arguments": args if isinstance(args, str) else json.dumps(args)},
        }
        for number, (name, args) in enumerate(calls, 1)
    ]
    return {"role": "assistant", "content": text} | ({"tool_calls": written} if written else {})


def candidates(*messages: Mapping[str, Any], finish_reason: str = "stop") -> Reply:
    """A completion with one choice per message."""
    choices = [{"index": at, "finish_reason": finish_reason, "message": message} for at, message in enumerate(messages)]
    return _reply({"object": "chat.completion", "choices": choices, "usage": USAGE})


def proposes(*calls: Call, text: str | None = None) -> Reply:
    """A completion with one choice."""
    return candidates(message(*calls, text=text))


def chunk(delta: Mapping[str, Any], finish_reason: str | None = None, index: int = 0) -> dict[str, Any]:
    """One chunk of a stream."""
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish_reason}]}


def part(index: int, arguments: str = "", name: str | None = None, call_id: str | None = None) -> dict[str, Any]:
    """A piece of a call."""
    named = {"id": call_id, "type": "function"} if call_id else {}
    return {"tool_calls": [{"index": index, **named, "function": {"name": name, "arguments": arguments}}]}


def streamed(chunks: Iterable[Mapping[str, Any]], *, done: bool = True, **options: Any) -> Reply:
    """A stream of chunks, and at its end what it took."""
    shared = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "test"}
    events = [shared | dict(chunk) for chunk in [*chunks, *([{"choices": [], "usage": USAGE}] if done else [])]]
    lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + ("data: [DONE]\n\n" if done else "")
    return Reply(lines.encode(), content_type="text/event-stream", **options)


def stream_of(call: Call, call_id: str = "id_1") -> Reply:
    """A call whose arguments come a few characters at a time, after some text."""
    name, args = call
    text = args if isinstance(args, str) else json.dumps(args)
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    return streamed(
        [
            chunk({"role": "assistant", "content": "One "}),
            chunk({"content": "moment."}),
            chunk(part(0, "", name, call_id)),
            *(chunk(part(0, piece)) for piece in pieces),
            chunk({}, "tool_calls"),
        ]
    )


def _reply(completion: Mapping[str, Any]) -> Reply:
    return Reply(json.dumps({"id": "c", "created": 0, "model": "test", **completion}).encode())
