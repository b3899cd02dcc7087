"""A watch reloads a policy once its files have changed and are stable."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from guardagent import Policies, load_policies
from guardagent.policy.watch import PolicyWatch

RULE = "- {{id: small, temporal: 'forall(pay(n=n), n <= {})'}}\n"
HEAD = "version: 1\nshadow: other.yaml\npolicies:\n"


def write(path: Path, limit: int) -> Path:
    path.with_name("other.yaml").write_text("version: 1\npolicies: [{id: a, temporal: G !b}]")
    path.write_text(HEAD + RULE.format(limit))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "p.yaml", 10)


def look_twice(watch: PolicyWatch) -> None:
    """Files count once they are the same for two looks."""
    watch.look()
    watch.look()


def allows(policies: Policies, amount: int) -> bool:
    return policies.session(on_difference=False).check("pay", {"n": amount}).label == 0


def test_a_file_that_is_being_written_is_not_loaded(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Half of a file can be a valid policy with fewer rules, so it counts only after two equal looks."""
    policies = load_policies(path)
    watch = PolicyWatch(policies)
    with path.open("w") as file:
        file.write(HEAD + RULE.format(20))
        file.flush()
        watch.look()
        file.write(RULE.format(15).replace("small", "other"))
    watch.look()
    assert not allows(policies, 12)
    watch.look()
    assert allows(policies, 12)
    assert not allows(policies, 17)
    assert f"new conversations get version {policies.current.digest[:12]}" in caplog.text


@pytest.mark.parametrize("broken", ["version: 1\npolicies:\n- {id: small}\n", "", None])
def test_an_invalid_file_is_reported_once_and_the_next_one_is_loaded(
    path: Path, caplog: pytest.LogCaptureFixture, broken: str | None
) -> None:
    policies = load_policies(path)
    watch = PolicyWatch(policies)
    path.unlink() if broken is None else path.write_text(broken)
    for _ in range(4):
        watch.look()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "p.yaml" in caplog.text
    assert not allows(policies, 12)
    write(path, 20)
    look_twice(watch)
    assert allows(policies, 12)


def test_every_file_of_the_policy_counts(path: Path) -> None:
    policies = load_policies(path)
    watch = PolicyWatch(policies)
    path.with_name("other.yaml").write_text("version: 1\npolicies: [{id: c, temporal: G !c}]")
    look_twice(watch)
    assert policies.current.shadow is not None
    assert policies.current.shadow.ids == ("c",)


def test_the_thread_looks_by_itself(path: Path) -> None:
    policies = load_policies(path)
    with PolicyWatch(policies, interval=0.01):
        write(path, 20)
        until = time.monotonic() + 10
        while not allows(policies, 12) and time.monotonic() < until:
            time.sleep(0.01)
    assert allows(policies, 12)


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit", "GeneratorExit"])
def test_no_error_of_a_toolbox_ends_the_watch(path: Path, error: str, caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise the policy would never be reloaded again."""
    code = path.with_name("f.py")
    code.write_text('def held(state) -> int:\n    """The amount."""\n    return 1\n')
    path.write_text("toolbox: f.py\n" + path.read_text())
    watch = PolicyWatch(load_policies(path))
    code.write_text(f"{code.read_text()}raise {error}")
    look_twice(watch)
    assert error in caplog.text
