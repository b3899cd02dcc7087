"""A server deletes what it no longer needs, and nothing else."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from guardagent.errors import InputError
from guardagent.server.service.guard_service import Retention
from guardagent.server.settings import RetentionSettings, read_server_settings
from tests.server.servers import LocalServer

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
