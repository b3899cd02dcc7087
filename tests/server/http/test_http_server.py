"""Servers as processes of their own: killed, stopped, and attacked by slow clients."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.server.servers import (
    NO_LOGIN,
    POLICIES,
    ServerClient,
    ServerProcess,
    server_processes,
    shared_state,
    tokens_of,
)
from tests.stores import SHARED

pytestmark = pytest.mark.slow
SECONDS = 8.0
ORDERS = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policies.yaml").write_text(POLICIES.partition("  - id: receipt")[0])
    return tmp_path


@pytest.fixture(params=SHARED)
def state(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    with shared_state(request.param, folder) as state:
        yield state


def test_a_call_survives_the_server_that_checked_it(state: str, folder: Path) -> None:
    token = tokens_of(folder)["shop.agent"]
    with server_processes(folder, state, 2) as (first, second):
        client, other = first.client(token), second.client(token)
        client.session()
        assert client.check("s1", "c1", "login", key="k")["in_flight"]
        first.kill()
        assert other.check("s1", "c1", "login", key="k")["in_flight"]
        assert not other.check("s1", "c1", "login", key="other")["in_flight"]
        other.record("s1", "c1")
        assert not other.check("s1", "c1", "login", key="k")["in_flight"]
        assert other.check("s1", "c2", "refund", order="W1", amount=1)["in_flight"]


def test_a_server_that_goes_on_late_changes_nothing(state: str, folder: Path) -> None:
    token = tokens_of(folder)["shop.agent"]
    with server_processes(folder, state, 2) as (first, second):
        late, other = first.client(token), second.client(token)
        late.session()
        other.run("s1", "c0", "login")
        late.check("s1", "c1", "refund", order="W1", amount=500)  # its session is in memory
        first.signal(signal.SIGSTOP)
        answers: list[bool] = []
        body: dict[str, Any] = {"order": "W2", "amount": 1}
        waiting = threading.Thread(
            target=lambda: answers.append(late.check("s1", "c2", "refund", key="k2", **body)["in_flight"])
        )
        waiting.start()
        time.sleep(0.3)
        assert other.check("s1", "c3", "refund", key="k3", **body)["in_flight"]
        other.record("s1", "c3")
        first.signal(signal.SIGCONT)
        waiting.join(30)
        assert answers == [False]  # one process would have denied it as well
        assert not late.check("s1", "c4", "refund", **body)["in_flight"]


class Attack:
    """Clients that each pay orders of a session, over servers that are killed and stopped.

    Attributes:
        paid: how often each order was paid.
        recorded: the orders whose outcomes were acknowledged.
    """

    def __init__(self, servers: list[ServerProcess], token: str) -> None:
        self.paid, self.recorded = Counter[str](), set[str]()
        self._servers, self._token = servers, token
        self._lock = threading.Lock()
        self.over = time.monotonic() + SECONDS

    def request(self, path: str, body: object, key: str) -> httpx.Response | None:
        """Sends a request until a server answers, each time to another one."""
        for _ in range(40):
            server = random.choice(self._servers)  # noqa: S311
            with contextlib.suppress(httpx.TransportError), httpx.Client(base_url=server.url, timeout=2.0) as client:
                answer = ServerClient(client, self._token).request("POST", path, body, idempotency_key=key)
                if answer.status_code < 500:
                    return answer
            time.sleep(0.05)
        return None

    def pay(self, session: str, worker: int) -> None:
        """Pays orders; each order is tried by several workers, with calls of their own."""
        for at in range(100_000):
            if time.monotonic() > self.over:
                return
            order, name = f"W{at % ORDERS}", f"{worker}-{at}"
            call = {"id": name, "tool": "refund", "args": {"order": order, "amount": 1}}
            path = f"/v1/sessions/{session}"
            answer = self.request(f"{path}/check", {"call": call}, name)
            if answer is None or not answer.json().get("in_flight"):
                self.request(f"{path}/withdraw", {"call_id": name, "why": "no answer"}, name)
                continue
            with self._lock:
                self.paid[f"{session} {order}"] += 1
            outcome = {"output": order, "failed": False, "ended": True}
            done = self.request(f"{path}/record", {"call_id": name, "outcome": outcome}, name)
            if done is not None and done.status_code == 200:
                with self._lock:
                    self.recorded.add(f"{session} {order}")


def test_no_call_runs_twice_while_servers_are_killed_and_stopped(state: str, folder: Path) -> None:
    token = tokens_of(folder)["shop.agent"]
    with server_processes(folder, state, 3) as servers:
        sessions = ["a", "b"]
        for session in sessions:
            servers[0].client(token).session(session)
            servers[0].client(token).run(session, "login", "login")
        attack = Attack(servers, token)
        workers = [
            threading.Thread(target=attack.pay, args=(session_id, number))
            for session_id in sessions
            for number in range(2)
        ]
        for worker in workers:
            worker.start()
        while time.monotonic() < attack.over - 3:
            at = random.randrange(3)  # noqa: S311
            if random.random() < 0.5:  # noqa: S311
                servers[at].kill()
                servers[at] = ServerProcess(folder, state)
                servers[at].wait()
            else:
                servers[at].signal(signal.SIGSTOP)
                time.sleep(1.0)
                servers[at].signal(signal.SIGCONT)
        for worker in workers:
            worker.join(60)
        assert set(attack.paid.values()) == {1}
        assert attack.recorded == attack.paid.keys()
        for session in sessions:
            for order in range(ORDERS):
                response = (
                    servers[0].client(token).check(session, f"again-{order}", "refund", order=f"W{order}", amount=1)
                )
                assert response["in_flight"] == (f"{session} W{order}" not in attack.paid)


# --- clients


@pytest.fixture
def server(folder: Path) -> Iterator[ServerProcess]:
    tokens_of(folder)
    with server_processes(folder, f"sqlite:{folder / 'state'}", 1, "--receive-timeout", "1") as (server,):
        yield server


def test_a_client_that_sends_no_request_is_closed(server: ServerProcess) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    long = b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000
    for sent in (b"", b"POST /v1/sessions HTTP/1.1\r\nHost: ", long, b"\x16\x03\x01garbage\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=10) as client, contextlib.suppress(ConnectionError):
            client.sendall(sent)
            while client.recv(1000):
                pass
    assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_a_body_that_does_not_arrive_is_refused(server: ServerProcess, folder: Path) -> None:
    token = tokens_of(folder)["shop.agent"]
    host, port = server.url.removeprefix("http://").split(":")
    head = (
        f"POST /v1/sessions HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(head.encode())
        assert b"408" in client.recv(1000).partition(b"\r\n")[0]


def test_a_thousand_slow_strangers_hold_up_nobody(folder: Path) -> None:
    token = tokens_of(folder)["shop.agent"]
    with server_processes(folder, f"sqlite:{folder / 'state'}", 1, "--max-requests", "5") as (server,):
        host, port = server.url.removeprefix("http://").split(":")
        head = (
            f"POST /v1/sessions HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer ga_x\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        with contextlib.ExitStack() as stack:
            strangers = [
                stack.enter_context(socket.create_connection((host, int(port)), timeout=10)) for _ in range(1000)
            ]
            for stranger in strangers:
                stranger.sendall(head.encode())
            client = server.client(token, timeout=5.0)
            client.session()
            assert client.check("s1", "c1", "login")["in_flight"]
            assert {stranger.recv(12) for stranger in strangers} <= {b"HTTP/1.1 401", b"HTTP/1.1 503"}


def test_events_follow_the_log_until_the_token_is_revoked(server: ServerProcess, folder: Path) -> None:
    from guardagent.server.access import TokenStore

    tokens = tokens_of(folder)
    agent = server.client(tokens["shop.agent"])
    agent.session()
    agent.check("s1", "c1", "login")
    headers = {"authorization": f"Bearer {tokens['shop.auditor']}", "last-event-id": "0"}
    lines: list[str] = []
    with httpx.stream("GET", f"{server.url}/v1/events", headers=headers, timeout=20) as answer:
        for line in answer.iter_lines():
            lines.append(line)
            assert len(lines) < 30, "the stream goes on"
            if line.startswith("id: 1"):
                TokenStore(folder / "tokens.db").revoke(tokens["shop.auditor"])
    assert [line for line in lines if line.startswith(("id", "event"))] == ["id: 1", "event: verdict"]


def test_the_first_start_makes_tokens_and_shows_them_once(folder: Path) -> None:
    import subprocess
    import sys

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "guardagent.cli.main", "serve", "--policies", "policies.yaml"]
    command += ["--listen", f"127.0.0.1:{port}"]
    shown = []
    for _ in range(2):
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(100):
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200:
                    break
            time.sleep(0.1)
        process.terminate()
        shown.append(process.communicate(timeout=20)[0])
    assert shown[0].count("ga_") == 2
    assert shown[1] == ""
    for options in (["--listen", "0.0.0.0:1"], ["--listen", "0.0.0.0:1", "--insecure"]):
        refused = subprocess.run([*command[:-2], *options], cwd=folder, capture_output=True, text=True, check=False)
        assert "expected '--tokens FILE'" in refused.stderr
        assert refused.returncode != 0


# --- workers


def workers_of(server: ServerProcess) -> list[int]:
    """Returns the processes of the workers of a server."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.05)


