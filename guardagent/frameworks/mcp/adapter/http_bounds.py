"""Limits the length of HTTP answers, which the library reads completely."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2


class BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer. An overlong body makes the answer unreadable."""

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
    """Limits the body of an answer. Event streams are exempt, since each event has its own limit.

    Compressed answers are not read: they were not requested, and their length is known too late.
    """
    compressed = response.headers.get("content-encoding", "identity").lower() != "identity"
    if compressed or not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        response.stream = BoundedBody(response.stream, 0 if compressed else limit)
