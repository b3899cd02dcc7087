"""The report as text, with each witness as a path; in colour on a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, TextIO

from guardagent._terminal import single_line
from guardagent.workflow.analysis.report import GraphFinding, Report, ReportListing, RuleResult
from guardagent.workflow.reports import ReportFormat
from guardagent.workflow.reports._source_locations import SourceLocation, location_of, relative_file
from guardagent.workflow.reports._walk_lines import walk_lines
from guardagent.workflow.reports._walks import WitnessWalks
from guardagent.workflow.reports._wording import MECHANISMS, every_run_line, other_notes

if TYPE_CHECKING:
    from rich.console import Console

_MOST = 100  # findings that are shown individually
_PLAIN = str.maketrans("✔✘•┌├└○●┆⋮╭▶│╰─┘", "+x*,|`o*:.+>|+-'")  # for terminals without these characters
_RULES = {"proved": ("✔", "green"), "violated": ("✘", "bold red"), "undecidable": ("?", "yellow")}
_SEVERITIES = {"error": ("✘", "bold red"), "warning": ("!", "bold yellow"), "note": ("•", "cyan")}


def render(report: Report) -> str:
    """Returns the whole report without colours."""
    from rich.console import Console

    stream = io.StringIO()
    _print(report, Console(file=stream, width=100, color_system=None, force_terminal=False, legacy_windows=False))
    return stream.getvalue()


def show(report: Report, stream: TextIO) -> None:
    """Writes the report, in colour if the stream is a terminal with colours."""
    from rich.console import Console

    _print(report, Console(file=stream))


def render_all(listing: ReportListing) -> str:
    """Returns all reports without colours, and a summary."""
    from rich.console import Console

    stream = io.StringIO()
    console = Console(file=stream, width=100, color_system=None, force_terminal=False, legacy_windows=False)
    _print_all(listing, console)
    return stream.getvalue()


def show_all(listing: ReportListing, stream: TextIO) -> None:
    """Writes all reports, in colour if the stream is a terminal with colours."""
    from rich.console import Console

    _print_all(listing, Console(file=stream))


TEXT = ReportFormat(".txt", render, render_all, show, show_all)


def _print_all(listing: ReportListing, console: Console) -> None:
    for report in listing.reports:
        _print(report, console)
        _line(console, ("", ""))
    _heading("not verified", len(listing.unread), console)
    for one in listing.unread:
        place = SourceLocation(relative_file(one.file), one.line)
        _line(console, ("  ? ", "yellow"), (single_line(f"{place}: {one.reason}"), ""))
    mark, style = ("✔ PASSED", "bold green") if listing.passed else ("✘ FAILED", "bold red")
    failed = sum(not report.passed for report in listing.reports)
    counts = f"{len(listing.reports):,} workflows, {failed:,} failed, {len(listing.unread):,} places not verified"
    _line(console, (mark, style), (f"  {single_line(listing.target)}: {counts}", "bold"))


def _print(report: Report, console: Console) -> None:
    findings = sorted(report.findings, key=lambda finding: finding.suppressed is not None)
    walks = WitnessWalks(report.graph, [*findings[:_MOST], *report.rules])
    _summary(report, console)
    _heading("unknown", len(report.unknown), console)
    for part in report.unknown[:_MOST]:
        _line(console, ("  ? ", "yellow"), (single_line(str(part)), ""))
    if (rest := len(report.unknown) - _MOST) > 0:
        _line(console, (f"  and {rest:,} more; '--format json' has all of them", "dim"))
    _heading("findings", len(findings), console)
    for finding in findings[:_MOST]:
        _finding(report, finding, walks, console)
    if (rest := len(findings) - _MOST) > 0:
        _line(console, (f"  and {rest:,} more; '--format json' has all of them", "dim"))
    _heading("rules", len(report.rules), console)
    for rule in report.rules:
        _rule(rule, walks, console)
    notes = other_notes(report)
    _heading("notes", len(notes), console)
    for note in notes:
        _line(console, ("  • ", "cyan"), (single_line(note), ""))


def _summary(report: Report, console: Console) -> None:
    mark, style = ("✔ PASSED", "bold green") if report.passed else ("✘ FAILED", "bold red")
    graph = report.graph
    size = f"{graph.framework}, {len(graph.nodes):,} nodes, {len(graph.edges):,} edges, graph {graph.digest[:12]}"
    _line(console, (mark, style), (f"  {single_line(report.target)}", "bold"), (f"  ({single_line(size)})", "dim"))
    _line(console, (f"  {summary(report)}", ""))


def summary(report: Report) -> str:
    """Returns the numbers of findings and rules as one line."""
    counting = [finding for finding in report.findings if finding.suppressed is None]
    counts_ = [f"{len(counting):,} {'finding' if len(counting) == 1 else 'findings'}"]
    if suppressed := len(report.findings) - len(counting):
        counts_.append(f"{suppressed:,} suppressed")
    counts_ += [f"{len(report.unknown):,} unknown"] if report.unknown else []
    counts = {status: sum(rule.status == status for rule in report.rules) for status in _RULES}
    counts_ += [f"{count:,} {'rule' if count == 1 else 'rules'} {status}" for status, count in counts.items() if count]
    return ", ".join(counts_)


def _heading(name: str, count: int, console: Console) -> None:
    if count:
        _line(console, ("\n" + name, "bold underline"))


def _finding(report: Report, finding: GraphFinding, walks: WitnessWalks, console: Console) -> None:
    mark, style = _SEVERITIES[finding.severity]
    where = location_of(report.graph.by_id.get(finding.node)) if finding.node is not None else None
    excused = finding.suppressed is not None
    _line(
        console,
        (f"  {'-' if excused else mark} {'suppressed' if excused else finding.severity}", "dim" if excused else style),
        (f"  {finding.check}", "bold"),
        (f"  at {single_line(finding.node)}" if finding.node is not None else "", ""),
        (f"  {single_line(where)}" if where else "", "dim"),
    )
    _line(console, (f"    {single_line(finding.message)}", "dim" if excused else ""))
    if excused:
        _line(console, (f"    reason: {single_line(finding.suppressed)}", "dim"))
    else:
        _walk(finding, walks, console)


def _rule(rule: RuleResult, walks: WitnessWalks, console: Console) -> None:
    mark, style = _RULES[rule.status]
    how = f"  {MECHANISMS[rule.mechanism]}" if rule.mechanism else ""
    _line(console, (f"  {mark} {rule.status:11}", style), (f"  {single_line(rule.id)}", "bold"), (how, style))
    if rule.message:
        _line(console, (f"    {single_line(rule.message)}", ""))
    if every_run := every_run_line(rule.every_run):
        _line(console, (f"    {single_line(every_run)}", "dim"))
    _walk(rule, walks, console)


def _walk(found: GraphFinding | RuleResult, walks: WitnessWalks, console: Console) -> None:
    for line in walk_lines(walks.of(found)):
        _line(console, ("      ", ""), *line)


def _line(console: Console, *parts: tuple[str, str]) -> None:
    from rich.text import Text

    # An attacker may choose names: no markup, no links, no emoji codes.
    letters = ((_encodable(text, console.encoding), style) for text, style in parts)
    console.print(Text.assemble(*letters), soft_wrap=True, highlight=False)


def _encodable(text: str, encoding: str) -> str:
    if encoding.lower().startswith("utf"):
        return text
    return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
