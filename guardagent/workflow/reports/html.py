"""The report as one self-contained page: the graph, the findings and the rules, with witnesses to walk through.

Readers open it from a disk or from build artefacts, and it shows names that others chose. The template therefore
escapes every string (all strings of `PageView` are plain), the script changes only classes, attributes and plain text,
and the content security policy of the page forbids it to load anything.

A page shows all of a graph, or the part in the report if the graph is too large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import islice

from guardagent._support.sections import page
from guardagent._terminal import single_line
from guardagent.workflow.analysis.report import GraphFinding, Report, ReportListing, RuleResult
from guardagent.workflow.drawing import PageSection, graph_facts, listing_page, svg
from guardagent.workflow.drawing.layout import Size
from guardagent.workflow.model.graph import EDGE_KINDS, NODE_KINDS, Graph, Node
from guardagent.workflow.reports import ReportFormat
from guardagent.workflow.reports.text import (
    MECHANISMS,
    WitnessStep,
    WitnessWalk,
    WitnessWalks,
    check_descriptions,
    every_run_line,
    location_of,
    other_notes,
    summary,
    walk_lines,
)

MOST_CARDS = 200
_LEVELS = ("error", "violated", "warning", "note", "suppressed", "undecidable", "proved")
_LEGEND_SIZE = Size(48, 18)
_MOST_NODES = 120


def render(report: Report) -> str:
    """Returns the page."""
    from markupsafe import Markup

    view = PageView(report)
    size, picture = svg.picture(view.graph, view.marks())
    return page(
        "guardagent.workflow.reports",
        "page/page.html.j2",
        view=view,
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
        "Findings": [_finding(report, finding, walks) for finding in report.findings],
        "Rules": [_rule(rule, walks) for rule in report.rules],
        "Notes": [single_line(note) for note in report.notes],
    }
    facts = f"{graph_facts(report.graph)} · {summary(report)}"
    status = "passed" if report.passed else "failed"
    return PageSection(single_line(report.target), facts, report.graph, status, groups)


def _finding(report: Report, finding: GraphFinding, walks: WitnessWalks) -> str:
    place = location_of(report.node_of(finding))
    level = finding.severity if finding.suppressed is None else f"suppressed: {finding.suppressed}"
    text = f"{level}: {finding.check}: {finding.message}{f' ({place})' if place else ''}"
    return "\n".join([single_line(text), *_path(finding, walks)])


def _rule(rule: RuleResult, walks: WitnessWalks) -> str:
    text = f"{rule.status}: {rule.id}{f': {rule.message}' if rule.message else ''}"
    return "\n".join([single_line(text), single_line(every_run_line(rule.every_run)), *_path(rule, walks)])


def _path(graph_finding: GraphFinding | RuleResult, walks: WitnessWalks) -> Iterator[str]:
    for line in walk_lines(walks.of(graph_finding)):
        yield "".join(text for text, _ in line)


@cache
def _file(name: str) -> str:
    return (files("guardagent.workflow.reports") / "page" / name).read_text(encoding="utf-8")


@cache
def _style() -> str:
    # The theme of the reader overrides that of the system; paper is always light. Colours of a walk override both.
    dark = svg.dark_style(":where(:root:not([data-theme=light]))")
    system = f"@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}"
    chosen = f"@media screen {{\n{svg.dark_style(':where(:root[data-theme=dark])')}\n}}"
    return "\n".join([_file("page.css"), svg.TEXT_STYLE, system, chosen])


@dataclass(frozen=True, slots=True)
class StepView:
    """A step of a walk; `node` and `arrows` are ids in the picture, if it has them."""

    name: str
    kind: str
    condition: str
    calls: str
    place: str
    node: str
    arrows: str


@dataclass(frozen=True, slots=True)
class ResultCard:
    """A finding or a rule.

    Attributes:
        level: error, warning, note, suppressed, proved, violated or undecidable.
        name: the name of the check, or the id of the rule.
        about: the property of the check, or the kind of the violation.
        node: the id of the node in the picture, if it is there.
        remedy: how to fix the problem, or the reason of its suppression.
        turn: the index of the step where a cycle begins.
        every_run: the result of a rule for every run.
    """

    number: int
    level: str
    name: str
    about: str
    message: str
    remedy: str = ""
    where: str = ""
    node: str = ""
    place: str = ""
    steps: Sequence[StepView] = ()
    turn: int | None = None
    every_run: str = ""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A row of the table of nodes."""

    id: str
    name: str
    label: str
    kind: str
    tools: Sequence[svg.ToolLabel]
    next: Sequence[tuple[str, str, str]]
    place: str


