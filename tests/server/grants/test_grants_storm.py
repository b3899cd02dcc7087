"""Random calls, grants, failures and revocations over three servers, against the plain reading of the scope."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.servers import LocalServer, ServerClient, ServerProcess, local_settings, shared_state, tokens_of
from tests.stores import SHARED

OPERATIONS = int(os.environ.get("GRANT_OPERATIONS", "1500"))
WORKERS, CALLS_OF_A_SESSION, FREE = 6, 15, 100
POLICY = """\
version: 1
policies:
  - id: small
    temporal: forall(refund(amount=a), a <= 100)
    on_violation: escalate
    approvals:
      scope: {tool: refund, same: [customer], up_to: {amount: 300, sum: 1000}, any: [note],
        calls: 6, for: 1m}
  - id: banned
    temporal: forall(refund(customer=c), c != "mallory")
"""
Clients = Callable[[str], ServerClient]


@dataclass
class Ran:
    """A call that a server let run."""

    agent: str
    args: dict[str, Any]
    grant: str | None
    approved: bool
    sent: float
    answered: float
    counts: bool = True


@dataclass
class Storm:
    """Agents and approvers, and the book of what ran.

    Attributes:
        client: a client of some server, for the role of a token.
        revoked: grant -> when the revocation was acknowledged.
        sessions: session -> its agent.
    """

    client: Clients
    operations: int
    ran: dict[tuple[str, str], Ran] = field(default_factory=dict)
    grants: set[str] = field(default_factory=set)
    revoked: dict[str, float] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    done: int = 0
    _keys: Iterator[int] = field(default_factory=itertools.count)

    def work(self, worker: int) -> None:
        chance = random.Random(worker)  # noqa: S311 - no secret
        for round_ in itertools.count():
            agent = chance.choice(("agent", "other"))
            session = self._opened(agent, f"w{worker}-{round_}")
            for at in range(CALLS_OF_A_SESSION):
                if self.done >= self.operations:
                    return
                self._operate(chance, agent, session, f"c{at}")
                if self.grants and chance.random() < 0.04:
                    self._revoke(chance.choice(sorted(self.grants)))

    def send(self, who: str, path: str, body: Any, key: str = "") -> Any:
        """Sends a request until a server answers, with the same key."""
        self.done += 1
        key = key or f"k{next(self._keys)}"
        for _ in range(600):
            with contextlib.suppress(httpx.TransportError):
                answer = self.client(who).request("POST", path, body, idempotency_key=key)
                if "retry-after" not in answer.headers and answer.status_code < 500:
                    return answer
            time.sleep(0.05)
        raise AssertionError("no server answers")

    def _opened(self, agent: str, name: str) -> str:
        tools = {"tools": [{"name": "refund"}]}
        attachment = self.send(f"shop.{agent}", "/v1/attachments", tools).json()["id"]
        opened: str = self.send(f"shop.{agent}", "/v1/sessions", {"attachment": attachment, "id": name}).json()["id"]
        self.sessions[opened] = agent
        return opened

    def _operate(self, chance: random.Random, agent: str, session: str, name: str) -> None:
        args: dict[str, Any] = {"customer": chance.choice(("ann", "bob", 7, "7", "mallory"))}
        args |= {"amount": chance.choice((50, 150, 150, 250, 299.5, 300, 301, True))}
        args |= chance.choice(({}, {}, {"note": name}, {"order": 1}))
        call, path = {"id": name, "tool": "refund", "args": args}, f"/v1/sessions/{session}"
        sent = time.time()
        checked = self.send(f"shop.{agent}", f"{path}/check", {"call": call}).json()
        if "approval" in checked and chance.random() < 0.6:
            approval = checked["approval"]
            self._answer(chance, approval)
            body, sent = {"call": call, "approval": approval["id"]}, time.time()
            checked = self.send(f"shop.{agent}", f"{path}/resolve", body).json()
        if checked.get("in_flight"):
            details = checked["verdict"]["details"]
            grant = details.get("grants", {}).get("small")
            ran = Ran(f"{agent}-1", args, grant, "approved" in details, sent, time.time())
            assert (session, name) not in self.ran, "it ran twice"
            self.ran[session, name] = ran
            self._end(chance, agent, path, name, ran)

    def _end(self, chance: random.Random, agent: str, path: str, name: str, ran: Ran) -> None:
        how = chance.random()
        if how < 0.1:
            self.send(f"shop.{agent}", f"{path}/withdraw", {"call_id": name, "why": "not needed"})
        else:
            outcome = {"output": "done", "failed": how < 0.3, "ended": True}
            assert self.send(f"shop.{agent}", f"{path}/record", {"call_id": name, "outcome": outcome}).is_success
        ran.counts = how >= 0.3

    def _answer(self, chance: random.Random, approval: Any) -> None:
        grants: tuple[dict[str, Any], ...] = (
            {},
            {"calls": chance.randint(1, 6)},
            {"up_to": {"sum": 500}},
            {"for": "1s"},
            {"for": 40},
        )
        grant = chance.choice((*grants, None, {"calls": 7}, {"up_to": {"amount": 301}}))
        body = {"choice": "approve", "version": approval["version"], "grant": grant}
        answer = self.send("shop.approver", f"/v1/approvals/{approval['id']}/answer", body)
        assert answer.status_code in (200, 409, 422), answer.text

    def _revoke(self, grant: str) -> None:
        if self.send("shop.admin", f"/v1/grants/{grant}/revoke", {}).is_success:
            self.revoked.setdefault(grant, time.time())

    def finish(self) -> None:
        """Ends all sessions, which gives back what killed servers have reserved for calls that never ran."""
        for session, agent in self.sessions.items():
            assert self.send(f"shop.{agent}", f"/v1/sessions/{session}/finish", {}).is_success

    def look(self) -> None:
        """Notes the ids of grants, to revoke some of them."""
        with contextlib.suppress(httpx.TransportError, AssertionError):
            self.grants |= {grant["id"] for grant in self.client("shop.auditor").get("/v1/grants?limit=500")["grants"]}


def logged_grants(auditor: ServerClient) -> Iterator[Any]:
    after = 0
    while entries := auditor.get(f"/v1/log?kind=grant&limit=500&after={after}")["entries"]:
        yield from entries
        after = entries[-1]["seq"]


def require_plain_reading(storm: Storm, auditor: ServerClient) -> None:
    """Requires that what ran is what the plain reading of the scopes allows."""
    storm.finish()
    grants = {entry["grant"]: entry for entry in logged_grants(auditor)}
    used: defaultdict[str, list[Ran]] = defaultdict(list)
    for ran in storm.ran.values():
        assert ran.args["customer"] != "mallory"
        if ran.grant is None:
            assert ran.approved or (type(ran.args["amount"]) is int and ran.args["amount"] <= FREE)
            continue
        grant, amount = grants[ran.grant], ran.args["amount"]
        assert type(amount) is not bool
        assert amount <= grant["up_to"]["amount"]
        assert repr(ran.args["customer"]) == repr(grant["args"]["customer"])
        assert ran.args.keys() <= {"customer", "amount", "note"}
        assert ran.agent == grant["user"]
        assert grant["made"] <= ran.answered
        assert ran.sent < grant["until"]
        assert ran.sent <= storm.revoked.get(ran.grant, ran.sent), "it ran after the revocation"
        used[ran.grant] += [ran] if ran.counts else []
    for name, runs in used.items():
        assert len(runs) <= grants[name]["calls"]
        assert sum(ran.args["amount"] for ran in runs) <= grants[name]["up_to"]["sum"]
    for grant in auditor.get("/v1/grants?limit=500")["grants"]:
        runs = used[grant["id"]]
        assert grant["used"] == {"calls": len(runs), "sum": sum(ran.args["amount"] for ran in runs)}
    assert used
    logged = {
        (entry["conversation"].partition("/")[2], entry["call_id"]): entry["grants"]["small"]
        for name in {session for session, _ in storm.ran}
        for entry in auditor.get(f"/v1/log?session={name}&kind=verdict&limit=500")["entries"]
        if "grants" in entry
    }
    assert logged == {call: ran.grant for call, ran in storm.ran.items() if ran.grant is not None}


def test_three_servers_in_one_process(tmp_path: Path) -> None:
    tokens, settings = tokens_of(tmp_path), local_settings(tmp_path, POLICY)
    servers = [LocalServer(tmp_path, tokens, settings) for _ in range(3)]
    turns = itertools.count()

    def client(who: str) -> ServerClient:
        return servers[next(turns) % 3].client(who)

    storm = Storm(client, 0)
    for worker in range(2):
        storm.operations += 35
        storm.work(worker)
        storm.look()
    require_plain_reading(storm, servers[0].client("shop.auditor"))


@pytest.fixture(params=SHARED)
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with shared_state(request.param, tmp_path) as state:
        yield state


@pytest.mark.slow
def test_three_servers_that_are_killed(state: str, tmp_path: Path) -> None:
    """`GRANT_OPERATIONS=10000 pytest tests/server/grants` is the whole attack."""
    (tmp_path / "policies.yaml").write_text(POLICY)
    tokens, local, opened = tokens_of(tmp_path), threading.local(), contextlib.ExitStack()
    servers = [ServerProcess(tmp_path, state) for _ in range(3)]

    def client(who: str) -> ServerClient:
        server = random.choice(servers)  # noqa: S311
        local.clients = getattr(local, "clients", {})
        if server.url not in local.clients:
            local.clients[server.url] = opened.enter_context(httpx.Client(base_url=server.url, timeout=20.0))
        return ServerClient(local.clients[server.url], tokens[who])

    storm = Storm(client, OPERATIONS)
    kills = 0
    try:
        for server in servers:
            server.wait()
        with ThreadPoolExecutor(WORKERS) as pool:
            running = [pool.submit(storm.work, worker) for worker in range(WORKERS)]
            while not all(future.done() for future in running):
                time.sleep(0.5)
                at, kills = random.randrange(3), kills + 1  # noqa: S311
                servers[at].kill()
                servers[at] = ServerProcess(tmp_path, state)
                servers[at].wait()
                storm.look()
            for future in running:
                future.result()
        assert kills > 1
        assert len(storm.grants) > OPERATIONS / 100
        require_plain_reading(storm, servers[0].client(tokens["shop.auditor"]))
    finally:
        opened.close()
        for server in servers:
            server.kill()
    message = f"{storm.done} operations, {len(storm.ran)} calls, {len(storm.grants)} grants, {kills} kills"
    logging.getLogger("tests").warning(message)
