"""Replays many traces by propositional rules at once, with NumPy: whole logs, after the fact.

Events are grouped into *kinds*, each with a letter for every rule. A step of all traces by all rules is then one
look-up in one table. Finding the kinds costs most; a columnar log can be passed directly, and each distinct value of a
column is examined once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from guardagent.errors import InputError
from guardagent.policy.monitors.automaton import Compiled
from guardagent.types import Event

Ints = NDArray[np.intp]
Field = Literal["tool", "action", "decision", "tags"]

FEW = 16  # fewer traces than this are stepped faster one by one
MANY = 4096  # more kinds than this are listed only where there are such events


class Coded(NamedTuple):
    """A column that gives each value by its place among `values`."""

    codes: ArrayLike
    values: Sequence[Any]


@dataclass(frozen=True, slots=True)
class RuleReplay:
    """The result of each rule on each trace: arrays with a row for each rule and a column for each trace.

    Attributes:
        standings: the final `Standing` of each.
        violated_by: the index of the event that finally violated the rule; -1 without one.
    """

    standings: NDArray[np.int8]
    violated_by: Ints


def replay_batch(rules: Sequence[Compiled], traces: Sequence[Sequence[Event]] | Columns) -> RuleReplay:
    """Replays whole traces, with the same outcome as stepping each rule by each event.

    Args:
        rules: each rule's alphabet and automaton.
        traces: the events of each trace, which went well where their status says so; or the same in columns.
    """
    source = traces if isinstance(traces, Columns) else _Listed(traces)
    kinds, letters = source.kinds(rules)
    table, order = _JointTable(rules), _Order(source.lengths)
    states, fine = _step_together(table, order, kinds, letters)
    _step_each(table, order, kinds, letters, states, fine)
    standings, violated_by = np.empty(states.shape, np.int8), np.empty_like(fine)
    standings[order.traces] = table.standings[states]
    violated_by[order.traces] = np.where(fine < order.lengths[:, None], fine, -1)
    return RuleReplay(standings.T, violated_by.T)


class Columns:
    """The events of many traces as columns: all events of the first trace, then all of the second, and so on.

    Args:
        lengths: the number of events of each trace.
        ok: whether each event succeeded.
        tool, action, decision: a name for each event, as a list, an array, or `Coded`.
        tags: a frozenset of names for each event.

    Raises:
        InputError: the columns do not fit together.
    """

    def __init__(
        self,
        lengths: ArrayLike,
        ok: ArrayLike,
        tool: Sequence[str] | Coded,
        action: Sequence[str | None] | Coded | None = None,
        decision: Sequence[str | None] | Coded | None = None,
        tags: Sequence[frozenset[str]] | Coded | None = None,
    ) -> None:
        self.lengths = np.asarray(lengths, np.intp)
        if np.min(self.lengths, initial=0) < 0:
            raise InputError(f"a trace has {np.min(self.lengths)} events; expected how many there are")
        events = int(np.sum(self.lengths))
        self._ok = np.asarray(ok, np.bool_)
        _fits("ok", len(self._ok), events)
        columns: dict[Field, Any] = {"tool": tool, "action": action, "decision": decision, "tags": tags}
        self._columns = {name: _coded(name, column, events) for name, column in columns.items() if column is not None}

    def kinds(self, rules: Sequence[Compiled]) -> tuple[Ints, Ints]:
        """(the kind of each event, for each kind the letter of each rule)."""
        kinds, letters = self._ok.astype(np.intp), np.array([[0], [1]]).repeat(len(rules), axis=1)
        for name in _fields(rules):
            if name not in self._columns:
                raise InputError(
                    f"a rule reads the {name!r} of an event, but there is no such column; expected a column {name!r}"
                )
            codes, values = self._columns[name]
            classes, offsets = _alike(rules, name, values)
            kinds = kinds * len(offsets) + classes[codes]
            if len(letters) * len(offsets) > MANY:
                there, kinds = np.unique(kinds, return_inverse=True)
            else:
                there = np.arange(len(letters) * len(offsets))
            letters = letters[there // len(offsets)] + offsets[there % len(offsets)]
        return kinds, letters


class _Listed:
    """The events of many traces as they are."""

    def __init__(self, traces: Sequence[Sequence[Event]]) -> None:
        self.lengths = np.array([len(trace) for trace in traces], np.intp)
        self._traces = traces

    def kinds(self, rules: Sequence[Compiled]) -> tuple[Ints, Ints]:
        """Like `Columns.kinds`."""
        well, badly = _Numbers(1, 2), _Numbers(0, 2)
        only_tools = set(_fields(rules)) <= {"tool"}  # most rules, and much the faster way
        if only_tools:
            kinds = [
                well[event.tool] if event.status == "ok" else badly[event.tool]
                for trace in self._traces
                for event in trace
            ]
        else:
            kinds = [
                (well if event.status == "ok" else badly)[event.tool, event.action, event.decision, event.tags]
                for trace in self._traces
                for event in trace
            ]
        letters = np.zeros((2 * max(len(well), len(badly)), len(rules)), np.intp)
        for key, number in [*well.items(), *badly.items()]:
            event = Event(key) if only_tools else _event(*key)
            letters[number] = [alphabet.index(event, ok=number % 2 == 1) for alphabet, _ in rules]
        return np.fromiter(kinds, np.intp, len(kinds)), letters


def _event(tool: str, action: str | None, decision: str | None, tags: frozenset[str]) -> Event:
    return Event(tool, action=action, decision=decision, tags=tags)


def _fields(rules: Sequence[Compiled]) -> list[Field]:
    """The fields of an event that any of the rules looks at."""
    return sorted({_field(atom) for alphabet, _ in rules for letter in alphabet.letters for atom in letter.ran})


def _field(atom: str) -> Field:
    if atom.startswith(("tool:", "@")):
        return "tool"
    return "action" if atom.startswith("action:") else "decision" if atom.startswith("decision:") else "tags"


def _alike(rules: Sequence[Compiled], name: Field, values: Sequence[Any]) -> tuple[Ints, Ints]:
    """(which class each value of a field is in, what each class adds to each rule's letter)."""
    numbers = _Numbers()
    steps = [Event(**{"tool": "", name: value}) for value in values]
    classes = [numbers[tuple(alphabet.index(step, ok=False) for alphabet, _ in rules)] for step in steps]
    return np.array(classes, np.intp), np.array(list(numbers), np.intp).reshape(len(numbers), len(rules))


class _Numbers(dict[Any, int]):
    """A number for each key, counted up as keys come."""

    def __init__(self, start: int = 0, step: int = 1) -> None:
        super().__init__()
        self._start, self._step = start, step

    def __missing__(self, key: Any) -> int:
        number = self[key] = self._start + self._step * len(self)
        return number


def _coded(name: str, column: Any, events: int) -> tuple[Ints, Sequence[Any]]:
    """(the code of each event, the value of each code)."""
    if not isinstance(column, Coded):
        _fits(name, len(column), events)
        numbers = _Numbers()
        values = column.tolist() if isinstance(column, np.ndarray) else column
        return np.fromiter(map(numbers.__getitem__, values), np.intp, events), list(numbers)
    codes = np.asarray(column.codes, np.intp)
    _fits(name, len(codes), events)
    if events and not 0 <= codes.min() <= codes.max() < len(column.values):
        raise InputError(
            f"the column {name} has codes from {codes.min()} to {codes.max()}; "
            f"expected 0 to {len(column.values) - 1}, one of them for None where an event can have none"
        )
    return codes, column.values


def _fits(name: str, entries: int, events: int) -> None:
    if entries != events:
        raise InputError(f"the column {name} has {entries:,} entries for {events:,} events; expected one for each")


class _JointTable:
    """The tables of all rules in one, where a state is the place at which its row begins.

    Attributes:
        following: the next state, at the place that is the state plus the letter.
        standings: the standing of each state, at its place.
        starts: the state in which each rule begins.
        violated: the first of the violated states, which come after all others.
    """

    def __init__(self, rules: Sequence[Compiled]) -> None:
        automata = [automaton for _, automaton in rules]
        states = [(rule, state) for rule, automaton in enumerate(automata) for state in range(len(automaton.table))]
        places: dict[tuple[int, int], int] = {}
        self.violated = size = 0
        for rule, state in sorted(states, key=lambda state: automata[state[0]].violated[state[1]]):
            places[rule, state] = size
            size += len(automata[rule].table[state])
            self.violated = self.violated if automata[rule].violated[state] else size
        self.starts = np.array([places[rule, 0] for rule in range(len(rules))], np.intp)
        self.following, self.standings = np.empty(size, np.intp), np.zeros(size, np.int8)
        for (rule, state), place in places.items():
            row = automata[rule].table[state]
            self.following[place : place + len(row)] = [places[rule, target] for target in row]
            self.standings[place] = automata[rule].standing(state)


class _Order:
    """The longest trace first, so that at each step those that still go on are the first ones.

    Attributes:
        traces: the traces in this order.
        lengths: how many events they have.
        begins: where these begin among all events.
        going: how many traces go on at each step, as long as there are not too few.
    """

    def __init__(self, lengths: Ints) -> None:
        self.traces = np.argsort(-lengths, kind="stable")
        self.lengths = lengths[self.traces]
        self.begins = (np.cumsum(lengths) - lengths)[self.traces]
        going = len(lengths) - np.cumsum(np.bincount(lengths))
        self.going: list[int] = going[going >= FEW].tolist()


def _step_together(table: _JointTable, order: _Order, kinds: Ints, letters: Ints) -> tuple[Ints, Ints]:
    """(the states of each trace, how many of its events left each rule unviolated), while many traces go on."""
    states = np.tile(table.starts, (len(order.traces), 1))
    fine, places = np.zeros_like(states), order.begins.copy()
    for going in order.going:
        now = states[:going]
        now += np.take(letters, kinds[places[:going]], axis=0)
        np.take(table.following, now, out=now, mode="clip")  # any other mode copies
        fine[:going] += now < table.violated
        places[:going] += 1
    return states, fine


def _step_each(table: _JointTable, order: _Order, kinds: Ints, letters: Ints, states: Ints, fine: Ints) -> None:
    """Brings the traces that still go on to their ends, one by one."""
    done, following = len(order.going), table.following.tolist()
    for at in range(int(np.sum(order.lengths > done))):
        rest = kinds[order.begins[at] + done : order.begins[at] + order.lengths[at]]
        for rule in range(len(table.starts)):
            state, held = int(states[at, rule]), int(fine[at, rule])
            for letter in letters[rest, rule].tolist():
                state = following[state + letter]
                held += state < table.violated
            states[at, rule], fine[at, rule] = state, held
