"""Witnesses as walks: each step has its node, its incoming edges and its calls, for all formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from guardagent.workflow.analysis.report import GraphFinding, RuleResult
from guardagent.workflow.model.graph import Edge, Graph, Node

_Ways = Mapping[tuple[str, str], Sequence[Edge]]


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
        self._ways = _ways(graph, (one.witness for one in shown))

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
            if (found := ways.get((edge.source, edge.target))) is not None:
                found.append(edge)
    return ways


def _turn(rule: RuleResult) -> int | None:
    # The witness is a path into the cycle and once around it, back to the end of that path.
    index = len(rule.witness) - len(rule.cycle) - 1
    return index if rule.cycle and index >= 0 and rule.witness[index] == rule.witness[-1] else None
