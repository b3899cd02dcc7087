"""Monitor for propositional rules: the possible states of an automaton.

A call in flight can still succeed or fail, so several states are possible. A violation is reported once: afterwards the
automaton ignores the violating step, or, if any step would have violated the rule because a deadline had passed,
restarts with that step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial, reduce
from operator import and_
from typing import Any

from guardagent.policy.evaluation.monitor_interface import (
    CallSequence,
    Explanation,
    Monitor,
    MonitorResult,
    RuleContext,
    SessionCall,
    blank_explanation,
)
from guardagent.policy.evaluation.screen import ScreenCode
from guardagent.policy.language.ast import ExactValue
from guardagent.policy.language.formula import Formula, atoms
from guardagent.policy.language.parser import step_pattern
from guardagent.policy.language.values import Truth, Unknown, dump_truth
from guardagent.policy.monitors.automaton import Alphabet, Automaton, compile_formula, tools_of_step
from guardagent.types import EMPTY

Effect = tuple[tuple[int, bool, bool], ...]
"""An effect of a settled call: for each state the next state, whether it is violated, and whether unforeseen."""
Effects = tuple[Effect, ...]
"""The possible effects of settled calls: several if an argument is unknown."""
World = tuple[tuple[int, ...], bool, bool]
"""The possible states if all arguments had certain values.

