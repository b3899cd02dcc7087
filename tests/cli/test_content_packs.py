"""The commands `pack list`, `pack show` and `pack add`; several policy files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guardagent.cli.commands import execute

CASE = {"id": "1", "history": [], "proposed": {"tool": "bash", "args": {"command": "rm -rf ~"}}}


def test_a_pack_is_listed_shown_and_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And then judges calls together with another file."""
    policies, other, cases = tmp_path / "p.yaml", tmp_path / "o.yaml", tmp_path / "cases.jsonl"
    assert execute(["pack", "list"]) == 0
    assert "guardagent:shell" in capsys.readouterr().out
    assert execute(["pack", "show", "shell", "--json"]) == 0
    assert "bash" in json.loads(capsys.readouterr().out)["tools"]["shell"]
    assert execute(["pack", "show", "shel"]) == 2
    assert "did you mean 'shell'?" in capsys.readouterr().err
    assert execute(["pack", "add", "shell", "-p", str(policies)]) == 0
    capsys.readouterr()
    other.write_text("version: 1\npolicies: [{id: no_bash, temporal: 'G !tool:bash'}]\n")
    cases.write_text(json.dumps(CASE) + "\n")
    command = ["check", str(cases), "--policies", str(policies), "--policies", str(other), "--json"]
    for workers in ("1", "2"):
        assert execute([*command, "--workers", workers]) == 1
        assert json.loads(capsys.readouterr().out)["rules"] == ["no_bash", "shell.delete"]
    assert execute(["pack", "add", "shell", "-p", str(policies)]) == 2
