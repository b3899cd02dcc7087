"""The states in which an automaton can be if a graph may call tools that cannot be seen.

An unknown node can call anything, any number of times. What it called is unknown, so a run is in one of several states
of the rule's automaton; a set of them is violated only if each of them is, and then whatever the unknown calls were.
"""

from __future__ import annotations

from guardagent.policy.monitors.automaton import Automaton


class UncertainStates:
    """Sets of states of an automaton, numbered as they are found; 0 is the start."""

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
            self.accepting.append(any(self._automaton.accepting[one] for one in states))
            self.violated.append(all(self._automaton.violated[one] for one in states))
        return self._numbers[states]

    def after(self, number: int, letter: int) -> int:
        """Returns the states after a known call."""
        return self._number(frozenset(self._table[one][letter] for one in self._sets[number]))

    def after_anything(self, number: int) -> int:
        """Returns the states after any calls, or none."""
        found = set(self._sets[number])
        waiting = list(found)
        for state in waiting:  # grows during the loop
            fresh = set(self._table[state]) - found
            found |= fresh
            waiting += fresh
        return self._number(frozenset(found))
