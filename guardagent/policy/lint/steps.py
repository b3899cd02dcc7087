"""What rules make of the order of steps: their automata together, step by step.

A part of a rule that is not about steps is taken to be kept always. So what no conversation can do here, none can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations, product
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.evaluation.findings import Call
from guardagent.policy.language.formula import TRUE, atoms
from guardagent.policy.lint.forms import Form, form_of
from guardagent.policy.logic.combined import Parts, Tree
from guardagent.policy.monitors.automaton import Automaton
from guardagent.policy.monitors.propositional import Propositional
from guardagent.policy.monitors.rule import Rule

MAX_KINDS = 20_000  # of steps that rules tell apart together
MAX_LOOKED_AT = 30_000  # standings of several rules together
MAX_TAGS = 8
_SILENT = 1  # the letter of a step that went well and satisfies no atom

State = tuple[int, ...]
States = tuple[State, ...]


class Undecided(Exception):  # noqa: N818 - it says what became of a question, not that something is wrong
    """It would take too long."""


class Machine:
    """A rule, as the order of steps goes on.

    Args:
        soundly: whether calls may fail too.

    Attributes:
        tracks: its parts, as automata; None where a part is not about steps.
        exact: whether it says no more than that.
    """

    def __init__(self, rule: Rule, tags: Mapping[str, frozenset[str]], *, soundly: bool = False) -> None:
        parts = Parts(rule.rules)
        forms = [form_of(part.rule, negated=part.negated) for part in parts.parts]
        self.rule, self._tree = rule, parts.tree
        self.exact = all(form.exact for form in forms)
        compiled = zip(forms, rule.parts, strict=True)
        self.tracks = [_track(form, part, tags, soundly=soundly) for form, part in compiled]
        self.start: State = tuple(0 for _ in self.tracks)

    @property
    def names(self) -> set[str]:
        return {name for track in self.tracks if track is not None for name in track[1]}

    def letters(self, call: Call, *, ok: bool) -> State:
        """What a call is for each of its parts."""
        return tuple(0 if track is None else track[0].alphabet.index(call, ok=ok) for track in self.tracks)

    def after(self, state: State, letters: State) -> State:
        return tuple(
            0 if track is None else track[0].automaton.table[at][letter]
            for track, at, letter in zip(self.tracks, state, letters, strict=True)
        )

    def resumed(self, state: State, letters: State) -> State:
        """As a session goes on where a violation was said, and the call ran all the same."""
        return tuple(
            0 if track is None else _resumed(track[0].automaton, at, letter)
            for track, at, letter in zip(self.tracks, state, letters, strict=True)
        )

    def alive(self, state: State) -> bool:
        """Whether nothing is violated yet."""
        return self._holds(self._tree, lambda at: not self._of(at, state, "violated"))

    def met(self, state: State) -> bool:
        """Whether it is kept if nothing follows."""
        return self._holds(self._tree, lambda at: self._of(at, state, "accepting"))

    def _of(self, at: int, state: State, what: str) -> bool:
        track = self.tracks[at]
        return what == "accepting" if track is None else bool(getattr(track[0].automaton, what)[state[at]])

    def _holds(self, tree: Tree, value: Callable[[int], bool]) -> bool:
        if isinstance(tree, int):
            return value(tree)
        fold = all if tree[0] == "all" else any
        return fold(self._holds(one, value) for one in tree[1])


def _resumed(automaton: Automaton, state: int, letter: int) -> int:
    """As a session does: as if the step had not been, or where any step breaks it by now, as if all began with it."""
    table, violated = automaton.table, automaton.violated
    if not violated[table[state][letter]]:
        return table[state][letter]
    if not violated[table[state][_SILENT]]:
        return state
    return 0 if violated[table[0][letter]] else table[0][letter]


def _track(
    form: Form, part: object, tags: Mapping[str, frozenset[str]], *, soundly: bool
) -> tuple[Propositional, list[str]] | None:
    if isinstance(part, Propositional):
        return part, atoms(form.formula)
    if form.formula == TRUE or (soundly and not form.sound):
        return None
    try:
        return Propositional(form.formula, tags), atoms(form.formula)
    except InputError:  # too large to be looked at so
        return None


@dataclass(frozen=True, slots=True)
class Step:
    """A kind of step: the first call that is of it, and what it is for each rule."""

    call: Call
    ok: bool
    letters: tuple[State, ...]


def steps_of(machines: Sequence[Machine], tools: Sequence[str], *, failing: bool = False) -> list[Step]:
    """The kinds of steps that rules tell apart; calls that fail help nobody, and are left out unless asked for.

    Raises:
        Undecided: there are too many.
    """
    found: dict[tuple[object, ...], Step] = {}
    for number, call in enumerate(calls_of_kinds(set().union(*(one.names for one in machines)), tools)):
        if number > MAX_KINDS:
            raise Undecided
        for ok in (True, False) if failing else (True,):
            letters = tuple(machine.letters(call, ok=ok) for machine in machines)
            found.setdefault(letters, Step(call, ok, letters))
    return list(found.values())


def calls_of_kinds(names: set[str], tools: Sequence[str]) -> Iterator[Call]:
    """Calls of every kind that some atoms tell apart.

    Raises:
        Undecided: there are too many.
    """
    actions = [None, *sorted(name.removeprefix("action:") for name in names if name.startswith("action:"))]
    decisions = [None, *sorted(name.removeprefix("decision:") for name in names if name.startswith("decision:"))]
    tags = sorted(name for name in names if not name.startswith(("tool:", "action:", "decision:", "@")))
    if len(tags) > MAX_TAGS:
        raise Undecided
    subsets = [frozenset(some) for size in range(len(tags) + 1) for some in combinations(tags, size)]
    for action, decision, some in product(actions, decisions, subsets):
        for tool in tools:
            yield Call(tool, {}).labelled(action, decision, some)


def searched(
    machines: Sequence[Machine],
    steps: Sequence[Step],
    wanted: Callable[[Call], bool] | None,
    *,
    ending: bool,
) -> list[Step] | None:
    """An order of steps that breaks no rule and has a wanted one in it, or None where there is none.

    Args:
        machines: the rules.
        steps: the kinds of steps for them.
        wanted: which step; None where none is.
        ending: whether the end must break none either.

    Raises:
        Undecided: it would take too long.
    """
    start: tuple[States, bool] = tuple(machine.start for machine in machines), wanted is None
    came: dict[tuple[States, bool], tuple[tuple[States, bool], Step] | None] = {start: None}
    waiting = [(0, 0, start)] if _all_alive(machines, start[0]) else []
    while waiting:
        _, _, at = heappop(waiting)
        if at[1] and (not ending or all(map(Machine.met, machines, at[0]))):
            return way_to(came, at)
        for step in steps:
            following = (after_all(machines, at[0], step), at[1] or (wanted is not None and wanted(step.call)))
            if following not in came and _all_alive(machines, following[0]):
                if len(came) >= MAX_LOOKED_AT:
                    raise Undecided
                came[following] = at, step
                owing = sum(not one.met(state) for one, state in zip(machines, following[0], strict=True))
                heappush(waiting, (owing if ending else 0, len(came), following))  # what owes least, and came first
    return None


@dataclass(frozen=True, slots=True)
class Possible:
    """Whether an order of steps is possible.

    Attributes:
        way: one that is; None where there is none.
        machines: rules that leave none, or all that had to be looked at to find one.
    """

    way: list[Step] | None
    machines: list[Machine]


def possible(machines: Sequence[Machine], tools: Sequence[str], tool: str | None, *, ending: bool) -> Possible:
    """Whether an order of calls keeps all rules and has a tool in it: rules are added one by one, as they object.

    Args:
        machines: the rules.
        tools: those that can be called.
        tool: which one; None where none has to be.
        ending: whether the end must break none either.

    Raises:
        Undecided: it would take too long.
    """
    wanted = None if tool is None else lambda call: call.tool == tool
    looked_at = [one for one in machines if tool in one.rule.tools]
    while True:
        way = searched(looked_at, steps_of(looked_at, tools), wanted, ending=ending)
        objecting = None if way is None else _objecting([one for one in machines if one not in looked_at], way, ending)
        if objecting is None:
            return Possible(way, looked_at)
        looked_at.append(objecting)


def _objecting(machines: Sequence[Machine], way: Sequence[Step], ending: bool) -> Machine | None:  # noqa: FBT001
    """A rule that an order of steps breaks."""
    for machine in machines:
        state = machine.start
        alive = machine.alive(state)
        for step in way:
            state = machine.after(state, machine.letters(step.call, ok=step.ok))
            alive = alive and machine.alive(state)
        if not alive or (ending and not machine.met(state)):
            return machine
    return None


def way_to(came: Mapping[Any, tuple[Any, Step] | None], at: Any) -> list[Step]:
    """The steps that lead somewhere, by the step that first came to each place and from where."""
    way = []
    while (before := came[at]) is not None:
        at, step = before
        way.append(step)
    return way[::-1]


def after_all(machines: Sequence[Machine], states: States, step: Step) -> States:
    return tuple(map(Machine.after, machines, states, step.letters))


def _all_alive(machines: Sequence[Machine], states: States) -> bool:
    return all(map(Machine.alive, machines, states))


def first_broken(machines: Sequence[Machine], way: Sequence[Step]) -> tuple[Machine, int] | None:
    """Which rule an order of steps breaks first, and with which step, counted from 0."""
    states = [machine.start for machine in machines]
    for at, step in enumerate(way):
        for number, machine in enumerate(machines):
            states[number] = machine.after(states[number], machine.letters(step.call, ok=step.ok))
        broken = next((one for one, state in zip(machines, states, strict=True) if not one.alive(state)), None)
        if broken is not None:
            return broken, at
    return None
