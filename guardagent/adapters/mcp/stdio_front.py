"""The client at our standard input and output, a message in a line.

What else is printed in this process must not get between the messages: it goes to standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import AsyncIterator
from typing import Any

from guardagent.adapters.mcp.links import MAX_LINE

_CHUNK = 1 << 16
_FLUSH_SECONDS = 2.0


class StdioFront:
    """Reads and writes in threads: that works with pipes, terminals and files, and none of them blocks the rest."""

    def __init__(self) -> None:
        self._in, self._out = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._to_write: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, daemon=True, name="guardagent-mcp-out")
        self._writer.start()
        threading.Thread(target=self._read, daemon=True, name="guardagent-mcp-in").start()

    async def lines(self) -> AsyncIterator[bytes]:
        """Ends when the client has closed its end."""
        while (line := await self._lines.get()) is not None:
            if line.strip():
                yield line

    def write(self, line: bytes, related: Any, *, last: bool) -> None:  # noqa: ARG002 - one stream for all
        """A line for the client."""
        if line:
            self._to_write.put(line if line.endswith(b"\n") else line + b"\n")

    def close(self) -> None:
        """Writes what is left, while the client takes it."""
        self._to_write.put(None)
        self._writer.join(_FLUSH_SECONDS)

    def _read(self) -> None:
        kept = bytearray()
        try:
            while chunk := os.read(self._in, _CHUNK):
                kept += chunk
                *lines, rest = kept.split(b"\n") if b"\n" in chunk else [kept]
                for line in lines:
                    self._took(bytes(line))
                kept = bytearray(rest)
                if len(kept) > MAX_LINE:
                    break
        except OSError:
            pass
        self._took(None)

    def _took(self, line: bytes | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)

    def _write(self) -> None:
        while (line := self._to_write.get()) is not None:
            try:
                while line:
                    line = line[os.write(self._out, line) :]
            except OSError:
                return  # nobody reads on; that the client is gone shows where we read
