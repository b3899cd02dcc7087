"""What `verify` finds: the same for every output format."""

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
    """One thing that is wrong with a graph.

    Attributes:
        check: which check found it.
        node: where; None where it is of the whole graph.
        message: in words, for whoever can mend it.
        witness: a path of node ids in the graph; for an unreachable node, the node itself.
        suppressed: the reason that the author gave for it; None where it counts.
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
    """A call of a run."""

    tool: str
    failed: bool = False

    def __str__(self) -> str:
        return f"{self.tool} (which fails)" if self.failed else self.tool


@dataclass(frozen=True, slots=True)
class EveryRunResult:
    """What is known of a rule for every run of a graph, in whatever way and however often it is driven in a session.

    Attributes:
        status: proved for every run, violated by the calls, or undecidable.
        calls: a shortest run that breaks it.
        message: in words.
    """

    status: RuleStatus = "undecidable"
    calls: tuple[RunCall, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What is known of a rule before the agent runs.

    Attributes:
        status: as the graph is drawn: proved on every path, violated on the path of the witness, or undecidable.
        mechanism: how it is violated.
        witness: a path of node ids; for an obligation that a cycle postpones, the path into the cycle and once around.
        cycle: the node ids of that cycle, in order.
        message: in words.
        emitted: for each node of the witness, the tools that it calls there.
        every_run: what is known for every run, which is more than every path.
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
    """The result of a verification; `passed` where no finding counts and no rule is violated."""

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
        """The report as JSON, in the public key order."""
        return {
            "target": self.target,
            "framework": self.graph.framework,
            "graph_hash": self.graph.digest,
            "passed": self.passed,
            "findings": [finding.to_dict() for finding in self.findings],
            "rules": [rule.to_dict() for rule in self.rules],
            "notes": list(self.notes),
        }
