"""Witnesses as walks: each step with its node, the edges that lead there and what is called, for all who show them."""

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
        via: the edges from the step before; none for the first.
        calls: the tools that are called here for the walk to be a witness.
    """

    node: Node
    via: tuple[Edge, ...] = ()
    calls: tuple[str, ...] = ()

    @property
    def condition(self) -> str:
        """When the step is taken, in the words of the framework."""
        return " or ".join(dict.fromkeys(edge.condition for edge in self.via if edge.condition))


@dataclass(frozen=True, slots=True)
class WitnessWalk:
    """A witness.

    Attributes:
        turn: where a walk that can go on for ever goes back to: its last step is the one of this index again.
    """

    steps: tuple[WitnessStep, ...]
    turn: int | None = None


class WitnessWalks:
    """The walks of findings and rules; edges are looked up once, and only those that some witness passes."""

    def __init__(self, graph: Graph, shown: Iterable[GraphFinding | RuleResult]) -> None:
        self._graph = graph
        self._ways = _ways(graph, (one.witness for one in shown))

    def of(self, shown: GraphFinding | RuleResult) -> WitnessWalk:
        """The walk of a finding or a rule; without steps where it has no witness."""
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
    # The witness is a path into the cycle, then once around, back to where that path ended.
    index = len(rule.witness) - len(rule.cycle) - 1
    return index if rule.cycle and index >= 0 and rule.witness[index] == rule.witness[-1] else None
