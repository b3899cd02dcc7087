"""The checks of a project for CI, and their reports: lint, cases, a replay against the last policy, and workflows.

`pyproject.toml` names what is checked:

    [tool.guardagent]
    policies = ["shop.yaml"]        linted; the cases beside each are judged
    replay = ["audit.jsonl"]        audit logs and traces that each policy is replayed on
    against = "origin/main"         the last policy: a Git revision, or a policy file
    workflows = ["app.py:graph"]    verified with all policies, as by `guardagent verify`
    require-human = false           … with these options of it
    sensitive-tools = []
    strict = false
    fail-on = "error"               the least severity that fails: error, warning or note
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from xml.etree import ElementTree as ET

from guardagent._support.execution import without_garbage_collection
from guardagent._support.files import read_text
from guardagent._terminal import single_line
from guardagent.batch.cases import RuleCoverage, covered_rules, difference_lines, judge_case, read_expectation
from guardagent.batch.pipeline import Job, judge_line
from guardagent.batch.records import LineReader, open_bytes
from guardagent.batch.replay import replay
from guardagent.batch.replay.conversation import load_replay_policy
from guardagent.errors import ContentError, GuardError, InputError, UnknownNameError
from guardagent.log import load_key
from guardagent.policy.file.policy_file import read_policy_file
from guardagent.policy.lint import lint_report
from guardagent.policy.load import load_policies, read_policies
from guardagent.testing.pytest_plugin import SUFFIX, policy_beside
from guardagent.workflow.analysis.report import Report, ReportListing, Severity
from guardagent.workflow.reports.sarif import findings_run, runs_of, sarif_log
from guardagent.workflow.reports.text import (
    ANNOTATION_COMMANDS,
    STATUSES,
    SourceLocation,
    SourceLocations,
    annotation,
    relative_file,
)
from guardagent.workflow.verify import verify_all

SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")
Step = Literal["lint", "test", "coverage", "replay", "verify"]
INVALID = "invalid"
"""The kind of findings about what could not be read or checked."""
_GRAVE = ("contradictory", "vacuous")  # a rule with such a finding does not guard


@dataclass(frozen=True, slots=True)
class CiFinding:
    """A finding.

    Attributes:
        kind: the kind of finding within its step, such as `contradictory` or the name of a structural check.
        place: the source line; None if it is unknown.
    """

    severity: Severity
    kind: str
    message: str
    place: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class CiCheck:
    """One thing that a step checked: a rule, a case, or the structure of a workflow.

    Attributes:
        target: the file or workflow.
        name: the rule, the case, or another part of the target.
        findings: the findings; empty if all is well.
    """

    step: Step
    target: str
    name: str
    findings: tuple[CiFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class CiReport:
    """The results of all steps.

    Attributes:
        checks: the checks in the order of the steps.
        listings: the reports of the verified workflows, which have more than the findings here.
        fail_on: the least severity that fails.
    """

    checks: tuple[CiCheck, ...]
    listings: tuple[ReportListing, ...] = ()
    fail_on: Severity = "error"

    @property
    def findings(self) -> list[CiFinding]:
        return [finding for check in self.checks for finding in check.findings]

    def fails(self, finding: CiFinding) -> bool:
        """Whether a finding is severe enough to fail."""
        return SEVERITIES.index(finding.severity) >= SEVERITIES.index(self.fail_on)

    @property
    def status(self) -> int:
        """The exit status: 2 if something could not be read, 1 if another finding fails, else 0."""
        kinds = [finding.kind for finding in self.findings if self.fails(finding)]
        return 2 if INVALID in kinds else int(bool(kinds))


@dataclass(frozen=True, slots=True, kw_only=True)
class CiSettings:
    """The table `[tool.guardagent]` of `pyproject.toml`; in its keys, `-` stands for `_`."""

    policies: tuple[str, ...] = ()
    replay: tuple[str, ...] = ()
    against: str = ""
    workflows: tuple[str, ...] = ()
    require_human: bool = False
    sensitive_tools: tuple[str, ...] = ()
    strict: bool = False
    fail_on: Severity = "error"

    def __post_init__(self) -> None:
        if self.fail_on not in SEVERITIES:
            raise UnknownNameError("severity", str(self.fail_on), SEVERITIES)


def read_settings(path: Path) -> CiSettings:
    """Reads the settings of a project.

    Raises:
        InputError: the file is missing or invalid, or names neither a policy nor a workflow.
    """
    try:
        tools = tomllib.loads(read_text(path, may_be_blank=True)).get("tool")
    except tomllib.TOMLDecodeError as error:
        raise ContentError(f"is not valid TOML: {error}", path) from None
    table = tools.get("guardagent") if isinstance(tools, dict) else None
    known = {field.name.replace("_", "-"): field for field in fields(CiSettings)}
    values: dict[str, Any] = {}
    for key, value in table.items() if isinstance(table, dict) else ():
        if key not in known:
            raise UnknownNameError("key", key, known, f"{path}: [tool.guardagent]")
        default, is_list = known[key].default, isinstance(value, list) and all(isinstance(name, str) for name in value)
        if not (is_list if isinstance(default, tuple) else isinstance(value, type(default))):
            expected = {tuple: "a list of strings", bool: "true or false"}.get(type(default), "a string")
            raise ContentError(f"[tool.guardagent] {key!r} is {value!r}; expected {expected}", path)
        values[known[key].name] = tuple(value) if is_list else value
    if not values.get("policies") and not values.get("workflows"):
        raise ContentError('names nothing to check; expected [tool.guardagent] policies = ["FILE.yaml"]', path)
    if values.get("replay") and not values.get("policies"):
        raise ContentError("[tool.guardagent] 'replay' needs policies to replay; expected 'policies' too", path)
    return CiSettings(**values)


def run_checks(settings: CiSettings) -> CiReport:
    """Runs all steps in the current folder. What cannot be read is a finding, and the other steps still run."""
    checks: list[CiCheck] = []
    listings: list[ReportListing] = []
    for policy in settings.policies:
        checks += _checked("lint", policy, _lint)
        checks += _checked("test", policy, _test)
    checks += _checked("replay", settings.against or "replay", lambda _: _replays(settings)) if settings.replay else []
    for target in dict.fromkeys(settings.workflows):
        checks += _checked("verify", target, partial(_verify, settings, listings))
    return CiReport(tuple(checks), tuple(listings), settings.fail_on)


def _checked(step: Step, target: str, check: Callable[[str], Iterable[CiCheck]]) -> list[CiCheck]:
    try:
        return list(check(target))
    except GuardError as error:
        return [CiCheck(step, target, target, (_invalid(str(error), target),))]


def _invalid(message: str, file: str) -> CiFinding:
    return CiFinding("error", INVALID, message, _place(file) if Path(file).is_file() else None)


def _place(file: Path | str, line: int = 1) -> SourceLocation:
    return SourceLocation(relative_file(str(file)), line)


# --- policies


def _lint(policy: str) -> Iterator[CiCheck]:
    report = lint_report(policy)
    whole: list[CiFinding] = [CiFinding("note", "undecided", text, _place(policy)) for text in report.undecided]
    whole += [CiFinding("note", "unchecked", text, _place(policy)) for text in report.notes]
    places = _rule_places(policy)
    of_rules: dict[str | None, list[CiFinding]] = {None: whole, **{rule: [] for rule in places}}
    for fault in report.findings:
        tool = f" ({fault.tool})" if fault.tool else ""
        message = f"{fault.policy or 'the file'}{tool}: {fault.message}; for example: {fault.example}"
        severity: Severity = "error" if fault.kind in _GRAVE else "warning"
        place = places.get(fault.policy or "", _place(policy))
        of_rules.setdefault(fault.policy, []).append(CiFinding(severity, fault.kind, message, place))
    for rule, findings in of_rules.items():
        if rule is None and not findings:
            continue
        yield CiCheck("lint", policy, rule or "the file", tuple(findings))


def _rule_places(policy: str) -> dict[str, SourceLocation]:
    return {rule.id: _place(rule.path, rule.line) for rule in read_policy_file(policy).rules}


def _test(policy: str) -> Iterator[CiCheck]:
    """Yields a check for each case of a policy, then one for the coverage of each rule."""
    path = Path(policy)
    load = partial(load_policies, path, model=os.environ.get("GUARDAGENT_MODEL") or None)
    policies, coverage = load(), RuleCoverage()
    files = [
        file for file in sorted(path.parent.iterdir()) if file.name.endswith(SUFFIX) and policy_beside(file) == path
    ]
    if not files:
        missing = f"has no cases; expected {path.stem}{SUFFIX} beside it"
        yield CiCheck("test", policy, "the file", (CiFinding("warning", "no-cases", missing, _place(policy)),))
    for file in files:
        job = Job(str(file), load, read_expectation, judge_case)
        with open_bytes(file) as stream:
            lines = [line for chunk in LineReader(stream).chunks() for line in chunk.lines]
        if not lines:
            yield CiCheck("test", str(file), "the file", (_invalid("holds no cases; expected one a line", str(file)),))
        for line in lines:
            result, place = judge_line(job, policies, line), _place(file, line.number)
            if result.error:
                finding = CiFinding("error", INVALID, result.error, place)
                yield CiCheck("test", str(file), f"line {line.number}", (finding,))
                continue
            case, row = read_expectation(line.text(file), file, line.number), json.loads(result.row)
            coverage.add(covered_rules(policies, policy, case.proposed, row))
            message = "; ".join(text.strip() for text in difference_lines(result, policies.ids))
            different = (CiFinding("error", "different", f"{row['id']}: {message}", place),) if message else ()
            yield CiCheck("test", str(file), str(row["id"]), different)
    places = _rule_places(policy)
    for covered in coverage.policies.values():
        gaps = {"never violated": covered.never_violated, "never satisfied": covered.never_satisfied}
        for rule in covered.rules:
            if rule in places and not places[rule].inside:
                continue  # a pack's, which has cases of its own
            texts = [f"{rule}: {gap} by a case" for gap, uncovered in gaps.items() if rule in uncovered]
            findings = tuple(CiFinding("warning", "uncovered", text, places.get(rule)) for text in texts)
            yield CiCheck("coverage", policy, rule, findings)


# --- replay


def _replays(settings: CiSettings) -> Iterator[CiCheck]:
    with _earlier_policies(settings.against) as earlier:
        for policy in settings.policies:
            last = earlier(policy)
            if last is not None and not last.is_file():
                new = CiFinding("note", "new", f"{policy} is new in this change: {settings.against} lacks it")
                yield CiCheck("replay", policy, "the file", (new,))
                continue
            for log in settings.replay:
                yield from _checked("replay", log, partial(_replay, policy, last))


def _replay(policy: str, last: Path | None, log: str) -> Iterator[CiCheck]:
    before = None if last is None else load_replay_policy(last)
    report = replay(Path(log), load_replay_policy(policy), before, key=load_key(None))
    notes = [CiFinding("note", "log", text) for text in report.notes]
    yield CiCheck("replay", log, policy, (*(_invalid(problem, log) for problem in report.problems), *notes))
    places = _rule_places(policy)
    for row in report.table.rows.values():
        severity: Severity = "warning" if row.differs else "note"
        shown = row.differs or row.undecidable
        message, place = "; ".join(map(str.strip, row.lines())), places.get(row.rule, _place(policy))
        finding = CiFinding(severity, "different" if row.differs else "undecidable", message, place)
        yield CiCheck("replay", log, row.rule, (finding,) if shown else ())


@contextmanager
def _earlier_policies(against: str) -> Iterator[Callable[[str], Path | None]]:
    """Gives the earlier version of a policy file; of a Git revision, from an export of all of its files.

    Raises:
        InputError: there is neither such a file nor such a revision.
    """
    if not against or Path(against).is_file():
        yield lambda _: Path(against) if against else None
        return
    try:
        root = _git("rev-parse", "--show-toplevel").decode().rstrip("\n")
        commit = _git("rev-parse", "--verify", "--end-of-options", f"{against}^{{commit}}").decode().strip()
        content = _git("-C", root, "archive", "--format=zip", commit)
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", b"") or str(error).encode()
        raise InputError(
            f"'against' is {against!r}: {why.decode(errors='replace').strip()}; expected a policy file, or a revision "
            "that this checkout has (in CI, fetch it first: 'fetch-depth: 0')"
        ) from None
    with TemporaryDirectory(prefix="guardagent-last-") as folder:
        zipfile.ZipFile(io.BytesIO(content)).extractall(folder)
        yield lambda policy: Path(folder, Path(policy).resolve().relative_to(Path(root).resolve()))


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], capture_output=True, check=True).stdout  # noqa: S603, S607


# --- workflows


def _verify(settings: CiSettings, listings: list[ReportListing], target: str) -> Iterator[CiCheck]:
    """Yields the checks of all workflows of a target, and adds their reports."""
    with without_garbage_collection():
        listing = verify_all(
            target,
            read_policies(settings.policies) if settings.policies else None,
            require_human=settings.require_human,
            sensitive_tools=settings.sensitive_tools,
            strict=settings.strict,
        )
    listings.append(listing)
    for report in listing.reports:
        yield from _workflow(report)
    unread = [CiFinding("error", INVALID, place.reason, _place(place.file, place.line)) for place in listing.unread]
    yield CiCheck("verify", target, "unread places", tuple(unread))


def _workflow(report: Report) -> Iterator[CiCheck]:
    places = SourceLocations(report)
    findings = [
        CiFinding(finding.severity, finding.check, finding.message, places.of(report.node_of(finding)))
        for finding in report.findings
        if finding.suppressed is None
    ]
    unknown: Severity = "error" if report.strict else "warning"
    findings += [CiFinding(unknown, "unknown", str(part), places.of(part.node)) for part in report.unknown]
    yield CiCheck("verify", report.target, "structure", tuple(findings))
    for rule in report.rules:
        severity: Severity = "error" if rule.status == "violated" else "note"
        node = report.graph.by_id.get(rule.witness[-1]) if rule.witness else None
        message = ": ".join(filter(None, (f"{rule.id} {STATUSES[rule.status]}", rule.message)))
        finding = CiFinding(severity, f"policy/{rule.status}", message, places.of(node))
        yield CiCheck("verify", report.target, rule.id, () if rule.status == "proved" else (finding,))


# --- the formats of a report: SARIF 2.1.0, JUnit XML, annotations of GitHub Actions, and JSON


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
