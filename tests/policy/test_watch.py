"""A watch reloads a policy once its files have changed and are stable."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent import InputError, Policies, load_policies
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


BEFORE = """version: 1
tags: {writes: [pay, refund]}
tools: [pay, refund, drop]
unlisted: deny
policies:
- {id: small, temporal: "forall(@writes(n=n), n <= 10)"}
- {id: two, temporal: [G !tool:drop, "forall(pay(n=n), n >= 1)"]}
- {id: last, temporal: "forall(refund(n=n), n >= 1)"}
"""
ALLOWED = "{id: small, temporal: 'forall(@writes(n=n), n <= 99)'}"


def of(old: str, new: str) -> str:
    assert old in BEFORE
    return BEFORE.replace(old, new)


LESS = {
    "a rule": (of('- {id: last, temporal: "forall(refund(n=n), n >= 1)"}\n', ""), "the rule 'last'"),
    "several rules": (BEFORE.partition("- {id: two")[0], "the rule 'two', the rule 'last'"),
    "a formula": (of('[G !tool:drop, "forall(pay(n=n), n >= 1)"]', "G !tool:drop"), "a part of the rule 'two'"),
    "a tool of a set": (of("[pay, refund]", "[pay]"), "tools of '@writes'"),
    "a tool of a rule": (of("forall(@writes(", "forall(pay("), "a part of the rule 'small'"),
    "the tools": (of("tools: [pay, refund, drop]\n", ""), "'tools'"),
    "unlisted": (of("unlisted: deny\n", ""), "'unlisted: deny'"),
}
MORE = {
    "a limit": of("n <= 10", "n <= 99"),
    "a further rule": BEFORE + "- {id: new, temporal: G !tool:drop}\n",
    "a further formula": of('n >= 1)"]', 'n >= 1)", G(tool:pay -> O tool:refund)]'),
    "another order": of("unlisted: deny\n", "").replace("version: 1\n", "version: 1\nunlisted: deny\n"),
    "a message": of('n >= 1)"}', 'n >= 1)", message: None left}'),
}


def renamed(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


@pytest.fixture
def watched(tmp_path: Path) -> tuple[Path, Policies, PolicyWatch]:
    path = tmp_path / "w.yaml"
    path.write_text(BEFORE)
    policies = load_policies(path)
    return path, policies, PolicyWatch(policies)


@pytest.mark.parametrize("name", LESS)
def test_what_lacks_a_part_is_only_loaded_after_a_rename_or_on_request(
    watched: tuple[Path, Policies, PolicyWatch], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In place it may be half of a file; the error names the part, once."""
    path, policies, watch = watched
    text, lost = LESS[name]
    path.write_text(text)
    for _ in range(4):
        watch.look()
    assert policies.current is policies
    assert lost in caplog.text
    assert len(caplog.records) == 1
    path.write_text(BEFORE)
    look_twice(watch)
    renamed(path, text)
    look_twice(watch)
    assert policies.current is not policies
    path.write_text(BEFORE)
    look_twice(watch)
    path.write_text(text)
    look_twice(watch)
    assert policies.current.digest != policies.reload().digest


@pytest.mark.parametrize("name", MORE)
@pytest.mark.parametrize("put", [Path.write_text, renamed], ids=["in place", "by a rename"])
def test_what_has_every_part_is_loaded(
    watched: tuple[Path, Policies, PolicyWatch], name: str, put: Callable[[Path, str], object]
) -> None:
    path, policies, watch = watched
    put(path, MORE[name])
    look_twice(watch)
    assert policies.current is not policies


@pytest.mark.parametrize("end", range(60, len(BEFORE), 25))
def test_no_half_of_a_file_is_loaded_by_itself(watched: tuple[Path, Policies, PolicyWatch], end: int) -> None:
    """Wherever a writer pauses; the whole file is loaded as soon as it is there."""
    path, policies, watch = watched
    new = of("n <= 10", "n <= 9")
    path.write_text(new[:end])
    look_twice(watch)
    assert policies.current is policies
    path.write_text(new)
    look_twice(watch)
    assert policies.current is not policies


def test_a_file_that_is_open_for_writing_is_not_loaded(watched: tuple[Path, Policies, PolicyWatch]) -> None:
    """Even if it has every part already."""
    path, policies, watch = watched
    with path.open("w") as file:
        file.write(MORE["a further rule"])
        file.flush()
        look_twice(watch)
        assert policies.current is policies
    look_twice(watch)
    assert policies.current is not policies


def test_a_pipe_is_not_read_twice(tmp_path: Path) -> None:
    """It can be loaded once; then neither a reload nor a watch waits for another writer."""
    pipe = tmp_path / "p.yaml"
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_text, args=(BEFORE,), daemon=True).start()
    policies = load_policies(pipe)
    with pytest.raises(InputError, match="not a regular file"):
        policies.reload()
    look_twice(PolicyWatch(policies))
    assert policies.current is policies


def test_a_file_that_became_a_pipe_is_not_read(watched: tuple[Path, Policies, PolicyWatch]) -> None:
    path, policies, watch = watched
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="not a regular file"):
        policies.reload()
    look_twice(watch)
    assert policies.current is policies