def is_gone(process: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


@contextlib.contextmanager
def only(worker: int, workers: list[int]) -> Iterator[None]:
    """Stops the other workers meanwhile, so that new connections are those of one."""
    others = [other for other in workers if other != worker]
    for other in others:
        os.kill(other, signal.SIGSTOP)
    yield
    for other in others:
        os.kill(other, signal.SIGCONT)


def test_any_worker_serves_any_session_and_none_survives_its_parent(state: str, folder: Path) -> None:
    """A reload reaches all of them, and one that is killed is replaced."""
    tokens = tokens_of(folder)
    with server_processes(folder, state, 1, "--workers", "2") as (server,):
        until(lambda: len(workers_of(server)) == 2)
        workers = workers_of(server)
        for at, worker in enumerate(workers):
            with only(worker, workers):
                client, admin = server.client(tokens["shop.agent"]), server.client(tokens["shop.admin"])
                if not at:
                    client.session()
                    client.check("s1", "c1", "login")
                    (folder / "policies.yaml").write_text(NO_LOGIN)
                    assert admin.post("/v1/policies/default/reload", {})["changed"]
                else:
                    client.record("s1", "c1")
                    assert client.check("s1", "c2", "refund", order="W1", amount=1)["in_flight"]
                    client.session("new")
                    assert not client.check("new", "c1", "login")["in_flight"]
        os.kill(workers[0], signal.SIGKILL)
        until(lambda: len(workers_of(server)) == 2 and workers[0] not in workers_of(server))
        with only(max(workers_of(server)), workers_of(server)):
            server.wait()
        workers = workers_of(server)
        server.signal(signal.SIGKILL)
        until(lambda: all(is_gone(worker) for worker in workers))


def test_workers_end_with_a_signal_to_their_parent(folder: Path) -> None:
    """Also those that have not started yet. Wrong settings are one error, before any worker starts."""
    tokens_of(folder)
    for number in (signal.SIGTERM, signal.SIGINT):
        with server_processes(folder, f"sqlite:{folder / 'state'}", 1, "--workers", "3") as (server,):
            workers = workers_of(server)
            server.signal(number)
            assert server.process.wait(15) in (130, 143)
            until(lambda workers=workers: all(is_gone(worker) for worker in workers))  # type: ignore[misc]
    (folder / "policies.yaml").write_text("version: 2\n")
    assert ServerProcess(folder, f"sqlite:{folder / 'state'}", "--workers", "2").process.wait(30) == 2


def test_tls_is_ended_by_the_server(folder: Path) -> None:
    token = tokens_of(folder)["shop.agent"]
    certificate, key = certificate_of(folder)
    options = ("--tls-cert", str(certificate), "--tls-key", str(key))
    server = ServerProcess(folder, f"sqlite:{folder / 'state'}", *options)
    try:
        url = server.url.replace("http:", "https:")
        with httpx.Client(base_url=url, verify=ssl.create_default_context(cafile=str(certificate))) as client:
            for _ in range(100):
                with contextlib.suppress(httpx.TransportError):
                    client.get("/healthz")
                    break
                time.sleep(0.1)
            assert ServerClient(client, token).session() == "s1"
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{server.url}/healthz")
    finally:
        server.kill()


def certificate_of(folder: Path) -> tuple[Path, Path]:
    """Writes a certificate of this machine and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return paths
