"""Connections to a server: a process that uses its standard input and output, or a URL (streamable HTTP).

async with target.open() as link:
    await link.send(message)
    async for line in link.lines(): ...      ends, or raises, when the server is gone
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from guardagent.frameworks.mcp.adapter.wire import Message, write_message
from guardagent.types import EMPTY

MAX_LINE = 64 * 1024 * 1024
_GRACE_SECONDS = 2.0  # for a server to exit by itself, and again after a signal


class LinkLostError(Exception):
    """The connection is gone; `unsent` are the ids of requests that the server reports as never received."""

    def __init__(self, why: str, unsent: frozenset[Any] = frozenset()) -> None:
        super().__init__(why)
        self.unsent = unsent


class ServerLink(Protocol):
    """One connection."""

    async def send(self, message: Message, schema: Mapping[str, Any] = EMPTY) -> None:
        """Sends a message; `schema` belongs to the called tool. Raises LinkLostError."""

    def lines(self) -> AsyncIterator[bytes]: ...


class Target(Protocol):
    """A server that can be connected to repeatedly."""

    def open(self) -> AbstractAsyncContextManager[ServerLink]: ...


class CommandTarget:
    """A server that a command starts. It inherits our environment and standard error.

    Args:
        command: the program and its arguments.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[ServerLink]:
        """Starts the server. Raises OSError if it cannot be started."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self.command, stdin=pipe, stdout=pipe, limit=MAX_LINE, start_new_session=True
        )
        try:
            yield _PipeLink(process)
        finally:
            await asyncio.shield(_stop(process))


class _PipeLink:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._sending = asyncio.Lock()

    async def send(self, message: Message, schema: Mapping[str, Any] = EMPTY) -> None:  # noqa: ARG002 - of the protocol
        to = self._process.stdin
        assert to is not None
        try:
            async with self._sending:
                to.write(write_message(message))
                await to.drain()
        except (OSError, RuntimeError) as error:
            raise LinkLostError(f"the server no longer accepts messages: {error}") from None

    async def lines(self) -> AsyncIterator[bytes]:
        source = self._process.stdout
        assert source is not None
        while True:
            try:
                line = await source.readline()
            except ValueError:
                raise LinkLostError(f"the server wrote a line of more than {MAX_LINE:,} bytes") from None
            if not line:
                status = await self._process.wait()
                raise LinkLostError(f"the server ended with status {status}")
            if line.strip():
                yield line


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Shuts a server down as the protocol specifies: closes its input, then signals all its processes."""
    if process.stdin is not None:
        process.stdin.close()
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            await asyncio.wait_for(process.wait(), _GRACE_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, sign)
        else:
            return
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _GRACE_SECONDS)
