"""The view of a graph that structural checks read, and the words that reports have for one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from guardagent.workflow.analysis.paths import Numbered, Search
from guardagent.workflow.model.graph import Graph, NodeKind


@dataclass(frozen=True, slots=True)
class About:
    """A check in words.

    Attributes:
        title: what has to hold.
        why: what is wrong where it does not.
        remedy: what can be done.
    """

    title: str
    why: str
    remedy: str


@dataclass(frozen=True)
class View:
    """A graph with what the checks share."""

    graph: Graph
    require_human: bool = False
    sensitive_tools: tuple[str, ...] = ()

    @cached_property
    def numbered(self) -> Numbered:
        return Numbered.of(self.graph)

    @cached_property
    def after(self) -> list[list[int]]:
        return self.numbered.after()

    @cached_property
    def kinds(self) -> list[NodeKind]:
        return [node.kind for node in self.graph.nodes]

    @cached_property
    def exits(self) -> frozenset[int]:
        return frozenset(self.numbered.numbers[exit_id] for exit_id in self.graph.exit_ids)

    def unattended(self, people: Collection[int]) -> Search:
        """What can be reached on paths where nobody is asked; of a node that asks on a branch, not by that branch."""
        numbers = self.numbered.numbers
        asked = {
            number: {numbers.get(target) for target in node.metadata["asked_before"]}
            for number, node in enumerate(self.graph.nodes)
            if isinstance(node.metadata.get("asked_before"), list | tuple)
        }
        if not people and not asked:
            return self.reached
        after = list(self.after)
        for number, targets in asked.items():
            after[number] = [one for one in after[number] if one not in targets]
        return Search(self.numbered.ids, after, [numbers[self.graph.entry_id]], people)

    @cached_property
    def reached(self) -> Search:
        """What can be reached from the entry."""
        numbered = self.numbered
        return Search(numbered.ids, self.after, [numbered.numbers[self.graph.entry_id]])

    @cached_property
    def can_end(self) -> Search:
        """What can reach an exit."""
        return Search(self.numbered.ids, self.numbered.before(), self.exits)
