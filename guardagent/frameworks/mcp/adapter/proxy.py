"""`guardagent mcp-proxy`: a guard in front of any MCP server.

    client ── StdioFront or HttpFront ── Relay ── ServerSide ── CommandTarget or UrlTarget ── server

One relay is one session of a client: one conversation, with its own connection to the server. A client at our standard
input and output sends one message per line. Other output of this process must not get between the messages: it goes to
standard error, and approval at the terminal does without standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import sys
import threading
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardagent._support.files import parse_json, read_text
from guardagent._support.http import HttpAdmission, HttpEndpoint, serve
from guardagent.enforcement import Approval, ApprovalRequest, EnforcementPoint, ToolSpec
from guardagent.enforcement.host_adapter import end_conversation
from guardagent.errors import InputError
from guardagent.frameworks.mcp.adapter import calls
from guardagent.frameworks.mcp.adapter.catalogue import Catalogue, tools_of
from guardagent.frameworks.mcp.adapter.relay import Escalation, Relay, ToClient
from guardagent.frameworks.mcp.adapter.server_side import OverlongLine, Target, bounded_lines
from guardagent.types.values import SessionPrincipal

if TYPE_CHECKING:
    from guardagent.frameworks.mcp.adapter.http_front import HttpLimits

# --- a client at standard input and output

MAX_BYTES = 16 * 1024 * 1024  # in a message
_WAITING = 64  # messages that wait for earlier ones
_CHUNK = 1 << 16
_FLUSH_SECONDS = 2.0


class StdioFront:
    """Reads and writes in threads, which works with pipes, terminals and files without blocking the event loop."""

    def __init__(self) -> None:
        self._in, self._out = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | OverlongLine | None] = asyncio.Queue()
        self._room = threading.Semaphore(_WAITING)
        self._to_write: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, daemon=True, name="guardagent-mcp-out")
        self._writer.start()
        threading.Thread(target=self._read, daemon=True, name="guardagent-mcp-in").start()

    async def lines(self) -> AsyncIterator[bytes]:
        """Reads until the client closes its end. Answers overlong messages with an error.

        Raises:
            InputError: a message is overlong, and its id is unreadable.
        """
        while (line := await self._lines.get()) is not None:
            self._room.release()
            if isinstance(line, OverlongLine):
                why = f"this message has more than {MAX_BYTES:,} bytes; expected at most that"
                if line.id is None:
                    raise InputError(f"{why}. It has no id that could be answered, so that the connection ends")
                self.write(calls.write_message(calls.error(line.id, calls.INVALID, why)), line.id, last=True)
            elif line.strip():
                yield line

    def write(self, line: bytes, related: Any, *, last: bool) -> None:  # noqa: ARG002 - there is one stream
        """Queues a line for the client."""
        if line:
            self._to_write.put(line if line.endswith(b"\n") else line + b"\n")

    def close(self) -> None:
        """Writes the remaining lines, as long as the client reads them."""
        self._to_write.put(None)
        self._writer.join(_FLUSH_SECONDS)

    def _read(self) -> None:
        with contextlib.suppress(OSError), os.fdopen(self._in, "rb", _CHUNK) as source:
            for line in bounded_lines(source, MAX_BYTES):
                self._room.acquire()
                self._deliver(line)
        self._deliver(None)

    def _deliver(self, line: bytes | OverlongLine | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)

    def _write(self) -> None:
        # If the client has stopped reading, our reader will notice that it is gone.
        with contextlib.suppress(OSError), os.fdopen(self._out, "wb") as out:
            while (line := self._to_write.get()) is not None:
                out.write(line)
                out.flush()


# --- the proxy

_SERVER = "this server"


@dataclass
class Proxy:
    """The guard in front of a server.

    Args:
        guard: makes the decisions. Its approver, if any, gets approval requests instead of the client.
        target: the server.
        escalation: the recipients of approval requests.
        conversation: the id of the session at standard input; a new one by default.
        resumable: whether that conversation continues after the client has left and the proxy is restarted.
        principals: the callers of the sessions over HTTP by conversation, for the guard's `principal`.
        lists_all: whether clients also see tools that they may never call.
        header: the header that names the conversation of a request over HTTP without a session.
        least: the oldest revision of the protocol that is accepted; empty for any.
    """

    guard: EnforcementPoint
    target: Target
    escalation: Escalation = field(default_factory=Escalation)
    conversation: str | None = None
    resumable: bool = False
    principals: dict[str, SessionPrincipal] = field(default_factory=dict)
    lists_all: bool = False
    header: str | None = None
    least: str = ""

    async def serve_stdio(self) -> None:
        """Serves the client at standard input until the client leaves.

        Raises:
            InputError: the server cannot be started, or a rule names a tool that is probably a misspelling.
            GuardError: the server does not answer.
        """
        specs = await self._attached()
        front = StdioFront()
        name = self.conversation or f"mcp-{uuid.uuid4().hex}"
        relay = self._relay(specs, name, front.write)
        with _signals():
            server = asyncio.create_task(relay.run())
            try:
                async for line in front.lines():
                    await relay.take(line)
            finally:
                server.cancel()
                await asyncio.gather(server, return_exceptions=True)
                if not self.resumable:
                    end_conversation(self.guard, name)
                front.close()

    async def serve_http(self, endpoint: HttpEndpoint[HttpLimits]) -> None:
        """Serves clients at an address and all paths below, until it is stopped.

        Raises:
            InputError, GuardError: as `serve_stdio`; or the address is not available.
        """
        from guardagent.frameworks.mcp.adapter.http_front import HttpFront  # needs the mcp library

        specs = await self._attached()

        def begin(name: str, to_client: ToClient, caller: SessionPrincipal | None) -> Relay:
            if caller is not None:
                self.principals[f"mcp-{name}"] = caller
            return self._relay(specs, f"mcp-{name}", to_client)

        def end(name: str) -> None:
            end_conversation(self.guard, f"mcp-{name}")
            self.principals.pop(f"mcp-{name}", None)

        admission = HttpAdmission(endpoint.hosts, endpoint.authenticate)
        front = HttpFront(begin, end, admission, endpoint.limits, self.header)
        async with front.running():
            await serve(front, endpoint)

    async def _attached(self) -> list[ToolSpec]:
        specs = await tools_of(self.target, self.least)
        Catalogue(self.guard, server=_SERVER).attach(specs)
        return specs

    def _relay(self, specs: list[ToolSpec], name: str, to_client: ToClient) -> Relay:
        catalogue = Catalogue(self.guard, specs, _SERVER, lists_all=self.lists_all)
        return Relay(self.guard, name, self.target, catalogue, to_client, self.escalation, self.least)


@contextlib.contextmanager
def _signals() -> Any:
    """Turns a signal into a normal exit, which also stops the server."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, task.cancel, sign)
    try:
        yield
    except asyncio.CancelledError as error:
        if error.args and isinstance(error.args[0], signal.Signals):
            sys.exit(128 + error.args[0])
        raise
    finally:
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(sign)


