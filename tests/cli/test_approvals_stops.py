"""Stops from the command line, on a real server and by a file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from guardagent.enforcement import ToolGuard
from tests.conftest import Cli
from tests.enforcement.guards import LIMIT, guard, ran, refund
from tests.server.servers import POLICIES, server_processes, tokens_of


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolGuard:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GUARDAGENT_SERVER", raising=False)
    return guard(LIMIT, stop_file="stops.json")


def test_a_file_stops_the_guards_that_watch_it(guarded: ToolGuard, cli: Cli) -> None:
    ran(guarded, refund())
    stopped = cli(
        "stop", "--file", "stops.json", "--reason", "wrong refunds", "--tool", "refund", "--for", "2h", "--json"
    )
    assert guarded.before(refund()).reasons[0].endswith("wrong refunds; it ends by itself later")
    name = json.loads(stopped.out)["id"]
    listed = cli("stops", "list", "--file", "stops.json").out
    assert name in listed
    assert re.search(r"(2 hours|1 hour 59 minutes) left", listed)
    assert 'tool "refund" is stopped: "wrong refunds"' in listed
    assert cli("stops", "lift", name, "--file", "stops.json").status == 0
    ran(guarded, refund())
    assert "nothing is stopped" in cli("stops", "list", "--file", "stops.json").err


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["stop", "--reason", "x"], "say where"),
        (["stop", "--reason", "x", "--file", "other.json"], "No such file"),  # no guard watches it
        (["stop", "--reason", " ", "--file", "stops.json"], "the reason"),
        (["stop", "--reason", "x", "--for", "soon", "--file", "stops.json"], "a duration such as 30m"),
        (["stop", "--reason", "x", "--tenant", "shop", "--file", "stops.json"], "has no tenants"),
        (["stop", "--reason", "x", "--file", "stops.json", "--server", "http://localhost"], "two places"),
        (["stops", "lift", "st_1", "--file", "stops.json"], "there is no stop 'st_1'"),
    ],
)
def test_mistakes_stop_nothing_and_say_so(guarded: ToolGuard, cli: Cli, command: list[str], problem: str) -> None:
    result = cli(*command)
    assert result.status == 2
    assert problem in result.err
    ran(guarded, refund())


@pytest.mark.slow
def test_a_server_is_stopped(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policies.yaml").write_text(POLICIES)
    tokens = tokens_of(tmp_path)
    with server_processes(tmp_path, f"sqlite:{tmp_path / 'state'}", 1) as (server,):
        agent = server.client(tokens["shop.agent"])
        session = agent.session()
        assert agent.check(session, "runs", "login")["in_flight"]
        monkeypatch.setenv("GUARDAGENT_TOKEN", tokens["shop.operator"])
        stopped = cli("stop", "--server", server.url, "--reason", "wrong refunds", "--agent", "agent-1")
        assert 'still in flight: "login" "runs" of session s1' in stopped.out
        assert not agent.check(session, "2", "login")["in_flight"]
        name = json.loads(cli("stops", "list", "--server", server.url, "--json").out)["id"]
        refused = cli("stops", "lift", name, "--server", server.url)
        assert refused.status != 0
        assert "expected the role 'admin'" in refused.err
        monkeypatch.setenv("GUARDAGENT_TOKEN", tokens["shop.admin"])
        assert cli("stops", "lift", name, "--server", server.url).status == 0
        assert agent.check(session, "3", "login")["in_flight"]


def test_a_reload_takes_hold_of_running_sessions(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policies.yaml").write_text(POLICIES)
    tokens = tokens_of(tmp_path)
    with server_processes(tmp_path, f"sqlite:{tmp_path / 'state'}", 1) as (server,):
        agent = server.client(tokens["shop.agent"])
        session = agent.session()
        assert agent.check(session, "runs", "login")["in_flight"]
        (tmp_path / "policies.yaml").write_text(POLICIES + '  - {id: none, temporal: "forall(receipt(), false)"}\n')
        monkeypatch.setenv("GUARDAGENT_TOKEN", tokens["shop.admin"])
        reloaded = cli("reload", "--running", "apply", "--server", server.url)
        assert "now version" in reloaded.out
        assert 'still in flight: "login" "runs"' in reloaded.out
        assert not agent.check(session, "2", "receipt")["in_flight"]
        assert agent.check(session, "3", "login")["in_flight"]
        monkeypatch.setenv("GUARDAGENT_TOKEN", tokens["shop.operator"])
        assert cli("reload", "--server", server.url).status == 1
