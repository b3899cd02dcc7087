"""The server side of a relay: reconnects to the server for as long as the client is connected.

A lost server is restarted or reconnected after a pause, which grows with each failure. The new one
receives the handshake, the log level and the subscriptions of the old one. The server is a process that uses its
standard input and output, or a URL (streamable HTTP):

    async with target.open() as link:
        await link.send(message)
        async for line in link.lines(): ...      ends, or raises, when the server is gone
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, TypeVar

from guardagent.errors import InputError, error_text
from guardagent.frameworks.mcp.adapter import calls
from guardagent.frameworks.mcp.adapter.calls import (
    CLOSED,
    INVALID,
    Message,
    is_request,
    notification,
    params_of,
    request,
    write_message,
)
from guardagent.types import EMPTY

_log = logging.getLogger("guardagent")
T = TypeVar("T")


# --- connections

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


def older_revision(revision: Any, least: str) -> str:
    """Returns a revision and the expected one, if it is not `least` or newer; else nothing."""
    if isinstance(revision, str) and calls.REVISION.fullmatch(revision) and revision >= least:
        return ""
    return f"revision {str(revision)[:20]} of the protocol; expected {least} or newer (--protocol-min)"


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


# --- reconnecting

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds
STEADY = 5.0  # seconds after which a connection counts as working
WAIT = 30.0  # seconds that a message waits for a restarting server
ANSWER = 30.0  # seconds that a server has to answer the proxy itself


class ServerSide:
    """Keeps a server connected.

    Args:
        target: opens connections.
        take: gets each line that is not an answer to the proxy itself.
        lost: gets the cause of a lost connection, and the ids of requests that the server never received.
        resumed: is called with each new connection except the first, before other messages are sent.
        least: the oldest revision of the protocol that is accepted; empty for any.
    """

    def __init__(
        self,
        target: Target,
        take: Callable[[bytes, Message], Awaitable[None]],
        lost: Callable[[str, frozenset[Any]], None],
        resumed: Callable[[], Awaitable[None]],
        least: str = "",
    ) -> None:
        self._target, self._take, self._lost, self._resumed = target, take, lost, resumed
        self._least = least
        self._greeting: Any = None  # the id of the handshake that is under way
        self._link: ServerLink | None = None
        self._up = asyncio.Event()
        self._prefix = f"guardagent-{secrets.token_hex(4)}-"
        self._confirming = asyncio.Lock()
        self._responses: dict[str, asyncio.Future[Message]] = {}
        self._count = 0
        self._handshake: Any = None
        self._initialized = False
        self._standing: dict[tuple[str, Any], Any] = {}
        self._meta: Mapping[str, Any] = EMPTY
        self.generation = 0
        self.in_doubt = False  # a call got no answer, so the session may be gone

    @property
    def up(self) -> bool:
        return self._up.is_set()

    async def run(self) -> None:
        """Connects, and reconnects until it is cancelled."""
        pause, loop = FIRST_PAUSE, asyncio.get_running_loop()
        while True:
            began, unsent = loop.time(), frozenset[Any]()
            try:
                async with self._connected() as reading:
                    await self._greet()
                    await reading
                why = "it ended"
            except Exception as error:  # noqa: BLE001 - no connection error ends the proxy
                why, unsent = cause(error)
            self._forget(why)
            self._lost(why, unsent)
            pause = FIRST_PAUSE if loop.time() - began > STEADY else pause
            _log.warning("the MCP server is gone (%s); it is started again in %g s", why, pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            self.generation += 1

    async def send(self, message: Message, schema: Mapping[str, Any] = EMPTY) -> None:
        """Sends a message of the client, once the server is connected.

        Raises:
            LinkLostError: the server is not connected, or the connection has just been lost.
        """
        await self.wait()
        self._remember(message)  # not before: a new connection would get the message twice
        await self._send_now(message, schema)

    async def wait(self) -> None:
        """Waits for the server.

        Raises:
            LinkLostError: the server did not connect in time.
        """
        if self._up.is_set():
            return
        try:
            await asyncio.wait_for(self._up.wait(), WAIT)
        except TimeoutError:
            raise LinkLostError("the server does not come up again") from None

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, seconds: float = ANSWER) -> Message:
        """Sends a request of the proxy itself to the server, and returns the answer.

        Raises:
            LinkLostError: the server is gone, or does not answer.
        """
        self._count += 1
        name = f"{self._prefix}{self._count}"
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._responses[name] = future
        try:
            meta = {"_meta": dict(self._meta)} if self._meta and method != "initialize" else {}
            await self._send_now(request(name, method, {**meta, **(params or {})}))
            return await asyncio.wait_for(future, seconds)
        except TimeoutError:
            raise LinkLostError(f"the server does not answer {method}") from None
        finally:
            self._responses.pop(name, None)

    async def confirm(self) -> None:
        """Confirms a doubtful session before a call is sent, since no call is sent a second time.

        Raises:
            LinkLostError: the server is not connected.
        """
        async with self._confirming:
            if self.in_doubt:
                self.in_doubt = False
                try:
                    await self.ask("ping")
                except LinkLostError:
                    pass  # then there is a new session
                except asyncio.CancelledError:
                    self.in_doubt = True
                    raise
        await self.wait()

    def ours(self, message_id: Any) -> bool:
        """Whether an id is reserved for the proxy's own requests."""
        return isinstance(message_id, str) and message_id.startswith(self._prefix)

    def _remember(self, message: Message) -> None:
        """Records the messages that the next server has to receive, too."""
        method, params = message.get("method"), params_of(message)
        if method == "initialize":
            self._handshake = dict(params)
        elif method == "notifications/initialized":
            self._initialized = True
        elif method == "logging/setLevel":
            self._standing[method, None] = params
        elif method == "resources/subscribe":
            self._standing[method, params.get("uri")] = params
        elif method == "resources/unsubscribe":
            self._standing.pop(("resources/subscribe", params.get("uri")), None)
        meta = params.get("_meta")
        if is_request(message) and isinstance(meta, Mapping):
            kept = {name: value for name, value in meta.items() if name.startswith("io.modelcontextprotocol/")}
            self._meta = kept or self._meta

    # --- one connection

    async def once(self, work: Callable[[], Awaitable[T]]) -> T:
        """Connects for as long as `work` runs, and returns its result.

        Raises:
            Exception: any, alone or in a group: there is no connection, it ends, or `work` fails.
        """
        async with self._connected() as reading:
            self._up.set()
            result = await work()
            reading.cancel()
        return result

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[asyncio.Task[None]]:
        """Connects. Yields the task that reads."""
        async with self._target.open() as link, asyncio.TaskGroup() as tasks:
            self._link = link
            yield tasks.create_task(self._read_all(link))

    async def _read_all(self, link: ServerLink) -> None:
        try:
            async for line in link.lines():
                await self._read(line)
        finally:
            self._link = None
            self._up.clear()
            self._forget("the server is gone")

    async def _greet(self) -> None:
        """Replays the recorded messages to a new server."""
        if self._handshake is not None:
            response = await self.ask("initialize", self._handshake)
            if "error" in response:
                raise LinkLostError(f"the server refuses the handshake: {response['error']}")
            if self._initialized:
                await self._send_now(notification("notifications/initialized"))
            for (method, _), params in list(self._standing.items()):
                await self.ask(method, params)
        if self.generation:
            await self._resumed()
        self._up.set()

    async def _read(self, line: bytes) -> None:
        try:
            message = calls.read(line)
        except InputError as error:
            line, message = await self._replace_garbled(line, error)
            if not message:
                return
        if self._greeting is not None and message.get("id") == self._greeting and "method" not in message:
            self._require_revision(message)
        future = self._responses.get(message.get("id", "")) if isinstance(message.get("id"), str) else None
        if future is not None and "method" not in message:
            if not future.done():
                future.set_result(message)
            return
        await self._take(line, message)

    def _require_revision(self, response: Message) -> None:
        self._greeting, answer = None, response.get("result")
        spoken = answer.get("protocolVersion") if isinstance(answer, Mapping) else None
        if self._least and "result" in response and (why := older_revision(spoken, self._least)):
            raise LinkLostError(f"the server speaks {why}")

    async def _replace_garbled(self, line: bytes, error: InputError) -> tuple[bytes, Message]:
        """Replaces an ambiguous answer by an error for the client: the call may have run."""
        message, name = calls.lenient(line), calls.id_of(line)
        if message is None or name is None:
            _log.warning("the MCP server sent an invalid message: %s: %.200r", error, line)
            return line, {}
        _log.warning("a message of the MCP server is not passed on: %s", error)
        if "method" in message:
            with contextlib.suppress(LinkLostError):
                await self._send_now(calls.error(name, INVALID, str(error)))
            return line, {}
        answer = calls.error(name, CLOSED, f"the server's answer is ambiguous: {error}")
        return calls.write_message(answer), answer

    async def _send_now(self, message: Message, schema: Mapping[str, Any] = EMPTY) -> None:
        if self._link is None:
            raise LinkLostError("the server is not running")
        if message.get("method") == "initialize":
            self._greeting = message.get("id")
        await self._link.send(message, schema)

    def _forget(self, why: str) -> None:
        for future in self._responses.values():
            if not future.done():
                future.set_exception(LinkLostError(why))


