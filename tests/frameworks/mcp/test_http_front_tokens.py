"""The MCP proxy with clients over HTTP who need tokens."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastmcp")

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from guardagent.server.access import Caller, CallerRole, TokenStore
from tests.frameworks.mcp.helpers import INITIALIZE, SHOP, book, environment, free_port, proxy_command

SHOP_ONLY = """\
version: 1
policies:
  - id: shop_only
    temporal: forall(refund(), principal.tenant == "shop" && "agent" in principal.roles && principal.id == "bot")
  - id: people
    on_violation: escalate
    temporal: forall(wire(), false)
"""
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@dataclass
class Front:
    """A proxy that runs, its store, and a token for each role and tenant."""

    folder: Path
    port: int
    store: TokenStore
    context: ssl.SSLContext | None = None
    tokens: dict[str, str] = field(default_factory=dict)

    def token(self, role: str, tenant: str = "shop", name: str = "bot") -> str:
        key = f"{role} {tenant} {name}"
        if key not in self.tokens:
            caller = Caller(name, frozenset({CallerRole(role)}), tenant)
            self.tokens[key] = self.store.create(caller, None)[1]
        return self.tokens[key]

    def connection(self) -> http.client.HTTPConnection:
        if self.context is not None:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=20, context=self.context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def ask(self, method: str, path: str, token: str | None, body: Any = None, **headers: str) -> Any:
        """Returns the status, the headers and the body of a request."""
        named = {**HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if token is not None:
            named["Authorization"] = f"Bearer {token}"
        with closing(self.connection()) as connection:
            connection.request(method, path, body if isinstance(body, bytes) else json.dumps(body), named)
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()

    def begin(self, token: str | None) -> tuple[int, str | None]:
        """Opens a session. Returns the status and the session's id."""
        status, headers, _ = self.ask("POST", "/mcp", token, message("initialize", INITIALIZE))
        return status, headers["mcp-session-id"]

    def call(self, token: str | None, session: str | None, tool: str, **args: Any) -> Any:
        """Calls a tool. Returns the status, and the text of the result."""
        named = {} if session is None else {"mcp_session_id": session}
        status, _, body = self.ask(
            "POST", "/mcp", token, message("tools/call", {"name": tool, "arguments": args}), **named
        )
        reply = json.loads(body)
        return status, reply["result"]["content"][0]["text"] if "result" in reply else reply["error"]["message"]

    def raw(self, data: bytes) -> bytes:
        """Sends bytes. Returns everything that comes until the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as raw:
            raw.sendall(data)
            return b"".join(iter(lambda: raw.recv(65536), b""))


def message(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@contextmanager
def proxy(
    folder: Path,
    *options: str,
    context: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
    policy: str = SHOP_ONLY,
    server: list[str] | None = None,
) -> Iterator[Front]:
    """Runs a proxy with a token store."""
    store, port = TokenStore(folder / "tokens.db", create=True), free_port()
    named = ("--listen", f"{host}:{port}", "--tokens", str(folder / "tokens.db"), *options)
    process = subprocess.Popen(
        proxy_command(folder, policy, *named, server=server),
        env=environment(folder),
        cwd=SHOP.parents[4],
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        lines = iter(process.stderr.readline, b"")
        assert any(b"serving at" in line for line in lines)
        yield Front(folder, port, store, context)
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with proxy(tmp_path_factory.mktemp("proxy"), "--receive-timeout", "1", "--max-body", "5000") as running_front:
        yield running_front


def test_the_caller_is_the_principal(front: Front) -> None:
    """Policies read its id, roles and tenant."""
    for token, refused in ((front.token("agent"), False), (front.token("agent", "bank"), True)):
        status, session = front.begin(token)
        assert status == 200
        status, text = front.call(token, session, "refund", order_id="W1", amount=5)
        assert status == 200
        assert ("shop_only" in text) is refused
    assert [line for line in book(front.folder) if line[0] == "refund"] == [["refund", "W1", 5]]


def test_an_agent_does_not_approve_its_own_calls(front: Front) -> None:
    """A client with forms is not asked: it has the agent's token."""
    token, forms = front.token("agent"), {**INITIALIZE, "capabilities": {"elicitation": {}}}
    _, headers, _ = front.ask("POST", "/mcp", token, message("initialize", forms))
    _, text = front.call(token, headers["mcp-session-id"], "wire", amount=5)
    assert "people" in text
    assert ["wire", 5] not in book(front.folder)


def test_requests_without_a_valid_token_are_refused(front: Front) -> None:
    """They get 401 with a challenge, and other roles 403; nothing begins."""
    for token in (None, "ga_000000000000_" + "0" * 64, front.token("agent")[:-1] + "x", "e30.e30."):
        status, headers, body = front.ask("POST", "/mcp", token, message("initialize", INITIALIZE))
        assert status == 401
        assert headers["www-authenticate"].startswith('Bearer realm="guardagent"')
        assert ("invalid_token" in headers["www-authenticate"]) is (token is not None)
        assert (token or "ga_") not in body.decode()
    for role in ("approver", "auditor", "admin"):
        status, headers, _ = front.ask("POST", "/mcp", front.token(role), message("initialize", INITIALIZE))
        assert status == 403
        assert "insufficient_scope" in headers["www-authenticate"]


