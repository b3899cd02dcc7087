"""Checks a propositional rule on every path: the product of the graph and the automaton (Agentproof, Section 6.1).

A rule is violated in one of three ways: by a bad prefix, by an obligation that is pending where a path ends, or by an
obligation that a cycle can postpone forever.

A node with one tool calls it once. A node with several tools calls one or more, in any order; a node where a model
chooses calls none or more. Every call succeeds. The search covers all paths, so a proof is sound, but a violation may
be on a path that no run takes. With `unknown_calls`, a node with unknown tools calls anything, too, and a violation
holds whatever that is: a run is then in one of several states of the automaton, and a set of states is violated only
if each of them is.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from guardagent._support.execution import without_garbage_collection
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.monitors.automaton import Automaton
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.workflow.analysis.paths import GraphIndex, on_cycles
from guardagent.workflow.analysis.report import Mechanism
from guardagent.workflow.model.graph import Graph, Node, unknown_tools

_SILENT = ("entry", "exit")

State = tuple[int, int]  # (state of the automaton, number of the node)
_NOWHERE: State = (-1, -1)  # the parent of a state where a path begins
_STAY: tuple[int, ...] = ()
_FEW = 50  # states of an automaton
NodeCalls = tuple[tuple[str, ...], bool, bool]  # the tools of a node, whether it may call none, and unknown ones


@dataclass(frozen=True, slots=True)
class PathViolation:
    """A path that violates a rule.

    Attributes:
        mechanism: the kind of the violation.
        witness: the nodes of the path; for a cycle, the path into it and around it once.
        emitted: the tools that each of them calls.
        cycle: the nodes of the cycle, in order.
    """

    mechanism: Mechanism
    witness: tuple[str, ...]
    emitted: tuple[tuple[str, ...], ...]
    cycle: tuple[str, ...] = ()


class NumberedGraph:
    """A graph with numbered nodes and their calls; with `unknown_calls`, also those that could not be seen.

    Attributes:
        ids: number -> id of a node.
        entry: the number of the entry.
        successors: number -> the numbers of the successors.
        callable: the distinct calls of nodes.
        kinds: number -> the index in `callable`.
        ends: number -> whether a run can end there: at an exit or at a dead end.
    """

    def __init__(self, graph: Graph, *, unknown_calls: bool = False) -> None:
        with without_garbage_collection():
            numbered = GraphIndex.of(graph)
            self.successors = numbered.successors()
        self.ids, self.entry = numbered.ids, numbered.numbers[graph.entry_id]
        self.unknown_calls = unknown_calls
        anywhere = unknown_calls and unknown_tools(graph.by_id[graph.entry_id]) is not None
        silent: NodeCalls = ((), True, False)
        kinds: dict[NodeCalls, int] = {silent: 0}
        self.kinds = [
            kinds.setdefault(
                _calls_of(node, unknown=anywhere or (unknown_calls and unknown_tools(node) is not None)), len(kinds)
            )
            if (node.tools or unknown_calls) and node.kind not in _SILENT
            else 0
            for node in graph.nodes
        ]
        self.callable = list(kinds)
        self.ends = [not targets for targets in self.successors]
        for exit_id in graph.exit_ids:
            self.ends[numbered.numbers[exit_id]] = True


def _calls_of(node: Node, *, unknown: bool) -> NodeCalls:
    return node.tools, not node.tools or bool(node.metadata.get("model_chooses")), unknown


class _SparseRow(dict[int, State | int]):
    """A sparse list of mostly None, for a rule with many states that each reach few nodes."""

    def __missing__(self, _: int) -> None:
        return None


class UncertainStates:
    """Sets of states in which an automaton can be after unknown calls, numbered as they are found; 0 is the start."""

    def __init__(self, automaton: Automaton) -> None:
        self._table, self._automaton = automaton.table, automaton
        self._sets: list[frozenset[int]] = []
        self._numbers: dict[frozenset[int], int] = {}
        self.accepting: list[bool] = []
        self.violated: list[bool] = []
        self._number(frozenset({0}))

    def _number(self, states: frozenset[int]) -> int:
        if states not in self._numbers:
            self._numbers[states] = len(self._sets)
            self._sets.append(states)
            self.accepting.append(any(self._automaton.accepting[state] for state in states))
            self.violated.append(all(self._automaton.violated[state] for state in states))
        return self._numbers[states]

    def after(self, number: int, letter: int) -> int:
        """Returns the states after a known call."""
        return self._number(frozenset(self._table[state][letter] for state in self._sets[number]))

    def after_anything(self, number: int) -> int:
        """Returns the states after any calls, or none."""
        numbers = set(self._sets[number])
        waiting = list(numbers)
        for state in waiting:  # grows during the loop
            fresh = set(self._table[state]) - numbers
            numbers |= fresh
            waiting += fresh
        return self._number(frozenset(numbers))


class GraphProduct:
    """The product of a graph and one rule.

    A state is a node together with the state of the automaton when a run leaves that node.

    Attributes:
        automaton: the automaton of the rule; with unknown calls, that of the sets of its states.
        letters: the letter of each tool.
    """

    def __init__(self, graph: NumberedGraph, rule: PropositionalMonitor) -> None:
        self._graph = graph
        self.automaton = UncertainStates(rule.automaton) if graph.unknown_calls else rule.automaton
        self._table = rule.automaton.table
        tools = {tool for tools, _, _ in graph.callable for tool in tools}
        self.letters = {tool: rule.alphabet.index(SessionCall(tool, {}), ok=True) for tool in tools}
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
        """Kind of a node -> its equivalence class for the rule."""
        class_numbers: dict[tuple[frozenset[int], bool, bool, bool], int] = {}
        classes = []
        for tools, chooses, unknown in self._graph.callable:
            letters = frozenset([self.letters[tool] for tool in tools])
            classes.append(class_numbers.setdefault((letters, chooses, len(tools) > 1, unknown), len(class_numbers)))
        return classes

    def _exit_table(self) -> dict[int, list[tuple[int, ...]]]:
        """State of the automaton on entry -> class of the node -> the states in which a run can leave the node.

        Covers all states that are reachable with the nodes in any order. `_STAY` means that the state cannot change.
        """
        leaving: dict[int, list[tuple[int, ...]]] = {}
        waiting = [0]
        for state in waiting:  # grows during the loop
            if state not in leaving:
                exit_states = [tuple(self._exit_states(kind, state)) for kind in self._kinds]
                leaving[state] = [_STAY if left == (state,) else left for left in exit_states]
                waiting += [exit_state for left in exit_states for exit_state in left]
        return leaving

    def _exit_states(self, kind: NodeCalls, entered: int, *, pending: bool = False) -> dict[int, tuple[str, ...]]:
        """Returns the states in which a run can leave a node, each with its fewest calls.

        Args:
            kind: the kind of the node.
            entered: the state in which the run enters the node.
            pending: only calls after each of which an obligation is pending.
        """
        tools, chooses, unknown = kind
        entered = self.after_unknown(entered) if unknown else entered
        if pending and self.automaton.accepting[entered]:
            return {}
        exit_states: dict[int, tuple[str, ...]] = {entered: ()} if chooses else {}
        waiting: deque[tuple[int, tuple[str, ...]]] = deque([(entered, ())])
        while waiting:
            state, calls = waiting.popleft()
            for tool in tools:
                target = self.after(state, self.letters[tool])
                target = self.after_unknown(target) if unknown else target
                if target not in exit_states and not (pending and self.automaton.accepting[target]):
                    exit_states[target] = (*calls, tool)
                    if chooses or len(tools) > 1:
                        waiting.append((target, exit_states[target]))
        return exit_states

    def after(self, state: int, letter: int) -> int:
        """Returns the state after a call."""
        if isinstance(self.automaton, UncertainStates):
            return self.automaton.after(state, letter)
        return self.automaton.table[state][letter]

    def after_unknown(self, state: int) -> int:
        """Returns the state after any calls, or none."""
        assert isinstance(self.automaton, UncertainStates)
        return self.automaton.after_anything(state)

    def is_inert(self, calls: NodeCalls) -> bool:
        """Whether the calls of a node change nothing for the rule, in whatever state."""
        tools, _, unknown = calls
        letters = [self.letters[tool] for tool in tools]
        return not unknown and all(row[letter] == state for state, row in enumerate(self._table) for letter in letters)

    def violation(self) -> PathViolation | None:
        """Returns the shortest path with a bad prefix or a pending obligation at its end; else a postponing cycle."""
        if all(self.automaton.accepting[state] for state in self._exits):
            return None  # for any order of the nodes
        mechanisms = self._explore()
        if mechanisms is None:
            return self._postponing_cycle()
        mechanism, state = mechanisms
        path = self._path(state)
        return PathViolation(mechanism, self._names(path), self._calls_on(path))

    def _explore(self) -> tuple[Mechanism, State] | None:
        """Searches breadth first, one level at a time, until a violation is found."""
        entry = self._graph.entry
        level = {left: [entry] for left in self._exits[0][self._class_of[entry]] or (0,)}
        for left in level:
            self._parents[left][entry] = _NOWHERE
        while level:
            self._reached += level.items()
            for at, nodes in level.items():
                if violation := self._violation_in(at, nodes):
                    return violation
            level = self._next_level(level)
        return None

    def _violation_in(self, at: int, nodes: Sequence[int]) -> tuple[Mechanism, State] | None:
        if self.automaton.violated[at]:
            return "bad_prefix", (at, nodes[0])
        if not self.automaton.accepting[at]:
            for node in nodes:
                if self._graph.ends[node]:
                    return "unmet_at_end", (at, node)
        return None

    def _next_level(self, level: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
        """Returns the successor states that were not reached before."""
        after, classes = self._graph.successors, self._class_of
        following: dict[int, list[int]] = defaultdict(list)
        for at, nodes in level.items():
            leaving, same, stayed = self._exits[at], self._parents[at], following[at]
            for node in nodes:
                for target in after[node]:
                    states = leaving[classes[target]]
                    if states is _STAY:  # most nodes do not concern a rule
                        if same[target] is None:
                            same[target] = node
                            stayed.append(target)
                        continue
                    for left in states:
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
        """Returns the tools that each node of a path calls."""
        calls = []
        for left, node in path:
            calls.append(
                self._exit_states(self._graph.callable[self._graph.kinds[node]], entered, pending=pending)[left]
            )
            entered = left
        return tuple(calls)

    def _postponing_cycle(self) -> PathViolation | None:
        """Returns the shortest path into a cycle on which an obligation is always pending."""
        accepting = self.automaton.accepting
        pending = [(at, node) for at, nodes in self._reached if not accepting[at] for node in nodes]
        after = self._pending_successors(pending)
        cyclic = on_cycles(after)
        if not cyclic:
            return None
        start = min(cyclic)  # the first reached
        path = self._path(pending[start])
        cycle = [pending[place] for place in _shortest_cycle(start, after)]
        calls = self._calls_on(path) + self._calls_on(cycle, path[-1][0], pending=True)
        return PathViolation("postponed_by_cycle", self._names([*path, *cycle]), calls, self._names(cycle))

    def _pending_successors(self, pending: Sequence[State]) -> list[list[int]]:
        """Returns the successors of each pending state that keep the obligation pending, as indices into `pending`."""
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
    """Returns the shortest cycle through a node, without the node at its beginning."""
    parents: dict[int, int] = {}
    waiting = [start]
    for node in waiting:  # grows during the loop
        for target in after[node]:
            if target not in parents:
                parents[target] = node
                waiting.append(target)
        if start in parents:
            break
    cycle, node = [start], parents[start]
    while node != start:
        cycle.append(node)
        node = parents[node]
    return cycle[::-1]
