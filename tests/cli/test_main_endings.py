"""Errors of commands: exit status and message."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import CommandResult
from tests.shop import case, write_lines, write_policies
from tests.tiers import slow_but_every

Cli = Callable[..., CommandResult]


@pytest.mark.parametrize(
    ("arguments", "kind", "status", "says"),
    [
        (["check"], "usage", 2, "Missing argument"),
        (["chekc"], "usage", 2, "Did you mean 'check'?"),
        (["check", "cases.jsonl", "-p", "p.yaml", "--wrokers", "2"], "usage", 2, "--workers"),
        (["bench", "eicu-ac", "--data", "d", "--out", "o", "--mode", "fast"], "usage", 2, "fast"),
        (["check", "nowhere.jsonl", "-p", "nowhere.yaml"], "input", 2, "nowhere.yaml: no such file"),
        (["toolbox", "show", "check_acces"], "unknown_name", 2, "did you mean 'check_access'?"),
        (
            ["verify", "nowhere.json", "--format", "sarif"],
            "input",
            2,
            "'--json' and '--format sarif' exclude each other",
        ),
        (["log", "show", "nowhere.db"], "input", 2, "nowhere.db: no such file"),
    ],
)
def test_an_error_is_an_object_with_json(cli: Cli, arguments: list[str], kind: str, status: int, says: str) -> None:
    """One line on standard error, nothing on standard output; as text, the same message."""
    ran = cli(*arguments, "--json")
    error = json.loads(ran.err)["error"]
    assert (ran.status, ran.out, error["kind"], error["status"]) == (status, "", kind, status)
    assert says in error["message"]
    if "sarif" not in arguments:
        words = cli(*arguments)
        assert (words.status, words.out, words.err[:1]) == (status, "", words.err.lstrip("{")[:1])
        assert says in words.err


def test_json_after_two_dashes_belongs_to_another_program(cli: Cli) -> None:
    """An option of the server does not change the output of the proxy."""
    assert cli("mcp-proxy", "--", "server", "--json").err.startswith("guardagent: no policy file")


def test_a_proxy_has_rules_or_a_server(cli: Cli) -> None:
    """Not both, since each would decide otherwise."""
    both = cli("mcp-proxy", "--policies", "p.yaml", "--guard-server", "https://guard.example", "--", "server")
    assert "'--policies' and '--guard-server' exclude each other" in both.err


@pytest.mark.parametrize("reader", ["head -1", "true"])
@pytest.mark.parametrize(
    "command",
    slow_but_every(
        3, ["check CASES -p POLICIES --json", "check CASES -p POLICIES", "toolbox list", "--help", "doctor --json"]
    ),
)
def test_a_closed_pipe_is_not_a_denial(tmp_path: Path, command: str, reader: str) -> None:
    """A closed pipe ends a command quietly with a status of its own."""
    cases = write_lines(tmp_path / "many.jsonl", *(case(f"c{at}", amount=5) for at in range(600)))
    words = command.replace("CASES", str(cases)).replace("POLICIES", str(write_policies(tmp_path)))
    line = f"{sys.executable} -m guardagent {words} | {reader}; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["/bin/bash", "-c", line], capture_output=True, check=False)
    assert ran.stdout.count(b"\n") <= 1
    assert ran.returncode == 141 or (reader != "true" and "check" not in command)
    assert b"rror" not in ran.stderr


def test_an_interrupt_before_anything_is_loaded(tmp_path: Path) -> None:
    """Ctrl-C during the import of Typer exits with 130 and no output."""
    interrupt = "import os, signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    (tmp_path / "typer.py").write_text(f"{interrupt}os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from guardagent.cli.main import main; main(['doctor'])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, b"", b"")
