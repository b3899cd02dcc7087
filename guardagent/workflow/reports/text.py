"""The report as text, in colour on a terminal, and as annotations of GitHub Actions; the parts that all formats share.

The text shows each witness as a path from top to bottom; a line beside a cycle leads back to its beginning. Annotations
are workflow commands, which GitHub shows beside the source lines:
https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands

All formats share the wording of checks, mechanisms and statuses; the walks, which are witnesses with their nodes, edges
and calls; and the source locations of nodes, as their extractor found them.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from urllib.parse import quote

from guardagent._terminal import single_line
from guardagent.workflow.analysis.checks import CheckDescription, descriptions
from guardagent.workflow.analysis.report import (
    EveryRunResult,
    GraphFinding,
    Mechanism,
    Report,
    ReportListing,
    RuleResult,
    RuleStatus,
)
from guardagent.workflow.model.graph import Edge, Graph, Node, UnknownPart
from guardagent.workflow.reports import ReportFormat

if TYPE_CHECKING:
    from rich.console import Console

_MOST_FINDINGS = 100  # findings that are shown individually
_PLAIN_CHARACTERS = str.maketrans("✔✘•┌├└○●┆⋮╭▶│╰─┘", "+x*,|`o*:.+>|+-'")  # for terminals without these characters
_RULE_MARKS = {"proved": ("✔", "green"), "violated": ("✘", "bold red"), "undecidable": ("?", "yellow")}
_SEVERITY_MARKS = {"error": ("✘", "bold red"), "warning": ("!", "bold yellow"), "note": ("•", "cyan")}
_MOST_STEPS, _HEAD, _TAIL = 24, 12, 8
_KIND_COLOURS = {"human": "green", "tool": "blue", "llm": "magenta", "router": "yellow", "subgraph": "cyan"}
ANNOTATION_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
_LONGEST_PATH = 40
_MOST_ANNOTATIONS = 500  # annotations; GitHub shows the first ten of each kind, and the rest in the log
_TARGET_FILE = re.compile(r"(?P<file>.+\.(?:py|json))(?::[\w.]+)?")

MECHANISMS: dict[Mechanism, str] = {
    "bad_prefix": "violated on the path",
    "unmet_at_end": "unmet at the end",
    "postponed_by_cycle": "postponed forever by a cycle",
}

STATUSES: dict[RuleStatus, str] = {
    "proved": "holds on every path",
    "violated": "is violated on the path shown",
    "undecidable": "cannot be decided before run time",
}

_EVERY_RUN: dict[RuleStatus, str] = {"proved": "proved", "violated": "no proof", "undecidable": "unknown"}

_SUPPRESSIONS = CheckDescription(
    "Every suppression has a reason and matches a finding",
    "A suppression without a reason or a finding can hide later findings.",
    "Write the reason after '--', or remove the suppression.",
)

StyledText = tuple[str, str]
"""A string and its style."""

_Ways = Mapping[tuple[str, str], Sequence[Edge]]


def _text(content: Report | ReportListing) -> str:
    """Returns the whole content without colours."""
    from rich.console import Console

    stream = io.StringIO()
    _print(content, Console(file=stream, width=100, color_system=None, force_terminal=False, legacy_windows=False))
    return stream.getvalue()


def _show(content: Report | ReportListing, stream: TextIO) -> None:
    """Writes the whole content, in colour if the stream is a terminal with colours."""
    from rich.console import Console

    _print(content, Console(file=stream))


TEXT = ReportFormat(".txt", _text, _text, _show, _show)


def _print(content: Report | ReportListing, console: Console) -> None:
    if isinstance(content, Report):
        _print_report(content, console)
    else:
        _print_listing(content, console)


def _print_listing(listing: ReportListing, console: Console) -> None:
    for report in listing.reports:
        _print_report(report, console)
        _print_line(console, ("", ""))
    _print_heading("not verified", len(listing.unread), console)
    for unread_place in listing.unread:
        place = SourceLocation(relative_file(unread_place.file), unread_place.line)
        _print_line(console, ("  ? ", "yellow"), (single_line(f"{place}: {unread_place.reason}"), ""))
    mark, style = ("✔ PASSED", "bold green") if listing.passed else ("✘ FAILED", "bold red")
    failed = sum(not report.passed for report in listing.reports)
    counts = f"{len(listing.reports):,} workflows, {failed:,} failed, {len(listing.unread):,} places not verified"
    _print_line(console, (mark, style), (f"  {single_line(listing.target)}: {counts}", "bold"))


def _print_report(report: Report, console: Console) -> None:
    findings = sorted(report.findings, key=lambda finding: finding.suppressed is not None)
    walks = WitnessWalks(report.graph, [*findings[:_MOST_FINDINGS], *report.rules])
    _print_summary(report, console)
    _print_heading("unknown", len(report.unknown), console)
    for part in report.unknown[:_MOST_FINDINGS]:
        _print_line(console, ("  ? ", "yellow"), (single_line(str(part)), ""))
    if (rest := len(report.unknown) - _MOST_FINDINGS) > 0:
        _print_line(console, (f"  and {rest:,} more; '--format json' has all of them", "dim"))
    _print_heading("findings", len(findings), console)
    for finding in findings[:_MOST_FINDINGS]:
        _print_finding(report, finding, walks, console)
    if (rest := len(findings) - _MOST_FINDINGS) > 0:
        _print_line(console, (f"  and {rest:,} more; '--format json' has all of them", "dim"))
    _print_heading("rules", len(report.rules), console)
    for rule in report.rules:
        _print_rule(rule, walks, console)
    notes = other_notes(report)
    _print_heading("notes", len(notes), console)
    for note in notes:
        _print_line(console, ("  • ", "cyan"), (single_line(note), ""))


def _print_summary(report: Report, console: Console) -> None:
    mark, style = ("✔ PASSED", "bold green") if report.passed else ("✘ FAILED", "bold red")
    graph = report.graph
    size = f"{graph.framework}, {len(graph.nodes):,} nodes, {len(graph.edges):,} edges, graph {graph.digest[:12]}"
    _print_line(
        console, (mark, style), (f"  {single_line(report.target)}", "bold"), (f"  ({single_line(size)})", "dim")
    )
    _print_line(console, (f"  {summary(report)}", ""))


def summary(report: Report) -> str:
    """Returns the numbers of findings and rules as one line."""
    counting = [finding for finding in report.findings if finding.suppressed is None]
    counts_ = [f"{len(counting):,} {'finding' if len(counting) == 1 else 'findings'}"]
    if suppressed := len(report.findings) - len(counting):
        counts_.append(f"{suppressed:,} suppressed")
    counts_ += [f"{len(report.unknown):,} unknown"] if report.unknown else []
    counts = {status: sum(rule.status == status for rule in report.rules) for status in _RULE_MARKS}
    counts_ += [f"{count:,} {'rule' if count == 1 else 'rules'} {status}" for status, count in counts.items() if count]
    return ", ".join(counts_)


def _print_heading(name: str, count: int, console: Console) -> None:
    if count:
        _print_line(console, ("\n" + name, "bold underline"))


def _print_finding(report: Report, finding: GraphFinding, walks: WitnessWalks, console: Console) -> None:
    mark, style = _SEVERITY_MARKS[finding.severity]
    where = location_of(report.node_of(finding))
    excused = finding.suppressed is not None
    _print_line(
        console,
        (f"  {'-' if excused else mark} {'suppressed' if excused else finding.severity}", "dim" if excused else style),
        (f"  {finding.check}", "bold"),
        (f"  at {single_line(finding.node)}" if finding.node is not None else "", ""),
        (f"  {single_line(where)}" if where else "", "dim"),
    )
    _print_line(console, (f"    {single_line(finding.message)}", "dim" if excused else ""))
    if excused:
        _print_line(console, (f"    reason: {single_line(finding.suppressed)}", "dim"))
    else:
        _print_walk(finding, walks, console)


def _print_rule(rule: RuleResult, walks: WitnessWalks, console: Console) -> None:
    mark, style = _RULE_MARKS[rule.status]
    how = f"  {MECHANISMS[rule.mechanism]}" if rule.mechanism else ""
    _print_line(console, (f"  {mark} {rule.status:11}", style), (f"  {single_line(rule.id)}", "bold"), (how, style))
    if rule.message:
        _print_line(console, (f"    {single_line(rule.message)}", ""))
    if every_run := every_run_line(rule.every_run):
        _print_line(console, (f"    {single_line(every_run)}", "dim"))
    _print_walk(rule, walks, console)


def _print_walk(graph_finding: GraphFinding | RuleResult, walks: WitnessWalks, console: Console) -> None:
    for line in walk_lines(walks.of(graph_finding)):
        _print_line(console, ("      ", ""), *line)


def _print_line(console: Console, *parts: tuple[str, str]) -> None:
    from rich.text import Text

    # An attacker may choose names: no markup, no links, no emoji codes.
    letters = ((_encodable(text, console.encoding), style) for text, style in parts)
    console.print(Text.assemble(*letters), soft_wrap=True, highlight=False)


def _encodable(text: str, encoding: str) -> str:
    if encoding.lower().startswith("utf"):
        return text
    return text.translate(_PLAIN_CHARACTERS).encode(encoding, "replace").decode(encoding)


def walk_lines(walk: WitnessWalk) -> Iterator[tuple[StyledText, ...]]:
    """Yields the lines of a walk."""
    # The last step of a cycle equals its first: a line leads back there instead.
    count = len(walk.steps) - (walk.turn is not None)
    hidden = range(_HEAD, count - _TAIL) if count > _MOST_STEPS and walk.turn is None else range(0)
    for index in range(count):
        if hidden and index == hidden.start:
            yield (("  ⋮  ", "dim"), (f"{len(hidden):,} more steps", "dim"))
        if index not in hidden:
            yield from _step_lines(walk, index, count)
    if walk.turn is not None:
        condition = single_line(walk.steps[-1].condition)
        yield (("╰─┘ ", "red"), (f"{condition}: and around again" if condition else "and around again", "red"))


def _step_lines(walk: WitnessWalk, index: int, count: int) -> Iterator[tuple[StyledText, ...]]:
    step, turn = walk.steps[index], len(walk.steps) if walk.turn is None else walk.turn
    if condition := single_line(step.condition):
        yield (("│ " if index > turn else "  ", "red"), ("┆  ", "dim"), (condition, "italic"))
    side = "╭▶" if index == turn else "│ " if index > turn else "  "
    last = index == count - 1 and walk.turn is None
    node = " ●" if last and not index else "└●" if last else "├○" if index else "┌○"
    yield ((side, "red"), (f"{node} ", "red" if last else "dim"), *_step_words(step))


def _step_words(step: WitnessStep) -> Iterator[StyledText]:
    place = location_of(step.node)
    yield (single_line(step.node.id), "bold")
    yield (f"  {step.node.kind}", _KIND_COLOURS.get(step.node.kind, "dim"))
    if step.calls:
        yield (f"  calls {', '.join(map(single_line, step.calls))}", "")
    if place:
        yield (f"  {single_line(place)}", "dim")


def workflow_commands(report: Report) -> str:
    """Returns a line for each unknown part, unproved rule and unsuppressed finding, then a summary for the log."""
    findings = [finding for finding in report.findings if finding.suppressed is None]
    rules = [rule for rule in report.rules if rule.status != "proved"]
    places, walks = SourceLocations(report), WitnessWalks(report.graph, [*rules, *findings[:_MOST_ANNOTATIONS]])
    more = len(findings) - _MOST_ANNOTATIONS
    lines = [
        *(_unknown_annotation(report, unknown_part, places) for unknown_part in report.unknown[:_MOST_ANNOTATIONS]),
        *(_rule_annotation(report, rule, places, walks) for rule in rules),
        *(_finding_annotation(report, finding, places, walks) for finding in findings[:_MOST_ANNOTATIONS]),
        *([f"GuardAgent: {more:,} more findings are in the report as JSON"] if more > 0 else []),
        f"GuardAgent: {'passed' if report.passed else 'failed'}: {summary(report)}",
    ]
    return "\n".join(lines)


def all_workflow_commands(listing: ReportListing) -> str:
    """Returns the lines of each report, with its target in the summary, then a line for each unread place."""
    lines = []
    for report in listing.reports:
        *commands, last = workflow_commands(report).split("\n")
        lines += [*commands, f"{last} ({single_line(report.target)})"]
    for unread_place in listing.unread:
        place = SourceLocation(relative_file(unread_place.file), unread_place.line)
        lines.append(annotation("error", "not verified", unread_place.reason, place))
    return "\n".join(lines)


GITHUB = ReportFormat(".txt", workflow_commands, all_workflow_commands)


def _unknown_annotation(report: Report, part: UnknownPart, places: SourceLocations) -> str:
    command, node = "error" if report.strict else "warning", report.graph.by_id[part.node.id]
    return annotation(command, "unknown part of the graph", str(part), places.of(node))


def _finding_annotation(report: Report, finding: GraphFinding, places: SourceLocations, walks: WitnessWalks) -> str:
    about = check_descriptions()[finding.check]
    message = "\n".join([finding.message, about.remedy, *_path_line(finding, walks)])
    place = places.of(report.node_of(finding))
    return annotation(ANNOTATION_COMMANDS[finding.severity], f"{finding.check}: {about.title}", message, place)


def _rule_annotation(report: Report, rule: RuleResult, places: SourceLocations, walks: WitnessWalks) -> str:
    how = f", {MECHANISMS[rule.mechanism]}" if rule.mechanism else ""
    last = report.graph.by_id.get(rule.witness[-1]) if rule.witness else None
    every_run = every_run_line(rule.every_run)
    headline = f"{rule.id}: {rule.status}{how}: {rule.message}"
    message = "\n".join([headline, *([every_run] if every_run else []), *_path_line(rule, walks)])
    return annotation(
        "error" if rule.status == "violated" else "notice", f"policy: {rule.id}", message, places.of(last)
    )


def _path_line(graph_finding: GraphFinding | RuleResult, walks: WitnessWalks) -> Iterator[str]:
    walk = walks.of(graph_finding)
    names = [step.node.id for step in walk.steps]
    if len(names) > _LONGEST_PATH:
        names[_LONGEST_PATH // 2 : -_LONGEST_PATH // 2] = ["…"]
    if len(names) > 1:
        yield f"path: {' → '.join(names)}{' → …' if walk.turn is not None else ''}"


def annotation(command: str, title: str, message: str, place: SourceLocation | None) -> str:
    """Returns a workflow command of GitHub, one of `ANNOTATION_COMMANDS`, that shows a message beside a line."""
    where = {"file": place.file, "line": str(place.line)} if place and place.inside else {}
    properties = ",".join(f"{name}={_property(value)}" for name, value in {**where, "title": title}.items())
    return f"::{command} {properties}::{_data(message)}"


def _data(text: str) -> str:
    # A line break in a name could begin another command.
    lines = [single_line(line) for line in text.split("\n")]
    return "%0A".join(line.replace("%", "%25") for line in lines)


def _property(text: str) -> str:
    return single_line(text).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")


def other_notes(report: Report) -> list[str]:
    """Returns the notes of a report without those on unknown parts, which stand at its beginning."""
    shown = set(map(str, report.unknown))
    return [note for note in report.notes if note not in shown]


@cache
def check_descriptions() -> Mapping[str, CheckDescription]:
    """Returns the description of each check, and of wrong suppressions."""
    return {**descriptions(), "suppressions": _SUPPRESSIONS}


def every_run_line(run_result: EveryRunResult) -> str:
    """Returns the result for every run as a line; empty if it has no message."""
    return f"for every run: {_EVERY_RUN[run_result.status]}: {run_result.message}" if run_result.message else ""


@dataclass(frozen=True, slots=True)
class WitnessStep:
    """One node of a walk.

    Attributes:
        via: the edges from the previous step; empty for the first.
        calls: the tools that the witness calls in this node.
    """

    node: Node
    via: tuple[Edge, ...] = ()
    calls: tuple[str, ...] = ()

    @property
    def condition(self) -> str:
        """The condition of the step, as the framework words it."""
        return " or ".join(dict.fromkeys(edge.condition for edge in self.via if edge.condition))


@dataclass(frozen=True, slots=True)
class WitnessWalk:
    """A witness.

    Attributes:
        turn: the index of the step where a cycle begins; the last step is this step again.
    """

    steps: tuple[WitnessStep, ...]
    turn: int | None = None


class WitnessWalks:
    """The walks of findings and rules; looks up the edges once, and only those on a witness."""

    def __init__(self, graph: Graph, shown: Iterable[GraphFinding | RuleResult]) -> None:
        self._graph = graph
        self._ways = _ways(graph, (graph_finding.witness for graph_finding in shown))

    def of(self, shown: GraphFinding | RuleResult) -> WitnessWalk:
        """Returns the walk of a finding or a rule; without steps if it has no witness."""
        nodes = [self._graph.by_id.get(name, Node(name)) for name in shown.witness]
        calls = shown.emitted if isinstance(shown, RuleResult) else ()
        steps = [
            WitnessStep(
                node,
                tuple(self._ways.get((nodes[index - 1].id, node.id), ())) if index else (),
                calls[index] if index < len(calls) else (),
            )
            for index, node in enumerate(nodes)
        ]
        return WitnessWalk(tuple(steps), _turn(shown) if isinstance(shown, RuleResult) else None)


def _ways(graph: Graph, witnesses: Iterable[Sequence[str]]) -> _Ways:
    ways: dict[tuple[str, str], list[Edge]] = {}
    for witness in witnesses:
        ways.update((way, []) for way in pairwise(witness))
    if ways:
        for edge in graph.edges:
            if (labels := ways.get((edge.source, edge.target))) is not None:
                labels.append(edge)
    return ways


def _turn(rule: RuleResult) -> int | None:
    # The witness is a path into the cycle and once around it, back to the end of that path.
    index = len(rule.witness) - len(rule.cycle) - 1
    return index if rule.cycle and index >= 0 and rule.witness[index] == rule.witness[-1] else None


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a file; line 1 if only the file is known."""

    file: str
    line: int = 1

    @property
    def inside(self) -> bool:
        """Whether the file is below the working directory, so that its name is valid on another machine."""
        return not Path(self.file).is_absolute()

    @property
    def uri(self) -> str:
        path = quote(self.file, errors="replace")
        return path if self.inside else f"file://{path}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def location_of(node: Node | None) -> SourceLocation | None:
    """Returns the definition of a node; a file below the working directory is relative to it."""
    if node is None:
        return None
    file, line = node.metadata.get("file"), node.metadata.get("line")
    if not isinstance(file, str) or not file or "\0" in file:
        return None
    return SourceLocation(relative_file(file), line if isinstance(line, int) and line is not True and line > 0 else 1)


class SourceLocations:
    """Source locations for reports, which need a file even for nodes without one."""

    def __init__(self, report: Report) -> None:
        self._default = _target(report.target) or _first(report.graph.nodes)

    def of(self, node: Node | None) -> SourceLocation | None:
        """Returns the location of a node; else the file of the target, else the first location of any node."""
        return location_of(node) or self._default


def _first(nodes: Iterable[Node | None]) -> SourceLocation | None:
    return next((place for place in map(location_of, nodes) if place), None)


def _target(target: str) -> SourceLocation | None:
    match = _TARGET_FILE.fullmatch(target)
    return SourceLocation(relative_file(match["file"])) if match else None


def relative_file(file: str) -> str:
    """Returns a file below the working directory relative to it, and any other as an absolute path."""
    try:
        whole = os.path.abspath(file)  # noqa: PTH100 - `..` is resolved, and links are not
        for path, root in ((Path(whole), Path.cwd()), (Path(whole).resolve(), Path.cwd().resolve())):
            if path.is_relative_to(root):
                return path.relative_to(root).as_posix()
    except (ValueError, OSError):
        return file
    return Path(whole).as_posix()
