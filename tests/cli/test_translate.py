"""`import` and `init --from`: the exit status, the written policy, and the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guardagent.policy.load import load_policies
from tests.conftest import Cli

PERMIT = 'permit(principal, action == Action::"pay", resource) when { context.input.amount <= 5 };'
UNKNOWN = 'permit(principal, action == Action::"scan", resource) when { ip("10.0.0.1").isIpv4() };'


@pytest.fixture
def cedar(tmp_path: Path) -> Path:
    (tmp_path / "x.cedar").write_text(f"{PERMIT}\n")
    return tmp_path / "x.cedar"


def test_import_shows_each_rule_beside_its_translation(cli: Cli, cedar: Path) -> None:
    """Without `--out` it writes nothing."""
    result = cli("import", "cedar", cedar)
    assert (result.status, list(cedar.parent.iterdir())) == (0, [cedar])
    assert f"| 1 | `{PERMIT}` | `same` | `input.amount <= 5` | - |" in result.out


def test_import_writes_a_policy_that_loads(cli: Cli, cedar: Path) -> None:
    out = cedar.with_suffix(".yaml")
    result = cli("import", "cedar", cedar, "-o", out, "--json")
    (rule,) = json.loads(result.out)["rules"]
    assert (rule["status"], rule["policies"], json.loads(result.out)["written"]) == ("same", ["permit_pay"], str(out))
    session = load_policies(out).session()
    assert [session.check("pay", {"amount": amount}, reserve=False).label for amount in (5, 6)] == [0, 1]


def test_a_rule_that_cannot_be_translated_exits_with_1(cli: Cli, cedar: Path) -> None:
    cedar.write_text(f"{PERMIT}\n{UNKNOWN}")
    result = cli("import", "cedar", cedar)
    assert (result.status, "not translated" in result.out) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cedr", "x.cedar"], "unknown format of rules 'cedr'; did you mean 'cedar'"),
        (["cedar", "none.cedar"], "none.cedar: no such file"),
        (["cedar", "x.cedar", "--on-error", "allow"], "unknown value of '--on-error' 'allow'"),
        (["codex", "x.rules"], "no rule in it asks or denies"),
        (["cedar", "deep.cedar"], "deep.cedar: is nested too deep"),
    ],
)
def test_wrong_input_exits_with_2(
    cli: Cli, cedar: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(cedar.parent)
    Path("deep.cedar").write_text(PERMIT.replace("{", f"{{ {'!' * 3000}"))
    Path("x.rules").write_text('prefix_rule(pattern=["ls"])')
    result = cli("import", *arguments)
    assert (result.status, message in result.err) == (2, True), result.err


def test_init_makes_a_policy_of_the_permissions_of_a_coding_agent(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project is the folder of the policy; a second time it stays as it is."""
    pytest.importorskip("tree_sitter_bash")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".claude").mkdir()
    settings = tmp_path / ".claude" / "settings.json"
    settings.write_text(json.dumps({"permissions": {"allow": ["Edit(/src/**)"], "deny": ["Bash(rm *)"]}}))
    assert cli("init", "--from", settings).status == 0
    session = load_policies(tmp_path / "guardagent.yaml").session()
    assert session.check("Bash", {"command": "cd a && rm b"}).rules == ("deny_1",)
    assert session.check("Edit", {"file_path": f"{tmp_path.resolve()}/src/x"}).label == 0
    again, other = cli("init", "--from", settings), cli("init", tmp_path / "new", "--from", tmp_path / "x.txt")
    assert ("is there already" in again.err, "belongs to no format of rules; expected" in other.err) == (True, True)
