"""The reviewer's terminal, against a real server."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.server.servers import POLICIES, ServerClient, ServerProcess, server_processes, tokens_of

LED = """\
version: 1
views: {refund: "Refund {args.amount}"}
policies:
  - id: large
    temporal: forall(refund(amount=a), a <= 100)
    on_violation: escalate
    approvals: {scope: {tool: refund, same: [order], up_to: {amount: 1000}, calls: 3, for: 1h}}
    escalate_to: [{deadline: 10m}, {roles: [director, ceo], deadline: 1h}]
"""
HOSTILE = "o1\x1b[2K\r\nrefund(amount=1)\u202e\u200b\x07"


class Desk:
    """A server, an agent, and the reviewers' tokens."""

    def __init__(self, server: ServerProcess, tokens: dict[str, str]) -> None:
        self.server, self.tokens = server, tokens
        self.agent: ServerClient = server.client(tokens["shop.agent"])
        self._count = 0

    def wants(self, policy: str = "default", **args: Any) -> str:
        """An agent proposes a call that needs an approval. Returns its id."""
        self._count += 1
        session = self.agent.session(f"s{self._count}", policy=policy)
        self.agent.run(session, "c1", "login", user="ann")
        call = {"order": f"o{self._count}", "amount": 900, **args}
        approval: str = self.agent.check(session, "c2", "refund", **call)["approval"]["id"]
        return approval

    def status(self, approval: str) -> Any:
        return self.server.client(self.tokens["shop.approver"]).get(f"/v1/approvals/{approval}")["status"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    (folder / "policies.yaml").write_text(POLICIES)
    (folder / "led.yaml").write_text(LED)
    two = "two: {files: policies.yaml, approvals: {quorum: 2, seconds: 60}}"
    settings = f"policies: {{default: policies.yaml, led: led.yaml, {two}}}\n"
    (folder / "server.yaml").write_text(settings)
    tokens = tokens_of(folder)
    options = ("--settings", str(folder / "server.yaml"))
    with server_processes(folder, f"sqlite:{folder / 'state'}", 1, *options) as (server,):
        yield Desk(server, tokens)


@pytest.fixture
def desk(running: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("GUARDAGENT_SERVER", running.server.url)
    monkeypatch.setenv("GUARDAGENT_TOKEN", running.tokens["shop.approver"])
    return running


def test_the_most_urgent_is_first(desk: Desk, cli: Cli) -> None:
    late, urgent = desk.wants(note="x" * 500), desk.wants("two")
    result = cli("approvals", "list")
    assert result.status == 0
    rows = result.out.splitlines()
    assert [row.split()[0] for row in rows if not row.startswith(" ")][:1] == [urgent[:12]]
    at = next(at for at, row in enumerate(rows) if row.startswith(late[:12]))
    assert re.fullmatch(rf"{late[:12]}  refund\(amount=900, …\)  59 minutes left", rows[at])
    assert rows[at + 1] == "    at most 100"
    lines = [json.loads(line) for line in cli("approvals", "list", "--json").out.splitlines()]
    assert lines[0]["id"] == urgent
    assert next(line for line in lines if line["id"] == late)["read"] == ["amount"]


def test_all_of_a_request(desk: Desk, cli: Cli) -> None:
    name = desk.wants("two", order=HOSTILE, note="long " * 40)
    card = cli("approvals", "show", name[:20]).out
    assert not set(card) & set("\x1b\r\x07\u202e\u200b")
    assert max(map(len, card.splitlines())) <= 60 + 8
    text = card.replace("\n    ... ", "")
    for part in (
        "Approve refund in conversation s",
        r'order = "o1\u001b[2K\r\nrefund(amount=1)\u202e\u200b\u0007"',
        'Why you are asked: "at most 100"',
        'rules: "small_refunds"',
        'requested by: "agent-1"',
        "quorum: 2",
        "four eyes: true",
        'if approved now, decision: "allow"',
        'if approved now, obligations: {"receipt": "',
        'evidence: {"id": "c1", "tool": "login", "args": {"user": "ann"}',
        '"output": "done"',
        'deadline: "in 59 seconds, 20',
    ):
        assert part in text, part
    shown = json.loads(cli("approvals", "show", name, "--json").out)
    assert shown["call"]["args"]["order"] == HOSTILE
    assert shown["expected"]["decision"] == "allow"


def test_groups_views_and_grants_are_in_words(desk: Desk, cli: Cli) -> None:
    name = desk.wants("led")
    waits = r"waits for any approver until .* UTC; then for director or ceo; 0 of 1 agree"
    assert re.search(rf"\n    {waits}", cli("approvals", "list").out)
    card = cli("approvals", "show", name).out.replace("\n    ... ", "")
    assert re.search(rf"(?m)^{waits}$", card)
    assert "The policy shows it as:\n  | Refund 900\n" in card
    assert "you may grant more with --grant: " in card
    assert "at most 3 calls within 1 hour" in card
    wide = cli("approvals", "answer", name, "approve", "--grant", '{"calls": 4}')
    assert (wide.status, "'calls' of 'grant' is 4" in wide.err) == (2, True)
    granted = cli("approvals", "answer", name, "approve", "--grant", '{"calls": 2}', "--json")
    assert json.loads(granted.out)["steps"][0]["grant"]["large"]["calls"] == 2


def test_answers_count_once(desk: Desk, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    approved, rejected, edited = (desk.wants() for _ in range(3))
    result = cli("approvals", "answer", approved[:14], "approve")
    assert (result.status, result.out[:27]) == (0, f"approved by approver-1  {approved[:3]}")
    late = cli("approvals", "answer", approved, "reject", "--reason", "no")
    assert late.status == 1
    assert "this approval is approved; decided by approver-1" in late.err
    assert cli("approvals", "answer", rejected, "reject", "--reason", "ask first").status == 0
    (tmp_path / "args.json").write_text('{"order": "x", "amount": 60}')
    result = cli("approvals", "answer", edited, "edit", "--args", tmp_path / "args.json", "--json")
    assert json.loads(result.out)["args"] == {"order": "x", "amount": 60}
    assert [desk.status(name) for name in (approved, rejected, edited)] == ["approved", "rejected", "edited"]


def test_what_is_not_taken(desk: Desk, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    name = desk.wants()
    changed = cli("approvals", "answer", name, "approve", "--seen", 7)
    assert changed.status == 1
    assert "has version 1 by now" in changed.err
    monkeypatch.setenv("GUARDAGENT_TOKEN", desk.tokens["shop.auditor"])
    forbidden = cli("approvals", "answer", name, "approve", "--json")
    assert forbidden.status == 1
    assert json.loads(forbidden.err)["error"]["kind"] == "not_taken"
    monkeypatch.setenv("GUARDAGENT_TOKEN", desk.tokens["shop.agent"])
    assert cli("approvals", "list").status == 1
    assert desk.status(name) == "pending"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["approvals", "show", "a_" + "0" * 40], "there is no approval"),
        (["approvals", "show", "a_"], "the id is 'a_'"),
        (["approvals", "show", ""], "the id is ''"),
        (["approvals", "show", "../sessions"], "the id is '../sessions'"),
        (["approvals", "answer", "a_0", "aprove"], "did you mean 'approve'"),
        (["approvals", "answer", "a_0", "reject"], "'--reason' is missing"),
        (["approvals", "answer", "a_0", "edit"], "'edit' and '--args' belong together"),
        (["approvals", "answer", "a_0", "approve", "--args", "{}"], "belong together"),
        (["approvals", "answer", "a_0", "edit", "--args", '{"a": 1, "a": 2}'], "--args"),
        (["approvals", "answer", "a_0", "edit", "--args", "no-such-file"], "no-such-file"),
        (["approvals", "answer", "a_0", "reject", "--grant", "{}"], "'--grant' is for 'approve'"),
        (["approvals", "list", "--server", "http://guard.example"], "expected https"),
        (["approvals", "list", "--server", "guard"], "the server's address is invalid"),
        (["approvals", "list", "--token-file", "no-such-file"], "cannot be read: No such file"),
    ],
)
def test_wrong_input(desk: Desk, cli: Cli, arguments: list[str], message: str) -> None:
    result = cli(*arguments)
    assert (result.status, message in result.err) == (2, True), result.err
    assert "Traceback" not in result.err


def test_a_prefix_of_several(desk: Desk, cli: Cli) -> None:
    names = [desk.wants() for _ in range(20)]
    prefix = next(name[:3] for name in names if sum(other.startswith(name[:3]) for other in names) > 1)
    result = cli("approvals", "show", prefix)
    assert result.status == 2
    assert f"ids begin with '{prefix}'" in result.err


def test_who_is_not_known_and_a_server_that_is_not_there(
    desk: Desk, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cli("approvals", "list", "--server", "http://127.0.0.1:9").status == 3
    (tmp_path / "token").write_text("ga_0123456789ab_" + "0" * 64)
    unknown = cli("approvals", "list", "--token-file", tmp_path / "token")
    assert (unknown.status, "token is not valid" in unknown.err) == (2, True)
    monkeypatch.delenv("GUARDAGENT_TOKEN")
    assert "GUARDAGENT_TOKEN" in cli("approvals", "list").err
    monkeypatch.delenv("GUARDAGENT_SERVER")
    assert cli("approvals", "list").status == 2


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "guardagent.cli.main", "approvals", *arguments]


def _in_terminal(reply: str, *arguments: str) -> tuple[int, str]:
    """Runs the command in a terminal, where somebody replies to its question."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(_command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.write(ours, reply.encode())
        text = b""
        with contextlib.suppress(OSError):  # the end
            while part := os.read(ours, 4096):
                text += part
        os.close(ours)
        return process.wait(20), text.decode()


@pytest.mark.slow
def test_a_terminal_asks_before_it_approves(desk: Desk) -> None:
    name = desk.wants()
    status, text = _in_terminal("n\n", "answer", name, "approve")
    assert "Approve refund in conversation" in text
    assert "if approved now" in text
    assert (status, desk.status(name)) == (1, "pending")
    status, text = _in_terminal("y\n", "answer", name, "edit", "--args", '{"order": "z", "amount": 5}')
    assert 'order = "z"' in text
    assert "if approved now" not in text, "that is foreseen for the call without the edit"
    assert (status, desk.status(name)) == (0, "edited")


@contextlib.contextmanager
def _following(*arguments: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(_command("follow", *arguments), env={**os.environ, **env}, **pipes) as process:
        ending = threading.Timer(30, process.kill)
        ending.start()
        try:
            yield process
        finally:
            ending.cancel()
            process.kill()


@pytest.mark.slow
def test_follow_shows_requests_and_answers(desk: Desk, cli: Cli) -> None:
    name = desk.wants()
    with _following("--json") as process:
        events = (json.loads(line) for line in process.stdout or ())
        assert any(event["id"] == name for event in events), "one that waits already"
        new = desk.wants()
        assert next(event for event in events if event["id"] == new)["event"] == "requested"
        assert cli("approvals", "answer", new, "approve").status == 0
        answered = next(event for event in events if event["event"] == "answered")
        assert (answered["id"], answered["status"]) == (new, "approved")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


@pytest.mark.slow
def test_follow_goes_on_when_the_server_is_back(tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text(POLICIES)
    tokens, state = tokens_of(tmp_path), f"sqlite:{tmp_path / 'state'}"
    with server_processes(tmp_path, state, 1) as (server,):
        command = server.process.args
        desk = Desk(server, tokens)
        with _following(GUARDAGENT_TOKEN=tokens["shop.approver"], GUARDAGENT_SERVER=server.url) as process:
            assert process.stdout
            assert process.stderr
            name = desk.wants()
            assert process.stdout.readline().startswith(f"? {name[:12]}  refund(amount=900, …)")
            server.process.kill()
            assert "cannot be reached" in process.stderr.readline()
            server.process.wait()
            env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            server.process = subprocess.Popen(command, env=env, cwd=tmp_path, stderr=subprocess.DEVNULL)
            server.wait()
            other = desk.wants()
            lines = iter(process.stdout)
            assert any(line.startswith(f"? {other[:12]}") for line in lines)
