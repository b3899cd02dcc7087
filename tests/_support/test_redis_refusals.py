"""A Redis server that is refused: the message names one expectation, that of the first problem."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Iterator

import pytest

from guardagent import InputError
from tests.stores import new_counters, new_ledger

pytest.importorskip("redis")
SAFE = {
    "role": "master",
    "maxmemory_policy": "noeviction",
    "appendonly": "yes",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
}


@contextlib.contextmanager
def scripted(settings: dict[str, str], reply: bytes = b"") -> Iterator[str]:
    """Yields the address of a server that answers questions about its settings, or everything in the same way."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while head := self.rfile.readline():
                parts = [self._part() for _ in range(int(head[1:]))]
                self.wfile.write(reply or _answer(parts, settings))

        def _part(self) -> str:
            size = int(self.rfile.readline()[1:])
            return self.rfile.read(size + 2)[:-2].decode()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield (
            f"redis://:secret-word@127.0.0.1:{server.server_address[1]}/0"
            if reply
            else (f"redis://127.0.0.1:{server.server_address[1]}/0")
        )
        server.shutdown()


def _answer(parts: list[str], settings: dict[str, str]) -> bytes:
    if parts[0] == "INFO":
        return _bulk("".join(f"{name}:{value}\r\n" for name, value in settings.items()))
    if parts[:2] == ["CONFIG", "GET"]:
        return b"*2\r\n" + _bulk(parts[2]) + _bulk(settings[parts[2]])
    return b"+OK\r\n"


def _bulk(text: str) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text.encode())


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("role", "slave", "has the role 'slave'; expected the primary"),
        ("maxmemory_policy", "allkeys-lru", "expected maxmemory-policy noeviction"),
        ("maxmemory_policy", "volatile-ttl", "expected maxmemory-policy noeviction"),
        ("appendonly", "no", "appendonly is no); expected appendonly yes; 'durability=unchecked'"),
        ("appendfsync", "everysec", "expected appendfsync always"),
        ("appendfsync", "no", "expected appendfsync always"),
        ("no-appendfsync-on-rewrite", "yes", "expected no-appendfsync-on-rewrite no"),
    ],
)
def test_an_unsafe_server_has_one_expectation(setting: str, value: str, says: str) -> None:
    with scripted({**SAFE, setting: value}) as address:
        for new in (new_ledger, new_counters):
            with pytest.raises(InputError) as refused:
                new(address)
            assert says in str(refused.value)
            assert str(refused.value).count("expected ") == 1


@pytest.mark.parametrize(
    "reply",
    [
        b"-NOAUTH Authentication required.\r\n",
        b"-WRONGPASS invalid username-password pair or user is disabled.\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"-LOADING Redis is loading the dataset in memory\r\n",
    ],
)
def test_anything_else_expects_a_redis_server(reply: bytes) -> None:
    """Its password is in no message."""
    with scripted(SAFE, reply) as address, pytest.raises(InputError) as refused:
        new_ledger(address)
    assert str(refused.value).endswith("; expected a Redis server")
    assert "secret-word" not in str(refused.value)
    assert str(refused.value).count("expected ") == 1
