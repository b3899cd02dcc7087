"""The connection to a server is encrypted, and its certificate is checked."""

from __future__ import annotations

import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
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


@pytest.mark.slow
def test_a_server_with_an_unknown_certificate_gets_no_token(tmp_path: Path) -> None:
    """With the right authority it does."""
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
        server.shutdown()
