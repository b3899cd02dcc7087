"""Many conversations over three servers that are killed, behind connections that are cut."""

from __future__ import annotations

import contextlib
import itertools
import random
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from guardagent import load_policies
from guardagent.enforcement import HostCall, Outcome
from guardagent.enforcement.names import ToolSpec
from guardagent.enforcement.remote import RemoteGuard
from guardagent.errors import GuardError
from tests.server.servers import ServerClient, ServerProcess, shared_state, tokens_of
from tests.stores import SHARED

pytestmark = pytest.mark.slow
CONVERSATIONS, WORKERS, REFUNDS, KILLS = 240, 6, 3, 5
CUSTOMERS, LIMIT, AMOUNT = 5, 500, 40
RULES = """\
version: 1
COUNTERS
policies:
  - id: login_first
    temporal: G(tool:refund -> O tool:login)
  - id: once
    temporal: forall(refund(order=o), count(f:refund(order=o)) == 0)
"""
COUNTERS = "counters:\n  spent: {on: refund(customer=c, amount=a), key: c, sum: a, window: 24h}"
BUDGET = """\
  - id: budget
    temporal: forall(refund(customer=c, amount=a), counter(spent, c) + a <= 500)
"""


class RoundRobin:
    """Sends each new connection to the next server, and cuts some of them."""

    def __init__(self, servers: list[ServerProcess]) -> None:
        self._servers, self._turns, self.cuts = servers, itertools.count(), 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        server = self._servers[next(self._turns) % len(self._servers)]
        host, _, port = server.url.removeprefix("http://").partition(":")
        with contextlib.suppress(OSError), client, socket.create_connection((host, int(port)), timeout=5) as other:
            self._forward(client, other)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        for _ in itertools.count():
            ready, _, _ = select.select([client, server], [], [], 30)
            for connection in ready:
                data = connection.recv(65536)
                if not data:
                    return
                if random.random() < 0.01:  # noqa: S311
                    self.cuts += 1
                    return
                (server if connection is client else client).sendall(data)

    def close(self) -> None:
        self._socket.close()


class Agents:
    """Agents that each lead conversations, and the book of what their tools did."""

    def __init__(self, url: str, token: str) -> None:
        self._guard = RemoteGuard(url, token=token, timeout=20.0)
        self._guard.attach([ToolSpec("login"), ToolSpec("refund")])
        self._lock = threading.Lock()
        self.ran, self.spent = Counter[tuple[str | None, str]](), Counter[str]()
        self.recorded: set[tuple[str | None, str]] = set()

    def converse(self, number: int) -> None:
        name = f"conversation-{number}"
        self._call(HostCall("login", {"user": "ann"}, name, "login"))
        for at in range(REFUNDS):
            order, customer = f"W{at % 2}", f"customer-{random.randrange(CUSTOMERS)}"  # noqa: S311
            self._call(HostCall("refund", {"order": order, "customer": customer, "amount": AMOUNT}, name, f"r{at}"))

    def _call(self, call: HostCall) -> None:
        if self._guard.before(call).label:
            return
        try:
            args = self._guard.use(call)
        except GuardError:
            return
        with self._lock:
            self.ran[call.conversation, call.id] += 1
            if call.tool == "refund":
                self.spent[args["customer"]] += args["amount"]
        with contextlib.suppress(GuardError):
            self._guard.after(call, Outcome("done"))
            with self._lock:
                self.recorded.add((call.conversation, call.id))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policies.yaml").write_text(RULES.replace("COUNTERS", COUNTERS) + BUDGET)
    return tmp_path


@pytest.fixture
def tokens(folder: Path) -> dict[str, str]:
    return tokens_of(folder)


