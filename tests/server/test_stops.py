"""After the answer to a stop, no server allows a call that it covers."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.server.servers import LocalServer, ServerClient, local_server, local_settings, server_processes, shared_state
from tests.server.servers import tokens_of as tokens_in
from tests.stores import SHARED

WHY = {"reason": "wrong refunds"}


@pytest.fixture
def shop(tmp_path: Path) -> Any:
    rule = '{id: small, temporal: "forall(refund(amount=a), a <= 100)", on_violation: escalate}'
    policies = f"version: 1\ntags: {{money: [refund]}}\npolicies:\n- {rule}\n"
    with local_server(tmp_path, "shop", "bank", settings=local_settings(tmp_path, policies)) as server:
        yield server


def test_a_stop_covers_what_it_names_until_it_is_lifted(shop: LocalServer) -> None:
    agent, operator, admin = (shop.client(f"shop.{role}") for role in ("agent", "operator", "admin"))
    other = shop.client("shop.other")
    mine, second, theirs = agent.session("a"), agent.session("b"), other.session("c")

    def allowed(**call: Any) -> list[bool]:
        who = ((agent, mine), (agent, second), (other, theirs))
        answers = [client.check(session, f"{time.time_ns()}", "refund", amount=1, **call) for client, session in who]
        return [answer["in_flight"] for answer in answers]

    for named, expected in (
        ({"session": "a"}, [False, True, True]),
        ({"agent": "agent-1"}, [False, False, True]),
        ({"tool": "refund"}, [False, False, False]),
        ({"tool": "@money"}, [False, False, False]),
        ({"tool": "login"}, [True, True, True]),
        ({}, [False, False, False]),
        ({"tenant": "shop", "agent": "other-1", "session": "a"}, [True, True, True]),
    ):
        stop = operator.post("/v1/stops", WHY | named, 201)
        assert allowed() == expected, named
        assert [each["id"] for each in admin.get("/v1/stops")["stops"]] == [stop["id"]]
        assert operator.request("DELETE", f"/v1/stops/{stop['id']}").status_code == 403
        assert admin.request("DELETE", f"/v1/stops/{stop['id']}").status_code == 200
        assert allowed() == [True, True, True]
    assert admin.request("DELETE", f"/v1/stops/{stop['id']}").status_code == 404
    kinds = [entry["kind"] for entry in shop.client("shop.auditor").get("/v1/log?limit=500")["entries"]]
    assert kinds.count("stop") == kinds.count("stop_lifted") == 7


def test_a_stop_of_what_nobody_has_says_so_and_holds(shop: LocalServer) -> None:
    agent, operator = shop.client(), shop.client("shop.operator")
    agent.session("a")
    for named, problem in (
        ({"tool": "refnud"}, "has the tool 'refnud'; did you mean 'refund'?"),
        ({"tool": "@monye"}, "has the tool '@monye'; did you mean '@money'?"),
        ({"session": "b"}, "no open session has the id 'b'"),
        ({"tool": "refund"}, None),
        ({"tool": "@money", "session": "a"}, None),
        ({}, None),
    ):
        unknown = operator.post("/v1/stops", WHY | named, 201)["unknown"]
        assert [problem in text for text in unknown] == [True] if problem else not unknown
    assert not agent.check(agent.session("b"), "1", "login")["in_flight"]  # it begins after its stop


def test_the_denial_says_who_stopped_it_and_why(shop: LocalServer) -> None:
    agent = shop.client()
    session = agent.session()
    shop.client("shop.operator").post("/v1/stops", WHY | {"tool": "refund"}, 201)
    denied = agent.check(session, "1", "refund", amount=1)["verdict"]
    assert denied["decision"] == "deny"
    assert "stopped by operator-1 (tenant shop, tool refund): wrong refunds" in denied["reasons"][0]
    shop.client("shop.operator").post("/v1/stops", WHY, 201)
    assert agent.check(session, "2", "login")["verdict"]["decision"] == "halt"
    preview = agent.post(
        f"/v1/sessions/{session}/check", {"call": {"id": "3", "tool": "login", "args": {}}, "reserve": False}
    )
    assert preview["verdict"]["decision"] == "halt"


def test_other_tenants_go_on_and_may_not_be_stopped(shop: LocalServer) -> None:
    bank = shop.client("bank.agent")
    session = bank.session()
    shop.client("shop.operator").post("/v1/stops", WHY, 201)
    assert bank.check(session, "1", "login")["in_flight"]
    shop.client("shop.operator").post("/v1/stops", WHY | {"tenant": "bank"}, 404)
    assert shop.client("bank.admin").get("/v1/stops") == {"stops": []}
    for role in ("agent", "approver", "auditor"):
        assert shop.client(f"shop.{role}").request("POST", "/v1/stops", WHY).status_code == 403
    lasting: list[Any] = ["soon", -1, True, []]
    bodies = [{}, {"reason": " "}, WHY | {"tool": ""}, WHY | {"of": 1}, *(WHY | {"for": value} for value in lasting)]
    for body in bodies:
        shop.client("shop.operator").post("/v1/stops", body, 422)


def test_calls_in_flight_are_listed_and_requests_are_void(shop: LocalServer) -> None:
    agent, approver = shop.client(), shop.client("shop.approver")
    session = agent.session()
    agent.run(session, "over", "login")
    assert agent.check(session, "runs", "login", user="ann")["in_flight"]
    waiting = agent.check(session, "asks", "refund", amount=500)["approval"]
    stop = shop.client("shop.operator").post("/v1/stops", WHY | {"tool": "login"}, 201)
    assert [call["id"] for call in stop["in_flight"]] == ["runs"]
    assert (stop["complete"], stop["void"]) == (True, 0)
    stop = shop.client("shop.operator").post("/v1/stops", WHY, 201)
    assert stop["void"] == 1
    answer = {"choice": "approve", "version": waiting["version"] + 1}
    assert approver.request("POST", f"/v1/approvals/{waiting['id']}/answer", answer).status_code == 409
    agent.record(session, "runs")  # what runs may end


def test_a_stop_ends_at_its_time(shop: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = shop.client()
    session = agent.session()
    shop.client("shop.operator").post("/v1/stops", WHY | {"for": 60}, 201)
    assert not agent.check(session, "1", "login")["in_flight"]
    monkeypatch.setattr(shop.service.stops, "_clock", lambda: time.time() + 61)
    assert agent.check(session, "2", "login")["in_flight"]


class AgentRun:
    """Agents that make a call after the other until they are stopped."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.allowed: dict[str, float] = {}  # the id of a call -> when it was sent
        self.done: set[str] = set()

    def calls(self, client: ServerClient, session: str) -> None:
        for number in range(10_000):
            name, began = f"{session}-{number}", time.monotonic()
            if not client.check(session, name, "login")["in_flight"]:
                assert self.stopped.wait(10)
                return
            self.allowed[name] = began
            client.record(session, name)
            self.done.add(name)