def cause(error: BaseException) -> tuple[str, frozenset[Any]]:
    """Returns why a connection ended, from within the exception groups of libraries."""
    while isinstance(error, BaseExceptionGroup):
        lost = error.subgroup(LinkLostError)
        error = (lost or error).exceptions[0]
    return (str(error), error.unsent) if isinstance(error, LinkLostError) else (error_text(error), frozenset())


# --- lines of limited length

_CHUNK = 1 << 16
_END = 1024  # bytes kept at each end
_ID = rb'"id"\s*:\s*(?:(?P<number>-?\d{1,18})|"(?P<text>[\w.~:-]{1,200})")\s*'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb",", re.ASCII)
_LAST = re.compile(rb"(?:,\s*" + _VERSION + rb")?,\s*" + _ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*$", re.ASCII)


@dataclass(frozen=True, slots=True)
class OverlongLine:
    """A line above the length limit."""

    head: bytes
    tail: bytes

    @property
    def id(self) -> Any:
        """Returns the request id, if it is the first or last member, as clients write it."""
        match = _FIRST.match(self.head) or _LAST.search(self.tail)
        if match is None:
            return None
        return int(match["number"]) if match["number"] else match["text"].decode()


def bounded_lines(stream: BinaryIO, limit: int) -> Iterator[bytes | OverlongLine]:
    """Returns the non-empty lines of a stream. A last one without its end is dropped, unless it is overlong.

    Args:
        stream: the stream.
        limit: the maximum number of bytes in a line.
    """
    while line := stream.readline(limit + 1):
        if line.endswith(b"\n"):
            if line != b"\n":
                yield line
        elif len(line) > limit:
            tail = line[-_END:]
            while not tail.endswith(b"\n") and (more := stream.readline(_CHUNK)):
                tail = (tail + more)[-_END:]
            yield OverlongLine(line[:_END], tail)
