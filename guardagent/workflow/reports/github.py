"""The report as workflow commands of GitHub Actions: annotations beside the source lines.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Iterator

from guardagent._terminal import single_line
from guardagent.workflow.analysis.report import GraphFinding, Report, ReportListing, RuleResult
from guardagent.workflow.model.unknown import UnknownPart
from guardagent.workflow.reports import ReportFormat
from guardagent.workflow.reports._source_locations import SourceLocation, SourceLocations, relative_file
from guardagent.workflow.reports._walks import WitnessWalks
from guardagent.workflow.reports._wording import MECHANISMS, check_descriptions, every_run_line
from guardagent.workflow.reports.text import summary

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
_LONGEST_PATH = 40
_MOST = 500  # annotations; GitHub shows the first ten of each kind, and the rest in the log


def render(report: Report) -> str:
    """Returns a line for each unknown part, unproved rule and unsuppressed finding, then a summary for the log."""
    findings = [one for one in report.findings if one.suppressed is None]
    rules = [one for one in report.rules if one.status != "proved"]
    places, walks = SourceLocations(report), WitnessWalks(report.graph, [*rules, *findings[:_MOST]])
    more = len(findings) - _MOST
    lines = [
        *(_unknown(report, one, places) for one in report.unknown[:_MOST]),
        *(_rule(report, one, places, walks) for one in rules),
        *(_finding(report, one, places, walks) for one in findings[:_MOST]),
        *([f"GuardAgent: {more:,} more findings are in the report as JSON"] if more > 0 else []),
        f"GuardAgent: {'passed' if report.passed else 'failed'}: {summary(report)}",
    ]
    return "\n".join(lines)


def _unknown(report: Report, part: UnknownPart, places: SourceLocations) -> str:
    command, node = "error" if report.strict else "warning", report.graph.by_id[part.node.id]
    return _command(command, "unknown part of the graph", str(part), places.of(node))


def render_all(listing: ReportListing) -> str:
    """Returns the lines of each report, with its target in the summary, then a line for each unread place."""
    lines = []
    for report in listing.reports:
        *annotations, last = render(report).split("\n")
        lines += [*annotations, f"{last} ({single_line(report.target)})"]
    for one in listing.unread:
        place = SourceLocation(relative_file(one.file), one.line)
        lines.append(_command("error", "not verified", one.reason, place))
    return "\n".join(lines)


GITHUB = ReportFormat(".txt", render, render_all)


def _finding(report: Report, finding: GraphFinding, places: SourceLocations, walks: WitnessWalks) -> str:
    about = check_descriptions()[finding.check]
    node = report.graph.by_id.get(finding.node) if finding.node is not None else None
    message = "\n".join([finding.message, about.remedy, *_path(finding, walks)])
    return _command(_COMMANDS[finding.severity], f"{finding.check}: {about.title}", message, places.of(node))


def _rule(report: Report, rule: RuleResult, places: SourceLocations, walks: WitnessWalks) -> str:
    how = f", {MECHANISMS[rule.mechanism]}" if rule.mechanism else ""
    last = report.graph.by_id.get(rule.witness[-1]) if rule.witness else None
    every_run = every_run_line(rule.every_run)
    headline = f"{rule.id}: {rule.status}{how}: {rule.message}"
    message = "\n".join([headline, *([every_run] if every_run else []), *_path(rule, walks)])
    return _command("error" if rule.status == "violated" else "notice", f"policy: {rule.id}", message, places.of(last))


def _path(found: GraphFinding | RuleResult, walks: WitnessWalks) -> Iterator[str]:
    walk = walks.of(found)
    names = [step.node.id for step in walk.steps]
    if len(names) > _LONGEST_PATH:
        names[_LONGEST_PATH // 2 : -_LONGEST_PATH // 2] = ["…"]
    if len(names) > 1:
        yield f"path: {' → '.join(names)}{' → …' if walk.turn is not None else ''}"


def _command(command: str, title: str, message: str, place: SourceLocation | None) -> str:
    where = {"file": place.file, "line": str(place.line)} if place and place.inside else {}
    properties = ",".join(f"{name}={_property(value)}" for name, value in {**where, "title": title}.items())
    return f"::{command} {properties}::{_data(message)}"


def _data(text: str) -> str:
    # A line break in a name could begin another command.
    lines = [single_line(line) for line in text.split("\n")]
    return "%0A".join(line.replace("%", "%25") for line in lines)


def _property(text: str) -> str:
    return single_line(text).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