@pytest.mark.parametrize("line", ["aUTHORIZATION: bearer {}", "Authorization:Bearer   {}  "])
def test_the_case_of_a_header_does_not_matter(front: Front, line: str) -> None:
    """HTTP/1.0 is served too."""
    assert b" 400 " in front.raw(request(front, line.format(front.token("agent")), version="1.0")).split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Authorization: Bearer {}", "Authorization: Bearer {}"], 401),
        (["Authorization: Bearer {}", "authorization: Basic eA=="], 401),
        (["Authorization: Bearer {}, Bearer {}"], 401),
        (["Authorization: Basic {}"], 401),
        (["X-Authorization: Bearer {}"], 401),
        (["Cookie: token={}"], 401),
        (["Authorization : Bearer {}"], 400),
        (["Authorization: Bearer {}", "Transfer-Encoding: chunked"], 400),
        (["Authorization: Bearer", " {}"], 400),
    ],
)
def test_odd_headers_admit_nobody(front: Front, lines: list[str], status: int) -> None:
    """Two headers, a folded one, other schemes and other names."""
    data = request(front, *(line.format(*[front.token("agent")] * 2) for line in lines))
    assert front.raw(data).startswith(f"HTTP/1.1 {status} ".encode())


def request(front: Front, *lines: str, version: str = "1.1") -> bytes:
    """Returns a request whose body is no message of MCP, so that 400 means that the caller was accepted."""
    head = [f"POST /mcp HTTP/{version}", f"Host: 127.0.0.1:{front.port}", "Connection: close", "Content-Length: 2"]
    more = [f"{name}: {value}" for name, value in HEADERS.items()]
    return "\r\n".join([*head, *more, *lines, "", "[]"]).encode()


@pytest.mark.parametrize("query", ["?access_token={}", "?token={}", "?x=1&access%5Ftoken=1&{}"])
def test_a_token_in_the_url_is_refused(front: Front, query: str) -> None:
    """Even beside a valid header: URLs end up in logs."""
    token = front.token("agent")
    status, _, body = front.ask("POST", "/mcp" + query.format(token), token, message("initialize", INITIALIZE))
    assert status == 400
    assert token not in body.decode()


def test_a_session_belongs_to_its_caller(front: Front) -> None:
    """Another principal, and the same name in another tenant, cannot tell it from one that does not exist."""
    owner, same = front.token("agent"), front.store.create(Caller("bot", frozenset({CallerRole.AGENT}), "shop"), 60)[1]
    _, session = front.begin(owner)
    missing = front.call(owner, "made-up", "get_order", order_id="W1")
    for other in (front.token("agent", "bank"), front.token("agent", "shop", "eve")):
        assert front.call(other, session, "get_order", order_id="W1") == missing
        for method in ("GET", "DELETE"):
            assert front.ask(method, "/mcp", other, mcp_session_id=str(session))[0] == 404
    assert missing[0] == 404
    assert front.call(same, session, "get_order", order_id="W1")[0] == 200


def test_a_token_is_revoked_in_the_middle_of_a_session(front: Front) -> None:
    """The next request is refused, of any method."""
    issued, token = front.store.create(Caller("short", frozenset({CallerRole.AGENT}), "shop"), None)
    _, session = front.begin(token)
    assert front.call(token, session, "get_order", order_id="W1")[0] == 200
    front.store.revoke(issued.id)
    assert front.call(token, session, "get_order", order_id="W1")[0] == 401
    assert front.ask("GET", "/mcp", token, mcp_session_id=str(session))[0] == 401


@pytest.mark.slow
def test_the_stream_of_a_revoked_token_ends(front: Front) -> None:
    """An open stream is authenticated again from time to time."""
    issued, token = front.store.create(Caller("short", frozenset({CallerRole.AGENT}), "shop"), None)
    _, session = front.begin(token)
    with closing(front.connection()) as connection:
        headers = {**HEADERS, "Authorization": f"Bearer {token}", "Mcp-Session-Id": str(session)}
        connection.request("GET", "/mcp", headers=headers)
        reply = connection.getresponse()
        front.store.revoke(issued.id)
        assert reply.read() == b""


def test_probes_and_metrics(front: Front) -> None:
    """`/healthz` needs no token on this machine; `/metrics` needs an auditor or an admin."""
    assert front.ask("GET", "/healthz", None)[::2] == (200, b'{"status": "ok"}')
    assert front.ask("GET", "/healthz", None, host="evil.example")[0] == 421
    assert front.ask("GET", "/metrics", None)[0] == 401
    assert front.ask("GET", "/metrics", front.token("agent"))[0] == 403
    status, _, body = front.ask("GET", "/metrics", front.token("auditor"))
    assert status == 200
    assert b'guardagent_mcp_requests_total{status="401"} ' in body
    assert b"\nguardagent_mcp_requests_in_flight 0\n" in body


