"""One client over HTTP, with its relay and its unanswered requests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from guardagent.frameworks.mcp.adapter.relay import Relay
from guardagent.types.values import SessionPrincipal

MAX_WAITING = 1000  # messages that wait for the client to open its stream

Stream = asyncio.Queue[tuple[bytes, bool]]
"""Lines for the client; the last one is the answer, or empty if there is none."""


@dataclass
class HttpSession:
    """One client. `streams` are its unanswered requests; `standing` has the messages that belong to none of them.

    It belongs to the caller who opened it: `owner`, None where callers are not known.
    """

    name: str
    owner: SessionPrincipal | None = None
    relay: Relay | None = None
    work: asyncio.Task[None] | None = None
    streams: dict[str, Stream] = field(default_factory=dict)
    standing: Stream = field(default_factory=asyncio.Queue)
    listening: bool = False
    used: float = 0.0

    def give(self, line: bytes, related: Any, *, last: bool) -> None:
        """Queues a line for the client, on the stream that it belongs to."""
        stream = self.streams.get(str(related))
        if stream is not None:
            stream.put_nowait((line, last))
        elif line and not last and self.standing.qsize() < MAX_WAITING:
            self.standing.put_nowait((line, False))
