"""A guard, or a model, that talks to a scripted server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

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
