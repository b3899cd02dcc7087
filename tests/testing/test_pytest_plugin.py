"""The pytest plug-in: each case is a test, and the rules that no case covers are listed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from guardagent.batch.cases import RuleCoverage, covered_rules
from guardagent.policy.load import load_policies
from guardagent.types import Event
from tests.tiers import slow_after

POLICY = """\
version: 1
policies:
- {id: login, temporal: "G(tool:pay -> O tool:login)"}
- {id: small, temporal: "forall(pay(n=n), n <= 100)", message: at most 100}
- {id: unused, temporal: "forall(send(n=n), n <= 100)"}
- {id: receipt, temporal: "after(pay(n=n), true, receipt(), true)"}
"""
LOGIN = {"tool": "login", "args": {}, "output": "ok", "failed": False}


def case(name: Any, tool: str, n: Any, history: Any = (LOGIN,), **expected: Any) -> str:
    proposed = {"tool": tool, "args": {"n": n}}
    return json.dumps({"id": name, "history": list(history), "proposed": proposed, **expected})


COVERING = [
    case("ok", "pay", 5, label=0, rules=[]),
    case("big", "pay", 500, label=1, rules=["small"]),
    case("first", "pay", 5, (), label=1, rules=["login"]),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.yaml").write_text(POLICY)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run(folder: Path, *options: str) -> tuple[int, str]:
    """Runs pytest in a process of its own, with this plug-in alone, whether or not it is installed."""
    command = [sys.executable, "-m", "pytest", "-p", "guardagent.testing.pytest_plugin", "-p", "no:cacheprovider"]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, check=False, env=alone)
    return done.returncode, done.stdout + done.stderr


def write(folder: Path, *lines: str, name: str = "shop.cases.jsonl") -> None:
    (folder / name).write_text("\n".join(lines) + "\n")


@pytest.mark.slow
def test_each_case_is_a_test_and_the_gaps_are_listed(folder: Path) -> None:
    """A second file of the same policy counts too. A rule about the end can only be satisfied."""
    write(folder, *COVERING)
    write(folder, case("unknown", "send", None, label=1), name="shop.more.cases.jsonl")
    status, out = run(folder, "-v")
    assert status == 0
    for name in ("shop.cases.jsonl::ok PASSED", "::big PASSED", "::first PASSED", "more.cases.jsonl::unknown PASSED"):
        assert name in out
    assert "shop.yaml: 3 of 4 rules covered by 4 cases" in out
    assert "never violated by a case: unused\n" in out
    assert "never satisfied by a case: unused\n" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", slow_after(1, [["--guardagent-full-coverage"], ["-o", "guardagent_full_coverage=true"]])
)
def test_a_gap_can_fail_the_run(folder: Path, options: list[str]) -> None:
    write(folder, *COVERING)
    status, out = run(folder, *options)
    assert status == 1
    assert "the cases do not cover every rule" in out
    write(folder, *COVERING, case("a", "send", 5, label=0), case("b", "send", 500, label=1))
    assert run(folder, *options)[0] == 0


def test_a_failure_is_readable(folder: Path) -> None:
    write(folder, case("big", "pay", 500, label=0, rules=["smal"]), case("ok", "pay", 5, label=0))
    status, out = run(folder)
    assert status == 1
    for text in (
        "shop.cases.jsonl:1: case 'big' differs from its expectation",
        "label: expected 0 (may proceed), got 1 (may not)",
        "rule 'smal': expected to be violated (no such policy",
        "rule 'small': violated, but not expected",
        "reason: at most 100",
        "1 failed, 1 passed",
    ):
        assert text in out
    assert "Traceback" not in out


BROKEN = {
    "{": "",
    '{"id": "x"}': "is missing",
    case("x", "pay", 5): "has no expectation",
    '{"id": "y", "history": [], "label": 0, "proposed": {"tool": "pay", "arguments": {}}}': "did you mean 'args'?",
    "[" * 100_000: "",
    '"\\ud800"': "",
}


@pytest.mark.slow
def test_a_broken_line_fails_with_its_place(folder: Path) -> None:
    write(folder, *BROKEN, COVERING[0])
    status, out = run(folder)
    assert status == 1
    places = [line for line in out.splitlines() if "shop.cases.jsonl:" in line]
    for number, problem in enumerate(BROKEN.values(), 1):
        assert any(f"shop.cases.jsonl:{number}: " in line and problem in line for line in places), (number, places)
    assert f"{len(BROKEN)} failed, 1 passed" in out
    assert "Traceback" not in out


def test_a_name_of_a_case_cannot_break_the_terminal_or_the_run(folder: Path) -> None:
    """Invisible characters are escaped, and half of a character is no crash."""
    write(folder, *(case(name, "pay", 5, label=0) for name in ("\x1b[31mred", "half \ud800")))
    status, out = run(folder, "-v")
    assert (status, "\x1b[31mred" in out, "Traceback" in out) == (0, False, False)


@pytest.mark.slow
def test_what_cannot_be_collected_is_an_error(folder: Path) -> None:
    """A missing policy, an invalid one, and a file without cases."""
    (folder / "wrong.yaml").write_text("version: 1\npolicies:\n- {id: a}")
    for name in ("lost", "wrong"):
        write(folder, *COVERING, name=f"{name}.cases.jsonl")
    write(folder, "", name="shop.none.cases.jsonl")
    status, out = run(folder)
    assert status == 2
    assert "has no policy; expected 'lost.yaml' beside it" in out
    assert "wrong.yaml:3: " in out
    assert "holds no cases" in out
    assert "Traceback" not in out


@pytest.mark.slow
def test_the_ini_file_can_name_the_policy(folder: Path) -> None:
    (folder / "deep").mkdir()
    write(folder / "deep", *COVERING, name="other.cases.jsonl")
    status, out = run(folder, "-o", "guardagent_policy=shop.yaml")
    assert status == 0
    assert "shop.yaml: 3 of 4 rules covered by 3 cases" in out


@pytest.mark.slow
def test_coverage_is_whole_with_several_processes(folder: Path) -> None:
    write(folder, *COVERING)
    status, out = run(folder, "-p", "xdist", "-n", "2")
    assert status == 0
    assert "rules covered by 3 cases" in out


def test_a_run_without_cases_loads_nothing(folder: Path) -> None:
    """Pytest loads the plug-in in every run."""
    code = (
        "import guardagent.testing.pytest_plugin, sys; print(sorted(m for m in sys.modules if m[:10] == 'guardagent'))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    names = ["guardagent", "guardagent._version", "guardagent.testing", "guardagent.testing.pytest_plugin"]
    assert out == f"{names}\n"
    (folder / "test_plain.py").write_text("def test_it(): pass")
    status, text = run(folder, "--guardagent-full-coverage")
    assert (status, "rules covered" in text) == (0, False)


NEVER = [
    ("G !tool:wipe", True),
    ("G !(tool:wipe || tool:drop)", True),
    ("G !@writes", True),
    ("forall(wipe(), false)", True),
    ("!exists(wipe(), true)", True),
    ("G(tool:wipe -> false)", True),
    ("G(tool:wipe -> (O tool:login && !O tool:login))", False),
    ('forall(put(object="toilet"), false)', False),
    ("G(tool:pay -> O tool:login)", False),
    ("G(tool:pay -> !Y O tool:pay)", False),
    ("G(tool:pay -> !O tool:pay)", True),
    ("forall(pay(n=n), n <= 100)", False),
    ("G(tool:freeze -> G !tool:pay)", False),
    ("F tool:login", False),
    ("after(pay(n=n), true, receipt(), true)", False),
    ("before(pay(n=n), true, login(), true)", False),
]


@pytest.mark.parametrize(("rule", "is_ban"), NEVER)
def test_a_rule_that_no_call_satisfies_only_has_to_be_violated(tmp_path: Path, rule: str, is_ban: bool) -> None:
    policy = {"id": "rule", "temporal": rule}
    text = {"version": 1, "tags": {"writes": ["wipe", "drop"]}, "policies": [policy]}
    (tmp_path / "p.yaml").write_text(json.dumps(text))
    verdict = {"rules": ["rule"], "errors": []}
    covered = covered_rules(load_policies(tmp_path / "p.yaml"), "p.yaml", Event("wipe"), verdict)
    coverage = RuleCoverage()
    coverage.add(covered)
    assert (covered["bans"], coverage.is_full) == (["rule"] if is_ban else [], is_ban)


def test_full_coverage_passes_with_a_ban(folder: Path) -> None:
    (folder / "shop.yaml").write_text('version: 1\npolicies: [{id: never, temporal: "G !tool:wipe"}]\n')
    write(folder, case("no", "wipe", 1, label=1, rules=["never"]))
    status, out = run(folder, "--guardagent-full-coverage")
    assert (status, "1 of 1 rules covered by 1 cases" in out) == (0, True), out