class PageView:
    """The content of the page of a report."""

    def __init__(self, report: Report) -> None:
        findings = sorted(report.findings, key=lambda finding: _LEVELS.index(_level(finding)))[:MOST_CARDS]
        rules = sorted(report.rules, key=lambda rule: _LEVELS.index(rule.status))[:MOST_CARDS]
        self._report, self._walks = report, WitnessWalks(report.graph, [*findings, *rules])
        self.graph = excerpt(report)
        self._ids = {node.id: f"n{index}" for index, node in enumerate(self.graph.nodes)}
        self._arrows = _arrow_ids(self.graph)
        self.findings = [self._finding(index, finding) for index, finding in enumerate(findings)]
        self.rules = [self._rule(len(findings) + index, rule) for index, rule in enumerate(rules)]
        self.more = len(report.findings) - len(self.findings) + len(report.rules) - len(self.rules)
        self.nodes = [self._node(node) for node in self.graph.nodes]
        self.notes = [single_line(note) for note in other_notes(report)]
        self.unknown = [single_line(str(part)) for part in report.unknown[:MOST_CARDS]]
        self.title, self.name = single_line(report.target), single_line(report.graph.name)
        self.framework = single_line(report.graph.framework)
        self.passed, self.summary, self.digest = report.passed, summary(report), report.graph.digest
        self.counts = (len(report.findings), len(report.rules))
        self.sizes = (len(report.graph.nodes), len(report.graph.edges))
        self.part = self.graph is not report.graph

    @property
    def walks(self) -> list[ResultCard]:
        """The cards with a witness to walk through."""
        return [finding for finding in [*self.findings, *self.rules] if finding.steps and finding.level != "suppressed"]

    def marks(self) -> dict[str, svg.NodeMark]:
        """Returns the marks of the nodes with findings."""
        marks: dict[str, svg.NodeMark] = {}
        for finding in reversed(self._report.findings):
            if finding.node is not None:
                level = _level(finding)
                if finding.node not in marks or level != "suppressed":
                    marks[finding.node] = svg.NodeMark(
                        level, "-" if level == "suppressed" else "!", single_line(finding.message)
                    )
        return marks

    def _finding(self, number: int, finding: GraphFinding) -> ResultCard:
        about = check_descriptions()[finding.check]
        return ResultCard(
            number,
            _level(finding),
            finding.check,
            about.title,
            single_line(finding.message),
            about.remedy if finding.suppressed is None else f"Suppressed: {single_line(finding.suppressed)}",
            single_line(finding.node) if finding.node is not None else "",
            self._ids.get(finding.node or "", ""),
            _place_of(self._report.node_of(finding)),
            *self._walk(self._walks.of(finding)),
        )

    def _rule(self, number: int, rule: RuleResult) -> ResultCard:
        how = MECHANISMS[rule.mechanism] if rule.mechanism else ""
        steps, turn = self._walk(self._walks.of(rule))
        every_run = single_line(every_run_line(rule.every_run))
        message = single_line(rule.message)
        return ResultCard(
            number, rule.status, single_line(rule.id), how, message, steps=steps, turn=turn, every_run=every_run
        )

    def _walk(self, walk: WitnessWalk) -> tuple[list[StepView], int | None]:
        nodes = [step.node.id for step in walk.steps]
        return [self._step(step, nodes[index - 1] if index else "") for index, step in enumerate(walk.steps)], walk.turn

    def _step(self, step: WitnessStep, before: str) -> StepView:
        calls = ", ".join(map(single_line, step.calls))
        arrows_ = self._arrows.get((before, step.node.id), ()) if step.via else ()
        return StepView(
            single_line(step.node.id), step.node.kind, single_line(step.condition), calls,
            _place_of(step.node), self._ids.get(step.node.id, ""), " ".join(arrows_),
        )  # fmt: skip

    def _node(self, node: Node) -> NodeView:
        content = svg.card(node)
        following = [
            (self._ids[edge.target], single_line(edge.target), single_line(edge.condition))
            for edge in self.graph.edges
            if edge.source == node.id
        ]
        return NodeView(
            self._ids[node.id], single_line(node.id), single_line(node.label), content.kind,
            svg.tools_of(node), following, _place_of(node),
        )  # fmt: skip


