"""A confined command reaches the hosts of its list, through a proxy, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from socket import create_server

import pytest

from guardagent.sandbox import confined_network, hardening
from guardagent.sandbox.confined_command import Confinement

pytestmark = pytest.mark.skipif(
    hardening.landlock_version() < 3 or bool(confined_network.problem()), reason="this machine cannot confine"
)
TRIES = """
import json, os, socket, sys
def tried(action):
    try:
        return action()
    except OSError as error:
        return type(error).__name__
def through(target):
    host, port = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 5) as proxy:
        proxy.sendall(f"CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n".encode())
        answer = b"".join(iter(lambda: proxy.recv(1000), b"")).decode()
        head, _, body = answer.partition("\\r\\n\\r\\n")
        return body if head.split()[1] == "200" else head.split()[1]
allowed, other, unix = sys.argv[1:]
print(json.dumps({
    "allowed": through(allowed), "other": through(other), "not a proxy's": through("x y"),
    "direct": tried(lambda: socket.create_connection(allowed.split(":"), 2) and "connected"),
    "udp": tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("8.8.8.8", 53))),
    "name": tried(lambda: socket.getaddrinfo("example.com", 443) and "resolved"),
    "unix": tried(lambda: socket.socket(socket.AF_UNIX).connect(unix)),
    "raw": tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW) and "opened"),
    "input": sys.stdin.read(),
}))
"""


@pytest.fixture
def greeter() -> Iterator[int]:
    """The port of a server of this machine that greets."""
    with create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"hello")

        threading.Thread(target=greet, daemon=True).start()
        yield server.getsockname()[1]


def test_nothing_but_the_listed_hosts_is_reached(greeter: int, tmp_path: Path) -> None:
    (tmp_path / "tries.py").write_text(TRIES)
    read = [str(tmp_path), sys.base_prefix, sys.prefix]
    allowed, other = f"127.0.0.1:{greeter}", f"localhost:{greeter}"
    command = Confinement(read, hosts=[allowed]).command(
        [sys.executable, str(tmp_path / "tries.py"), allowed, other, str(tmp_path / "s")]
    )
    done = subprocess.run(command, input="to the command", capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    refused = "PermissionError"
    assert json.loads(done.stdout) == {
        "allowed": "hello",
        "other": "403",
        "not a proxy's": "403",
        "direct": "ConnectionRefusedError",  # by its own loopback
        "udp": "OSError",  # the network is unreachable
        "name": "gaierror",
        "unix": refused,
        "raw": refused,
        "input": "to the command",
    }


def test_a_listed_name_with_a_private_address_is_not_reached(greeter: int, tmp_path: Path) -> None:
    """Whoever answers for a name could otherwise lead into the network of the machine."""
    (tmp_path / "tries.py").write_text(TRIES)
    target = f"localhost:{greeter}"
    command = Confinement([str(tmp_path), sys.base_prefix, sys.prefix], hosts=[target]).command(
        [sys.executable, str(tmp_path / "tries.py"), target, target, "/s"]
    )
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=60, check=False)
    assert json.loads(done.stdout)["allowed"] == "403"
