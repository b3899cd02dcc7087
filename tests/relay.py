"""A relay in front of a server, which hangs, cuts connections and loses answers when a test says so."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from typing import Literal


class Relay:
    """Forwards connections to a server.

    Attributes:
        mode: `open` forwards all; `hung` forwards nothing; `deaf` loses the next answer, closes its connection and is
            open again.
    """

    def __init__(self, host: str, port: int) -> None:
        self.mode: Literal["open", "hung", "deaf"] = "open"
        self._target = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._opened = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Ends all connections."""
        for connection in self._sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._sockets.clear()

    def close(self) -> None:
        self.mode = "open"
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, server = self._listener.accept()[0], socket.create_connection(self._target)
                self._sockets += client, server
                for source, sink, answers in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._forward, args=(source, sink, answers), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError), source, sink:
            while data := source.recv(65536):
                while self.mode == "hung":
                    threading.Event().wait(0.02)
                if answers and self.mode == "deaf":
                    self.mode = "open"
                    break
                sink.sendall(data)
            for end in (source, sink):
                end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def relayed(address: str) -> Iterator[tuple[str, Relay]]:
    """Yields the address through a relay, and the relay."""
    match = re.search(r"(//(?:[^@/]*@)?)([\w.]+):(\d+)", address)
    assert match is not None
    relay = Relay(match[2], int(match[3]))
    try:
        yield address.replace(match[0], f"{match[1]}127.0.0.1:{relay.port}"), relay
    finally:
        relay.close()
