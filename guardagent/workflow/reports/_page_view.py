"""The content of the page, for its template. All strings are plain; the template escapes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guardagent._terminal import single_line
from guardagent.workflow.analysis.report import GraphFinding, Report, RuleResult
from guardagent.workflow.drawing.boxes import NodeMark, ToolLabel, arrows, card, tools_of
from guardagent.workflow.model.graph import Graph, Node
from guardagent.workflow.reports._excerpt import excerpt
from guardagent.workflow.reports._source_locations import location_of
from guardagent.workflow.reports._walks import WitnessStep, WitnessWalk, WitnessWalks
from guardagent.workflow.reports._wording import MECHANISMS, check_descriptions, every_run_line, other_notes
from guardagent.workflow.reports.text import summary

MOST_CARDS = 200
_LEVELS = ("error", "violated", "warning", "note", "suppressed", "undecidable", "proved")


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
    tools: Sequence[ToolLabel]
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
        self.findings = [self._finding(index, one) for index, one in enumerate(findings)]
        self.rules = [self._rule(len(findings) + index, one) for index, one in enumerate(rules)]
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
        return [one for one in [*self.findings, *self.rules] if one.steps and one.level != "suppressed"]

    def marks(self) -> dict[str, NodeMark]:
        """Returns the marks of the nodes with findings."""
        marks: dict[str, NodeMark] = {}
        for finding in reversed(self._report.findings):
            if finding.node is not None:
                level = _level(finding)
                if finding.node not in marks or level != "suppressed":
                    marks[finding.node] = NodeMark(
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
            self._place(finding.node),
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
        place = location_of(step.node)
        return StepView(
            single_line(step.node.id), step.node.kind, single_line(step.condition), calls,
            single_line(place) if place else "", self._ids.get(step.node.id, ""), " ".join(arrows_),
        )  # fmt: skip

    def _node(self, node: Node) -> NodeView:
        content, place = card(node), location_of(node)
        following = [
            (self._ids[edge.target], single_line(edge.target), single_line(edge.condition))
            for edge in self.graph.edges
            if edge.source == node.id
        ]
        return NodeView(
            self._ids[node.id], single_line(node.id), single_line(node.label), content.kind, tools_of(node), following,
            single_line(place) if place else "",
        )  # fmt: skip

    def _place(self, name: str | None) -> str:
        place = location_of(self._report.graph.by_id.get(name)) if name is not None else None
        return single_line(place) if place else ""


def _level(finding: GraphFinding) -> str:
    return finding.severity if finding.suppressed is None else "suppressed"


def _arrow_ids(graph: Graph) -> dict[tuple[str, str], list[str]]:
    ids: dict[tuple[str, str], list[str]] = {}
    for index, arrow in enumerate(arrows(graph)):
        ends = (graph.nodes[arrow.source].id, graph.nodes[arrow.target].id)
        ids.setdefault(ends, []).append(f"e{index}")
    return ids
