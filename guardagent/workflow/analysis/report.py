"""The results of `verify`, for every output format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from guardagent.workflow.model.graph import Graph, Node, UnknownPart, unknown_parts
from guardagent.workflow.model.targets import UnreadPlace

Severity = Literal["error", "warning", "note"]
RuleStatus = Literal["proved", "violated", "undecidable"]
Mechanism = Literal["bad_prefix", "unmet_at_end", "postponed_by_cycle"]


@dataclass(frozen=True, slots=True)
class GraphFinding:
    """One problem of a graph.

    Attributes:
        check: the name of the check.
        node: the id of the node; None for the whole graph.
        message: the problem, for human readers.
        witness: a path of node ids in the graph; for an unreachable node, the node itself.
        suppressed: the reason of the suppression; None if the finding counts.
    """

    check: str
    node: str | None
    severity: Severity
    message: str
    witness: Sequence[str] = ()
    suppressed: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "witness": list(self.witness)}


@dataclass(frozen=True, slots=True)
class RunCall:
    """A call in a run."""

    tool: str
    failed: bool = False

    def __str__(self) -> str:
        return f"{self.tool} (which fails)" if self.failed else self.tool


@dataclass(frozen=True, slots=True)
class EveryRunResult:
    """The result of a rule for every run of a graph, however a host drives the graph in a session.

    Attributes:
        status: proved for every run, violated by the calls, or undecidable.
        calls: a shortest run that violates the rule.
        message: an explanation for human readers.
    """

    status: RuleStatus = "undecidable"
    calls: tuple[RunCall, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The result of a rule before the agent runs.

    Attributes:
        status: for the graph as drawn: proved on every path, violated on the witness, or undecidable.
        mechanism: the kind of the violation.
        witness: a path of node ids; for a postponing cycle, the path into the cycle and around it once.
        cycle: the node ids of that cycle, in order.
        message: an explanation for human readers.
        emitted: for each node of the witness, the tools that it calls.
        every_run: the result for every run, a stronger property than every path.
    """

    id: str
    status: RuleStatus
    mechanism: Mechanism | None = None
    witness: tuple[str, ...] = ()
    cycle: tuple[str, ...] = ()
    message: str = ""
    emitted: tuple[tuple[str, ...], ...] = ()
    every_run: EveryRunResult = EveryRunResult()

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "status": self.status,
            "mechanism": self.mechanism,
            "witness": list(self.witness),
            "cycle": list(self.cycle),
            "message": self.message,
            "every_run": self.every_run.status,
            "every_run_calls": [{"tool": call.tool, "failed": call.failed} for call in self.every_run.calls],
            "every_run_message": self.every_run.message,
        }


@dataclass(frozen=True)
class Report:
    """The result of a verification.

    It `passed` if it has no unsuppressed error and no violated rule, and if `strict`, no unknown part.
    """

    target: str
    graph: Graph
    findings: tuple[GraphFinding, ...]
    rules: tuple[RuleResult, ...]
    notes: tuple[str, ...]
    strict: bool = False

    @cached_property
    def unknown(self) -> tuple[UnknownPart, ...]:
        """The parts of the graph that could not be seen."""
        return tuple(unknown_parts(self.graph.nodes))

    @property
    def passed(self) -> bool:
        if self.strict and self.unknown:
            return False
        counting = [finding for finding in self.findings if finding.suppressed is None and finding.severity == "error"]
        return not counting and all(rule.status != "violated" for rule in self.rules)

    def node_of(self, finding: GraphFinding) -> Node | None:
        """Returns the node of a finding; None for the whole graph."""
        return None if finding.node is None else self.graph.by_id.get(finding.node)

    def to_dict(self) -> Mapping[str, Any]:
        """Returns the report as JSON, in the public key order."""
        return {
            "target": self.target,
            "framework": self.graph.framework,
            "graph_hash": self.graph.digest,
            "passed": self.passed,
            **({"unknown": [part.to_dict() for part in self.unknown]} if self.unknown else {}),
            "findings": [finding.to_dict() for finding in self.findings],
            "rules": [rule.to_dict() for rule in self.rules],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class ReportListing:
    """The reports of all workflows of a target.

    Attributes:
        target: the target.
        reports: a report for each workflow.
        unread: the places that may define other workflows, which are not verified.
        is_single: the target has exactly one workflow, so that its output is this report alone.
    """

    target: str
    reports: tuple[Report, ...]
    unread: tuple[UnreadPlace, ...] = ()
    is_single: bool = False

    @property
    def passed(self) -> bool:
        """Whether all workflows passed, and nothing is unread."""
        return not self.unread and all(report.passed for report in self.reports)

    @property
    def status(self) -> int:
        """The exit status: 1 if a report fails, else 3 if a place could not be checked, else 0."""
        return 1 if any(not report.passed for report in self.reports) else 3 if self.unread else 0

    def to_dict(self) -> Mapping[str, Any]:
        """Returns one report as it is, and several as a list."""
        if self.is_single:
            return self.reports[0].to_dict()
        unread = {"unread": [place.to_dict() for place in self.unread]} if self.unread else {}
        return {"reports": [report.to_dict() for report in self.reports], **unread}
