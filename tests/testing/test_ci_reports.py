"""The formats of a report of CI."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from guardagent.testing.ci import (
    CiCheck,
    CiFinding,
    CiReport,
    as_json,
    github,
    junit,
    read_settings,
    run_checks,
    sarif,
    text,
)
from guardagent.workflow.analysis.report import Severity
from guardagent.workflow.reports.text import SourceLocation
from tests.testing.test_ci import graph, project  # noqa: F401 - a fixture
from tests.workflow.sarif_shapes import problems

ODD = (
    "plain",
    'a < b & c > "d"',
    "\x1b[31mred\x00",
    "half \ud800",
    "two\nlines",
    "]]>",
    "::error::no",
    "{0} [a](b)",
    "日本",
    "\u202eturned",
)


def report(message: str, severity: Severity = "error", kind: str = "different") -> CiReport:
    finding = CiFinding(severity, kind, message, SourceLocation("a b.jsonl", 3))
    checks = (CiCheck("test", "shop.cases.jsonl", message, (finding,)), CiCheck("test", "shop.cases.jsonl", "ok"))
    return CiReport(checks)


def read(xml: str) -> ET.Element:
    return ET.fromstring(xml)  # noqa: S314 - our own output


@pytest.mark.parametrize("message", ODD)
def test_any_text_fits_into_every_format(message: str) -> None:
    """No name breaks a line, an element or the terminal, or begins a command."""
    subject = report(message)
    suite = read(junit(subject)).find("testsuite")
    assert suite is not None
    assert len(suite) == 2
    assert list(problems(json.loads(sarif(subject)))) == []
    assert json.loads(as_json(subject))["status"] == 1
    lines = github(subject).splitlines()
    assert (len(lines), lines[0].startswith("::error file=a b.jsonl,line=3,title=test%3A different::")) == (1, True)
    assert len(list(text(subject))) == 3
    assert all("\x1b" not in output for output in (junit(subject), github(subject), *text(subject)))


@pytest.mark.parametrize(
    ("severity", "kind", "counts", "children"),
    [
        ("error", "different", ("1", "0"), ["failure"]),
        ("error", "invalid", ("0", "1"), ["error"]),
        ("warning", "uncovered", ("0", "0"), ["system-out"]),
        ("note", "undecided", ("0", "0"), ["system-out"]),
    ],
)
def test_junit_counts_what_fails(severity: Severity, kind: str, counts: tuple[str, str], children: list[str]) -> None:
    """A finding below the severity that fails is output of a test that passed."""
    root = read(junit(report("x", severity, kind)))
    for element in (root, *root.findall("testsuite")):
        assert element.get("tests") == "2"
        assert (element.get("failures"), element.get("errors")) == counts
    assert [child.tag for child in root.iter() if child.tag not in ("testsuites", "testsuite", "testcase")] == children


def test_sarif_has_a_run_for_policies_and_one_for_each_workflow(project: Path) -> None:  # noqa: F811
    """Each has an id of its own, by which services tell runs apart; a workflow's problems are not listed twice."""
    (project / "graph.json").write_text(json.dumps(graph("pay", "login")))
    (project / "shop.cases.jsonl").write_text("{")
    log = json.loads(sarif(run_checks(read_settings(project / "pyproject.toml"))))
    assert list(problems(log)) == []
    assert [run["automationDetails"]["id"] for run in log["runs"]] == ["guardagent/ci/", "guardagent/graph.json/"]
    kinds = [[result["ruleId"] for result in run["results"]] for run in log["runs"]]
    assert "test/invalid" in kinds[0]
    assert not any(kind.startswith("verify/") for kind in kinds[0])
    assert "policy/login" in kinds[1]
    assert [run["invocations"][0]["executionSuccessful"] for run in log["runs"]] == [False, True]


def test_a_workflow_that_cannot_be_read_is_in_the_first_run(project: Path) -> None:  # noqa: F811
    (project / "graph.json").write_text("[]")
    log = json.loads(sarif(run_checks(read_settings(project / "pyproject.toml"))))
    rules = [[result["ruleId"] for result in run["results"]] for run in log["runs"]]
    assert rules == [["lint/unchecked", "verify/invalid"]]
