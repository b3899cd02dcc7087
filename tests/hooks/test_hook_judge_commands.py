"""Dangerous and ordinary command lines, judged by the packs as a hook judges them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("tree_sitter_bash")

from guardagent import Decision, load_policies
from guardagent.hooks.calls import judged_arguments
from guardagent.hooks.hook_state import HookLock, read_lock
from guardagent.hooks.installation import policy_text
from guardagent.hooks.protection import Protection
from guardagent.types import Event
from tests.hooks.payloads import POLICY

FOLDER = Path(__file__).parent / "commands"
PROJECT, HOME = "/srv/shop", "/home/ann"


@pytest.fixture(scope="module")
def stops() -> Callable[[str], bool]:
    """Whether a command is denied or asked about."""
    policies = load_policies(text=POLICY.replace("PROJECT", PROJECT).replace("  - guardagent:tests_first\n", ""))
    guarded = (".claude/settings.json", ".local/state/guardagent/hooks", "policy.yaml")
    protection = Protection([*(f"{HOME}/{path}" for path in guarded), *(str(Path.home() / path) for path in guarded)])

    def stopped(command: str) -> bool:
        args = judged_arguments("Bash", {"command": command}, PROJECT)
        if protection.problem("Bash", args, PROJECT) is not None:
            return True
        return policies.session().check("Bash", args, reserve=False).decision >= Decision.DENY

    return stopped


def _read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def test_dangerous_commands_are_stopped(stops: Callable[[str], bool]) -> None:
    """At most one is missed: a program in the background that nobody knows."""
    families = _read("dangerous.yaml")
    assert len(families) >= 20
    assert sum(map(len, families.values())) >= 200
    missed = [(family, command) for family, commands in families.items() for command in commands if not stops(command)]
    assert len(missed) <= 1, missed


def test_ordinary_commands_pass(stops: Callable[[str], bool]) -> None:
    """At most eight in four hundred are stopped."""
    commands = _read("ordinary.yaml")
    assert len(commands) >= 400
    stopped = [command for command in commands if stops(command)]
    assert len(stopped) <= 8, stopped


@pytest.fixture(scope="module")
def stops_in_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bool]:
    """The same under the policy that `init` writes, enforced in a project, after an edit."""
    folder = tmp_path_factory.mktemp("state")
    (folder / "guardagent.yaml").write_text(policy_text(["claude-code"]))
    lock = HookLock.of("claude_code", folder / "settings", folder / "guardagent.yaml", None).write(folder)
    policies = read_lock(lock).load(PROJECT)
    guarded = [f"{Path.home()}/.local/state/guardagent/hooks", f"{PROJECT}/.claude/settings.local.json"]
    protection = Protection(guarded, sources=[f"{PROJECT}/guardagent.yaml"])

    def stopped(command: str) -> bool:
        args = {**judged_arguments("Bash", {"command": command}, PROJECT), "git_branch": "topic"}
        if protection.problem("Bash", args, PROJECT) is not None:
            return True
        session = policies.session()
        session.observe(Event("Edit", {"file_path": f"{PROJECT}/cart.py"}, status="ok", time=time.time()))
        return session.check("Bash", args, reserve=False).decision >= Decision.DENY

    return stopped


def test_a_working_day_passes_under_the_policy_of_a_project(stops_in_project: Callable[[str], bool]) -> None:
    """At most two are stopped, and no dangerous one passes unasked."""
    commands = _read("working_day.yaml")
    assert min(len(commands["ordinary"]), len(commands["dangerous"])) >= 120
    stopped = [command for command in commands["ordinary"] if stops_in_project(command)]
    assert len(stopped) <= 2, stopped
    assert [command for command in commands["dangerous"] if not stops_in_project(command)] == []
