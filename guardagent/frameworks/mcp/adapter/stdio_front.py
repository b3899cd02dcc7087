"""The client at our standard input and output, with one message per line.

Other output of this process must not get between the messages: it goes to standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import AsyncIterator
from typing import Any

from guardagent.errors import InputError
from guardagent.frameworks.mcp.adapter import wire
from guardagent.frameworks.mcp.adapter.lines import LineBuffer, OverlongLine

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
                self._refuse(line)
            elif line.strip():
                yield line

    def _refuse(self, line: OverlongLine) -> None:
        why = f"this message has more than {MAX_BYTES:,} bytes; expected at most that"
        if line.id is None:
            raise InputError(f"{why}. It has no id that could be answered, so that the connection ends")
        self.write(wire.write_message(wire.error(line.id, wire.INVALID, why)), line.id, last=True)

    def write(self, line: bytes, related: Any, *, last: bool) -> None:  # noqa: ARG002 - there is one stream
        """Queues a line for the client."""
        if line:
            self._to_write.put(line if line.endswith(b"\n") else line + b"\n")

    def close(self) -> None:
        """Writes the remaining lines, as long as the client reads them."""
        self._to_write.put(None)
        self._writer.join(_FLUSH_SECONDS)

    def _read(self) -> None:
        lines = LineBuffer(MAX_BYTES)
        try:
            while chunk := os.read(self._in, _CHUNK):
                for line in lines.feed(chunk):
                    self._room.acquire()
                    self._deliver(line)
        except OSError:
            pass
        self._deliver(lines.end())
        self._deliver(None)

    def _deliver(self, line: bytes | OverlongLine | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)

    def _write(self) -> None:
        while (line := self._to_write.get()) is not None:
            left = memoryview(line)
            try:
                while left:
                    left = left[os.write(self._out, left) :]
            except OSError:
                return  # the client has stopped reading; our reader will notice that it is gone
