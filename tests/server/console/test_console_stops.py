"""Stops in the console, without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.console.test_application import Visitor
from tests.server.servers import local_server

HOSTILE = "<b>wrong</b>"


def test_an_operator_stops_a_session_and_an_admin_lifts_the_stop(tmp_path: Path) -> None:
    with local_server(tmp_path) as server:
        agent, operator = server.client(), Visitor(server).sign_in("shop.operator")
        session = agent.session()
        assert agent.check(session, "runs", "login")["in_flight"]
        assert "/stops?session=s1" in operator.get("/sessions/s1").text
        assert 'name="session" value="s1"' in operator.get("/stops?session=s1").text
        form = {"csrf": operator.csrf(), "reason": HOSTILE, "session": "s1", "agent": "", "tool": "", "for": ""}
        page = operator.post("/stops", form, 201).text
        assert "may still run" in page
        assert "<b>wrong" not in page
        assert not agent.check(session, "2", "login")["in_flight"]
        operator.post("/stops", {**form, "for": "soon"}, 422)
        [stop] = server.client("shop.operator").get("/v1/stops")["stops"]
        operator.post(f"/stops/{stop['id']}", {"csrf": operator.csrf()}, 403)
        assert ">Lift<" not in operator.get("/stops").text
        admin = Visitor(server).sign_in("shop.admin")
        assert ">Lift<" in admin.get("/stops").text
        admin.post(f"/stops/{stop['id']}", {"csrf": admin.csrf()})
        assert agent.check(session, "3", "login")["in_flight"]


@pytest.mark.parametrize(
    ("running", "what"), [("apply", "goes on under this version, or else is stopped"), ("deny", "is stopped")]
)
def test_a_stop_of_a_reload_is_of_one_policy_and_its_other_versions(running: str, what: str, tmp_path: Path) -> None:
    with local_server(tmp_path) as server:
        admin = server.client("shop.admin")
        version = admin.post("/v1/policies/default/reload", {"running": running})["version"]
        page = Visitor(server).sign_in("shop.operator").get("/stops").text
        assert f'<span class="soft">version</span> {version[:19]}' in page
        assert '<span class="soft">policy</span> default' in page
        assert f"began under another version {what}." in page
