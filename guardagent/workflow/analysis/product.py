"""A propositional rule on every path of a graph: the product of the graph and the rule's automaton.

(Agentproof, Section 6.1.) Three ways of violating a rule are told apart: a step that nothing can mend (a bad prefix),
something owed where a path ends, and something owed that a cycle can postpone for ever.

A node calls its tools while the run is in it: one tool once; of several, one or more in any order; where a model
chooses among them, none or more. A call goes well. All paths are looked at, so that a proof is sound, and a finding may
be of a path that no run takes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.workflow.analysis.cycles import on_cycles
from guardagent.workflow.analysis.paths import GraphIndex, without_garbage_collection
from guardagent.workflow.analysis.report import Mechanism
from guardagent.workflow.model.graph import Graph

_SILENT = ("entry", "exit")

State = tuple[int, int]  # (state of the automaton, number of the node)
_NOWHERE: State = (-1, -1)  # what comes before a state where a path begins
_STAY: tuple[int, ...] = ()
_FEW = 50  # states of an automaton
NodeCalls = tuple[tuple[str, ...], bool]  # the tools that a node can call, and whether it may call none


@dataclass(frozen=True, slots=True)
class PathViolation:
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
    """A graph whose nodes are numbers, with what they can call.

    Attributes:
        ids: number -> id of a node.
        entry: the number of the entry.
        after: number -> the numbers of the nodes that follow.
        callable: the kinds of nodes, by what they can call.
        kinds: number -> which of them a node is.
        ends: number -> whether a run can end there: at an exit, or where nothing follows.
    """

    def __init__(self, graph: Graph) -> None:
        with without_garbage_collection():
            numbered = GraphIndex.of(graph)
            self.successors = numbered.successors()
        self.ids, self.entry = numbered.ids, numbered.numbers[graph.entry_id]
        silent: NodeCalls = ((), True)
        kinds: dict[NodeCalls, int] = {silent: 0}
        self.kinds = [
            kinds.setdefault((node.tools, bool(node.metadata.get("model_chooses"))), len(kinds))
            if node.tools and node.kind not in _SILENT
            else 0
            for node in graph.nodes
        ]
        self.callable = list(kinds)
        self.ends = [not targets for targets in self.successors]
        for exit_id in graph.exit_ids:
            self.ends[numbered.numbers[exit_id]] = True


class _SparseRow(dict[int, State | int]):
    """As a list that is None nearly everywhere: of a rule with many states, in each of which few nodes are reached."""

    def __missing__(self, _: int) -> None:
        return None


class GraphProduct:
    """The product of a graph and one rule.

    A state of it is a node, and the state of the rule's automaton in which a run leaves that node.
    """

    def __init__(self, graph: NumberedGraph, rule: PropositionalMonitor) -> None:
        self._graph, self._automaton = graph, rule.automaton
        tools = {tool for tools, _ in graph.callable for tool in tools}
        self._letters = {tool: rule.alphabet.index(SessionCall(tool, {}), ok=True) for tool in tools}
        classes = self._classes()
        self._class_of = [classes[kind] for kind in graph.kinds]
        self._kinds = [graph.callable[classes.index(number)] for number in range(max(classes) + 1)]
        self._exits = self._exit_table()
        few = len(self._exits) <= _FEW
        self._parents: dict[int, list[State | int | None] | _SparseRow] = {
            state: [None] * len(graph.ids) if few else _SparseRow() for state in self._exits
        }
        self._reached: list[tuple[int, list[int]]] = []

    def _classes(self) -> list[int]:
        """Kind of a node -> its class: those of one class mean the same to the rule."""
        found: dict[tuple[frozenset[int], bool, bool], int] = {}
        classes = []
        for tools, chooses in self._graph.callable:
            letters = frozenset([self._letters[tool] for tool in tools])
            classes.append(found.setdefault((letters, chooses, len(tools) > 1), len(found)))
        return classes

    def _exit_table(self) -> dict[int, list[tuple[int, ...]]]:
        """State of the automaton on entering a node -> class of the node -> the states in which a run can leave it.

        Of all states that can come about if the nodes come in any order. `_STAY` where only the same state can.
        """
        leaving: dict[int, list[tuple[int, ...]]] = {}
        waiting = [0]
        for state in waiting:  # grows while it is read
            if state not in leaving:
                found = [tuple(self._exit_states(kind, state)) for kind in self._kinds]
                leaving[state] = [_STAY if left == (state,) else left for left in found]
                waiting += [one for left in found for one in left]
        return leaving

    def _exit_states(self, kind: NodeCalls, entered: int, *, pending: bool = False) -> dict[int, tuple[str, ...]]:
        """The states in which a run can leave a node, each with the fewest calls that lead there.

        Args:
            kind: of the node.
            entered: the state in which the run comes there.
            pending: only calls after each of which an obligation is pending.
        """
        tools, chooses = kind
        table = self._automaton.table
        found: dict[int, tuple[str, ...]] = {entered: ()} if chooses else {}
        waiting: deque[tuple[int, tuple[str, ...]]] = deque([(entered, ())])
        while waiting:
            state, calls = waiting.popleft()
            for tool in tools:
                target = table[state][self._letters[tool]]
                if target not in found and not (pending and self._automaton.accepting[target]):
                    found[target] = (*calls, tool)
                    if chooses or len(tools) > 1:
                        waiting.append((target, found[target]))
        return found

    def violation(self) -> PathViolation | None:
        """The shortest path that violates the rule by a bad prefix, or by what is owed at its end; else a cycle."""
        if all(self._automaton.accepting[state] for state in self._exits):
            return None  # in whatever order the nodes come
        found = self._explore()
        if found is None:
            return self._postponing_cycle()
        mechanism, state = found
        path = self._path(state)
        return PathViolation(mechanism, self._names(path), self._calls_on(path))

    def _explore(self) -> tuple[Mechanism, State] | None:
        """Breadth first, until something is found: the states that are equally far at once."""
        entry = self._graph.entry
        level = {left: [entry] for left in self._exits[0][self._class_of[entry]] or (0,)}
        for left in level:
            self._parents[left][entry] = _NOWHERE
        while level:
            self._reached += level.items()
            for at, nodes in level.items():
                if found := self._violation_in(at, nodes):
                    return found
            level = self._next_level(level)
        return None

    def _violation_in(self, at: int, nodes: Sequence[int]) -> tuple[Mechanism, State] | None:
        if self._automaton.violated[at]:
            return "bad_prefix", (at, nodes[0])
        if not self._automaton.accepting[at]:
            for node in nodes:
                if self._graph.ends[node]:
                    return "unmet_at_end", (at, node)
        return None

    def _next_level(self, level: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
        """The states that follow, as far as they were not reached."""
        after, classes = self._graph.successors, self._class_of
        following: dict[int, list[int]] = defaultdict(list)
        for at, nodes in level.items():
            leaving, same, stayed = self._exits[at], self._parents[at], following[at]
            for node in nodes:
                for target in after[node]:
                    found = leaving[classes[target]]
                    if found is _STAY:  # most nodes mean nothing to a rule
                        if same[target] is None:
                            same[target] = node
                            stayed.append(target)
                        continue
                    for left in found:
                        if self._parents[left][target] is None:
                            self._parents[left][target] = at, node
                            following[left].append(target)
        return {at: nodes for at, nodes in following.items() if nodes}

    def _path(self, state: State) -> list[State]:
        path = []
        while state != _NOWHERE:
            path.append(state)
            at, node = state
            before = self._parents[at][node]
            assert before is not None
            state = before if isinstance(before, tuple) else (at, before)
        return path[::-1]

    def _names(self, path: Sequence[State]) -> tuple[str, ...]:
        return tuple(self._graph.ids[node] for _, node in path)

    def _calls_on(
        self, path: Sequence[State], entered: int = 0, *, pending: bool = False
    ) -> tuple[tuple[str, ...], ...]:
        """The tools that are called in each node of a path."""
        calls = []
        for left, node in path:
            calls.append(
                self._exit_states(self._graph.callable[self._graph.kinds[node]], entered, pending=pending)[left]
            )
            entered = left
        return tuple(calls)

    def _postponing_cycle(self) -> PathViolation | None:
        """The shortest path into a cycle on which something is owed all the time."""
        accepting = self._automaton.accepting
        pending = [(at, node) for at, nodes in self._reached if not accepting[at] for node in nodes]
        after = self._pending_successors(pending)
        cyclic = on_cycles(after)
        if not cyclic:
            return None
        start = min(cyclic)  # the first that was reached
        path = self._path(pending[start])
        cycle = [pending[place] for place in _shortest_cycle(start, after)]
        calls = self._calls_on(path) + self._calls_on(cycle, path[-1][0], pending=True)
        return PathViolation("postponed_by_cycle", self._names([*path, *cycle]), calls, self._names(cycle))

    def _pending_successors(self, pending: Sequence[State]) -> list[list[int]]:
        """What follows each of some states while something is owed, all by their places among these."""
        places = {state: place for place, state in enumerate(pending)}
        leaving = {
            at: [tuple(self._exit_states(kind, at, pending=True)) for kind in self._kinds]
            for at in {at for at, _ in pending}
        }
        after, classes = self._graph.successors, self._class_of
        return [
            [places[left, target] for target in after[node] for left in leaving[at][classes[target]]]
            for at, node in pending
        ]


def _shortest_cycle(start: int, after: Sequence[Sequence[int]]) -> list[int]:
    """The shortest way from a node back to it, without the first."""
    parents: dict[int, int] = {}
    waiting = [start]
    for node in waiting:  # grows while it is read
        for target in after[node]:
            if target not in parents:
                parents[target] = node
                waiting.append(target)
        if start in parents:
            break
    found, node = [start], parents[start]
    while node != start:
        found.append(node)
        node = parents[node]
    return found[::-1]
