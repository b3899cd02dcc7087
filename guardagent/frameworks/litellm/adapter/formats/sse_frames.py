"""Server-sent events: a stream of bytes, cut at the ends of its events."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from guardagent.errors import InputError

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE_END = re.compile("\r\n|\n|\r")  # `splitlines` also breaks at U+2028 and others, which texts may have
_MAX_BYTES = 8 * 1024 * 1024  # of one event, as the host has it


async def sse_frames(chunks: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """Yields whole events; a network may cut them anywhere.

    Raises:
        InputError: a part of the stream is no text, or an event is too long.
    """
    held = b""
    async for chunk in chunks:
        if not isinstance(chunk, bytes | str):
            raise InputError(f"a part of the stream is a {type(chunk).__name__}; expected server-sent events")
        held += chunk if isinstance(chunk, bytes) else chunk.encode()
        while (end := _END.search(held)) is not None:
            yield held[: end.end()]
            held = held[end.end() :]
        if len(held) > _MAX_BYTES:
            raise InputError("an event of the stream is too long")
    if held.strip():
        yield held


def sse_data(frame: bytes) -> dict[str, Any] | None:
    """Returns the data of an event; None if it has none, as a comment.

    Raises:
        InputError: it is no JSON object.
    """
    lines = _LINE_END.split(frame.decode("utf-8", "replace"))
    text = "\n".join(line[5:].removeprefix(" ") for line in lines if line.startswith("data:"))
    if not text or text == "[DONE]":
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InputError("an event of the stream is no JSON object")
    return value


def sse_frame(data: Mapping[str, Any]) -> bytes:
    """Returns an event as bytes."""
    return f"event: {data['type']}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
