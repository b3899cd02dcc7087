"""Candidates judge beside the live policy, and on its log, without effect."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.server.servers import POLICIES, LocalServer, local_server, local_settings
from tests.stores import store_address

STRICT = "version: 1\npolicies:\n  - id: none\n    temporal: forall(login(), false)\n"


def test_a_candidate_judges_new_sessions_without_effect(server: LocalServer) -> None:
    client, admin, auditor = (server.client(f"shop.{role}") for role in ("agent", "admin", "auditor"))
    client.session("before")
    admin.post("/v1/policies/default/shadow", {"text": STRICT})
    client.session("after")
    for name in ("before", "after"):
        client.run(name, "c1", "login")
    for _ in range(100):  # the candidate judges in a thread of its own
        entries = auditor.get("/v1/log?kind=shadow")["entries"]
        if entries:
            break
        time.sleep(0.05)
    assert [(entry["conversation"], entry["rules"]) for entry in entries] == [("shop/after", ["none"])]
    assert admin.post("/v1/policies/default/shadow", {})["candidate"] == ""


def test_a_candidate_is_replayed_on_the_log(server: LocalServer) -> None:
    client, admin = server.client(), server.client("shop.admin")
    client.session()
    client.run("s1", "c1", "login")
    report = admin.post("/v1/policies/default/replay", {"text": STRICT})
    assert report["conversations"] == 1
    assert {row["rule"] for row in report["rules"] if row["changes"]} == {"none"}
    assert [(call["tool"], call["before"], call["after"]) for call in report["changed"]] == [("login", "allow", "deny")]


@pytest.mark.slow
def test_a_candidate_is_replayed_on_a_log_in_a_database(tmp_path: Path) -> None:
    with (
        store_address("postgresql", tmp_path) as log,
        local_server(tmp_path, settings=local_settings(tmp_path, log=log)) as server,
    ):
        test_a_candidate_is_replayed_on_the_log(server)


def test_a_replay_is_of_the_last_days_and_of_the_live_policy(server: LocalServer) -> None:
    client = server.client()
    client.session()
    client.run("s1", "c1", "login")
    service, log = server.service, server.service.stores.log_address("shop")
    assert service.replay_policy("shop", "default", {"text": STRICT}, 1)["conversations"] == 1
    assert service.replay_policy("shop", "default", {"text": STRICT}, -1)["conversations"] == 0, "since tomorrow"
    assert service.candidates.replay("default", STRICT, log, {"another version"})["conversations"] == 0


@pytest.mark.parametrize("route", ["shadow", "replay"])
@pytest.mark.parametrize("key", ["toolbox: [{path}]", "include: [{path}]"])
def test_a_candidate_brings_no_code(key: str, route: str, server: LocalServer, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "code.py").write_text(f"open({str(ran)!r}, 'w')\n")
    (tmp_path / "more.yaml").write_text(f"version: 1\ntoolbox: [{tmp_path / 'code.py'}]\n{POLICIES.partition('1')[2]}")
    path = tmp_path / ("code.py" if "toolbox" in key else "more.yaml")
    text = STRICT.replace("version: 1", f"version: 1\n{key.format(path=path)}")
    server.client("shop.admin").post(f"/v1/policies/default/{route}", {"text": text}, 422)
    assert not ran.exists()