def test_other_hosts_and_origins_are_refused(front: Front) -> None:
    """A token does not open the door for a web page in a local browser."""
    token = front.token("agent")
    for headers, status in (
        ({"host": "evil.example"}, 421),
        ({"host": f"LOCALHOST:{front.port}"}, 200),
        ({"host": f"[::1]:{front.port}"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"http://127.0.0.1:{front.port}"}, 200),
    ):
        assert front.ask("POST", "/mcp", token, message("initialize", INITIALIZE), **headers)[0] == status


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"POST /mcp HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        (
            b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
            b"Content-Type: application/json\r\nAccept: */*\r\nContent-Length: 9\r\n\r\n["
        ),
    ],
    ids=["nothing", "half a header", "half a body"],
)
def test_slow_requests_are_dropped(front: Front, data: bytes) -> None:
    """A connection whose request does not arrive is closed."""
    start = time.monotonic()
    filled = data.replace(b"{port}", str(front.port).encode()).replace(b"{token}", front.token("agent").encode())
    try:
        reply = front.raw(filled)
    except ConnectionResetError:
        reply = b""
    assert time.monotonic() - start < 10
    assert reply == b"" or reply.startswith(b"HTTP/1.1 408 ")


def test_a_body_that_is_too_long(front: Front) -> None:
    """The limit is an option; a stranger's body is not read at all."""
    assert front.ask("POST", "/mcp", front.token("agent"), b" " * 6000)[0] == 413
    assert front.ask("POST", "/mcp", None, b" " * 6000)[0] == 401


def test_limits_on_sessions(tmp_path: Path) -> None:
    """A caller has a limit of its own, so that it does not use up those of others."""
    with proxy(tmp_path, "--max-sessions", "3", "--max-sessions-per-caller", "2") as front:
        ann, bob = front.token("agent", name="ann"), front.token("agent", name="bob")
        assert [front.begin(ann)[0] for _ in range(3)] == [200, 200, 503]
        assert [front.begin(bob)[0] for _ in range(2)] == [200, 503]


def test_a_limit_on_requests(tmp_path: Path) -> None:
    """A request whose body is still on its way is in flight."""
    with proxy(tmp_path, "--max-requests", "1") as front, socket.create_connection(("127.0.0.1", front.port)) as raw:
        raw.sendall(request(front, f"Authorization: Bearer {front.token('agent')}")[:-1])
        time.sleep(0.5)
        assert front.begin(front.token("agent"))[0] == 503
        raw.sendall(b"]")
        assert raw.recv(100).startswith(b"HTTP/1.1 400 ")
        assert front.begin(front.token("agent"))[0] == 200


def test_a_store_that_is_gone_admits_nobody(front: Front) -> None:
    """The answer does not say why; callers get in again once the file is back."""
    token, moved = front.token("agent"), front.folder / "moved.db"
    path = (front.folder / "tokens.db").rename(moved)
    status, _, body = front.ask("POST", "/mcp", token, message("initialize", INITIALIZE))
    path.rename(front.folder / "tokens.db")
    assert (status, b"tokens.db" in body) == (503, False)
    assert front.begin(token)[0] == 200


# --- addresses that others reach


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(hours=1), now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = tmp_path / "cert.pem", tmp_path / "key.pem"
    paths[0].write_bytes(made.public_bytes(Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return paths


def test_tls(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """Every address of the machine may be served, with tokens and TLS."""
    context = ssl.create_default_context(cafile=certificate[0])
    options = ("--tls-cert", str(certificate[0]), "--tls-key", str(certificate[1]))
    with proxy(tmp_path, *options, context=context, host="0.0.0.0") as front:  # noqa: S104
        assert front.begin(front.token("agent"))[0] == 200
        assert front.begin(None)[0] == 401
        assert not front.raw(request(front)).startswith(b"HTTP/1.1 2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--listen", "0.0.0.0:9"), "--tokens FILE"),
        (("--listen", "[::]:9", "--insecure"), "--tokens FILE"),
        (("--listen", "proxy.example:9"), "--tokens FILE"),
        (("--listen", "0.0.0.0:9", "--tokens", "{tokens}"), "--tls-cert FILE"),
        (("--listen", "0.0.0.0:9", "--tokens", "none.db"), "no such file"),
        (("--listen", "127.0.0.1:9", "--tls-cert", "{tokens}"), "'--tls-key' is missing"),
        (("--listen", "127.0.0.1:9", "--tls-cert", "{tokens}", "--tls-key", "{tokens}"), "PEM files"),
        (("--listen", "127.0.0.1:9", "--receive-timeout", "nan"), "the limit of the receive seconds is nan"),
        (("--tokens", "{tokens}"), "'--tokens' needs '--listen'"),
        (("--insecure",), "'--insecure' needs '--listen'"),
    ],
)
def test_an_open_door_is_refused(
    cli: Callable[..., Any], tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    """The exit status is 2, and the message says what to do."""
    TokenStore(tmp_path / "tokens.db", create=True)
    (tmp_path / "policy.yaml").write_text(SHOP_ONLY)
    named = [option.format(tokens=tmp_path / "tokens.db") for option in options]
    result = cli("mcp-proxy", "--policies", tmp_path / "policy.yaml", *named, "--", "true")
    assert result.status == 2
    assert message in result.err