def _place_of(node: Node | None) -> str:
    place = location_of(node)
    return single_line(place) if place else ""


def _level(finding: GraphFinding) -> str:
    return finding.severity if finding.suppressed is None else "suppressed"


def _arrow_ids(graph: Graph) -> dict[tuple[str, str], list[str]]:
    ids: dict[tuple[str, str], list[str]] = {}
    for index, arrow in enumerate(svg.arrows(graph)):
        ends = (graph.nodes[arrow.source].id, graph.nodes[arrow.target].id)
        ids.setdefault(ends, []).append(f"e{index}")
    return ids


def legend(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yields the name of each sign, and the sign as the content of an SVG element of 58 by 28 around the origin."""
    kinds = {node.kind for node in graph.nodes}
    for kind in NODE_KINDS:
        if kind in kinds:
            look = svg.PALETTES[kind]
            sign = svg.outline(kind, _LEGEND_SIZE)
            yield (
                kind,
                svg.element("g", sign, class_=f"node {kind}", fill=look.fill, stroke=look.stroke, stroke_width=1.4),
            )
    edges = {edge.kind for edge in graph.edges}
    for way in EDGE_KINDS:
        if way in edges:
            dashes, width = svg.LINES[way]
            line = svg.element(
                "path", class_="line", d="M-24 0H22",
                stroke_dasharray=dashes, stroke_width=width, marker_end="url(#tip)",
            )  # fmt: skip
            yield f"{way} edge", svg.element("g", line, class_="arrow", stroke=svg.LINE, fill="none")


def excerpt(report: Report) -> Graph:
    """Returns a graph that can be drawn: the nodes of witnesses and findings, and the nodes near the entry."""
    graph = report.graph
    if len(graph.nodes) <= svg.MOST_NODES and len(graph.edges) <= svg.MOST_ARROWS:
        return graph
    chosen = set(islice(dict.fromkeys(_node_ids(report)), _MOST_NODES)) | {graph.entry_id, *graph.exit_ids[:1]}
    nodes = tuple(node for node in graph.nodes if node.id in chosen)
    edges = tuple(edge for edge in graph.edges if edge.source in chosen and edge.target in chosen)
    exits = tuple(exit_id for exit_id in graph.exit_ids if exit_id in chosen)
    return replace(graph, nodes=nodes, edges=edges[: svg.MOST_ARROWS], exit_ids=exits)


def _node_ids(report: Report) -> Iterator[str]:
    known = report.graph.by_id
    for rule in report.rules:
        yield from (name for name in rule.witness if name in known)
    for finding in report.findings:
        yield from (name for name in finding.witness if name in known)
    yield from _from_entry(report.graph)


def _from_entry(graph: Graph) -> Iterator[str]:
    following: dict[str, list[str]] = {}
    for edge in graph.edges:
        following.setdefault(edge.source, []).append(edge.target)
    seen, waiting = {graph.entry_id}, [graph.entry_id]
    for name in waiting:
        yield name
        fresh = [target for target in following.get(name, ()) if target not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
