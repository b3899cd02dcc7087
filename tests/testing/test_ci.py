"""The checks of a project: what they find, what fails, and what the settings say."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.testing.ci import CiReport, CiSettings, read_settings, run_checks
from guardagent.workflow.model.graph import END, START, GraphBuilder
from tests.conftest import Cli

POLICY = """\
version: 1
unlisted: allow
policies:
- {id: login, temporal: "G(tool:pay -> O tool:login)"}
- {id: small, temporal: "forall(pay(n=n), n <= 100)", message: at most 100}
"""
LOGIN = {"tool": "login", "args": {}, "output": "ok", "failed": False}


def case(name: str, n: Any, history: tuple[Any, ...] = (LOGIN,), **expected: Any) -> str:
    return json.dumps({"id": name, "history": history, "proposed": {"tool": "pay", "args": {"n": n}}, **expected})


COVERING = (
    case("ok", 5, label=0, rules=[]),
    case("big", 500, label=1, rules=["small"]),
    case("first", 5, (), label=1, rules=["login"]),
)
TRACE = {"id": "t", "events": [LOGIN, {"tool": "pay", "args": {"n": 90}, "output": 1, "failed": False}]}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose checks all pass."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.yaml").write_text(POLICY)
    (tmp_path / "shop.cases.jsonl").write_text("\n".join(COVERING) + "\n")
    (tmp_path / "traces.jsonl").write_text(json.dumps(TRACE) + "\n")
    (tmp_path / "last.yaml").write_text(POLICY)
    (tmp_path / "graph.json").write_text(json.dumps(graph("login", "pay")))
    (tmp_path / "pyproject.toml").write_text(
        '[tool.guardagent]\npolicies = ["shop.yaml"]\nreplay = ["traces.jsonl"]\nagainst = "last.yaml"\n'
        'workflows = ["graph.json"]\n'
    )
    return tmp_path


def graph(*tools: str) -> Any:
    builder = GraphBuilder("mine", "test")
    for before, tool in zip((START, *tools), tools, strict=False):
        builder.node(tool, "tool", tools=(tool,))
        builder.edge(before, tool)
    builder.edge(tools[-1], END)
    return builder.graph().to_dict()


def rows_of(report: CiReport) -> list[tuple[str, str, str]]:
    return [(check.step, finding.severity, finding.kind) for check in report.checks for finding in check.findings]


def test_a_sound_project_passes_every_step(project: Path) -> None:
    report = run_checks(read_settings(project / "pyproject.toml"))
    assert (report.status, [row for row in rows_of(report) if row[1] != "note"]) == (0, [])
    assert {check.step for check in report.checks} == {"lint", "test", "coverage", "replay", "verify"}
    assert [check.name for check in report.checks if check.step == "test"] == ["ok", "big", "first"]


PAYS_FIRST = json.dumps(graph("pay", "login"))
FAULTS: dict[str, tuple[str, str, tuple[str, str, str], int]] = {
    "an expectation that does not hold": ("shop.cases.jsonl", case("x", 5, label=1), ("test", "error", "different"), 1),
    "an unreadable line": ("shop.cases.jsonl", "{", ("test", "error", "invalid"), 2),
    "an empty file of cases": ("shop.cases.jsonl", "", ("test", "error", "invalid"), 2),
    "a rule without a case": ("shop.cases.jsonl", COVERING[0], ("coverage", "warning", "uncovered"), 0),
    "a policy file without rules": ("shop.yaml", "version: 1\npolicies: []\n", ("lint", "error", "invalid"), 2),
    "a policy that changed": ("last.yaml", POLICY.replace("<= 100", "<= 10"), ("replay", "warning", "different"), 0),
    "an unreadable trace": ("traces.jsonl", "{", ("replay", "error", "invalid"), 2),
    "a workflow that pays first": ("graph.json", PAYS_FIRST, ("verify", "error", "policy/violated"), 1),
    "a file without a graph": ("graph.json", "[]", ("verify", "error", "invalid"), 2),
    "a rule that nothing can keep": (
        "shop.yaml",
        POLICY + '- {id: never, temporal: "forall(pay(n=n), n > 5 && n < 3)"}\n',
        ("coverage", "warning", "uncovered"),
        1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_its_step(project: Path, fault: str) -> None:
    """The other steps still run; what cannot be read never passes."""
    file, content, row, status = FAULTS[fault]
    (project / file).write_text(content)
    report = run_checks(read_settings(project / "pyproject.toml"))
    assert row in rows_of(report)
    assert report.status == status
    assert {check.step for check in report.checks} >= {"lint", "replay", "verify"}


@pytest.mark.parametrize("missing", ["shop.yaml", "shop.cases.jsonl", "traces.jsonl", "last.yaml", "graph.json"])
def test_a_missing_file_is_never_a_pass(project: Path, missing: str) -> None:
    """Only missing cases are a warning: a policy may have none yet."""
    (project / missing).unlink()
    report = run_checks(read_settings(project / "pyproject.toml"))
    assert report.status == (0 if missing == "shop.cases.jsonl" else 2)
    assert any(severity in ("warning", "error") for _, severity, _ in rows_of(report))


@pytest.mark.parametrize(("fail_on", "status"), [("error", 0), ("warning", 1), ("note", 1)])
def test_the_severity_decides_what_fails(project: Path, fail_on: str, status: int) -> None:
    (project / "shop.cases.jsonl").write_text(COVERING[0])
    settings = read_settings(project / "pyproject.toml")
    assert run_checks(CiSettings(policies=settings.policies, fail_on=fail_on)).status == status  # type: ignore[arg-type]


def git(*arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments], check=True, capture_output=True)  # noqa: S607


def test_the_last_policy_can_be_that_of_a_revision(project: Path) -> None:
    """A policy that the revision lacks has nothing to be compared with."""
    (project / "rules").mkdir()
    (project / "shop.yaml").rename(project / "rules" / "shop.yaml")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "first")
    (project / "rules" / "shop.yaml").write_text(POLICY.replace("<= 100", "<= 10"))
    (project / "new.yaml").write_text(POLICY)
    for against in ("HEAD", "HEAD^{tree}~0", "--help", "no-such-branch"):
        settings = CiSettings(policies=("rules/shop.yaml", "new.yaml"), replay=("traces.jsonl",), against=against)
        report = run_checks(settings)
        rows = [row for row in rows_of(report) if row[0] == "replay"]
        assert rows == (
            [("replay", "warning", "different"), ("replay", "note", "new")]
            if against == "HEAD"
            else [("replay", "error", "invalid")]
        )
        assert report.status == (0 if against == "HEAD" else 2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names nothing to check"),
        ("[tool.guardagent]\n", "names nothing to check"),
        ("[tool.guardagent]\npolices = []\n", "unknown key 'polices'; did you mean 'policies'"),
        ('[tool.guardagent]\npolicies = "a.yaml"\n', "'policies' is 'a.yaml'; expected a list of strings"),
        ("[tool.guardagent]\npolicies = [1]\n", "expected a list of strings"),
        ('[tool.guardagent]\npolicies = ["a"]\nstrict = "yes"\n', "'strict' is 'yes'; expected true or false"),
        ('[tool.guardagent]\npolicies = ["a"]\nagainst = 1\n', "'against' is 1; expected a string"),
        ('[tool.guardagent]\npolicies = ["a"]\nfail-on = "worst"\n', "unknown severity 'worst'"),
        ("[tool.guardagent\n", "is not valid TOML"),
        ("tool = 1\n", "names nothing to check"),
        ("[tool]\nguardagent = 1\n", "names nothing to check"),
        ('[tool.guardagent]\nworkflows = ["a.py"]\nreplay = ["l.db"]\n', "'replay' needs policies"),
    ],
)
def test_wrong_settings_are_errors(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(InputError) as refused:
        read_settings(tmp_path / "pyproject.toml")
    assert says in str(refused.value)


def test_the_command_writes_its_reports(project: Path, cli: Cli) -> None:
    """Options override the file, and the exit status is that of the report."""
    ran = cli("ci", "--sarif", "out.sarif", "--junit", "out.xml")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines()[-1].startswith("PASSED: 0 errors, 0 warnings")
    assert (project / "out.xml").is_file()
    (project / "shop.cases.jsonl").write_text(COVERING[0])
    assert (cli("ci").status, cli("ci", "--fail-on", "warning").status) == (0, 1)
    assert "::warning file=shop.yaml,line=4,title=coverage%3A uncovered::login" in cli("ci", "--format", "github").out
    assert json.loads(cli("ci", "--json", "--against", "nowhere").out)["status"] == 2
    for wrong in (["--fail-on", "all"], ["--format", "pdf"]):
        assert cli("ci", *wrong).status == 2


def test_the_rules_of_a_pack_need_no_cases_here(project: Path) -> None:
    """A pack has cases of its own; the rules of the project are still covered."""
    (project / "shop.yaml").write_text(POLICY.replace("policies:", "include: [guardagent:runaway]\npolicies:"))
    report = run_checks(CiSettings(policies=("shop.yaml",)))
    assert [check.name for check in report.checks if check.step == "coverage"] == ["login", "small"]
