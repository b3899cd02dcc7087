"""The interface of structural checks: their input, with the data that they share, and their descriptions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from guardagent.policy.policies import Policies
from guardagent.workflow.analysis.paths import BreadthFirstSearch, GraphIndex
from guardagent.workflow.model.graph import Graph, NodeKind


@dataclass(frozen=True, slots=True)
class CheckDescription:
    """The description of a check in reports.

    Attributes:
        title: the property that has to hold.
        why: the problem if it does not hold.
        remedy: how to fix the problem.
    """

    title: str
    why: str
    remedy: str


@dataclass(frozen=True)
class CheckContext:
    """The input of checks: a graph, with the data that they share."""

    graph: Graph
    require_human: bool = False
    sensitive_tools: tuple[str, ...] = ()
    policies: Policies | None = None

    @cached_property
    def numbered(self) -> GraphIndex:
        return GraphIndex.of(self.graph)

    @cached_property
    def successors(self) -> list[list[int]]:
        return self.numbered.successors()

    @cached_property
    def kinds(self) -> list[NodeKind]:
        return [node.kind for node in self.graph.nodes]

    @cached_property
    def exits(self) -> frozenset[int]:
        return frozenset(self.numbered.numbers[exit_id] for exit_id in self.graph.exit_ids)

    def unattended(self, human_nodes: Collection[int]) -> BreadthFirstSearch:
        """The nodes that are reachable without human approval; excludes the branches that ask for approval."""
        numbers = self.numbered.numbers
        branches = {
            number: {numbers.get(target) for target in node.metadata["asked_before"]}
            for number, node in enumerate(self.graph.nodes)
            if isinstance(node.metadata.get("asked_before"), list | tuple)
        }
        if not human_nodes and not branches:
            return self.reached
        after = list(self.successors)
        for number, targets in branches.items():
            after[number] = [successor for successor in after[number] if successor not in targets]
        return BreadthFirstSearch(self.numbered.ids, after, [numbers[self.graph.entry_id]], human_nodes)

    @cached_property
    def reached(self) -> BreadthFirstSearch:
        """The nodes that are reachable from the entry."""
        numbered = self.numbered
        return BreadthFirstSearch(numbered.ids, self.successors, [numbered.numbers[self.graph.entry_id]])

    @cached_property
    def can_end(self) -> BreadthFirstSearch:
        """The nodes that can reach an exit."""
        return BreadthFirstSearch(self.numbered.ids, self.numbered.predecessors(), self.exits)
