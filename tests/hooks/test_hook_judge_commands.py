"""Dangerous and ordinary command lines, judged by the packs as a hook judges them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("tree_sitter_bash")

from guardagent import Decision, load_policies
from guardagent.hooks.calls import judged_arguments
from guardagent.hooks.protection import Protection
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
