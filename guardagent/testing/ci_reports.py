"""The formats of a report of CI: SARIF 2.1.0, JUnit XML, annotations of GitHub Actions, and JSON.

JUnit has no standard; the elements are those that Jenkins, GitLab and GitHub's actions read:
https://github.com/testmoapp/junitxml
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any
from xml.etree import ElementTree as ET

from guardagent._terminal import single_line
from guardagent.testing.ci import INVALID, CiCheck, CiFinding, CiReport
from guardagent.workflow.reports.sarif import findings_run, runs_of, sarif_log
from guardagent.workflow.reports.text import ANNOTATION_COMMANDS, annotation


def sarif(report: CiReport) -> str:
    """One run for policies, and one for each target of `verify`, with its paths."""
    verified = {listing.target for listing in report.listings}
    rows = [
        (f"{check.step}/{finding.kind}", finding.severity, finding.message, finding.place)
        for check in report.checks
        if check.step != "verify" or check.target not in verified
        for finding in check.findings
        if check.step != "verify" or finding.kind == INVALID
    ]
    return sarif_log([findings_run("ci", rows), *(run for listing in report.listings for run in runs_of(listing))])


def junit(report: CiReport) -> str:
    """A test suite for each step and target. Findings below the severity that fails are output of a passed test."""
    root = ET.Element("testsuites", name="guardagent")
    for (step, target), group in groupby(report.checks, lambda check: (check.step, check.target)):
        checks = list(group)
        name = f"{step} {single_line(target)}"
        suite = ET.SubElement(root, "testsuite", {"name": name, **_counts(checks, report)})
        for check in checks:
            _add_test(suite, check, report)
    for key, value in _counts(report.checks, report).items():
        root.set(key, value)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _counts(checks: Any, report: CiReport) -> dict[str, str]:
    kinds = [{finding.kind == INVALID for finding in check.findings if report.fails(finding)} for check in checks]
    errors = sum(True in kinds_of_check for kinds_of_check in kinds)
    return {"tests": str(len(kinds)), "failures": str(sum(map(bool, kinds)) - errors), "errors": str(errors)}


def _add_test(suite: ET.Element, check: CiCheck, report: CiReport) -> None:
    names = {"classname": f"{check.step}.{single_line(check.target)}", "name": single_line(check.name)}
    test = ET.SubElement(suite, "testcase", names)
    failing = [finding for finding in check.findings if report.fails(finding)]
    if failing:  # readers expect at most one
        tag = "error" if any(finding.kind == INVALID for finding in failing) else "failure"
        text = "\n".join(map(_line, failing))
        head = {"type": failing[0].kind, "message": single_line(failing[0].message)}
        ET.SubElement(test, tag, head).text = text
    if others := [finding for finding in check.findings if not report.fails(finding)]:
        ET.SubElement(test, "system-out").text = "\n".join(map(_line, others))


def _line(finding: CiFinding) -> str:
    place = f"{finding.place}: " if finding.place is not None else ""
    return single_line(f"{finding.severity}: {place}{finding.kind}: {finding.message}")


def github(report: CiReport) -> str:
    """A workflow command for each finding: GitHub shows it beside its line."""
    return "\n".join(
        annotation(
            ANNOTATION_COMMANDS[finding.severity], f"{check.step}: {finding.kind}", finding.message, finding.place
        )
        for check in report.checks
        for finding in check.findings
    )


def as_json(report: CiReport) -> str:
    """One JSON object: the status, the severity that fails, and the checks."""
    checks = [
        {"step": check.step, "target": check.target, "name": check.name, "findings": [*map(_record, check.findings)]}
        for check in report.checks
    ]
    return json.dumps({"status": report.status, "fail_on": report.fail_on, "checks": checks})


def _record(finding: CiFinding) -> dict[str, Any]:
    place = finding.place
    where = {"file": None if place is None else place.file, "line": None if place is None else place.line}
    return {"severity": finding.severity, "kind": finding.kind, "message": finding.message, **where}


def text(report: CiReport) -> Iterator[str]:
    """Yields a line for each step and target, its findings, and the result."""
    for (step, target), group in groupby(report.checks, lambda check: (check.step, check.target)):
        checks = list(group)
        yield f"{step:8}  {single_line(target)}: {len(checks):,} checked"
        yield from (f"  {_line(finding)}" for check in checks for finding in check.findings)
    severities = [finding.severity for finding in report.findings]
    counts = ", ".join(f"{severities.count(name):,} {name}s" for name in ("error", "warning", "note"))
    yield f"{'FAILED' if report.status else 'PASSED'}: {counts}; fails on: {report.fail_on}"
