"""Files that commit 86e35cbd wrote are read, and what they record still counts.

In `stored/`, `state/` and `tokens.db` are those of a server, `guard.*`, `ledger.db` and `counters.db` those of a guard,
`snapshot` is that of a session, and `results.jsonl` are the results of an audit of `traces.jsonl`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent import load_policies
from guardagent.enforcement import HostCall
from guardagent.enforcement.tool_guard import ToolGuard
from guardagent.log import AuditLog
from guardagent.server.access import Caller, CallerRole, TokenStore
from guardagent.types import Decision
from tests.conftest import CommandResult
from tests.server.servers import LocalServer, local_settings

LIMIT = "more than 100 for an order"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A copy of the files."""
    return Path(shutil.copytree(Path(__file__).parent / "stored", tmp_path / "stored"))


def test_a_server_continues_its_sessions(stored: Path, cli: Callable[..., CommandResult]) -> None:
    """The history, the counters and the log."""
    token = TokenStore(stored / "tokens.db").create(Caller("agent-1", frozenset({CallerRole.AGENT}), "shop"), 60.0)[1]
    settings = local_settings(stored, (stored / "policies.yaml").read_text())
    server = LocalServer(stored, {"shop.agent": token}, settings)
    try:
        agent = server.client()
        denied = agent.check("s1", "c4", "refund", order="W1", amount=70)["verdict"]
        assert (denied["decision"], denied["reasons"][0]) == ("deny", LIMIT)
        assert agent.check("s1", "c5", "refund", order="W3", amount=40)["verdict"]["decision"] == "allow"
        assert agent.check("s1", "c3", "refund", order="W2", amount=90)["verdict"]["decision"] == "escalate"
    finally:
        server.service.close()
    shown = cli("log", "show", stored / "state/log/shop.db").out
    assert [shown.count(f"verdict  {decision}") for decision in ("allow", "deny", "escalate")] == [3, 1, 2]


def test_a_guard_continues_its_conversations(stored: Path, cli: Callable[..., CommandResult]) -> None:
    """Its ledger has the login and the counters the refund; its log goes on, and is whole."""
    path, head = stored / "guard.jsonl", stored / "guard.head"
    with AuditLog(path, head=head) as log:
        guard = ToolGuard(
            load_policies(stored / "policies.yaml"),
            ledger=f"sqlite:{stored / 'ledger.db'}",
            counters=f"sqlite:{stored / 'counters.db'}",
            log=log,
        )
        again = guard.before(HostCall("refund", {"order": "W1", "amount": 90}, "talk", id="4"))
        assert again.reasons[0] == LIMIT
        assert again.to_dict()["violations"][0] == json.loads((stored / "verdict.json").read_text())["violations"][0]
        allowed = guard.before(HostCall("refund", {"order": "W2", "amount": 40}, "talk", id="5"))
        assert allowed.decision is Decision.ALLOW
    assert cli("log", "verify", path, "--head", head).status == 0


def test_a_session_is_restored(stored: Path) -> None:
    """It knows of the login."""
    policies = load_policies(stored / "policies.yaml")
    session = policies.restore((stored / "snapshot").read_bytes(), b"k" * 32, counters="memory:")
    assert session.check("refund", {"order": "W1", "amount": 40}).decision is Decision.ALLOW
    assert policies.session(counters="memory:").check("refund", {"order": "W1", "amount": 40}).label == 1


def test_an_audit_is_resumed(stored: Path, cli: Callable[..., CommandResult]) -> None:
    """Nothing is left to judge, and the results stay as they are."""
    results = stored / "results.jsonl"
    before = results.read_bytes()
    command = ("audit", stored / "traces.jsonl", "--policies", stored / "audit.yaml")
    assert cli(*command, "--out", results, "--resume").status == 1
    assert results.read_bytes() == before
