"""A propositional rule on every path of a graph: the product of the graph and the rule's automaton.

(Agentproof, Section 6.1.) Three ways of violating a rule are told apart: a step that nothing can mend (a bad prefix),
something owed where a path ends, and something owed that a cycle can postpone for ever.

A node calls its tools while the run is in it: one tool once; of several, one or more in any order; where a model
chooses among them, none or more. A call goes well. All paths are looked at, so that a proof is sound, and a finding may
be of a path that no run takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from guardagent.policy.findings import Call
from guardagent.policy.propositional import Propositional
from guardagent.workflow.cycles import on_cycles
from guardagent.workflow.graph import Graph
from guardagent.workflow.report import Mechanism

_UNSEEN = -2
_FIRST = -1


@dataclass(frozen=True, slots=True)
class Violation:
    """How a path violates a rule.

    Attributes:
        mechanism: in which of the three ways.
        witness: the nodes of the path; for a cycle, into it and once around.
        emitted: the tools that are called in each of them.
        cycle: the nodes of the cycle, in order.
    """

    mechanism: Mechanism
    witness: tuple[str, ...]
    emitted: tuple[tuple[str, ...], ...]
    cycle: tuple[str, ...] = ()


class NumberedGraph:
    """A graph whose nodes are numbers, for what looks at each many times.

    Attributes:
        ids: number -> id of a node.
        after: number -> the numbers of the nodes that follow.
        kinds: number -> which of `callable` the node has.
        callable: (tools that a node can call, whether it may call none).
        ends: number -> whether a run can end there: at an exit, or where nothing follows.
    """

    def __init__(self, graph: Graph) -> None:
        self.ids = [node.id for node in graph.nodes]
        numbers = {node: number for number, node in enumerate(self.ids)}
        self.entry = numbers[graph.entry_id]
        self.after: list[list[int]] = [[] for _ in self.ids]
        for edge in graph.edges:
            self.after[numbers[edge.source]].append(numbers[edge.target])
        kinds: dict[tuple[tuple[str, ...], bool], int] = {}
        self.kinds = [
            kinds.setdefault((node.tools, bool(node.metadata.get("model_chooses"))), len(kinds)) for node in graph.nodes
        ]
        self.callable = list(kinds)
        self.ends = [not targets for targets in self.after]
        for exit_id in graph.exit_ids:
            self.ends[numbers[exit_id]] = True


class Product:
    """The product of a graph and one rule.

    Args:
        maybe_none: every node may call no tool, and one tool at most: as where calls are denied or fail.
    """

    def __init__(self, graph: NumberedGraph, rule: Propositional, *, maybe_none: bool = False) -> None:
        self._graph, self._automaton = graph, rule.automaton
        self._size = len(rule.automaton.table)
        self._letters = {
            tool: rule.alphabet.index(Call(tool, {}), ok=True) for tools, _ in graph.callable for tool in tools
        }
        self._maybe_none = maybe_none
        self._inside = [[self._called(*kind, state) for state in range(self._size)] for kind in graph.callable]
        self._through = [[tuple(found) for found in states] for states in self._inside]
        self._parents = [_UNSEEN] * (len(graph.ids) * self._size)
        self._reached: list[int] = []

    def _called(self, tools: Sequence[str], chooses: bool, entered: int) -> dict[int, tuple[str, ...]]:  # noqa: FBT001
        """The states in which a run can leave a node, each with the fewest calls that lead there."""
        table, none = self._automaton.table, chooses or self._maybe_none or not tools
        found: dict[int, tuple[str, ...]] = {entered: ()} if none else {}
        waiting: deque[tuple[int, tuple[str, ...]]] = deque([(entered, ())])
        while waiting:
            state, said = waiting.popleft()
            for tool in tools:
                target = table[state][self._letters[tool]]
                if target not in found:
                    found[target] = (*said, tool)
                    if not self._maybe_none and (chooses or len(tools) > 1):
                        waiting.append((target, found[target]))
        return found

    def violation(self) -> Violation | None:
        """The shortest path that violates the rule by a bad prefix, or by what is owed at its end; else a cycle."""
        found = self._explore()
        if found is None:
            return self._postponed()
        mechanism, state = found
        path = self._path(state)
        return Violation(mechanism, self._names(path), self._said(path, 0))

    def _explore(self) -> tuple[Mechanism, int] | None:
        """Breadth first, until something is found."""
        graph, size, parents, through = self._graph, self._size, self._parents, self._through
        violated, accepting, after, kinds, ends = (
            self._automaton.violated, self._automaton.accepting, graph.after, graph.kinds, graph.ends,
        )  # fmt: skip
        reached = self._reached
        for left in through[kinds[graph.entry]][0]:
            parents[graph.entry * size + left] = _FIRST
            reached.append(graph.entry * size + left)
        for state in reached:  # grows while it is read
            node, at = divmod(state, size)
            if violated[at]:
                return "bad_prefix", state
            if ends[node] and not accepting[at]:
                return "unmet_at_end", state
            for target in after[node]:
                for left in through[kinds[target]][at]:
                    following = target * size + left
                    if parents[following] == _UNSEEN:
                        parents[following] = state
                        reached.append(following)
        return None

    def _path(self, state: int) -> list[int]:
        path = []
        while state != _FIRST:
            path.append(state)
            state = self._parents[state]
        return path[::-1]

    def _names(self, path: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._graph.ids[state // self._size] for state in path)

    def _said(self, path: Sequence[int], entered: int) -> tuple[tuple[str, ...], ...]:
        said = []
        for state in path:
            node, left = divmod(state, self._size)
            said.append(self._inside[self._graph.kinds[node]][entered][left])
            entered = left
        return tuple(said)

    def _postponed(self) -> Violation | None:
        """The shortest path into a cycle on which something is owed all the time."""
        if all(self._automaton.accepting):
            return None
        cyclic = on_cycles(self._owing, self._following)
        start = next((state for state in self._reached if state in cyclic), None)
        if start is None:
            return None
        path, cycle = self._path(start), self._around(start, cyclic)
        whole = [*path, *cycle]
        return Violation("postponed_by_cycle", self._names(whole), self._said(whole, 0), self._names(cycle))

    @cached_property
    def _owing(self) -> set[int]:
        accepting, size = self._automaton.accepting, self._size
        return {state for state in self._reached if not accepting[state % size]}

    def _following(self, state: int) -> list[int]:
        node, at = divmod(state, self._size)
        kinds, through, owing = self._graph.kinds, self._through, self._owing
        found = [
            target * self._size + left for target in self._graph.after[node] for left in through[kinds[target]][at]
        ]
        return [one for one in found if one in owing]

    def _around(self, start: int, cyclic: set[int]) -> list[int]:
        """The shortest way from a state back to it, without the first."""
        parents: dict[int, int] = {}
        waiting = [start]
        for state in waiting:  # grows while it is read
            for target in self._following(state):
                if target in cyclic and target not in parents:
                    parents[target] = state
                    waiting.append(target)
            if start in parents:
                break
        found, state = [start], parents[start]
        while state != start:
            found.append(state)
            state = parents[state]
        return found[::-1]
