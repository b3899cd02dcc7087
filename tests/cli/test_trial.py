"""The command `try`: calls as people type them, and the results of the rules."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from guardagent import load_policies
from guardagent.batch.records import read_call
from guardagent.cli.trial import PolicyTrial
from guardagent.errors import InputError

POLICY = """\
version: 1
policies:
  - id: delivered
    temporal: before(refund(order=o), true, f:look(order=o), output(f).status == "delivered")
    message: look the order up first
  - id: person
    temporal: forall(refund(amount=a), a <= 100)
    on_violation: escalate
    message: at most 100
  - id: receipt
    temporal: after(refund(order=o), true, receipt(order=o), true)
    message: a receipt is due
"""
LOOK, REFUND = 'look(order="W1") -> {"status": "delivered"}', 'refund(order="W1", amount=90)'


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "shop.yaml").write_text(POLICY)
    return tmp_path / "shop.yaml"


def rows(policy: Path, capsys: pytest.CaptureFixture[str], *lines: str) -> list[Any]:
    trial = PolicyTrial(load_policies(policy), {}, as_json=True)
    for line in lines:
        trial.take(line)
    return [json.loads(row) for row in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("line", "tool", "args", "output", "status"),
    [
        ("look()", "look", {}, None, "ok"),
        ('refund(order="W1", amount=90)', "refund", {"order": "W1", "amount": 90}, None, "ok"),
        ("mcp__shop.refund-all ( a = 1.5 )", "mcp__shop.refund-all", {"a": 1.5}, None, "ok"),
        ('look(order="W1") -> {"gift": false}', "look", {"order": "W1"}, {"gift": False}, "ok"),
        ("f(a=true, b=null, c=[1, None])", "f", {"a": True, "b": None, "c": (1, None)}, None, "ok"),
        ("f(a=1) -> failed", "f", {"a": 1}, None, "failed"),
        ('f(a=1) -> failed "no -> such)"', "f", {"a": 1}, "no -> such)", "failed"),
        ('f(a="x) -> y (")', "f", {"a": "x) -> y ("}, None, "ok"),
        ("f(a=-1, b={})", "f", {"a": -1, "b": {}}, None, "ok"),
        ('f(a="日本")->-2.5', "f", {"a": "日本"}, -2.5, "ok"),
    ],
)  # fmt: skip
def test_a_call_is_read(line: str, tool: str, args: dict[str, Any], output: Any, status: str) -> None:
    call = read_call(line)
    assert (call.tool, dict(call.args), call.output, call.status) == (tool, args, output, status)


@pytest.mark.parametrize(
    "line",
    ["", "refund", "refund(90)", "refund(a=)", "refund(a=1", "(a=1)", "f(a=b)", "f(a=open('x'))", "f(**[1])",
     "f(a=1) -> x y", "f(a=1, a=2)", "f(a=1) trailing",
     f"f(a={'(' * 3000}1{')' * 3000})", f"f(a={'-' * 9000}1)", "f(a='\0')", "f(a=1)\0", "f(a={1: 2}.x)"],
)  # fmt: skip
def test_anything_else_is_an_error_that_shows_the_form(line: str) -> None:
    with pytest.raises(InputError, match="expected "):
        read_call(line)


def test_each_rule_that_judges_a_call_has_its_result(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A call that may run is part of the history of the next ones."""
    first, look, again, escalated, missing = rows(
        policy, capsys, REFUND, LOOK, REFUND, 'refund(order="W1", amount=500)', 'refund(order="W1")'
    )
    assert first["results"] == {"delivered": "violated", "person": "satisfied", "receipt": "satisfied"}
    assert (look["decision"], look["results"]) == ("allow", {})
    assert (again["decision"], list(again["pending"])) == ("allow", ["receipt"])
    assert (escalated["decision"], escalated["results"]["person"]) == ("escalate", "violated")
    assert (missing["decision"], missing["results"]["person"]) == ("deny", "undecided")


def test_an_escalated_call_can_be_approved_and_a_call_be_forgotten(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    big = 'refund(order="W1", amount=500)'
    *_, escalated, approved, after = rows(policy, capsys, LOOK, big, ":approve", ":undo", LOOK)
    assert (escalated["decision"], approved["decision"]) == ("escalate", "allow")
    assert approved["results"] == {"delivered": "satisfied", "person": "approved", "receipt": "satisfied"}
    assert (list(approved["pending"]), after["pending"]) == (["receipt"], {})
    *_, ended, fresh = rows(policy, capsys, LOOK, REFUND, ":end", REFUND)
    assert (ended["decision"], ended["results"]) == ("deny", {"receipt": "violated"})
    assert fresh["results"]["delivered"] == "violated"


def test_an_undo_keeps_earlier_approvals(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *_, last = rows(policy, capsys, LOOK, 'refund(order="W1", amount=500)', ":approve", LOOK, ":undo", LOOK)
    assert list(last["pending"]) == ["receipt"]


def test_counters_begin_at_zero_and_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "counters.yaml"
    rule = "temporal: 'forall(pay(to=t), counter(paid, t) < 2)', message: two"
    path.write_text(
        f"version: 1\ncounters: {{paid: {{on: pay(to=t), key: t}}}}\npolicies: [{{id: two, {rule}}}]\n",
    )
    lines = rows(path, capsys, *['pay(to="a")'] * 3, ":undo", ":undo", 'pay(to="a")', ":end", 'pay(to="a")')
    assert [line["decision"] for line in lines] == ["allow", "allow", "deny", "allow", "allow", "deny"]


@pytest.mark.parametrize("line", [":approve", ":undo", ":aprove", ":", ":end now"])
def test_a_command_out_of_place_is_an_error(policy: Path, line: str) -> None:
    with pytest.raises(InputError, match=r"expected|did you mean|known:"):
        PolicyTrial(load_policies(policy), {}, as_json=True).take(line)


@pytest.mark.parametrize(
    ("lines", "status"),
    [([LOOK, REFUND], 0), ([REFUND], 1), ([LOOK, "nonsense", REFUND], 2), (["# a comment", "", ":quit", REFUND], 0)],
)
def test_calls_are_read_from_standard_input(policy: Path, lines: list[str], status: int) -> None:
    """A person reads marks, causes and remedies; the exit status says whether all calls may run."""
    command = [sys.executable, "-m", "guardagent", "try", str(policy)]
    ran = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    assert ran.returncode == status, ran.stderr
    assert ("✘ delivered: violated\n      look the order up first" in ran.stdout) is (status == 1)
    assert ("is not a call; expected" in ran.stderr) is (status == 2)