def test_a_reload_can_stop_the_sessions_of_earlier_versions(shop: LocalServer, tmp_path: Path) -> None:
    agent, admin = shop.client(), shop.client("shop.admin")
    agent.session("before")
    agent.run("before", "1", "login")
    policies = tmp_path / "policies.yaml"
    for running in ("keep", "deny"):
        policies.write_text(policies.read_text().replace("a <= 1", "a <= 11"))
        reloaded = admin.post("/v1/policies/default/reload", {"running": running})
        assert reloaded["changed"]
        assert agent.check("before", running, "login")["in_flight"] is (running == "keep")
        agent.session(f"after-{running}")
        assert agent.check(f"after-{running}", "1", "login")["in_flight"]
    assert {call["id"] for call in reloaded["stop"]["in_flight"]} == {"keep", "1"}
    assert admin.request("DELETE", f"/v1/stops/{reloaded['stop']['id']}").status_code == 200
    assert agent.check("before", "2", "login")["in_flight"]
    admin.post("/v1/policies/default/reload", {"running": "stop"}, 422)


def test_a_later_version_is_not_under_a_stop_of_earlier_ones(
    shop: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, admin = shop.client(), shop.client("shop.admin")
    agent.session("before")
    policies = tmp_path / "policies.yaml"
    text = policies.read_text()
    policies.write_text(text.replace("a <= 1", "a <= 11"))
    admin.post("/v1/policies/default/reload", {"running": "deny"})
    now = time.time() + 100
    monkeypatch.setattr(time, "time", lambda: now)
    policies.write_text(text)  # back again
    admin.post("/v1/policies/default/reload", {})
    agent.session("after")
    assert agent.check("after", "1", "login")["in_flight"]
    assert not agent.check("before", "1", "login")["in_flight"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHARED)
def test_no_server_allows_a_call_after_the_answer_to_a_stop(kind: str, tmp_path: Path) -> None:
    """Three servers whose agents never rest. What was allowed before the stop is done, or in its list."""
    (tmp_path / "policies.yaml").write_text('version: 1\npolicies:\n- {id: any, temporal: "forall(login(), true)"}\n')
    tokens, rounds = tokens_in(tmp_path), 6
    with shared_state(kind, tmp_path) as state, server_processes(tmp_path, state, 3) as servers:
        for at in range(rounds):
            run = AgentRun()
            clients = [server.client(tokens["shop.agent"]) for server in servers for _ in range(2)]
            sessions = [client.session(f"r{at}-{number}") for number, client in enumerate(clients)]
            with ThreadPoolExecutor(len(clients)) as threads:
                runs = [threads.submit(run.calls, *pair) for pair in zip(clients, sessions, strict=True)]
                time.sleep(0.3)
                stop = servers[at % 3].client(tokens["shop.operator"]).post("/v1/stops", WHY, 201)
                answered = time.monotonic()
                for client, session in zip(clients, sessions, strict=True):
                    assert not client.check(session, f"{session}-late", "login")["in_flight"]
                run.stopped.set()
                for ended in runs:
                    ended.result(30)
            assert run.done
            assert all(began < answered for began in run.allowed.values())
            listed = {call["id"] for call in stop["in_flight"]}
            assert run.allowed.keys() - run.done <= listed
            assert (
                servers[0].client(tokens["shop.admin"]).request("DELETE", f"/v1/stops/{stop['id']}").status_code == 200
            )


def test_a_rule_stops_a_tool_for_its_tenant(tmp_path: Path) -> None:
    """Any session of the tenant, in the log, until an admin lifts it."""
    rule = '{id: small, temporal: "forall(refund(amount=a), a <= 100)", on_violation: halt_tool}'
    with local_server(
        tmp_path, "shop", "bank", settings=local_settings(tmp_path, f"version: 1\npolicies: [{rule}]\n")
    ) as server:
        agent, admin = server.client(), server.client("shop.admin")
        first, second, bank = agent.session("a"), agent.session("b"), server.client("bank.agent").session("c")
        denied = agent.check(first, "1", "refund", amount=900)
        [stop] = admin.get("/v1/stops")["stops"]
        assert denied["verdict"]["details"]["stop"] == stop["id"]
        assert (stop["tool"], stop["tenant"], stop["by"]) == ("refund", "shop", "the guard")
        assert not agent.check(second, "2", "refund", amount=1)["in_flight"]
        assert agent.check(second, "3", "login")["in_flight"]
        assert server.client("bank.agent").check(bank, "4", "refund", amount=1)["in_flight"]
        kinds = [entry["kind"] for entry in server.client("shop.auditor").get("/v1/log?limit=500")["entries"]]
        assert kinds.count("stop") == 1
        assert admin.request("DELETE", f"/v1/stops/{stop['id']}").status_code == 200
        assert agent.check(second, "5", "refund", amount=1)["in_flight"]
