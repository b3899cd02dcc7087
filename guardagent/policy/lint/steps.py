"""Searches the product of rules' automata for sequences of steps.

An atomic rule that is not about steps is assumed to hold. A sequence that is impossible here is therefore impossible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations, product
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.language.formula import TRUE, atoms
from guardagent.policy.lint.step_formulas import StepFormula, step_formula
from guardagent.policy.logic.rule_tree import RuleTree, Tree
from guardagent.policy.monitors.automaton import Automaton
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.monitors.rule import Rule

MAX_KINDS = 20_000  # kinds of steps that rules distinguish together
MAX_STATES = 30_000  # states of the product
MAX_TAGS = 8
_SILENT = 1  # the letter of a successful step that satisfies no atom

State = tuple[int, ...]
States = tuple[State, ...]


class SearchLimitError(Exception):
    """A search has too many states or kinds of steps."""


class RuleAutomaton:
    """The automata of one rule about the order of steps.

    Args:
        calls_may_fail: whether calls may fail.

    Attributes:
        tracks: the automata of its atomic rules, or None for one that is not about steps.
        exact: whether the automata express the whole rule.
    """

    def __init__(self, rule: Rule, tags: Mapping[str, frozenset[str]], *, calls_may_fail: bool = False) -> None:
        tree = RuleTree(rule.rules)
        formulas = [step_formula(one.rule, negated=one.negated) for one in tree.atomic_rules]
        self.rule, self._tree = rule, tree.tree
        self.exact = all(one.exact for one in formulas)
        compiled = zip(formulas, rule.monitors, strict=True)
        self.tracks = [_track(formula, part, tags, calls_may_fail=calls_may_fail) for formula, part in compiled]
        self.start: State = tuple(0 for _ in self.tracks)

    @property
    def atoms(self) -> set[str]:
        return {name for track in self.tracks if track is not None for name in track[1]}

    def letters_of(self, call: SessionCall, *, ok: bool) -> State:
        """Returns the letter of a call for each automaton."""
        return tuple(0 if track is None else track[0].alphabet.index(call, ok=ok) for track in self.tracks)

    def step(self, state: State, letters: State) -> State:
        return tuple(
            0 if track is None else track[0].automaton.table[at][letter]
            for track, at, letter in zip(self.tracks, state, letters, strict=True)
        )

    def resume(self, state: State, letters: State) -> State:
        """Returns the state after a call that ran although it violated the rule, as in a session."""
        return tuple(
            0 if track is None else _resume(track[0].automaton, at, letter)
            for track, at, letter in zip(self.tracks, state, letters, strict=True)
        )

    def is_alive(self, state: State) -> bool:
        """Whether the rule is not violated yet."""
        return self._holds(self._tree, lambda at: not self._of(at, state, "violated"))

    def accepts(self, state: State) -> bool:
        """Whether the rule is satisfied if nothing follows."""
        return self._holds(self._tree, lambda at: self._of(at, state, "accepting"))

    def _of(self, at: int, state: State, flag: str) -> bool:
        track = self.tracks[at]
        return flag == "accepting" if track is None else bool(getattr(track[0].automaton, flag)[state[at]])

    def _holds(self, tree: Tree, value: Callable[[int], bool]) -> bool:
        if isinstance(tree, int):
            return value(tree)
        fold = all if tree[0] == "all" else any
        return fold(self._holds(one, value) for one in tree[1])


def _resume(automaton: Automaton, state: int, letter: int) -> int:
    """Ignores a violating step as a session does, or restarts with it if every step now violates the rule."""
    table, violated = automaton.table, automaton.violated
    if not violated[table[state][letter]]:
        return table[state][letter]
    if not violated[table[state][_SILENT]]:
        return state
    return 0 if violated[table[0][letter]] else table[0][letter]


def _track(
    formula: StepFormula, part: object, tags: Mapping[str, frozenset[str]], *, calls_may_fail: bool
) -> tuple[PropositionalMonitor, list[str]] | None:
    if isinstance(part, PropositionalMonitor):
        return part, atoms(formula.formula)
    if formula.formula == TRUE or (calls_may_fail and not formula.sound):
        return None
    try:
        return PropositionalMonitor(formula.formula, tags), atoms(formula.formula)
    except InputError:  # the automaton is too large
        return None


@dataclass(frozen=True, slots=True)
class StepKind:
    """A kind of step: a representative call, and its letters for each rule."""

    call: SessionCall
    ok: bool
    letters: tuple[State, ...]


def steps_of(automata: Sequence[RuleAutomaton], tools: Sequence[str], *, failing: bool = False) -> list[StepKind]:
    """Returns the kinds of steps that rules distinguish; failed calls are included only if `failing`.

    Raises:
        SearchLimitError: there are too many.
    """
    found: dict[tuple[object, ...], StepKind] = {}
    for number, call in enumerate(calls_of_kinds(set().union(*(one.atoms for one in automata)), tools)):
        if number > MAX_KINDS:
            raise SearchLimitError
        for ok in (True, False) if failing else (True,):
            letters = tuple(automaton.letters_of(call, ok=ok) for automaton in automata)
            found.setdefault(letters, StepKind(call, ok, letters))
    return list(found.values())


def calls_of_kinds(names: set[str], tools: Sequence[str]) -> Iterator[SessionCall]:
    """Yields calls of every kind that the atoms distinguish.

    Raises:
        SearchLimitError: there are too many.
    """
    actions = [None, *sorted(name.removeprefix("action:") for name in names if name.startswith("action:"))]
    decisions = [None, *sorted(name.removeprefix("decision:") for name in names if name.startswith("decision:"))]
    tags = sorted(name for name in names if not name.startswith(("tool:", "action:", "decision:", "@")))
    if len(tags) > MAX_TAGS:
        raise SearchLimitError
    subsets = [frozenset(some) for size in range(len(tags) + 1) for some in combinations(tags, size)]
    for action, decision, some in product(actions, decisions, subsets):
        for tool in tools:
            yield SessionCall(tool, {}).labelled(action, decision, some)


def search_order(
    automata: Sequence[RuleAutomaton],
    steps: Sequence[StepKind],
    wanted: Callable[[SessionCall], bool] | None,
    *,
    ending: bool,
) -> list[StepKind] | None:
    """Returns a sequence of steps that violates no rule and includes a wanted step, or None if there is none.

    Args:
        automata: the rules.
        steps: the kinds of steps for them.
        wanted: the predicate of the wanted step, or None for any sequence.
        ending: whether the end must not violate a rule either.

    Raises:
        SearchLimitError: there are too many states.
    """
    start: tuple[States, bool] = tuple(automaton.start for automaton in automata), wanted is None
    predecessors: dict[tuple[States, bool], tuple[tuple[States, bool], StepKind] | None] = {start: None}
    waiting = [(0, 0, start)] if _all_alive(automata, start[0]) else []
    while waiting:
        _, _, at = heappop(waiting)
        if at[1] and (not ending or all(map(RuleAutomaton.accepts, automata, at[0]))):
            return path_to(predecessors, at)
        for step in steps:
            following = (step_all(automata, at[0], step), at[1] or (wanted is not None and wanted(step.call)))
            if following not in predecessors and _all_alive(automata, following[0]):
                if len(predecessors) >= MAX_STATES:
                    raise SearchLimitError
                predecessors[following] = at, step
                pending = sum(not one.accepts(state) for one, state in zip(automata, following[0], strict=True))
                priority = pending if ending else 0  # fewest pending obligations first
                heappush(waiting, (priority, len(predecessors), following))
    return None


@dataclass(frozen=True, slots=True)
class OrderResult:
    """The result of a search for a sequence of steps.

    Attributes:
        path: a sequence, or None if there is none.
        automata: the rules that make it impossible, or those considered to find it.
    """

    path: list[StepKind] | None
    automata: list[RuleAutomaton]


def find_order(
    automata: Sequence[RuleAutomaton], tools: Sequence[str], tool: str | None, *, ending: bool
) -> OrderResult:
    """Searches for a sequence of calls that satisfies all rules and includes a tool, adding violated rules one by one.

    Args:
        automata: the rules.
        tools: the tools that can be called.
        tool: the tool to include, or None.
        ending: whether the end must not violate a rule either.

    Raises:
        SearchLimitError: there are too many states.
    """
    wanted = None if tool is None else lambda call: call.tool == tool
    considered = [one for one in automata if tool in one.rule.tools]
    while True:
        path = search_order(considered, steps_of(considered, tools), wanted, ending=ending)
        others = [one for one in automata if one not in considered]
        violated = None if path is None else _violated_rule(others, path, ending)
        if violated is None:
            return OrderResult(path, considered)
        considered.append(violated)


def _violated_rule(automata: Sequence[RuleAutomaton], path: Sequence[StepKind], ending: bool) -> RuleAutomaton | None:  # noqa: FBT001
    """Returns a rule that a sequence of steps violates, or None."""
    for automaton in automata:
        state = automaton.start
        alive = automaton.is_alive(state)
        for step in path:
            state = automaton.step(state, automaton.letters_of(step.call, ok=step.ok))
            alive = alive and automaton.is_alive(state)
        if not alive or (ending and not automaton.accepts(state)):
            return automaton
    return None


def path_to(predecessors: Mapping[Any, tuple[Any, StepKind] | None], at: Any) -> list[StepKind]:
    """Returns the steps that lead to a state, from the predecessor of each state."""
    path = []
    while (before := predecessors[at]) is not None:
        at, step = before
        path.append(step)
    return path[::-1]


def step_all(automata: Sequence[RuleAutomaton], states: States, step: StepKind) -> States:
    return tuple(map(RuleAutomaton.step, automata, states, step.letters))


def _all_alive(automata: Sequence[RuleAutomaton], states: States) -> bool:
    return all(map(RuleAutomaton.is_alive, automata, states))


def first_violation(automata: Sequence[RuleAutomaton], path: Sequence[StepKind]) -> tuple[RuleAutomaton, int] | None:
    """Returns the rule that a sequence violates first and the index of the violating step, or None."""
    states = [automaton.start for automaton in automata]
    for at, step in enumerate(path):
        for number, automaton in enumerate(automata):
            states[number] = automaton.step(states[number], automaton.letters_of(step.call, ok=step.ok))
        broken = next((one for one, state in zip(automata, states, strict=True) if not one.is_alive(state)), None)
        if broken is not None:
            return broken, at
    return None
