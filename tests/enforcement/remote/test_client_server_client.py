"""The connection to a server is encrypted, and its certificate is checked."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import pytest

from guardagent import RemoteGuard
from guardagent.enforcement import HostCall
from tests.enforcement.remote.scripted_server import TOKEN

REQUEST = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
NAMES = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]


class _Refusing(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_error(403)

    def log_message(self, *args: Any) -> None:
        """Says nothing."""


class _Proxy(ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Tunnel)
        self.heads: list[str] = []


class _Tunnel(StreamRequestHandler):
    """Connects to the server of a CONNECT, and passes on what both send."""

    server: _Proxy

    def handle(self) -> None:
        self.server.heads.append(b"".join(iter(self.rfile.readline, b"\r\n")).decode())
        host, port = self.server.heads[-1].split()[1].split(":")
        with socket.create_connection((host, int(port))) as other:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=_pass_on, args=(other, self.connection), daemon=True)
            back.start()
            _pass_on(self.connection, other)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65_536):
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)


@pytest.mark.slow
def test_a_server_with_an_unknown_certificate_gets_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the right authority it does, also behind the proxy of the environment, which does not see it."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run([*REQUEST, *NAMES, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with HTTPServer(("127.0.0.1", 0), _Refusing) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"https://127.0.0.1:{server.server_address[1]}"
        call = HostCall("refund", {}, "c1")
        with RemoteGuard(url, token=TOKEN, timeout=1) as guard:
            assert "cannot be reached" in guard.before(call).errors[0]
        with RemoteGuard(url, token=TOKEN, timeout=1, ca=certificate) as guard:
            assert "status 403" in guard.before(call).errors[0]
        with _Proxy() as proxy:
            threading.Thread(target=proxy.serve_forever, daemon=True).start()
            monkeypatch.setenv("HTTPS_PROXY", f"http://me:p%40ss@127.0.0.1:{proxy.server_address[1]}")
            for excepted, heads in (("127.0.0.1", 0), ("", 1)):
                monkeypatch.setenv("NO_PROXY", excepted)
                with RemoteGuard(url, token=TOKEN, timeout=1, ca=certificate) as guard:
                    assert "status 403" in guard.before(call).errors[0]
                assert len(proxy.heads) == heads
            assert b64encode(b"me:p@ss").decode() in proxy.heads[0]
            assert TOKEN not in proxy.heads[0]
            proxy.shutdown()
        server.shutdown()
