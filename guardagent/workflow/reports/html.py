"""The report as one self-contained page: the graph, the findings and the rules, with witnesses to walk through.

Readers open it from a disk or from build artefacts, and it shows names that others chose. The template therefore
escapes every string, the script changes only classes, attributes and plain text, and the content security policy of the
page forbids it to load anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from guardagent._terminal import single_line
from guardagent._version import __version__
from guardagent.workflow.analysis.report import GraphFinding, Report, ReportListing, RuleResult
from guardagent.workflow.drawing import PageSection, graph_facts, listing_page, svg
from guardagent.workflow.drawing.boxes import TEXT_STYLE, dark_style
from guardagent.workflow.reports import ReportFormat
from guardagent.workflow.reports._legend import legend
from guardagent.workflow.reports._page_view import PageView
from guardagent.workflow.reports._source_locations import location_of
from guardagent.workflow.reports._walk_lines import walk_lines
from guardagent.workflow.reports._walks import WitnessWalks
from guardagent.workflow.reports._wording import every_run_line
from guardagent.workflow.reports.text import summary


def render(report: Report) -> str:
    """Returns the page."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    view = PageView(report)
    size, picture = svg.picture(view.graph, view.marks())
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return template.from_string(_file("page.html.j2")).render(
        view=view,
        version=__version__,
        script=Markup(_file("page.js")),  # noqa: S704 - a constant of this package
        style=Markup(_style()),  # noqa: S704 - as above
        picture=Markup(picture),  # noqa: S704 - the drawing escapes names
        legend=[(kind, Markup(drawn)) for kind, drawn in legend(view.graph)],  # noqa: S704 - as above
        size=size,
        view_box=svg.view_box(size),
    )


def render_all(listing: ReportListing) -> str:
    """Returns one page with a list of all workflows, and below it their reports with the witnesses as text."""
    failed = sum(not report.passed for report in listing.reports)
    summary_ = f"{len(listing.reports):,} workflows, {failed:,} failed, {len(listing.unread):,} places not verified"
    return listing_page(listing.target, summary_, map(_section, listing.reports), listing.unread)


HTML = ReportFormat(".html", render, render_all)


def _section(report: Report) -> PageSection:
    walks = WitnessWalks(report.graph, [*report.findings, *report.rules])
    groups = {
        "Findings": [_finding(report, one, walks) for one in report.findings],
        "Rules": [_rule(one, walks) for one in report.rules],
        "Notes": [single_line(note) for note in report.notes],
    }
    facts = f"{graph_facts(report.graph)} · {summary(report)}"
    status = "passed" if report.passed else "failed"
    return PageSection(single_line(report.target), facts, report.graph, status, groups)


def _finding(report: Report, finding: GraphFinding, walks: WitnessWalks) -> str:
    place = location_of(report.graph.by_id.get(finding.node)) if finding.node is not None else None
    level = finding.severity if finding.suppressed is None else f"suppressed: {finding.suppressed}"
    text = f"{level}: {finding.check}: {finding.message}{f' ({place})' if place else ''}"
    return "\n".join([single_line(text), *_path(finding, walks)])


def _rule(rule: RuleResult, walks: WitnessWalks) -> str:
    text = f"{rule.status}: {rule.id}{f': {rule.message}' if rule.message else ''}"
    return "\n".join([single_line(text), single_line(every_run_line(rule.every_run)), *_path(rule, walks)])


def _path(found: GraphFinding | RuleResult, walks: WitnessWalks) -> Iterator[str]:
    for line in walk_lines(walks.of(found)):
        yield "".join(text for text, _ in line)


@cache
def _file(name: str) -> str:
    return (files("guardagent.workflow.reports") / "page" / name).read_text(encoding="utf-8")


@cache
def _style() -> str:
    # The theme of the reader overrides that of the system; paper is always light. Colours of a walk override both.
    system = (
        f"@media screen and (prefers-color-scheme: dark) {{\n{dark_style(':where(:root:not([data-theme=light]))')}\n}}"
    )
    chosen = f"@media screen {{\n{dark_style(':where(:root[data-theme=dark])')}\n}}"
    return "\n".join([_file("page.css"), TEXT_STYLE, system, chosen])