Then whether the rule is violated, or may be by a call in flight; and whether an outcome violated it although every
check passed.
"""


_MOST_EFFECTS = 64  # possible effects of settled calls that are composed
_MOST_WORLDS = 64  # while calls are in flight
_MOST_CACHED = 10_000


class _AutomatonMemory:
    """The worlds after the oldest settled calls, the later calls, and the current worlds."""

    __slots__ = ("base", "possible", "unsettled", "why", "worlds")

    def __init__(self, *base: World) -> None:
        self.base: tuple[World, ...] = base  # with a single state in each
        self.unsettled: list[SessionCall | Effects] = []
        self.why: Unknown | None = None  # the cause of several worlds
        self.show(base)

    def show(self, worlds: tuple[World, ...]) -> None:
        """Sets the current worlds."""
        self.worlds = worlds
        self.possible = worlds[0][0] if len(worlds) == 1 else tuple(sorted({at for world in worlds for at in world[0]}))

    def take(self, effects: Effects) -> None:
        if len(self.base) == len(effects) == 1:  # the common case
            (state,), broken, late = self.base[0]
            after, breaks, unforeseen = effects[0][state]
            if after != state or breaks or unforeseen:
                self.base = (((after,), broken or breaks, late or unforeseen),)
            return
        self.base = tuple(
            dict.fromkeys(
                ((effect[state][0],), broken or effect[state][1], late or effect[state][2])
                for (state,), broken, late in self.base
                for effect in effects
            )
        )

    def settle(self) -> None:
        """Makes the base the current worlds, after the last call in flight."""
        self.unsettled = []
        if self.worlds is not self.base:
            self.show(self.base)
        if len(self.base) == 1:
            self.why = None


class PropositionalMonitor(Monitor):
    """Monitors one formula by its automaton (Agentproof, Section 6.2)."""

    def __init__(self, formula: Formula, sets: Mapping[str, frozenset[str]]) -> None:
        names = atoms(formula)
        self.stateful = True
        self.alphabet = Alphabet(names, sets)
        self.automaton: Automaton = compile_formula(formula, self.alphabet.letters)
        self.tools = frozenset(tool for name in names for tool in _tools(name, sets))
        self.candidates = list(_candidates(names, sets, self.tools))
        self._breaks, self._resumed, self._inert = _steps(self.automaton)
        self._violations: dict[tuple[int, int], MonitorResult] = {}
        self._known_repairs: dict[tuple[int, int], tuple[CallSequence, ...]] = {}
        self._effects: dict[tuple[int, bool], Effects] = {}
        self._with_arguments = frozenset(filter(self.alphabet.reads_arguments, self.tools))
        self._advanced: dict[tuple[World, int, bool], tuple[World]] = {}

    def _live(self) -> list[tuple[int, tuple[int, ...]]]:
        automaton = self.automaton
        return [(state, row) for state, row in enumerate(automaton.table) if not automaton.violated[state]]

    def concerns(self, call: SessionCall) -> bool:
        if self.automaton.violated[0]:  # unsatisfiable, so every call violates it
            return True
        return not all(self._inert[letter] for letter in self.alphabet.kinds(call))

    def looks_back(self, call: SessionCall) -> bool:
        letters = self.alphabet.kinds(call)
        return any(len({self._breaks[state][letter] for state, _ in self._live()}) > 1 for letter in letters)

    def reports(self, call: SessionCall) -> bool:
        letters = self.alphabet.kinds(call)
        return self.automaton.violated[0] or any(
            self._breaks[state][letter] for state, _ in self._live() for letter in letters
        )

    def reads_arguments(self, call: SessionCall) -> bool:
        """Whether the step depends on the arguments of such a call."""
        return self.alphabet.reads_arguments(call.tool)

    def permits(self, call: SessionCall) -> bool:
        """Whether a successful call can keep the rule in some conversation."""
        letters = self.alphabet.kinds(call)
        return any(not self._breaks[state][letter] for state, _ in self._live() for letter in letters)

    def start(self) -> _AutomatonMemory:
        return _AutomatonMemory(((0,), False, False))

    def screened(self, code: ScreenCode, number: int, kind: SessionCall) -> str:
        letters = self.alphabet.kinds(kind)
        breaking = frozenset(state for state, row in enumerate(self._breaks) if any(row[letter] for letter in letters))
        return f"{code.constant(breaking.isdisjoint)}(memory[{number}].possible)" if breaking else "True"

    def judge(self, _context: RuleContext, call: SessionCall, memory: _AutomatonMemory) -> MonitorResult | None:
        ok = call.status is None or call.status == "ok"
        if len(memory.worlds) > 1 or call.tool in self._with_arguments:
            letters = self.alphabet.possible(call, ok=ok)
            if len(memory.worlds) > 1 or len(letters) > 1:
                return self._judged_in_worlds(call, letters, memory)
            (letter,) = letters
        else:
            letter = self.alphabet.index(call, ok=ok)
        for state in memory.possible:
            if self._breaks[state][letter]:
                if memory.unsettled:
                    return MonitorResult.violated(partial(self._explained, state, letter, memory))
                return self._violations.get((state, letter)) or self._violation(state, letter)
        return None

    def _judged_in_worlds(
        self, call: SessionCall, letters: Sequence[int], memory: _AutomatonMemory
    ) -> MonitorResult | None:
        """The result where arguments are unknown: a violation if it is so whatever they are."""
        violations = [
            next(((state, letter) for state in possible if self._breaks[state][letter]), None)
            for possible, _, _ in memory.worlds
            for letter in letters
        ]
        if not any(violations):
            return None
        if (first := violations[0]) is not None and all(violations):
            return MonitorResult.violated(partial(self._explained, *first, memory))
        causes = [self.alphabet.unknown(call)] if len(letters) > 1 else []
        causes += [_unknown(memory)] if len(memory.worlds) > 1 else []
        return MonitorResult(reduce(and_, causes))

    def _violation(self, state: int, letter: int) -> MonitorResult:
        """The result of a violation while no call is in flight, kept for all sessions."""
        tools = dict.fromkeys(tool for sequence in self._repairs(state, letter) for tool, _ in sequence)
        monitor_result = MonitorResult.violated(cache(partial(self._explained, state, letter, None)), tuple(tools))
        return self._violations.setdefault((state, letter), monitor_result)

    def _explained(self, state: int, letter: int | None, memory: _AutomatonMemory | None) -> Explanation:
        explanation = blank_explanation()
        if letter is not None and memory is not None and (open_calls := _open_calls(memory)):
            explanation.evidence = {"in flight": open_calls}
        explanation.sequences = self._repairs(state, letter)
        return explanation

    def reserved(
        self, _context: RuleContext, call: SessionCall, memory: _AutomatonMemory, _result: MonitorResult | None
    ) -> None:
        memory.unsettled = [*memory.unsettled, call]
        if call.tool in self._with_arguments:
            self._note_unknown(memory, call)
        memory.show(self._advanced_worlds(memory.worlds, call))

    def _note_unknown(self, memory: _AutomatonMemory, call: SessionCall) -> None:
        """Keeps the causes why a call may be several steps."""
        if len(self.alphabet.possible(call, ok=True)) > 1:
            why = self.alphabet.unknown(call)
            if not why.unrecorded:  # no longer an argument that the caller can add
                why = Unknown(*(f"the earlier {call.tool!r}: {cause}" for cause in why.why))
            memory.why = why if memory.why is None else memory.why & why

    def began(self, memory: _AutomatonMemory) -> None:
        self._update_possible(memory)

    def observed(self, context: RuleContext, call: SessionCall, memory: _AutomatonMemory) -> None:
        """Takes a call that has already ended, as `reserved` and `settled` together do."""
        if memory.unsettled:
            self.reserved(context, call, memory, None)
            self.settled(context, call, memory)
            return
        if call.tool in self._with_arguments:
            self._note_unknown(memory, call)
        memory.take(self._effects_of(call))
        memory.settle()

    def settled(self, _context: RuleContext, call: SessionCall, memory: _AutomatonMemory) -> None:
        """Folds the oldest settled calls into the base state, and later adjacent settled calls into one effect.

        A withdrawn call is not a step: the possible states already include those without it.
        """
        if len(memory.unsettled) == 1 and memory.unsettled[0] is call:  # the common case
            memory.take(self._effects_of(call))
            memory.settle()
            return
        since: list[SessionCall | Effects] = []
        for session_call in memory.unsettled:
            link = self._effects_of(session_call) if session_call is call else session_call
            last = since[-1] if since else None
            if isinstance(link, tuple) and isinstance(last, tuple) and len(link) * len(last) <= _MOST_EFFECTS:
                since[-1] = tuple(dict.fromkeys(_composed(first, second) for first in last for second in link))
            else:
                since.append(link)
        while since and isinstance(since[0], tuple):
            memory.take(since.pop(0))  # type: ignore[arg-type]
        memory.unsettled = since
        self._update_possible(memory)

    def _effects_of(self, call: SessionCall) -> Effects:
        """The possible effects of a settled call on each state."""
        if call.tool in self._with_arguments and call.status != "withdrawn":
            letters = self.alphabet.possible(call, ok=True)
            return tuple(
                dict.fromkeys(effect for letter in letters for effect in self._effect(letter, call.status == "ok"))
            )
        letter, ok = -1 if call.status == "withdrawn" else self.alphabet.index(call, ok=True), call.status == "ok"
        return self._effects.get((letter, ok)) or self._effect(letter, ok)

    def _effect(self, letter: int, ok: bool) -> Effects:  # noqa: FBT001 - a value
        effects = self._effects.get((letter, ok))
        if effects is None:
            effects = (tuple(self._after(state, letter, ok) for state in range(len(self._breaks))),)
            self._effects[letter, ok] = effects
        return effects

    def _after(self, state: int, letter: int, ok: bool) -> tuple[int, bool, bool]:  # noqa: FBT001 - a value
        """(next state, is violated, is unforeseen: only the failure of the call violates the rule)."""
        if letter < 0:
            return state, False, False
        unforeseen = not ok and self._breaks[state][letter - 1] and not self._breaks[state][letter]
        letter -= not ok
        return self._step(state, letter), self._breaks[state][letter], unforeseen

    def _update_possible(self, memory: _AutomatonMemory) -> None:
        memory.show(reduce(self._advanced_worlds, memory.unsettled, memory.base))

    def _advanced_worlds(self, worlds: tuple[World, ...], link: SessionCall | Effects) -> tuple[World, ...]:
        """The worlds after a call in flight, or after settled calls."""
        if isinstance(link, tuple):
            settled = (
                (
                    tuple(sorted({effect[state][0] for state in possible})),
                    broken or any(effect[state][1] for state in possible),
                    late,
                )
                for possible, broken, late in worlds
                for effect in link
            )
            return _bounded(tuple(dict.fromkeys(settled)))
        may_be_withdrawn = not link.used or link.may_have_started
        if len(worlds) == 1 and link.tool not in self._with_arguments:  # the common case
            return self._after_any_outcome(worlds[0], self.alphabet.index(link, ok=True), may_be_withdrawn)
        after = [
            self._after_any_outcome(world, letter, may_be_withdrawn)
            for world in worlds
            for letter in self.alphabet.possible(link, ok=True)
        ]
        return _bounded(tuple(dict.fromkeys(world for (world,) in after)))

    def _after_any_outcome(
        self,
        world: World,
        letter: int,
        may_be_withdrawn: bool,  # noqa: FBT001 - a value
    ) -> tuple[World]:
        """The world after a call in flight: its possible states, and whether some outcome violates the rule."""
        key = world, letter, may_be_withdrawn
        after = self._advanced.get(key)
        if after is None:
            possible, broken, late = world
            letters = (letter, letter - 1)
            doubtful = any(self._breaks[state][letter] for state in possible for letter in letters)
            states = {self._step(state, letter) for state in possible for letter in letters}
            states = states.union(possible) if may_be_withdrawn else states
            if len(self._advanced) >= _MOST_CACHED:
                self._advanced.clear()
            after = self._advanced[key] = ((tuple(sorted(states)), broken or doubtful, late),)
        return after

    def _step(self, state: int, letter: int) -> int:
        return (self._resumed if self._breaks[state][letter] else self.automaton.table)[state][letter]

    def ended(self, _context: RuleContext, memory: _AutomatonMemory) -> MonitorResult | None:
        accepting = self.automaton.accepting
        unmet = [
            (next((state for state in possible if not accepting[state]), None), late)
            for possible, _, late in memory.worlds
        ]
        wrong = [state is not None or late for state, late in unmet]
        if not any(wrong):
            return None
        if not all(wrong):
            return MonitorResult(_unknown(memory))
        state = unmet[0][0]
        if state is None:
            return MonitorResult(value=False)
        return MonitorResult(False, partial(self._explained, state, None, memory))  # noqa: FBT003 - a value

    def satisfiable(self, memory: _AutomatonMemory) -> Truth:
        broken = [broken for _, broken, _ in memory.worlds]
        return not broken[0] if len(set(broken)) == 1 else _unknown(memory)

    def copied(self, memory: _AutomatonMemory, calls: Mapping[SessionCall, SessionCall]) -> _AutomatonMemory:
        copy = _AutomatonMemory(*memory.base)
        copy.unsettled = [calls.get(call, call) if isinstance(call, SessionCall) else call for call in memory.unsettled]
        copy.worlds, copy.possible, copy.why = memory.worlds, memory.possible, memory.why
        return copy

    def dumped(self, memory: _AutomatonMemory) -> Any:
        since = [call.place if isinstance(call, SessionCall) else call for call in memory.unsettled]
        why = [] if memory.why is None else dump_truth(memory.why)
        return {"base": memory.base, "since": since, "worlds": memory.worlds, "why": why}

    def loaded(self, data: Any, calls: Sequence[SessionCall]) -> _AutomatonMemory:
        if not isinstance(data, dict):  # older snapshots
            base, since, possible, broken, doubtful, late = data
            since = [entry if isinstance(entry, int) else [entry] for entry in since]
            data = {"base": [[[base], broken, late]], "since": since, "why": []}
            data["worlds"] = [[possible, broken or doubtful, late]]
        memory = _AutomatonMemory(*_worlds(data["base"]))
        for entry in data["since"]:
            if isinstance(entry, int):
                call = calls[entry - 1]
                memory.unsettled.append(self._effects_of(call) if call.status else call)
            else:
                memory.unsettled.append(tuple(tuple(map(tuple, effect)) for effect in entry))
        memory.show(_worlds(data["worlds"]))
        memory.why = Unknown(*data["why"]) if data["why"] else None
        return memory

    def satisfied(self, memory: _AutomatonMemory) -> bool:
        """Whether every continuation satisfies the rule."""
        return all(self.automaton.satisfied[state] for state in memory.possible)

    def _repairs(self, state: int, letter: int | None) -> tuple[CallSequence, ...]:
        """The single calls after which the step is allowed or the trace may end; otherwise one shortest sequence."""
        key = state, -1 if letter is None else letter
        call_sequences = self._known_repairs.get(key)
        if call_sequences is None:
            way = self._shortest_repair(state, letter) or []
            single = [[call] for call in self.candidates if self._repairs_in_one(state, letter, call)]
            call_sequences = tuple(
                tuple((call.tool, call.args) for call in calls) for calls in single or [way] if calls
            )
            self._known_repairs[key] = call_sequences
        return call_sequences

    def _repairs_in_one(self, state: int, letter: int | None, call: SessionCall) -> bool:
        automaton = self.automaton
        reached = {automaton.table[state][step] for step in self.alphabet.possible(call, ok=True)}
        return all(not automaton.violated[after] and self._is_repaired(after, letter) for after in reached)

    def _is_repaired(self, state: int, letter: int | None) -> bool:
        automaton = self.automaton
        return automaton.accepting[state] if letter is None else not automaton.violated[automaton.table[state][letter]]

    def _shortest_repair(self, start: int, letter: int | None) -> list[SessionCall] | None:
        automaton = self.automaton
        letters = [(call, self.alphabet.possible(call, ok=True)) for call in self.candidates]
        waiting: deque[tuple[int, list[SessionCall]]] = deque([(start, [])])
        seen = {start}
        while waiting:
            state, way = waiting.popleft()
            if way and self._is_repaired(state, letter):
                return way
            for call, own in letters:
                target, *others = {automaton.table[state][step] for step in own}
                if not others and target not in seen and not automaton.violated[target]:
                    seen.add(target)
                    waiting.append((target, [*way, call]))
        return None


def _worlds(data: Any) -> tuple[World, ...]:
    return tuple((tuple(states), broken, late) for states, broken, late in data)


def _bounded(worlds: tuple[World, ...]) -> tuple[World, ...]:
    """The worlds, or one for each of their states if they are too many: then a violation may read as unknown."""
    if len(worlds) <= _MOST_WORLDS:
        return worlds
    return tuple(dict.fromkeys(((state,), broken, late) for possible, broken, late in worlds for state in possible))


def _unknown(memory: _AutomatonMemory) -> Unknown:
    """The causes why the worlds differ."""
    return memory.why if memory.why is not None else Unknown()


def _open_calls(memory: _AutomatonMemory) -> list[dict[str, Any]]:
    """The calls in flight, as evidence."""
    return [session_call.shown() for session_call in memory.unsettled if isinstance(session_call, SessionCall)]


def _composed(first: Effect, second: Effect) -> Effect:
    """The composition of two effects."""
    steps = [(*step, second[step[0]]) for step in first]
    return tuple((after[0], broken or after[1], late or after[2]) for _, broken, late, after in steps)


def _tools(atom: str, sets: Mapping[str, frozenset[str]]) -> frozenset[str]:
    if atom.startswith("@"):
        return sets[atom[1:]]
    if (step := step_pattern(atom)) is not None:
        return tools_of_step(step, sets)
    return frozenset([atom.removeprefix("tool:")]) if atom.startswith("tool:") else frozenset()


def _candidates(
    names: Sequence[str], sets: Mapping[str, frozenset[str]], tools: frozenset[str]
) -> Iterator[SessionCall]:
    """The calls that a remedy can suggest: of each tool, and with the arguments of each step that states them."""
    steps = [step for name in names if (step := step_pattern(name)) is not None]
    for tool in sorted(tools):
        yield SessionCall(tool, EMPTY)
        for step in steps:
            stated = {part.name: part.value.value for part in step.arguments if isinstance(part.value, ExactValue)}
            if tool in tools_of_step(step, sets) and len(stated) == len(step.arguments):
                yield SessionCall(tool, stated)


@lru_cache(256)  # many rules share an automaton
def _steps(automaton: Automaton) -> tuple[list[list[bool]], list[list[int]], list[bool]]:
    """Tables of an automaton.

    Returns:
        For each state and letter, whether it violates the rule; the state to resume from if it does; for each letter,
        whether it changes no state.
    """
    table, violated, letters = automaton.table, automaton.violated, range(len(automaton.table[0]))

    def resumed(state: int, letter: int) -> int:
        silent = 1  # a successful step that satisfies no atom
        if not violated[table[state][silent]]:
            return state
        again = table[0][letter]
        return 0 if violated[again] else again

    live = [(state, row) for state, row in enumerate(table) if not violated[state]]
    inert = [all(row[letter] == state and row[letter ^ 1] == state for state, row in live) for letter in letters]
    breaks = [[violated[target] for target in row] for row in table]
    return breaks, [[resumed(state, letter) for letter in letters] for state in range(len(table))], inert
