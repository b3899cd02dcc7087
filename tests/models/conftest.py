"""Fixtures with a scripted model server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from guardagent.models import Message
from tests.models.server import Script, ScriptedServer

KEY = "sk-test-0123456789"

Serve = Callable[[Script], ScriptedServer]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server with a script; the environment names it as the endpoint."""
    with contextlib.ExitStack() as stack:

        def start(script: Script) -> ScriptedServer:
            server = stack.enter_context(ScriptedServer(script))
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            monkeypatch.setenv("OPENAI_API_KEY", KEY)
            return server

        yield start


def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition that another thread fulfils."""
    ends = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


async def cancelled(model: Any, server: ScriptedServer) -> None:
    """Cancels a request as soon as the server has received it, and waits until the server notices."""
    asking = asyncio.create_task(model.acomplete([Message("user", "Hello?")]))
    await asyncio.to_thread(until, lambda: server.open == 1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.to_thread(until, lambda: server.open == 0)
    assert len(server.requests) == 1
