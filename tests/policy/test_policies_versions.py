"""A new version of a policy file is loaded whole or not at all, and only new sessions get it."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from guardagent import Policies, load_policies
from guardagent.enforcement import SqliteLedger, ToolGuard
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.names import ToolSpec
from guardagent.errors import InputError
from guardagent.policy.policies import KEPT
from tests.enforcement.guards import MemoryLog, ran

KEY = b"sixteen bytes or more"


def write(path: Path, limit: int, more: str = "") -> Path:
    path.write_text(f"version: 1\npolicies:\n- {{id: small, temporal: 'forall(pay(n=n), n <= {limit})'}}\n{more}")
    return path


def allows(policies: Policies, amount: int) -> bool:
    return policies.session().check("pay", {"n": amount}).label == 0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "p.yaml", 10)


def test_only_new_sessions_get_a_new_version(path: Path) -> None:
    policies = load_policies(path)
    running = policies.session()
    assert policies.reload() is policies
    write(path, 20)
    new = policies.reload()
    assert new is policies.current is not policies
    assert allows(policies, 15)
    assert allows(new, 15)
    assert running.check("pay", {"n": 15}).label == 1
    assert running.check("pay", {"n": 5}).permit.policy == policies.digest != new.digest


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version: 1\npolicies:\n- {id: small, temporal: 'forall(pay(n=n), n <='}\n", r"p\.yaml:3: "),
        ("", "p.yaml"),
        ("version: 1\npolic", r"p\.yaml:2: "),
    ],
)
def test_an_invalid_version_leaves_the_old_one_in_force(path: Path, text: str, problem: str) -> None:
    policies = load_policies(path)
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        policies.reload()
    assert policies.current is policies
    assert not allows(policies, 15)


def test_a_lock_applies_to_new_versions(path: Path, tmp_path: Path, cli: object) -> None:
    assert callable(cli)
    lock = tmp_path / "lock.json"
    assert cli("lock", "-o", lock, "-p", path).status == 0
    policies = load_policies(path, locked=lock)
    write(path, 20)
    with pytest.raises(InputError, match="lock"):
        policies.reload()
    assert not allows(policies, 15)
    assert cli("lock", "-o", lock, "-p", path).status == 0
    policies.reload()
    assert allows(policies, 15)


def test_rules_without_a_file_cannot_be_reloaded() -> None:
    policies = load_policies(text="version: 1\npolicies: [{id: a, temporal: G !b}]")
    with pytest.raises(InputError, match="not loaded from a file"):
        policies.reload()


def test_a_snapshot_is_restored_under_its_own_version(path: Path) -> None:
    """As long as that version is held: it has a running session, or is one of the last ones."""
    policies = load_policies(path)
    running = policies.session()
    stored = [policies.session().snapshot(KEY)]
    for limit in range(11, 12 + KEPT):
        write(path, limit)
        stored.append(policies.reload().session().snapshot(KEY))
    del policies
    current = running.policies.current
    assert current.restore(stored[-2], KEY).check("pay", {"n": 10 + KEPT}).label == 0
    assert current.restore(stored[0], KEY).check("pay", {"n": 11}).label == 1
    del running
    gc.collect()
    with pytest.raises(InputError, match="a version of it that is not loaded"):
        current.restore(stored[0], KEY)


@pytest.mark.slow
def test_many_threads_reload_and_open_sessions(path: Path) -> None:
    """Each session has one whole version: both rules of a version always have the same limit."""
    rule = "- {{id: other, temporal: 'forall(send(n=n), n <= {0})'}}\n"
    write(path, 10, rule.format(10))
    policies, wrong, stop = load_policies(path), [], threading.Event()

    def reloads(start: int) -> None:
        for number in range(40):
            limit = start + number
            fresh = path.with_suffix(f".{start}")
            write(fresh, limit, rule.format(limit)).replace(path)
            policies.reload()

    def opens() -> None:
        while not stop.is_set():
            session = policies.session()
            limits = [{n for n in range(0, 400, 7) if session.check(t, {"n": n}, reserve=False).label} for t in TOOLS]
            if limits[0] != limits[1]:
                wrong.append(limits)

    with ThreadPoolExecutor(6) as pool:
        readers = [pool.submit(opens) for _ in range(3)]
        try:
            list(pool.map(reloads, (10, 110, 210)))
        finally:
            stop.set()
        assert [reader.result() for reader in readers] == [None] * 3
    assert wrong == []
    assert policies.reload() is policies.current


TOOLS = ("pay", "send")


def call(conversation: str, amount: int) -> HostCall:
    return HostCall("pay", {"n": amount}, conversation)


def test_a_guard_gives_new_conversations_the_new_version(path: Path) -> None:
    log = MemoryLog()
    guard = ToolGuard(path, log=log)
    assert guard.before(call("old", 15)).label == 1
    write(path, 20)
    guard.reload()
    assert guard.before(call("old", 15)).label == 1
    assert guard.before(call("new", 15)).label == 0
    guard.end("old")
    assert [record["policy"] == guard.policies.digest for record in log.records] == [False, False, True, False]


def test_a_guard_refuses_a_version_with_a_misspelt_tool(path: Path) -> None:
    guard = ToolGuard(path)
    guard.attach([ToolSpec("pay")])
    path.write_text(path.read_text().replace("pay(", "paay("))
    with pytest.raises(InputError, match="paay"):
        guard.reload()
    assert guard.before(call("new", 15)).label == 1


def test_a_conversation_of_a_ledger_keeps_its_version(path: Path, tmp_path: Path) -> None:
    """Also for another guard of this process; a process without this version denies, and says why."""
    policies, ledger = load_policies(path), SqliteLedger(tmp_path / "ledger.db")
    first = ToolGuard(policies, ledger=ledger)
    ran(first, call("c", 5))
    write(path, 20)
    policies.reload()
    second = ToolGuard(policies, ledger=ledger)
    assert second.before(call("c", 15)).label == 1
    assert second.before(call("c", 9)).label == 0
    assert second.before(call("d", 15)).label == 0
    elsewhere = ToolGuard(load_policies(path), ledger=ledger).before(call("c", 5))
    assert "began under another policy" in str(elsewhere.errors)
