"""A reload with `running: apply` puts the new version into force for the sessions that run."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from guardagent.server.service.guards import HostSession, HostSessions
from guardagent.server.service.migration import SessionMigration
from tests.server.servers import (
    LocalServer,
    ServerClient,
    local_server,
    local_settings,
    server_processes,
    shared_state,
    tokens_of,
)
from tests.stores import SHARED

BEFORE = (
    'version: 1\npolicies:\n- {id: some, temporal: "forall(refund(amount=a), a <= 1000)", on_violation: escalate}\n'
)
ONCE_LOGGED_IN = 'temporal: "G(tool:login -> G !tool:refund)"'


def rules(*added: str) -> str:
    return BEFORE + "".join(f"- {{id: new{at}, {rule}}}\n" for at, rule in enumerate(added))


@pytest.fixture
def shop(tmp_path: Path) -> Any:
    with local_server(tmp_path, "shop", "bank", settings=local_settings(tmp_path, BEFORE)) as server:
        yield server


def reload(server: LocalServer, folder: Path, text: str, status: int = 200, running: str = "apply") -> Any:
    (folder / "policies.yaml").write_text(text)
    admin = server.client("shop.admin")
    return admin.post("/v1/policies/default/reload", {"running": running}, status)


def why(answer: Any) -> str:
    verdict = answer["verdict"]
    return " ".join([*verdict["reasons"], *(violation["policy"] for violation in verdict["violations"])])


def test_running_sessions_are_judged_by_their_history_under_the_new_rules(shop: LocalServer, tmp_path: Path) -> None:
    agent, bank = shop.client(), shop.client("bank.agent")
    for name in ("in", "out"):
        agent.session(name)
    bank.session("bank")
    agent.run("in", "1", "login")
    bank.run("bank", "1", "login")
    agent.run("out", "1", "receipt")
    assert agent.check("in", "flying", "receipt")["in_flight"]
    reloaded = reload(shop, tmp_path, rules(ONCE_LOGGED_IN, 'temporal: "forall(refund(), count(f:refund()) < 1)"'))
    assert [call["id"] for call in reloaded["stop"]["in_flight"]] == ["flying"]
    denied = agent.check("in", "2", "refund", amount=1)
    assert denied["verdict"]["decision"] == "deny"
    assert "new0" in why(denied)
    agent.record("in", "flying")  # what was allowed before may end
    agent.run("in", "3", "receipt")
    agent.run("out", "2", "refund", amount=1)
    assert "new1" in why(agent.check("out", "3", "refund", amount=1))
    assert bank.check("bank", "2", "refund", amount=1)["in_flight"]  # another tenant's
    auditor = shop.client("shop.auditor")
    assert auditor.get("/v1/sessions/in")["policy_version"] == reloaded["version"]
    entries = auditor.get("/v1/log?limit=500")["entries"]
    assert sum(entry["kind"] == "policy" and "conversation" in entry for entry in entries) == 2


def test_approvals_of_the_version_before_are_void(shop: LocalServer, tmp_path: Path) -> None:
    agent, approver = shop.client(), shop.client("shop.approver")
    session = agent.session()
    requests = {name: agent.check(session, name, "refund", amount=2000)["approval"] for name in ("approved", "open")}
    body = {"choice": "approve", "version": requests["approved"]["version"]}
    approver.post(f"/v1/approvals/{requests['approved']['id']}/answer", body)
    assert reload(shop, tmp_path, rules(ONCE_LOGGED_IN))["stop"]["void"] == 1
    late = {"choice": "approve", "version": requests["open"]["version"] + 1}
    assert approver.request("POST", f"/v1/approvals/{requests['open']['id']}/answer", late).status_code == 409
    call = {"id": "approved", "tool": "refund", "args": {"amount": 2000}}
    again = agent.post(f"/v1/sessions/{session}/resolve", {"call": call, "approval": requests["approved"]["id"]})
    assert (again["in_flight"], again["approval"]["status"]) == (False, "pending")
    assert again["approval"]["id"] != requests["approved"]["id"]


@pytest.mark.parametrize("is_used", [True, False])
def test_grants_of_the_version_before_are_void(shop: LocalServer, tmp_path: Path, *, is_used: bool) -> None:
    scope = "approvals: {scope: {tool: refund, up_to: {amount: 5000}, calls: 9, for: 1h}}"
    granting = BEFORE.replace("escalate}", f"escalate, {scope}}}")
    reload(shop, tmp_path, granting)
    agent, approver = shop.client(), shop.client("shop.approver")
    session = agent.session()
    approval = agent.check(session, "1", "refund", amount=2000)["approval"]
    body = {"choice": "approve", "version": approval["version"], "grant": {}}
    approver.post(f"/v1/approvals/{approval['id']}/answer", body)
    resolved = {"call": {"id": "1", "tool": "refund", "args": {"amount": 2000}}, "approval": approval["id"]}
    if is_used:
        assert agent.post(f"/v1/sessions/{session}/resolve", resolved)["in_flight"]
        agent.record(session, "1")
    reload(shop, tmp_path, granting.replace("a <= 1000", "a <= 10"))
    again = agent.post(f"/v1/sessions/{session}/resolve", resolved)
    assert is_used or not again["in_flight"]
    assert not agent.check(session, "2", "refund", amount=50)["in_flight"]


@pytest.mark.parametrize("running", ["keep", "deny"])
def test_no_session_goes_back_to_an_earlier_version(shop: LocalServer, tmp_path: Path, running: str) -> None:
    reload(shop, tmp_path, BEFORE.replace("1000", "500"))
    latest = reload(shop, tmp_path, BEFORE.replace("1000", "5"), running=running)["version"]
    agent = shop.client()
    session = agent.session()
    assert not agent.check(session, "1", "refund", amount=100)["in_flight"]
    agent.run(session, "2", "refund", amount=1)
    assert shop.client("shop.auditor").get(f"/v1/sessions/{session}")["policy_version"] == latest


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ('temporal: ["after(login(), state.open == true, f:receipt(), true)"]', "does not hold the state"),
        ('temporal: "forall(answer(text=t), len(t) < 9)"', "final answers"),
        ('temporal: "forall(recept(), false)"', "recept"),
        ('temporal: "forall(refund(amount=a), !(\\"mail\\" in sources(a)))"', "labels"),
    ],
)
def test_what_a_session_cannot_take_over_denies_with_the_reason(
    shop: LocalServer, tmp_path: Path, rule: str, problem: str
) -> None:
    agent = shop.client()
    session = agent.session()
    agent.run(session, "1", "login")
    assert agent.check(session, "flying", "login")["in_flight"]
    labels = "labels: {mail: {from: login}}\n" if "labels" in problem else ""
    stop = reload(shop, tmp_path, rules(rule).replace("policies:", f"{labels}policies:"))["stop"]
    denied = agent.check(session, "2", "receipt")
    assert denied["verdict"]["decision"] == "halt"
    assert problem in why(denied)
    agent.record(session, "flying")
    assert shop.client("shop.admin").request("DELETE", f"/v1/stops/{stop['id']}").status_code == 200
    assert agent.check(session, "3", "receipt")["in_flight"]  # under the version with which it began


def test_files_that_fail_change_nothing_and_later_versions_take_over(shop: LocalServer, tmp_path: Path) -> None:
    agent = shop.client()
    session = agent.session()
    agent.run(session, "1", "login")
    assert "stays in force" in reload(shop, tmp_path, "version: 1\npolicies: [{id: no}]\n", 422)["error"]["message"]
    agent.run(session, "2", "refund", amount=1)
    reload(shop, tmp_path, rules(ONCE_LOGGED_IN))
    assert "new0" in why(agent.check(session, "3", "refund", amount=1))
    reload(shop, tmp_path, rules('temporal: "forall(receipt(), false)"'))
    agent.run(session, "4", "refund", amount=1)
    assert "new0" in why(agent.check(session, "5", "receipt"))
    reload(shop, tmp_path, BEFORE)  # and back, for a session that was never judged in between, too
    agent.run(session, "6", "receipt")
    assert len(shop.client("shop.operator").get("/v1/stops")["stops"]) == 1
    assert agent.post(f"/v1/sessions/{session}/finish", {})["verdict"]["decision"] == "allow"


def test_a_server_learns_of_a_move_after_its_stop_was_lifted(shop: LocalServer, tmp_path: Path) -> None:
    other = LocalServer(tmp_path, shop.tokens, shop.service.settings)
    agent = other.client()
    session = agent.session()
    agent.run(session, "1", "login")
    stop = reload(shop, tmp_path, rules(ONCE_LOGGED_IN))["stop"]
    shop.client().run(session, "2", "receipt")
    assert shop.client("shop.admin").request("DELETE", f"/v1/stops/{stop['id']}").status_code == 200
    assert "goes on under another version" in why(agent.check(session, "3", "refund", amount=1))
    assert "new0" in why(agent.check(session, "3", "refund", amount=1))
    agent.run(session, "4", "receipt")
    other.service.close()


class Killed(HostSessions):
    """Sessions of a server that is killed before it stores what it has done."""

    def change(self, session: HostSession, **changes: Any) -> HostSession:
        raise KeyboardInterrupt(session, changes)


def test_a_server_that_is_killed_on_the_way_leaves_a_session_under_one_version(
    shop: LocalServer, tmp_path: Path
) -> None:
    agent, service = shop.client(), shop.service
    session = agent.session()
    agent.run(session, "1", "login")
    digest = reload(shop, tmp_path, rules(ONCE_LOGGED_IN))["version"]
    killed = SessionMigration(service.policies, service.stores, Killed(service.stores.state), service.guards)
    with pytest.raises(KeyboardInterrupt):
        killed.move(service.sessions.read("shop", session), digest)
    assert service.sessions.read("shop", session).digest != digest
    assert "new0" in why(agent.check(session, "2", "refund", amount=1))
    agent.run(session, "3", "receipt")


@pytest.mark.parametrize("kind", SHARED)
def test_no_server_allows_a_call_by_the_rules_before_once_a_reload_has_answered(kind: str, tmp_path: Path) -> None:
    """Agents refund on two servers without a rest. The one with the reload is killed when it has answered."""
    (tmp_path / "policies.yaml").write_text(BEFORE)
    tokens = tokens_of(tmp_path)
    with shared_state(kind, tmp_path) as state, server_processes(tmp_path, state, 2) as servers:
        sessions = [servers[0].client(tokens["shop.agent"]).session(f"s{number}") for number in range(4)]
        clients = [servers[at % 2].client(tokens["shop.agent"]) for at in range(4)]
        clients[0].run(sessions[0], "in", "login")
        allowed, begun = list[str](), threading.Barrier(3)

        def refund(client: ServerClient, session: str) -> None:
            for number in range(10_000):
                if not client.check(session, f"{session}-{number}", "refund", amount=1)["in_flight"]:
                    return
                client.record(session, f"{session}-{number}")
                allowed.append(session)
                if number == 5:
                    begun.wait(20)

        with ThreadPoolExecutor(2) as threads:
            runs = [threads.submit(refund, clients[at], sessions[at]) for at in (1, 3)]
            begun.wait(20)
            (tmp_path / "policies.yaml").write_text(rules('temporal: "forall(refund(), count(f:refund()) < 3)"'))
            admin = servers[0].client(tokens["shop.admin"])
            reloaded = admin.post("/v1/policies/default/reload", {"running": "apply"})
            servers[0].kill()
            late = len(allowed)
            for run in runs:
                run.result(30)
        assert len(allowed) <= late + 2  # those in flight
        other = servers[1].client(tokens["shop.agent"])
        for session in (sessions[1], sessions[3]):
            assert "new0" in why(other.check(session, "late", "refund", amount=1))
            other.run(session, "login", "login")
        other.run(sessions[0], "r", "refund", amount=1)  # of the server that is gone
        person = servers[1].client(tokens["shop.auditor"])
        assert {person.get(f"/v1/sessions/{each}")["policy_version"] for each in (*sessions[:2], sessions[3])} == {
            reloaded["version"]
        }
