"""A naive product of a graph and a rule, call by call, as a reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from guardagent.policy.monitors.automaton import Automaton
from guardagent.workflow.model.graph import Graph

Trace = tuple[str, ...]


class Paths:
    """The paths of a small graph. A place is (node, whether a tool was called there)."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._after = {node.id: [edge.target for edge in graph.edges if edge.source == node.id] for node in graph.nodes}

    def calls(self, node: str, *, called: bool) -> tuple[str, ...]:
        """Returns the tools that can be called next in a node."""
        graph_node = self._graph.by_id[node]
        several = len(graph_node.tools) > 1 or graph_node.metadata.get("model_chooses")
        return graph_node.tools if graph_node.kind not in ("entry", "exit") and (several or not called) else ()

    def following(self, node: str, *, called: bool) -> list[str]:
        return self._after[node] if self.may_leave(node, called=called) else []

    def may_end(self, node: str, *, called: bool) -> bool:
        return self.may_leave(node, called=called) and (node in self._graph.exit_ids or not self._after[node])

    def may_leave(self, node: str, *, called: bool) -> bool:
        graph_node = self._graph.by_id[node]
        return (
            called
            or not graph_node.tools
            or graph_node.kind in ("entry", "exit")
            or bool(graph_node.metadata.get("model_chooses"))
        )

    def traces(self, longest: int) -> set[tuple[Trace, bool]]:
        """(the calls so far, whether the run can end there), of all paths with so many calls."""
        start: tuple[str, bool, Trace] = (self._graph.entry_id, False, ())
        seen, waiting = {start}, [start]
        for node, called, trace in waiting:  # grows while it is read
            tools = self.calls(node, called=called) if len(trace) < longest else ()
            further = [(node, True, (*trace, tool)) for tool in tools]
            further += [(target, False, trace) for target in self.following(node, called=called)]
            waiting += [later for later in dict.fromkeys(further) if later not in seen]
            seen.update(further)
        return {(trace, self.may_end(node, called=called)) for node, called, trace in seen}


@dataclass(frozen=True)
class NaiveResult:
    """The violations of a rule on the paths of a graph.

    Attributes:
        steps: the nodes of a shortest path that violates it or ends with a pending obligation; None if there is none.
        postponed: whether a cycle can postpone the obligation forever.
    """

    steps: int | None
    postponed: bool


Spot = tuple[str, bool, int]  # (a node, whether a tool was called there, the state of the automaton)


def naive_result(graph: Graph, automaton: Automaton, letters: dict[str, int]) -> NaiveResult:
    """Returns the violations of a rule on the paths, from its automaton and the letters of the tools."""
    paths = Paths(graph)

    def called(spot: Spot) -> Iterator[Spot]:
        node, before, state = spot
        return ((node, True, automaton.table[state][letters[tool]]) for tool in paths.calls(node, called=before))

    def left(spot: Spot) -> Iterator[Spot]:
        node, before, state = spot
        return ((target, False, state) for target in paths.following(node, called=before))

    def broken(spot: Spot) -> bool:
        node, before, state = spot
        pending_at_end = paths.may_end(node, called=before) and not automaton.accepting[state]
        return automaton.violated[state] or pending_at_end

    def owing(spot: Spot) -> bool:
        return not automaton.accepting[spot[2]]

    level, seen, steps = [(graph.entry_id, False, 0)], set[Spot](), None
    for length in range(1, 1000):
        for spot in level:  # grows while it is read
            level += [later for later in dict.fromkeys(called(spot)) if later not in level and later not in seen]
        seen.update(level)
        if steps is None and any(map(broken, level)):
            steps = length
        level = list(dict.fromkeys(later for spot in level for later in left(spot) if later not in seen))
    after = {spot: [later for later in (*called(spot), *left(spot)) if owing(later)] for spot in seen if owing(spot)}
    arrivals = [target for spot in after for target in left(spot) if owing(target)]
    return NaiveResult(steps, any(_leads_back(spot, after) for spot in arrivals))


def _leads_back(spot: Spot, after: dict[Spot, list[Spot]]) -> bool:
    """Whether a cycle of nodes passes here; calls within one node are not a cycle."""
    waiting = list(after[spot])
    for later in waiting:  # grows while it is read
        waiting += [target for target in after[later] if target not in waiting]
    return spot in waiting
