"""The table of the product automaton of the propositional rules, through which many traces step together."""

from __future__ import annotations

import numpy as np

from guardagent.batch.acquittal.checks import Bools, Ints
from guardagent.policy.monitors.automaton import Parts, Product

_BAD, _START, _NEW = 0, 1, -1
_FEW = 16  # traces are stepped one by one where fewer of them go on
_MAX_ENTRIES = 2**22  # of the table


class ProductTable:
    """The product automaton of the propositional rules, as far as traces needed it.

    A state and a letter are numbers. `_BAD` is the state after a violation, and the letter 0 changes no state.
    """

    def __init__(self, product: Product) -> None:
        self._rules = product.rules
        self._states: dict[Parts, int] = {}
        self._letters: dict[Parts, int] = {}
        self._parts: list[Parts] = [()]
        self._letter_parts: list[Parts] = [()]
        self.next = np.full((64, 16), _NEW, np.int32)
        self.next[_BAD] = _BAD
        self._state(product.start.parts)

    def letter(self, parts: Parts) -> int:
        """The number of a letter."""
        rules = list(zip(self._rules, parts, strict=True))
        if all(
            automaton.violated[state] or row[part] == state
            for (_, automaton), part in rules
            for state, row in enumerate(automaton.table)
        ) and not any(automaton.violated[0] for (_, automaton), _ in rules):
            return 0
        number = self._letters.setdefault(parts, len(self._letter_parts))
        if number == len(self._letter_parts):
            self._letter_parts.append(parts)
            self._fit()
        return number

    def _state(self, parts: Parts) -> int:
        number = self._states.setdefault(parts, len(self._parts))
        if number == len(self._parts):
            self._parts.append(parts)
            self._fit()
        return number

    def _fit(self) -> None:
        rows, columns = self.next.shape
        more = (len(self._parts) > rows) * rows, (len(self._letter_parts) > columns) * columns
        if any(more):
            self.next = np.pad(self.next, ((0, more[0]), (0, more[1])), constant_values=_NEW)
            self.next[_BAD] = _BAD

    def _after(self, state: int, letter: int) -> int:
        """The next state, which is now in the table."""
        if self.next[state, letter] == _NEW:
            steps = zip(self._rules, self._parts[state], self._letter_parts[letter], strict=True)
            parts = tuple(automaton.table[before][part] for (_, automaton), before, part in steps)
            broken = any(rule[1].violated[part] for rule, part in zip(self._rules, parts, strict=True))
            full = self.next.size > _MAX_ENTRIES and parts not in self._states
            following = _BAD if broken or full else self._state(parts)
            self.next[state, letter] = following
        return int(self.next[state, letter])

    def accepted(self, letters: Ints, ends: Ints) -> Bools:
        """Whether traces of letters keep all rules, also at their ends."""
        moving = np.flatnonzero(letters)
        ends = np.searchsorted(moving, ends)
        letters = letters[moving]
        starts = np.concatenate([[0], ends])[:-1]
        order = np.argsort(starts - ends, kind="stable")
        lengths, begins = (ends - starts)[order], starts[order]
        states = np.full(len(order), _START, np.int32)
        going = len(order) - np.cumsum(np.bincount(lengths, minlength=1))
        together = going[going >= _FEW].tolist()
        for step, count in enumerate(together):
            now, read = states[:count], letters[begins[:count] + step]
            after = self.next[now, read]
            if (after == _NEW).any():
                for state, letter in {*zip(now.tolist(), read.tolist(), strict=True)}:
                    self._after(state, letter)
                after = self.next[now, read]
            states[:count] = after
        for at in range(int(np.count_nonzero(lengths > len(together)))):
            state = int(states[at])
            for letter in letters[begins[at] + len(together) : begins[at] + lengths[at]].tolist():
                state = self._after(state, letter)
            states[at] = state
        accepting = np.array([False, *(self._accepts(parts) for parts in self._parts[1:])])
        kept = np.empty(len(order), np.bool_)
        kept[order] = accepting[states]
        return kept

    def _accepts(self, parts: Parts) -> bool:
        return all(rule[1].accepting[state] for rule, state in zip(self._rules, parts, strict=True))
