"""Answers over HTTP, each at most so long: the library reads them to their end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2


class BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer. A longer one is an answer that cannot be read."""

    def __init__(self, body: Any, limit: int) -> None:
        self._body, self._limit = body, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._body:
            size += len(chunk)
            if size > self._limit:
                raise httpx2.StreamError(f"the answer has more than {self._limit:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


async def bound(response: Any, limit: int) -> None:
    """Bounds the body of an answer; not a stream of events, each of which is bounded by itself.

    What is compressed is not read at all: nobody asked for it, and how long it is shows too late.
    """
    compressed = response.headers.get("content-encoding", "identity").lower() != "identity"
    if compressed or not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        response.stream = BoundedBody(response.stream, 0 if compressed else limit)
