"""A candidate judges the calls of a session too, and nothing that it does affects the session."""

from __future__ import annotations

import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from guardagent import load_policies
from guardagent._support.execution import WorkerThread
from guardagent.enforcement import SqliteLedger, ToolGuard
from guardagent.enforcement.calls import HostCall
from guardagent.errors import InputError
from guardagent.log import AuditLog
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.session.shadow import SessionShadow, ShadowDifference, wait_for_shadows
from guardagent.types import Decision, Verdict
from tests.enforcement.guards import MemoryLog, done, ran

LIVE = """\
version: 1
shadow: candidate.yaml
policies:
- {id: login, temporal: "G(tool:pay -> O tool:login)"}
- {id: small, temporal: "forall(pay(n=n), n <= 100)", on_violation: escalate}
"""
CANDIDATE = """\
version: 1
policies:
- {id: login, temporal: "G(tool:pay -> O tool:login)"}
- {id: small, temporal: "forall(pay(n=n), n <= 50)", on_violation: escalate}
- {id: once, temporal: "forall(pay(n=n), count(f:pay(), !failed(f)) < 2)"}
- {id: receipt, temporal: "after(pay(n=n), true, receipt(), true)", on_violation: warn}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "candidate.yaml").write_text(CANDIDATE)
    (tmp_path / "live.yaml").write_text(LIVE)
    return tmp_path / "live.yaml"


def test_differences_are_reported_and_change_nothing(path: Path) -> None:
    """The candidate follows the same calls and outcomes: its third payment is one too many only after two that ran."""
    shadow_differences: list[ShadowDifference] = []
    session = load_policies(path).session(id="s", on_difference=shadow_differences.append)
    decisions = []
    for tool, args, failed in [("pay", 1, False), ("login", 1, False), ("pay", 60, True), *[("pay", 5, False)] * 3]:
        verdict = session.check(tool, {"n": args})
        decisions.append(str(verdict.decision))
        if verdict.label == 0:
            session.record("done", failed=failed)
    session.finish()
    wait_for_shadows()
    assert decisions == ["deny", *["allow"] * 5]
    assert [
        (
            shadow_difference.tool,
            dict(shadow_difference.args),
            shadow_difference.live["decision"],
            shadow_difference.candidate["decision"],
        )
        for shadow_difference in shadow_differences
    ] == [("pay", {"n": 60}, "allow", "escalate"), ("pay", {"n": 5}, "allow", "deny"), ("", {}, "allow", "warn")]
    assert [shadow_difference.candidate["rules"] for shadow_difference in shadow_differences] == [
        ("small",),
        ("once",),
        ("receipt",),
    ]


def test_the_audit_log_gets_the_differences(path: Path, tmp_path: Path) -> None:
    """An approved call is part of the candidate's history, and redaction applies."""
    with AuditLog(tmp_path / "a.jsonl", redact=["args.n"]) as log:
        guard = ToolGuard(path, log=log)
        for at, (tool, n) in enumerate([("login", 0), ("pay", 60), ("pay", 200), ("pay", 7)]):
            call = HostCall(tool, {"n": n}, "c", id=f"call {at}")
            verdict = guard.before(call)
            if verdict.decision == "escalate":
                verdict = guard.resolve(call, {"choice": "approve", "of": call.digest})
            assert verdict.label == 0
            done(guard, call)
        wait_for_shadows()
    entries = [json.loads(line)["entry"] for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    differences = [entry for entry in entries if entry["kind"] == "shadow"]
    assert [
        (difference["call_id"], difference["live"]["decision"], difference["decision"], difference["rules"])
        for difference in differences
    ] == [("call 1", "allow", "escalate", ["small"]), ("call 3", "allow", "deny", ["once"])]
    assert all("redacted" in difference["args"]["n"] for difference in differences)


@pytest.fixture
def toolbox(path: Path) -> Any:
    """Gives the candidate a rule over a toolbox function that crashes, exits, or waits."""
    candidate = CANDIDATE.replace(
        "policies:", "toolbox: [box.py]\npolicies:\n- {id: box, temporal: 'forall(pay(n=n), state(box(n)))'}"
    )
    path.with_name("candidate.yaml").write_text(candidate)

    def write(body: str) -> Path:
        path.with_name("box.py").write_text(f'def box(state, n):\n    """Whether n is good."""\n    {body}\n')
        return path

    return write


@pytest.mark.parametrize("body", ["raise SystemExit(3)", "raise ValueError('x')", "return 1 / 0", "return object()"])
def test_a_candidate_that_crashes_affects_nothing(toolbox: Any, body: str, caplog: pytest.LogCaptureFixture) -> None:
    session = load_policies(toolbox(body)).session(state={})
    session.check("login")
    session.record()
    with caplog.at_level(logging.WARNING, "guardagent"):
        assert session.check("pay", {"n": 5}).label == 0
        session.record("done")
        assert session.check("pay", {"n": 6}).label == 0
        wait_for_shadows()
    assert caplog.records


def test_a_slow_candidate_delays_nothing(toolbox: Any) -> None:
    session = load_policies(toolbox("import time; time.sleep(0.3); return True")).session(state={})
    session.check("login")
    session.record()
    started = time.monotonic()
    for _ in range(5):
        session.check("pay", {"n": 5})
        session.record()
    assert time.monotonic() - started < 0.25
    wait_for_shadows()


def test_a_candidate_that_falls_behind_gives_up(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its queue is bounded. What it has missed would make its later answers wrong, so there are none."""
    policies, blocked = load_policies(path), threading.Event()
    shadow_differences: list[ShadowDifference] = []
    worker = WorkerThread(5)

    def wait() -> None:
        blocked.wait(10)

    worker.submit(wait)
    assert policies.shadow is not None
    candidate = SessionShadow(policies.shadow, "s", {}, shadow_differences.append, worker)
    for place in range(1, 9):
        candidate.check(SessionCall("pay", {"n": 60}, place), Verdict(Decision.ALLOW), None)
    blocked.set()
    worker.wait()
    assert shadow_differences == []
    assert "no longer judges the session 's'" in caplog.text


def test_a_candidate_follows_restored_and_shared_sessions(path: Path, tmp_path: Path) -> None:
    """It sees the calls from before the restoration, and those of other guards with the same ledger."""
    shadow_differences: list[ShadowDifference] = []
    policies, key = load_policies(path), b"sixteen bytes or more"
    first = policies.session(on_difference=False)
    for tool in ("login", "pay", "pay"):
        first.check(tool, {"n": 1})
        first.record("done")

    def report(difference: ShadowDifference) -> None:
        time.sleep(0.2)  # nobody is ahead of the wait
        shadow_differences.append(difference)

    second = policies.restore(first.snapshot(key), key, on_difference=report)
    second.check("pay", {"n": 1})
    wait_for_shadows()
    assert [shadow_difference.candidate["rules"] for shadow_difference in shadow_differences] == [("once",)]

    ledger, log = SqliteLedger(tmp_path / "l.db"), MemoryLog()
    guards = [ToolGuard(path, ledger=ledger, log=log) for _ in range(2)]
    for at, tool in enumerate(["login", "pay", "pay", "pay"]):
        ran(guards[at % 2], HostCall(tool, {"n": 1}, "c"))
    wait_for_shadows()
    assert [record["rules"] for record in log.of("shadow")] == [("once",)]


def test_many_threads_and_sessions(path: Path) -> None:
    shadow_differences: list[ShadowDifference] = []
    policies = load_policies(path)

    def run(name: str) -> None:
        session = policies.session(id=name, on_difference=shadow_differences.append)
        for tool, n in [("login", 0), ("pay", 60), ("pay", 5), ("pay", 5)]:
            session.record("done", permit=session.check(tool, {"n": n}).permit)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, (f"s{at}" for at in range(8))))
    wait_for_shadows()
    by_session = {
        f"s{at}": [
            shadow_difference.candidate["rules"]
            for shadow_difference in shadow_differences
            if shadow_difference.session == f"s{at}"
        ]
        for at in range(8)
    }
    assert set(map(str, by_session.values())) == {"[('small',), ('once',)]"}


@pytest.mark.parametrize(
    ("candidate", "problem"),
    [
        ("version: 1\npolicies:\n- {id: a, temporal: 'G !'}", "candidate.yaml:3:"),
        ("version: 1\nshadow: live.yaml\npolicies:\n- {id: a, temporal: 'G !a'}", "candidate.yaml:2: 'shadow' in the"),
        ("version: 1\npolicies:\n- {id: a, request: nothing bad}", "candidate.yaml:3: a shadow calls no model"),
    ],
)
def test_an_invalid_candidate_is_an_error_of_the_policy(path: Path, candidate: str, problem: str) -> None:
    path.with_name("candidate.yaml").write_text(candidate)
    with pytest.raises(InputError, match=problem):
        load_policies(path)


def test_a_policy_is_not_its_own_candidate(path: Path) -> None:
    path.write_text(LIVE.replace("candidate.yaml", "live.yaml"))
    with pytest.raises(InputError, match=r"live\.yaml:2: 'shadow' is this file itself"):
        load_policies(path)


def test_a_lock_pins_the_candidate(path: Path, tmp_path: Path, cli: Any) -> None:
    lock = tmp_path / "lock.json"
    assert cli("lock", "-o", lock, "-p", path).status == 0
    load_policies(path, locked=lock)
    path.with_name("candidate.yaml").write_text(CANDIDATE + "# changed\n")
    with pytest.raises(InputError, match="lock"):
        load_policies(path, locked=lock)
