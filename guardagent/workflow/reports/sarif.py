"""The report as SARIF 2.1.0, for code scanning: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from guardagent._terminal import single_line
from guardagent._version import __version__
from guardagent.workflow.analysis.report import GraphFinding, Report, ReportListing, RuleResult
from guardagent.workflow.drawing.svg import description
from guardagent.workflow.model.graph import Node
from guardagent.workflow.model.targets import UnreadPlace
from guardagent.workflow.reports import ReportFormat
from guardagent.workflow.reports.text import (
    MECHANISMS,
    STATUSES,
    SourceLocation,
    SourceLocations,
    WitnessStep,
    WitnessWalks,
    check_descriptions,
    location_of,
    other_notes,
    relative_file,
)

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"
_MOST_STEPS = 50_000  # in all paths together: services that read SARIF reject large files
_Json = dict[str, Any]


def render(report: Report) -> str:
    """Returns a SARIF log of one run: problems as results, undecidable rules as notifications."""
    return render_all(ReportListing(report.target, (report,), is_single=True))


def render_all(listing: ReportListing) -> str:
    """Returns a SARIF log of one run with the results of all reports; unread places are notifications of errors."""
    return sarif_log(runs_of(listing))


def sarif_log(runs: Sequence[_Json]) -> str:
    """Returns a log of runs. Each needs an `automationDetails.id` of its own: services tell runs apart by it."""
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": list(runs)})


def findings_run(name: str, findings: Iterable[tuple[str, str, str, SourceLocation | None]]) -> _Json:
    """Returns a run with findings that are about no graph.

    Args:
        name: the name of the run.
        findings: the kind, the severity, the message and the place of each.
    """
    rows = list(findings)
    kinds = list(dict.fromkeys(kind for kind, _, _, _ in rows))
    results = [
        {
            "ruleId": kind,
            "ruleIndex": kinds.index(kind),
            "level": severity,
            "message": _message(message),
            "locations": [{"physicalLocation": _physical(place)}] if place else [],
            "partialFingerprints": _fingerprint(kind, place.file if place else "", message),
        }
        for kind, severity, message, place in rows
    ]
    rules = [_rule(kind, f"{kind}.", kind, kind, kind.partition("/")[0]) for kind in kinds]
    return _run(name, rules, results, [], successful=not any(kind.endswith("/invalid") for kind in kinds))


def _run(
    name: str, rules: Sequence[_Json], results: Sequence[_Json], notes: Sequence[_Json], *, successful: bool
) -> _Json:
    return {
        "tool": {"driver": {"name": "GuardAgent", "version": __version__, "rules": rules}},
        "automationDetails": {"id": f"guardagent/{single_line(name)}/"},
        "invocations": [{"executionSuccessful": successful, "toolExecutionNotifications": notes}],
        "originalUriBaseIds": {_ROOT: {"description": _message("The folder in which verify was run.")}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }


def runs_of(listing: ReportListing) -> list[_Json]:
    """Returns the runs of a listing: one, with the results of all reports."""
    policy_rules = [rule for report in listing.reports for rule in report.rules]
    rules = list({rule["id"]: rule for rule in [*_check_rules(), *map(_policy_rule, policy_rules)]}.values())
    parts = [_SarifReport(report, rules, _MOST_STEPS // max(1, len(listing.reports))) for report in listing.reports]
    results = [result for part in parts for result in part.results()]
    notifications = [
        *(notification for part in parts for notification in part.notifications()),
        *map(_unread, listing.unread),
    ]
    about = [part.properties() for part in parts]
    run = _run(listing.target, rules, results, notifications, successful=not listing.unread)
    return [run | {"properties": about[0] if listing.is_single else {"passed": listing.passed, "reports": about}}]


SARIF = ReportFormat(".sarif", render, render_all)


def _unread(place: UnreadPlace) -> _Json:
    physical = _physical(SourceLocation(relative_file(place.file), place.line))
    return {"level": "error", "message": _message(place.reason), "locations": [{"physicalLocation": physical}]}


class _SarifReport:
    """The part of a run that is about one report."""

    def __init__(self, report: Report, rules: Sequence[_Json], most_steps: int) -> None:
        self._report, self._places = report, SourceLocations(report)
        self._walks = WitnessWalks(report.graph, [*report.findings, *report.rules])
        self._steps_left, self._without_path = most_steps, 0
        self._index = {rule["id"]: index for index, rule in enumerate(rules)}

    def results(self) -> list[_Json]:
        violated = [rule for rule in self._report.rules if rule.status == "violated"]
        return [*map(self._violation, violated), *map(self._finding, self._report.findings)]

    def properties(self) -> _Json:
        return {
            "target": single_line(self._report.target),
            "passed": self._report.passed,
            "graphHash": self._report.graph.digest,
            "rules": [
                {
                    "id": rule.id,
                    "status": rule.status,
                    "everyRun": rule.every_run.status,
                    "everyRunMessage": single_line(rule.every_run.message),
                }
                for rule in self._report.rules
            ],
        }

    def _finding(self, finding: GraphFinding) -> _Json:
        node = self._node(finding.node)
        result = self._result(finding.check, finding.severity, finding.message, finding, node)
        if finding.suppressed is not None:
            # A graph without sources has suppressions only in the policy file.
            kind = "inSource" if location_of(node) else "external"
            result["suppressions"] = [
                {"kind": kind, "status": "accepted", "justification": single_line(finding.suppressed)}
            ]  # fmt: skip
        return result

    def _violation(self, rule: RuleResult) -> _Json:
        how = MECHANISMS.get(rule.mechanism, "") if rule.mechanism else ""
        message = ": ".join(part for part in (f"{rule.id} {STATUSES['violated']}", how, rule.message) if part)
        last = self._node(rule.witness[-1]) if rule.witness else None
        return self._result(_policy_id(rule), "error", message, rule, last)

    def _result(
        self, rule_id: str, level: str, message: str, graph_finding: GraphFinding | RuleResult, node: Node | None
    ) -> _Json:
        location = self._location(node)
        return {
            "ruleId": rule_id,
            "ruleIndex": self._index[rule_id],
            "level": level,
            "message": _message(message),
            "locations": [location] if location else [],
            "partialFingerprints": _fingerprint(rule_id, self._report.graph.name, node.id if node else "", message),
            **self._flows(graph_finding),
        }

    def _flows(self, graph_finding: GraphFinding | RuleResult) -> _Json:
        if not graph_finding.witness:
            return {}
        self._steps_left -= len(graph_finding.witness)
        if self._steps_left < 0:
            self._without_path += 1
            return {}
        return {"codeFlows": [self._flow(self._walks.of(graph_finding).steps)]}

    def _flow(self, steps: Sequence[WitnessStep]) -> _Json:
        locations = [
            {"location": self._step(step), "executionOrder": number, "importance": _importance(number, len(steps))}
            for number, step in enumerate(steps, 1)
        ]
        return {"message": _message("A path that shows the problem."), "threadFlows": [{"locations": locations}]}

    def _step(self, step: WitnessStep) -> _Json:
        calls = f"; calls {', '.join(step.calls)}" if step.calls else ""
        when = f"if {step.condition}: " if step.condition else ""
        return {**self._location(step.node), "message": _message(f"{when}{description(step.node)}{calls}")}

    def _location(self, node: Node | None) -> _Json:
        place, path = self._places.of(node), f"{self._report.graph.name}/{node.id if node else ''}"
        return {
            **({"physicalLocation": _physical(place)} if place else {}),
            **({"logicalLocations": [{"name": node.id, "fullyQualifiedName": path, "kind": "node"}]} if node else {}),
        }

    def notifications(self) -> Iterator[_Json]:
        for part in self._report.unknown:
            location = self._location(self._node(part.node.id))
            level = "error" if self._report.strict else "warning"
            yield {"level": level, "message": _message(str(part)), "locations": [location] if location else []}
        for note in other_notes(self._report):
            yield {"level": "note", "message": _message(note)}
        if self._without_path:
            text = f"{self._without_path} results have no path here, to limit the size; '--format json' has all."
            yield {"level": "note", "message": _message(text)}
        for rule in self._report.rules:
            if rule.status == "undecidable":
                about = {"id": _policy_id(rule), "index": self._index[_policy_id(rule)]}
                message = _message(f"{rule.id} {STATUSES['undecidable']}: {rule.message}")
                yield {"level": "note", "message": message, "associatedRule": about}

    def _node(self, name: str | None) -> Node | None:
        return None if name is None else self._report.graph.by_id.get(name, Node(name))


def _importance(number: int, count: int) -> str:
    return "essential" if number in {1, count} else "important"


def _physical(place: SourceLocation) -> _Json:
    base: Mapping[str, str] = {"uriBaseId": _ROOT} if place.inside else {}
    return {"artifactLocation": {"uri": place.uri, **base}, "region": {"startLine": place.line}}


def _check_rules() -> Iterator[_Json]:
    for name, about in check_descriptions().items():
        help_ = f"{about.why} {about.remedy}"
        yield _rule(name, f"{about.title}.", about.why, help_, "structure")


def _policy_rule(rule: RuleResult) -> _Json:
    title = f"The rule {rule.id} holds on every path."
    why = "A path of the workflow violates this rule of the policy."
    return _rule(_policy_id(rule), title, why, f"{why} Change the workflow so that no such path is left.", "policy")


def _rule(name: str, title: str, why: str, help_: str, tag: str) -> _Json:
    return {
        "id": name,
        "name": "".join(word.capitalize() for word in name.replace("/", "_").split("_")),
        "shortDescription": _message(title),
        "fullDescription": _message(why),
        "help": _message(help_),
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["workflow", tag], "problem.severity": "error", "precision": "high"},
    }


def _policy_id(rule: RuleResult) -> str:
    return f"policy/{rule.id}"  # so that no id of a rule equals the name of a check


def _message(text: str) -> _Json:
    # In SARIF, `{0}` is a placeholder and `[text](target)` a link: names are neither.
    return {"text": single_line(text).replace("{", "{{").replace("}", "}}").replace("](", "] (")}


def _fingerprint(*parts: str) -> _Json:
    return {"guardagent/v1": hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()}
