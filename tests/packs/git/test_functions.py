"""The constants of the pack `guardagent:git`."""

from __future__ import annotations

from typing import Any

from guardagent import Decision, load_policies


def decision(command: str, **constants: Any) -> Decision:
    entry = {"pack": "guardagent:git", "constants": constants}
    return load_policies(data={"version": 1, "include": [entry]}).session().check("bash", {"command": command}).decision


def test_protected_branches() -> None:
    """The list replaces the usual one."""
    assert decision("git push origin release", protected=["release"]) is Decision.ESCALATE
    assert decision("git push origin main", protected=["release"]) is Decision.ALLOW
    assert decision("git push", protected=["release"]) is Decision.ESCALATE


def test_hosts_of_remotes() -> None:
    """Others need a person."""
    add = "git remote add x git@git.example.com:a/b.git"
    assert decision(add) is Decision.ESCALATE
    assert decision(add, hosts=["git.example.com"]) is Decision.ALLOW