# --- a state file that another program maintains


class FileState:
    """Returns the JSON object in a file; the file is read again when it has changed.

    Raises:
        InputError: the file has no JSON object. During a check this denies.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._state: dict[str, Any] = {}
        self("")

    def __call__(self, _conversation: str) -> dict[str, Any]:
        """Returns the state, which is the same for every conversation."""
        try:
            status = self._path.stat()
        except OSError as error:
            raise InputError(f"{self._path}: cannot be read: {error.strerror}; expected a JSON object") from None
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        if seen != self._seen:
            self._state, self._seen = read_object(self._path), seen
        return self._state


def read_object(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file.

    Raises:
        InputError: the file has no JSON object.
    """
    value = parse_json(read_text(path), path)
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds a {type(value).__name__}; expected a JSON object")
    return value


# --- approval at the terminal


def ask_at_terminal(request: ApprovalRequest) -> Approval:
    """Returns the approval: `y` approves, any other input rejects. Without a terminal the call is rejected."""
    try:
        with Path("/dev/tty").open("r+b", buffering=0) as terminal:
            terminal.write(f"{request.text()}\n[y/N] ".encode("utf-8", "backslashreplace"))
            reply = terminal.readline().strip().lower()
    except OSError as error:
        return Approval("reject", reason=f"there is no terminal for the approval: {error.strerror}")
    return Approval("approve") if reply in (b"y", b"yes") else Approval("reject")