@pytest.fixture(params=SHARED)
def state(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    with shared_state(request.param, folder) as state:
        yield state


@pytest.fixture
def servers(
    state: str, folder: Path, tokens: dict[str, str]
) -> Iterator[tuple[list[ServerProcess], RoundRobin, list[str]]]:
    server_processes: list[ServerProcess] = []
    front = RoundRobin(server_processes)
    options = ["--allow-host", front.host]
    server_processes += [ServerProcess(folder, state, *options) for _ in range(3)]
    try:
        for server_process in server_processes:
            server_process.wait()
        yield server_processes, front, options
    finally:
        front.close()
        for server_process in server_processes:
            server_process.kill()


def kill_at_random(
    servers: list[ServerProcess], state: str, folder: Path, options: list[str], running: list[Future[None]]
) -> int:
    """Kills servers one after another as long as work is running, a few times. Returns how often."""
    for kills in range(KILLS):
        if all(future.done() for future in running):
            return kills
        at = random.randrange(len(servers))  # noqa: S311
        servers[at].kill()
        servers[at] = ServerProcess(folder, state, *options)
        servers[at].wait()
        time.sleep(0.2)
    return KILLS


def test_nothing_runs_twice_or_against_a_rule_and_nothing_is_lost(
    servers: tuple[list[ServerProcess], RoundRobin, list[str]], state: str, folder: Path, tokens: dict[str, str]
) -> None:
    processes, front, options = servers
    agents = Agents(f"http://{front.host}", tokens["shop.agent"])
    with ThreadPoolExecutor(WORKERS) as pool:
        running = [pool.submit(agents.converse, number) for number in range(CONVERSATIONS)]
        kills = kill_at_random(processes, state, folder, options, running)
    for future in running:
        future.result()
    assert kills > 1
    assert front.cuts > 0
    assert len(agents.ran) > CONVERSATIONS
    assert set(agents.ran.values()) == {1}
    assert all(amount <= LIMIT for amount in agents.spent.values())
    auditor = processes[0].client(tokens["shop.auditor"])
    policies = load_policies(text=RULES.replace("COUNTERS", ""))
    logged = set()
    for conversation in sorted({name for name, _ in agents.ran}, key=str):
        session = policies.session()
        for entry in auditor.get(f"/v1/log?session={conversation}&kind=verdict&limit=500")["entries"]:
            key = conversation, entry["call_id"]
            if entry["decision"] == "allow" and key in agents.ran and key not in logged:
                logged.add(key)
                verdict = session.check(entry["tool"], entry["args"])
                assert verdict.label == 0, key
                session.record("done")
    assert logged == agents.ran.keys(), "each call that ran is in the log"
    for name, call_id in agents.recorded:
        calls = {call["id"]: call["status"] for call in auditor.get(f"/v1/sessions/{name}")["calls"]}
        assert calls[call_id] == "ok", "an acknowledged outcome is lost"
    assert auditor.get("/v1/log/verify")["status"] == "end_unchecked"


def test_an_approval_is_used_once_while_servers_are_killed(
    servers: tuple[list[ServerProcess], RoundRobin, list[str]], state: str, folder: Path, tokens: dict[str, str]
) -> None:
    processes, front, options = servers
    (folder / "policies.yaml").write_text(
        "version: 1\npolicies:\n  - id: small\n    on_violation: escalate\n"
        "    temporal: forall(refund(amount=a), a <= 10)\n"
    )
    for at, process in enumerate(processes):
        process.kill()
        processes[at] = ServerProcess(folder, state, *options)
    for process in processes:
        process.wait()
    book = Approvals(f"http://{front.host}", tokens)
    with ThreadPoolExecutor(WORKERS) as pool:
        running = [pool.submit(book.want, number) for number in range(20)]
        assert kill_at_random(processes, state, folder, options, running) > 1
    for done in running:
        done.result()
    assert book.ran
    assert set(book.ran.values()) == {1}
    auditor = processes[0].client(tokens["shop.auditor"])
    for name, choice in book.acknowledged.items():
        approval = auditor.get(f"/v1/approvals/{name}")
        assert approval["status"] in {"approve": ("approved", "used"), "reject": ("rejected",)}[choice]


class Approvals:
    """Agents that want what needs an approval, and two approvers who answer at once, differently."""

    def __init__(self, url: str, tokens: dict[str, str]) -> None:
        self._url, self._tokens = url, tokens
        self._lock = threading.Lock()
        self.ran = Counter[str]()
        self.acknowledged: dict[str, str] = {}

    def _request(self, who: str, path: str, body: object, key: str) -> httpx.Response:
        for _ in range(300):  # longer than a killed server's request counts as running
            with contextlib.suppress(httpx.TransportError), httpx.Client(base_url=self._url, timeout=10.0) as client:
                answer = ServerClient(client, self._tokens[who]).request("POST", path, body, idempotency_key=key)
                if "retry-after" not in answer.headers:
                    return answer
            time.sleep(0.1)
        raise AssertionError("no server answers")

    def want(self, number: int) -> None:
        name = f"s{number}"
        tools = {"tools": [{"name": "refund"}]}
        attachment = self._request("shop.agent", "/v1/attachments", tools, f"{name}-a").json()["id"]
        self._request("shop.agent", "/v1/sessions", {"attachment": attachment, "id": name}, f"{name}-o")
        call = {"id": "c", "tool": "refund", "args": {"amount": 900 + number}}
        path = f"/v1/sessions/{name}"
        checked = self._request("shop.agent", f"{path}/check", {"call": call}, f"{name}-c").json()
        assert "approval" in checked, checked
        approval = checked["approval"]["id"]
        answers = [
            threading.Thread(target=self._answer, args=(approval, choice, f"{name}-{choice}"))
            for choice in ("approve", "reject")
        ]
        resolves = [
            threading.Thread(target=self._resolve, args=(name, call, approval, f"{name}-r{at}")) for at in (0, 1)
        ]
        for answer in answers:
            answer.start()
        for answer in answers:
            answer.join()
        for answer in resolves:
            answer.start()
        for answer in resolves:
            answer.join()

    def _answer(self, approval: str, choice: str, key: str) -> None:
        body = {"choice": choice, "version": 1, "reason": "because"}
        answer = self._request("shop.approver", f"/v1/approvals/{approval}/answer", body, key)
        if answer.status_code == 200:
            with self._lock:
                assert approval not in self.acknowledged, "both answers were accepted"
                self.acknowledged[approval] = choice

    def _resolve(self, session: str, call: object, approval: str, key: str) -> None:
        body = {"call": call, "approval": approval}
        answer = self._request("shop.agent", f"/v1/sessions/{session}/resolve", body, key)
        if answer.json().get("in_flight"):
            with self._lock:
                self.ran[session] += 1
