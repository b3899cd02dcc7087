"""Sessions, calls and their outcomes, in one server and in two that share a state."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.server.service.guard_service import Retention
from guardagent.server.settings import RetentionSettings, read_server_settings
from tests.server.servers import (
    NO_LOGIN,
    POLICIES,
    LocalServer,
    ServerClient,
    local_server,
    local_settings,
    shared_state,
    tokens_of,
)
from tests.stores import SHARED


@pytest.fixture(params=SHARED)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[ServerClient, ServerClient]]:
    """Clients of two servers with one state."""
    with shared_state(request.param, tmp_path) as state:
        settings = local_settings(tmp_path, state=state, log=str(tmp_path / "logs"))
        with local_server(tmp_path, settings=settings) as first:
            second = LocalServer(tmp_path, first.tokens, settings)
            yield first.client(), second.client()
            second.service.close()


def test_a_session_moves_between_servers(pair: tuple[ServerClient, ServerClient]) -> None:
    first, second = pair
    first.session()
    assert second.check("s1", "c1", "refund", order="W1", amount=5)["verdict"]["decision"] == "deny"
    assert first.check("s1", "c2", "login", key="k")["in_flight"]
    assert second.check("s1", "c2", "login", key="k")["in_flight"]
    second.record("s1", "c2")
    assert first.record("s1", "c2") == {"status": "ok"}
    second.run("s1", "c3", "refund", order="W1", amount=5)
    assert "refunded already" in first.check("s1", "c4", "refund", order="W1", amount=5)["verdict"]["reasons"]
    ended = second.post("/v1/sessions/s1/finish", {})
    assert (ended["verdict"]["decision"], first.post("/v1/sessions/s1/finish", {})) == ("deny", ended)
    for server_client in pair:
        assert server_client.check("s1", "c5", "login")["verdict"]["decision"] == "deny"
        server_client.record("s1", "c3", status=409)


def _ended(name: str, output: str = "done") -> dict[str, Any]:
    return {"call_id": name, "outcome": {"output": output, "failed": False, "ended": True}}


def test_outcomes_and_the_next_check_are_one_request(pair: tuple[ServerClient, ServerClient]) -> None:
    """The check sees the outcomes, and any server gives a repetition the same answer."""
    first, second = pair
    first.session()
    for name in ("c1", "c2"):
        assert first.check("s1", name, "login")["in_flight"]
    refund = {"id": "c3", "tool": "refund", "args": {"order": "W1", "amount": 5}}
    assert not first.post("/v1/sessions/s1/calls", {"call": refund, "reserve": False})["in_flight"]
    body = {"outcomes": [_ended("c1"), _ended("c2", "Error")], "call": refund}
    answers = [client.post("/v1/sessions/s1/calls", body, idempotency_key="k") for client in (first, second, first)]
    assert answers[0]["outcomes"] == [{"status": "ok"}, {"status": "failed"}]
    assert {(answer["verdict"]["decision"], answer["in_flight"]) for answer in answers} == {("allow", True)}
    assert second.post("/v1/sessions/s1/calls", {"outcomes": [_ended("c3")]}) == {"outcomes": [{"status": "ok"}]}
    again = first.post("/v1/sessions/s1/calls", {"call": {**refund, "id": "c4"}})
    assert "refunded already" in again["verdict"]["reasons"]


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ([_ended("c1"), _ended("c9")], 404),
        ([_ended("c1"), _ended("c1", "another")], 409),
        ([{"call_id": "c1"}], 422),
        ([_ended("c1")] * 101, 422),
        ("c1", 422),
    ],
)
def test_a_check_after_a_refused_outcome_is_not_judged(server: LocalServer, outcomes: Any, status: int) -> None:
    """Otherwise the call would be judged on a history that lacks an outcome which its host believes recorded."""
    client = server.client()
    client.session()
    client.check("s1", "c1", "login")
    body = {"outcomes": outcomes, "call": {"id": "c2", "tool": "refund", "args": {"order": "W1", "amount": 5}}}
    client.post("/v1/sessions/s1/calls", body, status)
    client.record("s1", "c2", status=404)


def test_two_tenants_share_nothing(tmp_path: Path) -> None:
    counted = POLICIES.replace(
        "policies:\n",
        "counters:\n  logins: {on: login()}\npolicies:\n"
        "  - id: few\n    temporal: forall(login(), counter(logins) < 1)\n",
    )
    with local_server(tmp_path, "shop", "bank", settings=local_settings(tmp_path, counted)) as server:
        for tenant in ("shop", "bank"):
            client = server.client(f"{tenant}.agent")
            client.session()
            client.run("s1", "c1", "login")
            assert client.check("s1", "c2", "login")["verdict"]["decision"] == "deny"
            entries = server.client(f"{tenant}.auditor").get("/v1/log")["entries"]
            assert {entry["conversation"] for entry in entries} == {f"{tenant}/s1"}
            assert {entry["principal"]["tenant"] for entry in entries if entry["kind"] == "verdict"} == {tenant}


def test_a_session_is_opened_once(server: LocalServer) -> None:
    client, other = server.client(), server.client("shop.other")
    assert client.session() == client.session() == "s1"
    attachment = client.post("/v1/attachments", {"tools": []}, 201)["id"]
    for caller in (client, other):
        caller.post("/v1/sessions", {"attachment": attachment, "id": "s1"}, 409)
    opened = [client.post("/v1/sessions", {"attachment": attachment}, 201, idempotency_key="k") for _ in range(2)]
    assert opened[0] == opened[1]
    client.post("/v1/sessions", {"attachment": attachment, "id": "s9"}, 422, idempotency_key="k")
    client.post("/v1/sessions", {"attachment": attachment, "id": "../x"}, 422)


def test_a_host_names_the_user_only_where_the_policy_says_so(tmp_path: Path) -> None:
    (tmp_path / "roles.yaml").write_text(
        'version: 1\npolicies:\n  - id: ann\n    temporal: forall(login(), principal.id == "ann")\n'
    )
    (tmp_path / "server.yaml").write_text(
        "policies:\n  host: {files: roles.yaml, principal: host}\n  caller: roles.yaml\n"
        f"state: sqlite:{tmp_path / 'state'}\n"
    )
    from guardagent.server.settings import read_server_settings

    with local_server(tmp_path, settings=read_server_settings(tmp_path / "server.yaml")) as server:
        client = server.client()
        bodies = [{"policy": name, "tools": [{"name": "login"}]} for name in ("host", "caller")]
        host, caller = (client.post("/v1/attachments", body, 201)["id"] for body in bodies)
        user = {"id": "ann", "roles": ["sales"]}
        client.post("/v1/sessions", {"attachment": caller, "on_behalf_of": user}, 422)
        client.post("/v1/sessions", {"attachment": host, "on_behalf_of": {**user, "tenant": "bank"}}, 422)
        client.post("/v1/sessions", {"attachment": host, "on_behalf_of": user, "id": "a"}, 201)
        client.post("/v1/sessions", {"attachment": caller, "id": "b"}, 201)
        assert [client.check(session_id, "c1", "login")["verdict"]["label"] for session_id in "ab"] == [0, 1]


def test_a_host_sends_the_state(tmp_path: Path) -> None:
    policy = "version: 1\npolicies:\n  - id: open\n    temporal: forall(login(), state.open == true)\n"
    with local_server(tmp_path, settings=local_settings(tmp_path, policy)) as server:
        client = server.client()
        client.post("/v1/sessions", {"attachment": _attached(client), "id": "s1"}, 201)
        labels = []
        for at, state in enumerate([{"open": True}, {"open": False}, None]):
            body = {"call": {"id": f"c{at}", "tool": "login", "args": {}}, **({"state": state} if state else {})}
            labels.append(client.post("/v1/sessions/s1/check", body)["verdict"]["label"])
        assert labels == [0, 1, 1]  # without a state, it is unknown


def test_a_host_states_the_usage_of_models(tmp_path: Path) -> None:
    policy = (
        "version: 1\npolicies:\n  - id: budget\n    temporal: forall(login(), usage.tokens <= 100 && usage.cost <= 1)\n"
    )
    with local_server(tmp_path, settings=local_settings(tmp_path, policy)) as server:
        client = server.client()
        client.post("/v1/sessions", {"attachment": _attached(client), "id": "s1"}, 201)
        rules = []
        for at, usage in enumerate([{"tokens": 100, "cost": 0.5}, {"tokens": 101, "cost": 0.5}, {"tokens": 100}]):
            body = {"call": {"id": f"c{at}", "tool": "login", "args": {}, "usage": usage}}
            verdict = client.post("/v1/sessions/s1/check", body)["verdict"]
            rules.append((verdict["label"], [violation["policy"] for violation in verdict["violations"]]))
        assert rules == [(0, []), (1, ["budget"]), (1, [])]  # without the cost, it is unknown


def test_a_preview_takes_no_place(server: LocalServer) -> None:
    client = server.client()
    client.session()
    body = {"call": {"id": "c1", "tool": "login", "args": {}}, "reserve": False}
    assert client.post("/v1/sessions/s1/check", body)["in_flight"] is False
    client.record("s1", "c1", status=404)


def test_a_withdrawn_call_never_runs(server: LocalServer) -> None:
    client = server.client()
    client.session()
    for _ in range(2):
        client.post("/v1/sessions/s1/withdraw", {"call_id": "c1", "why": "the client gave up"})
    assert client.check("s1", "c1", "login")["in_flight"] is False
    client.check("s1", "c2", "login")
    client.post("/v1/sessions/s1/withdraw", {"call_id": "c2", "why": "not needed"})
    client.record("s1", "c2", status=409)
    assert client.check("s1", "c3", "refund", order="W1", amount=1)["verdict"]["label"] == 1


def test_a_reloaded_policy_is_for_new_sessions(tmp_path: Path) -> None:
    with local_server(tmp_path) as server:
        client, admin = server.client(), server.client("shop.admin")
        client.session("old")
        (tmp_path / "policies.yaml").write_text(NO_LOGIN)
        before = admin.get("/v1/policies/default")["version"]
        changed = admin.post("/v1/policies/default/reload", {})
        assert changed["changed"] is True
        assert admin.get("/v1/policies/default/versions")["versions"] == [changed["version"], before]
        client.session("new")
        assert [client.check(session_id, "c1", "login")["verdict"]["label"] for session_id in ("old", "new")] == [0, 1]
        (tmp_path / "policies.yaml").write_text("version: 1\npolicies: 5\n")
        admin.post("/v1/policies/default/reload", {}, 422)
        assert admin.get("/v1/policies/default")["version"] == changed["version"]
        kinds = [entry["kind"] for entry in server.client("shop.auditor").get("/v1/log")["entries"]]
        assert kinds.count("policy") == 1


def test_a_reload_reaches_every_server_that_has_the_same_files(
    pair: tuple[ServerClient, ServerClient], tmp_path: Path
) -> None:
    """For new sessions at each of them, and for the sessions of another one; others keep what they have."""
    first, second = pair
    admin = ServerClient(first.client, tokens_of(tmp_path)["shop.admin"])
    (tmp_path / "policies.yaml").write_text(NO_LOGIN)
    first.session("early")  # edited files alone change nothing
    digest = admin.post("/v1/policies/default/reload", {})["version"]
    first.session("new")
    labels = [second.check(name, "c1", "login")["verdict"]["label"] for name in ("early", "new")]
    second.session("newer")
    assert [*labels, second.check("newer", "c1", "login")["verdict"]["label"]] == [0, 1, 1]
    (tmp_path / "policies.yaml").write_text(NO_LOGIN.replace("none", "never"))
    admin.post("/v1/policies/default/reload", {})
    (tmp_path / "policies.yaml").write_text(POLICIES)
    second.session("last")
    reader = ServerClient(second.client, admin.headers["authorization"].removeprefix("Bearer "))
    assert reader.get("/v1/policies/default")["version"] == digest


def test_the_log_is_read_in_order_and_verified(server: LocalServer) -> None:
    client, auditor = server.client(), server.client("shop.auditor")
    client.session()
    client.run("s1", "c1", "login")
    client.check("s1", "c2", "refund", order="W1", amount=500)
    entries = auditor.get("/v1/log")["entries"]
    assert [entry["kind"] for entry in entries] == ["verdict", "outcome", "verdict"]
    assert auditor.get("/v1/log?after=1&limit=1")["entries"] == entries[1:2]
    assert auditor.get("/v1/log?decision=escalate&session=s1")["entries"] == entries[2:]
    assert auditor.get("/v1/log/verify")["status"] == "end_unchecked"
    shown = auditor.get("/v1/sessions/s1")
    assert [(call["id"], call["status"]) for call in shown["calls"]] == [("c1", "ok")]
    assert shown["rules"]["receipt"] == "open"
    steps = [(entry["kind"], entry["call_id"], entry.get("decision")) for entry in shown["timeline"]]
    assert steps == [("verdict", "c1", "allow"), ("outcome", "c1", None), ("verdict", "c2", "escalate")]


def test_a_server_without_its_state_denies(server: LocalServer, tmp_path: Path) -> None:
    client = server.client()
    client.session()
    client.run("s1", "c1", "login")
    (tmp_path / "state" / "ledger.db").rename(tmp_path / "state" / "gone.db")
    refused = client.post("/v1/sessions/s1/check", {"call": {"id": "c2", "tool": "login", "args": {}}}, 503)
    assert refused["verdict"]["decision"] == "deny"
    (tmp_path / "state" / "server.db").rename(tmp_path / "state" / "gone2.db")
    refused = client.post("/v1/sessions/s2/check", {"call": {"id": "c", "tool": "login", "args": {}}}, 503)
    assert refused["verdict"]["decision"] == "deny"
    server.client("nobody").get("/readyz", 503)


def test_a_call_whose_verdict_is_not_logged_may_not_run(server: LocalServer, tmp_path: Path) -> None:
    client, log = server.client(), tmp_path / "state" / "log" / "shop.db"
    client.session()
    client.run("s1", "c1", "login")
    log.rename(log.with_suffix(".gone"))
    body = {"call": {"id": "c2", "tool": "login", "args": {}}}
    refused = client.post("/v1/sessions/s1/check", body, 503, idempotency_key="k")
    assert refused["verdict"]["label"] == 1
    log.with_suffix(".gone").rename(log)
    assert client.post("/v1/sessions/s1/check", body, idempotency_key="k")["in_flight"]
    client.record("s1", "c2")


def test_a_finished_run_is_judged_for_the_tenants_of_its_agent(tmp_path: Path) -> None:
    from guardagent.server.settings import read_server_settings
    from tests.runs import ehr_input, ehr_log

    (tmp_path / "policies.yaml").write_text(POLICIES)
    (tmp_path / "server.yaml").write_text(
        f"policies: {{default: policies.yaml}}\nstate: sqlite:{tmp_path / 'state'}\n"
        "agents: {nurse: {agent: ehragent, tenants: [shop]}}\n"
    )
    with local_server(tmp_path, "shop", "bank", settings=read_server_settings(tmp_path / "server.yaml")) as server:
        run = {"agent": "nurse", "input": ehr_input("general administration"), "output_log": ehr_log()}
        verdict = server.client().post("/v1/guard", run)["verdict"]
        assert (verdict["decision"], verdict["errors"]) == ("deny", [])
        server.client("bank.agent").post("/v1/guard", run, 404)
        (entry,) = server.client("shop.auditor").get("/v1/log")["entries"]
        assert (entry["kind"], entry["agent"], entry["decision"]) == ("answer", "nurse", "deny")


def _attached(client: ServerClient) -> str:
    attached: str = client.post("/v1/attachments", {"tools": [{"name": "login"}]}, 201)["id"]
    return attached


# --- a server deletes what it no longer needs, and nothing else


DAY = 86_400.0


def sweep(server: LocalServer, days: float, settings: RetentionSettings | None = None) -> None:
    """Cleans up as if some days had passed."""
    service = server.service
    used = settings or RetentionSettings()
    Retention(service.stores.state, used, service._finish, lambda: time.time() + days * DAY).sweep()


def test_answers_are_kept_for_repetitions_and_then_deleted(server: LocalServer) -> None:
    agent, state = server.client(), server.service.stores.state
    session = agent.session()
    first = agent.check(session, "c1", "login", key="k", user="ann")
    sweep(server, 0.5 / 24)
    assert agent.check(session, "c1", "login", key="k", user="ann") == first
    sweep(server, 1.5 / 24)
    assert state.page("answer", "shop", None, 9) == []
    again = agent.check(session, "c1", "login", key="k", user="ann")
    assert again["verdict"]["decision"] == "allow"
    assert len(server.client("shop.auditor").get(f"/v1/sessions/{session}")["calls"]) == 1, "it is still one call"


def test_sessions_that_ended_are_deleted_and_their_names_stay_taken(server: LocalServer) -> None:
    agent, auditor = server.client(), server.client("shop.auditor")
    for name in ("ended", "open"):
        agent.run(agent.session(name), "c1", "login", user="ann")
    agent.post("/v1/sessions/ended/finish", {})
    sweep(server, 89)
    assert len(auditor.get("/v1/sessions")["sessions"]) == 2
    sweep(server, 91)
    assert [session["id"] for session in auditor.get("/v1/sessions")["sessions"]] == ["open"]
    agent.session("ended")
    assert agent.check("ended", "c2", "login", user="ann")["verdict"]["label"] == 1, "not without its history"


def test_an_abandoned_session_is_ended_only_if_the_settings_say_so(server: LocalServer) -> None:
    agent, auditor = server.client(), server.client("shop.auditor")
    session = agent.session()
    agent.run(session, "c1", "login", user="ann")
    agent.run(session, "c2", "refund", order="a", amount=1)
    sweep(server, 1000)
    assert auditor.get(f"/v1/sessions/{session}")["status"] == "open"
    sweep(server, 8, RetentionSettings(abandoned_days=7))
    shown_session = auditor.get(f"/v1/sessions/{session}")
    assert shown_session["status"] == "ended"
    assert [violation["policy"] for violation in shown_session["verdict"]["violations"]] == ["receipt"]


def test_only_decided_approvals_are_deleted(server: LocalServer) -> None:
    agent, approver = server.client(), server.client("shop.approver")
    session = agent.session()
    agent.run(session, "c1", "login", user="ann")
    name = agent.check(session, "c2", "refund", order="a", amount=900)["approval"]["id"]
    sweep(server, 0.01, RetentionSettings(approval_days=0.001))
    assert approver.get(f"/v1/approvals/{name}")["status"] == "pending"
    sweep(server, 91)
    approver.get(f"/v1/approvals/{name}", 404)


def test_the_settings_are_read(tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text("version: 1\npolicies: []\n")
    path = tmp_path / "server.yaml"
    path.write_text("policies: {default: {files: policies.yaml}}\nretention: {answer_hours: 2, abandoned_days: 30}\n")
    assert read_server_settings(path).retention == RetentionSettings(answer_hours=2, abandoned_days=30)
    for wrong, problem in (("session_days: 0", "a number of days above 0"), ("sesion_days: 3", "session_days")):
        path.write_text(f"policies: {{default: {{files: policies.yaml}}}}\nretention: {{{wrong}}}\n")
        with pytest.raises(InputError, match=problem):
            read_server_settings(path)


@pytest.mark.parametrize(("zone", "warnings"), [(None, 1), ("Europe/Berlin", 0)])
def test_a_policy_that_needs_a_zone_is_named_at_the_start(
    zone: str | None, warnings: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = "version: 1\npolicies: [{id: late, temporal: 'forall(refund(), hour(now) < 20)'}]\n"
    settings = local_settings(tmp_path, rules)
    [(name, policy)] = settings.policies.items()
    with local_server(tmp_path, settings=replace(settings, policies={name: replace(policy, zone=zone)})):
        assert caplog.text.count("'late': reads a local time") == warnings
        assert caplog.text.count("or set its 'zone' in the settings") == warnings
