"""Activation in graph flows: whether a next speaker is certain, given edge conditions and waits."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from guardagent.workflow.python_source.outcomes import code_of, source_text


@dataclass(frozen=True)
class ActivationEdge:
    """An edge, with the name of its source."""

    source: str
    edge: Any

    @property
    def group(self) -> tuple[str, str]:
        """Its target, and its activation group there."""
        return str(self.edge.target), str(self.edge.activation_group)

    @property
    def is_certain(self) -> bool:
        return condition_text(self.edge) is None


def condition_text(edge: Any) -> str | None:
    """The condition of an edge: a string to be mentioned, or the source of a function; None if it has none."""
    if edge.condition_function is not None:
        return source_text(edge.condition_function)
    return edge.condition if isinstance(edge.condition, str) else None


def is_exhaustive(edges: list[Any]) -> bool:
    """Whether some edge can always be taken: one has no condition, or two are complementary."""
    if any(condition_text(edge) is None for edge in edges):
        return True
    mentions = [_mention(edge) for edge in edges]
    return any((text, not wanted) in mentions for text, wanted in filter(None, mentions))


def _mention(edge: Any) -> tuple[str, bool] | None:
    """The string that an edge requires to be mentioned, or not; None for another condition."""
    if isinstance(edge.condition, str):
        return edge.condition, True
    tree = code_of(edge.condition_function)
    compared = tree.body if isinstance(tree, ast.Lambda) else None
    match compared:
        case ast.Compare(left=ast.Constant(value=str(text)), ops=[ast.In() | ast.NotIn() as sign]):
            return text, isinstance(sign, ast.In)
    return None


class ActivationAnalysis:
    """The waits between the speakers of a graph."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.edges = [ActivationEdge(name, edge) for name, node in graph.nodes.items() for edge in node.edges]
        self._starts = set(graph.get_start_nodes())

    def may_block(self, name: str) -> bool:
        """Whether the successors of a speaker may wait for others that never come."""
        known = self._always_reached(name)
        return not is_exhaustive([one.edge for one in self.edges if one.source == name and self._activates(one, known)])

    def _activates(self, edge: ActivationEdge, known: Iterable[str]) -> bool:
        """Whether an edge activates its target, immediately or together with edges that are certain."""
        group = self._groups[edge.group]
        others = [one for one in group if one is not edge]
        return edge.edge.activation_condition == "any" or all(one.is_certain and one.source in known for one in others)

    @cached_property
    def _groups(self) -> Mapping[tuple[str, str], list[ActivationEdge]]:
        found: dict[tuple[str, str], list[ActivationEdge]] = {}
        for way in self.edges:
            found.setdefault(way.group, []).append(way)
        return found

    def _always_reached(self, name: str) -> frozenset[str]:
        """The speakers in every run in which this one speaks."""
        reached = {*self._starts, *(self._predecessors.get(name) or ())}
        while more := set(self._successors(reached)) - reached:
            reached |= more
        return frozenset(reached)

    def _successors(self, known: set[str]) -> Iterator[str]:
        for edge in self.edges:
            if edge.source in known and edge.is_certain and self._activates(edge, known):
                yield edge.group[0]

    @cached_property
    def _predecessors(self) -> dict[str, frozenset[str] | None]:
        """The speakers certain to have spoken when each one speaks, itself included; None if it is unreachable."""
        found: dict[str, frozenset[str] | None] = dict.fromkeys(self.graph.nodes)
        changed = True
        while changed:
            now = {name: self._required(name, found) for name in found}
            changed, found = now != found, now
        return found

    def _required(self, name: str, found: Mapping[str, frozenset[str] | None]) -> frozenset[str] | None:
        alternatives = [frozenset[str]()] if name in self._starts else []
        for (target, _), group in self._groups.items():
            if target == name:
                alternatives.extend(self._before_group(group, found))
        return frozenset.intersection(*alternatives) | {name} if alternatives else None

    @staticmethod
    def _before_group(group: list[ActivationEdge], found: Mapping[str, frozenset[str] | None]) -> list[frozenset[str]]:
        before = [found[way.source] for way in group]
        known = [one for one in before if one is not None]
        if group[0].edge.activation_condition == "any":
            return known
        return [frozenset[str]().union(*known)] if len(known) == len(before) else []
