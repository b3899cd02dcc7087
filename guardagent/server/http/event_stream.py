"""Server-Sent Events: the entries of a tenant's log as they are written, by any server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from guardagent.server.service.guard_service import GuardService

POLL_SECONDS = 1.0
CHECK_SECONDS = 5.0  # after which the token is looked at again
_FIELDS = ("kind", "time", "conversation", "tool", "call_id", "agent", "decision", "rules", "status", "name", "policy")


async def event_stream(
    service: GuardService, tenant: str, after: int, still_admitted: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Yields events until the token of the client is no longer valid, or the log cannot be read.

    Args:
        service: has the log.
        tenant: the tenant.
        after: the number of the last event that the client has.
        still_admitted: whether the client's token is valid; it may block.
    """
    yield b": events follow\n\n"
    loop = asyncio.get_running_loop()
    checked = loop.time()
    while True:
        entries = await run_in_threadpool(service.log.entries, tenant, after, 500)
        for one in entries:
            after = one["seq"]
            yield _event(one)
        if loop.time() - checked >= CHECK_SECONDS:
            if not await run_in_threadpool(still_admitted):
                return
            checked = loop.time()
            yield b": still there\n\n"
        await asyncio.sleep(POLL_SECONDS)


def _event(entry: dict[str, Any]) -> bytes:
    data = {name: entry[name] for name in _FIELDS if entry.get(name) is not None}
    text = json.dumps(data, ensure_ascii=True, default=str)
    return f"id: {entry['seq']}\nevent: {entry['kind']}\ndata: {text}\n\n".encode()
