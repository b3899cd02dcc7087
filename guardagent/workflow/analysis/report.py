"""The results of `verify`, for every output format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from guardagent.workflow.model.graph import Graph

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
        return {
            "check": self.check,
            "node": self.node,
            "severity": self.severity,
            "message": self.message,
            "witness": list(self.witness),
            "suppressed": self.suppressed,
        }


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
    """The result of a verification; `passed` if it has no unsuppressed error and no violated rule."""

    target: str
    graph: Graph
    findings: tuple[GraphFinding, ...]
    rules: tuple[RuleResult, ...]
    notes: tuple[str, ...]

    @property
    def passed(self) -> bool:
        counting = [one for one in self.findings if one.suppressed is None and one.severity == "error"]
        return not counting and all(rule.status != "violated" for rule in self.rules)

    def to_dict(self) -> Mapping[str, Any]:
        """Returns the report as JSON, in the public key order."""
        return {
            "target": self.target,
            "framework": self.graph.framework,
            "graph_hash": self.graph.digest,
            "passed": self.passed,
            "findings": [finding.to_dict() for finding in self.findings],
            "rules": [rule.to_dict() for rule in self.rules],
            "notes": list(self.notes),
        }
