"""Servers for tests: in this process, or as processes of their own that share a state."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from starlette.testclient import TestClient

from guardagent._support.http import RequestLimits
from guardagent.server.access import AccessControl, Caller, CallerRole, TokenStore
from guardagent.server.http.application import ServerApplication
from guardagent.server.service.guard_service import GuardService
from guardagent.server.settings import ServerSettings
from tests.stores import POSTGRES, REDIS, postgres, redis_client, store_address

POLICIES = """\
version: 1
failed_output: ^Error
policies:
  - id: login_first
    temporal: G(tool:refund -> O tool:login)
    message: log in first
  - id: once
    temporal: forall(refund(order=o), count(f:refund(order=o)) == 0)
    message: refunded already
  - id: small_refunds
    temporal: forall(refund(amount=a), a <= 100)
    on_violation: escalate
    message: at most 100
  - id: receipt
    temporal: tool:refund -> F tool:receipt
    message: a receipt is due
"""
NO_LOGIN = "version: 1\npolicies:\n  - id: none\n    temporal: forall(login(), false)\n"
TOOLS = [{"name": name} for name in ("login", "refund", "receipt")]
ROLES = ("agent", "approver", "auditor", "operator", "admin")


class ServerClient:
    """A client with a token."""

    def __init__(self, client: Any, token: str = "") -> None:
        self.client = client
        self.headers = {"authorization": f"Bearer {token}"} if token else {}

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        content = None if body is None else json.dumps(body)
        kind = {} if body is None else {"content-type": "application/json"}
        sent = {**self.headers, **kind, **more}
        answer: httpx.Response = self.client.request(method, path, content=content, headers=sent)
        return answer

    def post(self, path: str, body: Any, status: int = 200, **headers: str) -> Any:
        answer = self.request("POST", path, body, **headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    def get(self, path: str, status: int = 200) -> Any:
        answer = self.request("GET", path)
        assert answer.status_code == status, answer.text
        return answer.json()

    def session(self, name: str = "s1", **more: Any) -> str:
        """Attaches the tools and opens a session."""
        attachment = self.post("/v1/attachments", {"tools": TOOLS, **more}, 201)["id"]
        session: str = self.post("/v1/sessions", {"attachment": attachment, "id": name}, 201)["id"]
        return session

    def check(self, session: str, name: str, tool: str, key: str = "", **args: Any) -> Any:
        body = {"call": {"id": name, "tool": tool, "args": args}}
        return self.post(f"/v1/sessions/{session}/check", body, idempotency_key=key or secrets.token_hex(8))

    def record(self, session: str, name: str, output: Any = "done", status: int = 200) -> Any:
        outcome = {"output": output, "failed": False, "ended": True}
        return self.post(f"/v1/sessions/{session}/record", {"call_id": name, "outcome": outcome}, status)

    def run(self, session: str, name: str, tool: str, **args: Any) -> None:
        assert self.check(session, name, tool, **args)["in_flight"]
        self.record(session, name)


def tokens_of(folder: Path, *tenants: str) -> dict[str, str]:
    """Creates a token for each role of each tenant, by `TENANT.ROLE`; `TENANT.other` is a second agent."""
    store = TokenStore(folder / "tokens.db", create=True)
    tokens = {}
    for tenant in tenants or ("shop",):
        for name in (*ROLES, "other"):
            role = CallerRole("agent" if name == "other" else name)
            tokens[f"{tenant}.{name}"] = store.create(Caller(f"{name}-1", frozenset({role}), tenant), 3600.0)[1]
    return tokens


class LocalServer:
    """A server in this process.

    Attributes:
        tokens: see `tokens_of`.
    """

    def __init__(self, folder: Path, tokens: dict[str, str], settings: ServerSettings, **options: Any) -> None:
        self.tokens = tokens
        store = TokenStore(folder / "tokens.db")
        self.service = GuardService(settings, store)
        limits = RequestLimits(**options)
        self.application = ServerApplication(self.service, AccessControl(store), frozenset({"testserver"}), limits)
        self._client = TestClient(self.application)

    def client(self, who: str = "shop.agent") -> ServerClient:
        return ServerClient(self._client, self.tokens.get(who, ""))


def local_settings(folder: Path, policies: str = POLICIES, **options: Any) -> ServerSettings:
    path = folder / "policies.yaml"
    path.write_text(policies)
    return ServerSettings.of_files(path, **{"state": f"sqlite:{folder / 'state'}", **options})


@contextlib.contextmanager
def local_server(
    folder: Path, *tenants: str, settings: ServerSettings | None = None, **options: Any
) -> Iterator[LocalServer]:
    """Runs a server in this process."""
    server = LocalServer(folder, tokens_of(folder, *tenants), settings or local_settings(folder), **options)
    try:
        yield server
    finally:
        server.service.close()


class ServerProcess:
    """A server in a process of its own.

    Attributes:
        process: the process.
        url: its address.
    """

    def __init__(self, folder: Path, state: str, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._clients: list[httpx.Client] = []
        rules = [] if "--settings" in options else ["--policies", str(folder / "policies.yaml")]
        command = [sys.executable, "-m", "guardagent.cli.main", "serve", *rules]
        more = ["--state", state, "--log", str(folder / "logs"), "--tokens", str(folder / "tokens.db")]
        more += ["--listen", f"127.0.0.1:{port}", *options]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen([*command, *more], env=env, cwd=folder, stderr=subprocess.DEVNULL)

    def wait(self) -> None:
        """Waits until the server answers."""
        for _ in range(300):
            assert self.process.poll() is None, "the server ended"
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200:
                    return
            time.sleep(0.1)
        raise AssertionError("the server does not answer")

    def client(self, token: str, timeout: float = 20.0) -> ServerClient:
        client = httpx.Client(base_url=self.url, timeout=timeout)
        self._clients.append(client)
        return ServerClient(client, token)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for client in self._clients:
            client.close()


@contextlib.contextmanager
def server_processes(folder: Path, state: str, count: int, *options: str) -> Iterator[list[ServerProcess]]:
    """Runs several servers with one state."""
    servers = [ServerProcess(folder, state, *options) for _ in range(count)]
    try:
        for server in servers:
            server.wait()
        yield servers
    finally:
        for server in servers:
            server.kill()


@contextlib.contextmanager
def shared_state(kind: str, folder: Path) -> Iterator[str]:
    """Yields the address of a new state for several servers, which is deleted at the end."""
    with store_address(kind, folder) as address:
        yield address.removesuffix(".db")
        for suffix in ("_ledger", "_counters", "_state"):
            name = f"{address.rpartition('=')[2]}{suffix}"
            if kind == "postgresql":
                with contextlib.closing(postgres(POSTGRES)) as db:
                    db.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
            elif kind == "redis":
                with contextlib.closing(redis_client(REDIS)) as client:
                    for key in client.scan_iter(match=f"{name}:*", count=1000):
                        client.delete(key)
