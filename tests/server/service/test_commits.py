"""Operations that are carried out in memory and committed together: none is lost, and none is done twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from guardagent import load_policies
from guardagent.enforcement import HostCall, Outcome, ToolGuard
from guardagent.enforcement.ledger.history import FinalLedger
from guardagent.enforcement.ledger.staging import StagedLog, StagedOperation
from guardagent.errors import GuardError
from guardagent.log import AuditLog
from guardagent.log.stores import open_reader
from guardagent.policy.policies import Policies
from guardagent.server.service.commits import GroupCommit
from guardagent.server.service.policies import unchanging
from tests.stores import SHARED, new_ledger, store_address

CONVERSATION = "shop/s1"
RULES = """\
version: 1
policies:
  - id: once
    temporal: forall(refund(order=o), count(f:refund(order=o)) == 0)
"""


class Interrupted:
    """A store before or after whose commits something happens."""

    def __init__(self, store: Any, when: str, happens: Callable[[], object]) -> None:
        self._store, self._when, self._happens = store, when, happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, *args: Any, **options: Any) -> Any:
        return self._around(self._store.commit, *args, **options)

    def append_all(self, *args: Any, **options: Any) -> Any:
        return self._around(self._store.append_all, *args, **options)

    def _around(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if self._when == "before":
            self._happens()
        result = method(*args, **options)
        if self._when == "after":
            self._happens()
        return result


class Server:
    """The part of a server that handles the calls of one session, without HTTP."""

    def __init__(self, policies: Policies, ledger: Any, log: Any) -> None:
        self.ledger, self.staged = FinalLedger(ledger), 0
        self.guard = ToolGuard(unchanging(policies, None), ledger=self.ledger, log=StagedLog(log))
        self.commits = GroupCommit(self.ledger, self._count)

    def _count(self, _: StagedOperation) -> None:
        self.staged += 1

    async def run(self, work: Callable[[], Any]) -> Any:
        operation = StagedOperation(CONVERSATION)

        def stage() -> StagedOperation | None:
            return operation if self.guard.stage(operation, work, begins=True) else None

        return await self.commits.run(CONVERSATION, stage, work)

    async def check(self, name: str, order: int) -> bool:
        call = HostCall("refund", {"order": order}, CONVERSATION, name, claim=f"request {name}")
        verdict = await self.run(partial(self.guard.before, call))
        return bool(verdict.label == 0)

    async def record(self, name: str) -> None:
        await self.run(partial(self.guard.claimed_calls.record, CONVERSATION, name, Outcome("done")))


@pytest.fixture(params=SHARED)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with store_address(request.param, tmp_path) as address:
        yield address


@pytest.fixture
def policies(tmp_path: Path) -> Policies:
    (tmp_path / "policies.yaml").write_text(RULES)
    return load_policies(tmp_path / "policies.yaml")


def logged(path: Path, kind: str) -> list[str]:
    """The ids of the calls with a record of a kind."""
    records = [json.loads(entry.text) for entry in open_reader(path)]
    return [record["call_id"] for record in records if record["kind"] == kind]


@pytest.mark.parametrize("place", ["before ledger", "after ledger", "before log", "after log"])
def test_a_request_is_repeated_after_its_server_was_killed_at_a_commit(
    address: str, place: str, policies: Policies, tmp_path: Path
) -> None:
    when, store = place.split()
    if (child := os.fork()) == 0:
        try:
            ledger, log = new_ledger(address), AuditLog(tmp_path / "log.db")

            def kill() -> None:
                os.kill(os.getpid(), signal.SIGKILL)

            stores = (
                (Interrupted(ledger, when, kill), log) if store == "ledger" else (ledger, Interrupted(log, when, kill))
            )
            asyncio.run(Server(policies, *stores).check("c1", 1))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    server = Server(policies, new_ledger(address), AuditLog(tmp_path / "log.db"))

    async def repeated() -> list[bool]:
        return [await server.check("c1", 1), await server.check("c1", 1), await server.check("c2", 1)]

    assert asyncio.run(repeated()) == [True, True, False]
    assert [event.id for event in server.guard.session(CONVERSATION).history] == ["c1"]
    assert {"c1", "c2"} == {*logged(tmp_path / "log.db", "verdict")}


def test_operations_on_top_of_a_failed_commit_are_carried_out_again_in_their_order(
    policies: Policies, tmp_path: Path
) -> None:
    with store_address("sqlite", tmp_path) as address:
        ledger, log, failures = new_ledger(address), AuditLog(tmp_path / "log.db"), [1]

        def fail() -> None:
            if failures:
                failures.pop()
                raise GuardError("the disk is full")

        server = Server(policies, Interrupted(ledger, "before", fail), log)

        async def calls() -> list[Any]:
            return await asyncio.gather(*(server.check(f"c{at}", order) for at, order in enumerate((1, 2, 1), 1)))

        assert asyncio.run(calls()) == [True, True, False]
        assert not failures
        assert not server.staged
        assert [event.id for event in server.guard.session(CONVERSATION).history] == ["c1", "c2"]
        assert logged(tmp_path / "log.db", "verdict") == ["c1", "c2", "c3"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_two_servers_of_one_session_do_nothing_twice(
    address: str, seed: int, policies: Policies, tmp_path: Path
) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    servers = [Server(policies, new_ledger(address), AuditLog(tmp_path / "log.db")) for _ in range(2)]
    paid: list[tuple[str, int]] = []

    async def agent(number: int) -> None:
        server = servers[number % 2]
        for at in range(40):
            server = chance.choice(servers) if chance.random() < 0.1 else server
            name, order = f"{number}-{at}", chance.randrange(60)
            if await server.check(name, order):
                paid.append((name, order))
                if chance.random() < 0.8:
                    await server.record(name)
            elif chance.random() < 0.2:
                assert not await chance.choice(servers).check(name, order)

    async def agents() -> None:
        await asyncio.gather(*map(agent, range(3)))

    asyncio.run(agents())
    orders = [order for _, order in paid]
    assert len(orders) == len({*orders})
    session = servers[0].guard.claimed_calls.session(CONVERSATION)
    assert [event.id for event in session.history if event.args["order"] in orders] == [
        event.id for event in session.history
    ]
    assert {event.id for event in session.history} == {name for name, _ in paid}
    assert {name for name, _ in paid} <= {*logged(tmp_path / "log.db", "verdict")}
    assert any(server.staged for server in servers)
