"""The order of steps: automata of rules, searches in their product, implications and contradictions.

An atomic rule that is not about steps is assumed to hold, but for the formula about steps that it implies. A sequence
that is impossible here is therefore impossible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations, product
from typing import Any

from guardagent.errors import InputError
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.evaluation.terms import is_true
from guardagent.policy.language import ast
from guardagent.policy.language import formula as f
from guardagent.policy.language.parser import CALL, step_pattern
from guardagent.policy.lint.target import LintFinding, LintTarget, join_words, minimal_set, rules_of
from guardagent.policy.logic.semantics import RuleTree, Tree
from guardagent.policy.monitors.automaton import Automaton
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.monitors.rule import Rule

# --- formulas about steps that data rules imply


@dataclass(frozen=True, slots=True)
class StepFormula:
    """A formula that a rule implies.

    Attributes:
        exact: whether the formula is equivalent to the rule.
        sound: whether the rule implies it even if calls fail.
    """

    formula: f.Formula
    exact: bool = False
    sound: bool = True


_OPEN = StepFormula(f.TRUE)


def step_formula(rule: ast.Rule, *, negated: bool) -> StepFormula:
    """Returns the formula about steps that an atomic rule implies."""
    match rule, negated:
        case ast.Temporal(formula), _ if not any(map(step_pattern, f.atoms(formula))):
            return StepFormula(f.negation(formula) if negated else formula, exact=True)
        case ast.Forall(pattern, condition), False:
            return _required(pattern, condition)
        case ast.Before(pattern, condition, partner, wanted), False if is_true(condition) and _any_call(pattern):
            implied = f.globally(f.implies(f.call_of(pattern.tools), _earlier(partner)))
            return StepFormula(implied, exact=not pattern.arguments and _is_bare(partner, wanted))
        case ast.Exists(pattern, condition), False:
            return StepFormula(f.finally_(f.call_of(pattern.tools)), exact=_is_bare(pattern, condition))
        case ast.Exists(pattern, condition), True:
            return _required(pattern, ast.Constant(value=False) if is_true(condition) else ast.Negation(condition))
        case ast.After(pattern, condition, partner, wanted), False if is_true(condition) and _any_call(pattern):
            implied = f.globally(f.implies(f.call_of(pattern.tools), f.Next(f.finally_(f.call_of(partner.tools)))))
            return StepFormula(implied, exact=not pattern.arguments and _is_bare(partner, wanted))
    return _OPEN


def add_uncompared(target: LintTarget) -> None:
    """Records the rules that have steps with arguments, where another rule is about steps of the same tools."""
    about_steps = [rule for rule in target.rules if _has_calls(rule) or _implies_order(rule)]
    own = {*target.own}
    ids = [
        rule.id
        for rule in about_steps
        if _has_calls(rule)
        and any(rule is not other and rule.tools & other.tools and {rule, other} & own for other in about_steps)
    ]
    if ids:
        question = f"whether {rules_of(ids)} {'contradict' if len(ids) > 1 else 'contradicts'} or"
        question += f" {'repeat' if len(ids) > 1 else 'repeats'} rules about steps of the same tools"
        target.add_undecided(question, "steps with arguments are not compared")


def _has_calls(rule: Rule) -> bool:
    formulas = [part.rule.formula for part in RuleTree(rule.rules).atomic_rules if isinstance(part.rule, ast.Temporal)]
    return any(map(step_pattern, (name for formula in formulas for name in f.atoms(formula))))


def _implies_order(rule: Rule) -> bool:
    parts = RuleTree(rule.rules).atomic_rules
    return any(step_formula(part.rule, negated=part.negated).formula != f.TRUE for part in parts)


def _earlier(pattern: ast.Pattern) -> f.Formula:
    return f.Previous(f.once(f.call_of(pattern.tools)))


def _any_call(pattern: ast.Pattern) -> bool:
    """Whether a pattern matches every proposed call of its tools, including calls that lack an argument."""
    names = [argument.value.name for argument in pattern.arguments if isinstance(argument.value, ast.Variable)]
    free = all(isinstance(argument.value, ast.Variable | ast.AnyValue) for argument in pattern.arguments)
    return free and len(set(names)) == len(names)


def _is_bare(pattern: ast.Pattern, condition: ast.Term) -> bool:
    return not pattern.arguments and is_true(condition)


def _required(pattern: ast.Pattern, condition: ast.Term) -> StepFormula:
    if not _any_call(pattern):
        return _OPEN
    if condition == ast.Constant(value=False):
        return StepFormula(f.globally(f.negation(f.call_of(pattern.tools))), exact=not pattern.arguments)
    return StepFormula(f.globally(f.implies(f.call_of(pattern.tools), _needed_for_truth(condition))), sound=False)


# --- earlier calls that a condition requires, all of them successful


def _needed_for_truth(condition: ast.Term) -> f.Formula:
    """Returns the formula that a true condition implies; `true` if it is not about steps."""
    match condition:
        case ast.And(parts):
            return f.all_of(map(_needed_for_truth, parts))
        case ast.Or(parts):
            return f.any_of(map(_needed_for_truth, parts))
        case ast.SomeCall(pattern):
            return _earlier(pattern)
        case ast.Compare(ast.CountCalls(pattern), operator, ast.Constant(int() as number)):
            return _count_formula(pattern, condition.left, operator, number)
        case ast.Compare(left, _, right):
            return f.all_of([_needed_for_value(left), _needed_for_value(right)])
        case ast.Matches(body):
            return _needed_for_value(body)
    return f.TRUE


def _count_formula(pattern: ast.Pattern, count: ast.Term, operator: str, number: int) -> f.Formula:
    some = (operator in (">", "!=") and number == 0) or (operator in (">=", "==") and number > 0)
    if some or (operator == ">" and number > 0):
        return _earlier(pattern)
    none = (operator in ("==", "<=") and number == 0) or (operator == "<" and number == 1)
    assert isinstance(count, ast.CountCalls)
    if none and count.within is None and not pattern.arguments and _counts_all(count.condition, pattern):
        return f.Previous(f.historically(f.negation(f.call_of(pattern.tools))), strong=False)
    return f.TRUE


def _counts_all(condition: ast.Term, pattern: ast.Pattern) -> bool:
    """Whether every successful call is counted."""
    succeeded = ast.Negation(ast.OfCall("failed", ast.Label(pattern.label or "")))
    return is_true(condition) or condition == succeeded


def _needed_for_value(term: ast.Term) -> f.Formula:
    """Returns the formula that a known term implies."""
    match term:
        case ast.OfCall(_, ast.Selected(_, pattern)) | ast.TimeOf(ast.Selected(_, pattern)):
            return _earlier(pattern)
        case ast.Field(body) | ast.Item(body, _) | ast.Length(body) | ast.Negative(body):
            return _needed_for_value(body)
        case ast.Arithmetic(left, _, right):
            return f.all_of([_needed_for_value(left), _needed_for_value(right)])
    return f.TRUE


# --- automata of rules

MAX_KINDS = 20_000  # kinds of steps that rules distinguish together
MAX_STATES = 30_000  # states of the product
MAX_TAGS = 8
SILENT = 1  # the letter of a successful step that satisfies no atom

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
        formulas = [step_formula(atomic_rule.rule, negated=atomic_rule.negated) for atomic_rule in tree.atomic_rules]
        self.rule, self._tree = rule, tree.tree
        self.exact = all(formula.exact for formula in formulas)
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
        return fold(self._holds(subtree, value) for subtree in tree[1])


def _resume(automaton: Automaton, state: int, letter: int) -> int:
    """Ignores a violating step as a session does, or restarts with it if every step now violates the rule."""
    table, violated = automaton.table, automaton.violated
    if not violated[table[state][letter]]:
        return table[state][letter]
    if not violated[table[state][SILENT]]:
        return state
    return 0 if violated[table[0][letter]] else table[0][letter]


def _track(
    formula: StepFormula, part: object, tags: Mapping[str, frozenset[str]], *, calls_may_fail: bool
) -> tuple[PropositionalMonitor, list[str]] | None:
    if isinstance(part, PropositionalMonitor) and formula.exact:
        return part, f.atoms(formula.formula)
    if formula.formula == f.TRUE or (calls_may_fail and not formula.sound):
        return None
    try:
        return PropositionalMonitor(formula.formula, tags), f.atoms(formula.formula)
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
    step_kinds: dict[tuple[object, ...], StepKind] = {}
    for number, call in enumerate(
        calls_of_kinds(set().union(*(rule_automaton.atoms for rule_automaton in automata)), tools)
    ):
        if number > MAX_KINDS:
            raise SearchLimitError
        for ok in (True, False) if failing else (True,):
            letters = tuple(automaton.letters_of(call, ok=ok) for automaton in automata)
            step_kinds.setdefault(letters, StepKind(call, ok, letters))
    return list(step_kinds.values())


def calls_of_kinds(names: set[str], tools: Sequence[str]) -> Iterator[SessionCall]:
    """Yields calls of every kind that the atoms distinguish.

    Raises:
        SearchLimitError: there are too many.
    """
    actions = [None, *sorted(name.removeprefix("action:") for name in names if name.startswith("action:"))]
    decisions = [None, *sorted(name.removeprefix("decision:") for name in names if name.startswith("decision:"))]
    tags = sorted(name for name in names if not name.startswith(("tool:", "action:", "decision:", "@", CALL)))
    if len(tags) > MAX_TAGS:
        raise SearchLimitError
    subsets = [frozenset(some) for size in range(len(tags) + 1) for some in combinations(tags, size)]
    for action, decision, some in product(actions, decisions, subsets):
        for tool in tools:
            yield SessionCall(tool, {}).labelled(action, decision, some)


# --- searches


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
                pending = sum(
                    not rule_automaton.accepts(state)
                    for rule_automaton, state in zip(automata, following[0], strict=True)
                )
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
    considered = [rule_automaton for rule_automaton in automata if tool in rule_automaton.rule.tools]
    while True:
        path = search_order(considered, steps_of(considered, tools), wanted, ending=ending)
        others = [rule_automaton for rule_automaton in automata if rule_automaton not in considered]
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


class StateSearch:
    """A breadth-first search through the states that steps lead to."""

    def __init__(self, start: States) -> None:
        self._predecessors: dict[States, tuple[States, StepKind] | None] = {start: None}
        self._waiting = deque([start])

    def __iter__(self) -> Iterator[States]:
        while self._waiting:
            yield self._waiting.popleft()

    def follow(self, at: States, step: StepKind, following: States) -> None:
        """Continues the search after a step.

        Raises:
            SearchLimitError: there are too many states.
        """
        if following not in self._predecessors:
            if len(self._predecessors) >= MAX_STATES:
                raise SearchLimitError
            self._predecessors[following] = at, step
            self._waiting.append(following)

    def path(self, at: States) -> list[StepKind]:
        """Returns the steps that lead to a state."""
        return path_to(self._predecessors, at)


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
        broken = next(
            (
                rule_automaton
                for rule_automaton, state in zip(automata, states, strict=True)
                if not rule_automaton.is_alive(state)
            ),
            None,
        )
        if broken is not None:
            return broken, at
    return None


# --- implications between two rules


@dataclass(frozen=True, slots=True)
class ImplicationResult:
    """The result of an implication check.

    Attributes:
        implied: whether every step that violates the first rule violates the second one.
        example: a shortest sequence of steps that violates the first rule, or None if there is none.
    """

    implied: bool
    example: list[StepKind] | None = None


def check_implication(
    first: RuleAutomaton, second: RuleAutomaton, tools: Sequence[str], *, may_continue: bool
) -> ImplicationResult:
    """Checks whether the second rule implies the first.

    Args:
        first: a rule about the order of steps only.
        second: the rule that may imply it.
        tools: the tools that exist.
        may_continue: whether calls may run although they violate the second rule.

    Raises:
        SearchLimitError: the rules have too many states.
    """
    steps = steps_of((first, second), tools, failing=True)
    return _ImplicationSearch(first, second, steps, may_continue=may_continue).run()


class _ImplicationSearch:
    def __init__(
        self, first: RuleAutomaton, second: RuleAutomaton, steps: Sequence[StepKind], *, may_continue: bool
    ) -> None:
        self._pair, self._steps, self._may_continue = (first, second), steps, may_continue
        self._search = StateSearch((first.start, second.start))
        self._example: list[StepKind] | None = None

    def run(self) -> ImplicationResult:
        if not all(automaton.is_alive(automaton.start) for automaton in self._pair):
            return ImplicationResult(implied=False)
        for at in self._search:
            if not all(self._implied(broken, path) for broken, path in self._broken(at)):
                return ImplicationResult(implied=False)
        return ImplicationResult(implied=True, example=self._example)

    def _implied(self, broken: tuple[bool, bool], path: list[StepKind]) -> bool:
        if broken[0] and self._example is None:
            self._example = path
        return broken[1] or not broken[0]

    def _broken(self, at: States) -> Iterator[tuple[tuple[bool, bool], list[StepKind]]]:
        """Yields the rules that the end or a next step violates, with the sequence of steps."""
        first, second = self._pair
        yield (not first.accepts(at[0]), not second.accepts(at[1])), self._search.path(at)
        for step in self._steps:
            following = step_all(self._pair, at, step)
            broken = not first.is_alive(following[0]), not second.is_alive(following[1])
            if any(broken):
                yield broken, [*self._search.path(at), step]
            if self._may_continue or not any(broken):
                self._continue(at, step)

    def _continue(self, at: States, step: StepKind) -> None:
        """Follows a step as a session does after it reported a violation."""
        (first, second), (letter, other) = self._pair, step.letters
        self._search.follow(at, step, (first.resume(at[0], letter), second.resume(at[1], other)))


# --- tools that the order of steps never allows


def step_contradictions(target: LintTarget, never: Sequence[str]) -> Iterator[LintFinding]:
    """Yields findings for tools that rules never allow, or whose obligations can never be met.

    Args:
        target: the policy file.
        never: tools with another reason why they can never be called.
    """
    add_uncompared(target)
    automata = [RuleAutomaton(rule, target.tags) for rule in target.blocking]
    automata = [automaton for automaton in automata if any(track is not None for track in automaton.tracks)]
    try:
        yield from _of_automata(automata, target, never)
    except SearchLimitError:
        target.add_undecided("tools that can never be called", "the rules distinguish too many kinds of steps")


def _of_automata(automata: Sequence[RuleAutomaton], target: LintTarget, never: Sequence[str]) -> Iterator[LintFinding]:
    tools = sorted((tool for tool in target.tools if tool not in never), key=target.named_tools.__contains__)
    order = find_order(automata, tools, None, ending=True)
    if order.path is None:
        yield _unsatisfiable(_least(order.automata, lambda some: find_order(some, tools, None, ending=True)), target)
        return
    named = {tool for rule_automaton in automata for tool in rule_automaton.rule.tools} & target.own_tools
    candidates = sorted(named - target.forbidden_tools - set(never))
    for tool in target.while_time(candidates, "whether an order of calls allows tools", str):
        yield from _of_tool(tool, automata, tools, target)


def _of_tool(
    tool: str, automata: Sequence[RuleAutomaton], tools: Sequence[str], target: LintTarget
) -> Iterator[LintFinding]:
    first = [tool, *(other_tool for other_tool in tools if other_tool != tool)]  # examples prefer this tool

    def called(some: Sequence[RuleAutomaton]) -> OrderResult:
        return find_order(some, first, tool, ending=False)

    def ended(some: Sequence[RuleAutomaton]) -> OrderResult:
        return find_order(some, first, tool, ending=True)

    at_the_end = ended(automata)
    if at_the_end.path is not None:
        return
    order = called(automata)
    if order.path is None:
        yield _never_called(tool, _least(order.automata, called), called, target)
        return
    ids = _ids(_least(at_the_end.automata, ended), target)
    message = f"after '{tool}' is called, no conversation can meet the pending obligation of {rules_of(ids)}"
    example = f"{calls_of(order.path)}: allowed, but the obligation stays pending at the end, whatever follows"
    yield LintFinding("contradictory", ids[-1], tool, message, example, tuple(ids[:-1]))


def _least(
    automata: Sequence[RuleAutomaton], search: Callable[[Sequence[RuleAutomaton]], OrderResult]
) -> list[RuleAutomaton]:
    """Returns a minimal set of rules that make it impossible."""
    kept = sorted(automata, key=lambda rule_automaton: rule_automaton.rule.first_monitor)
    return minimal_set(kept, lambda some: search(some).path is None)


def _ids(automata: Sequence[RuleAutomaton], target: LintTarget) -> list[str]:
    """Returns the ids of rules, with rules that only forbid tools first."""
    ids = [rule_automaton.rule.id for rule_automaton in automata]
    return sorted(ids, key=lambda id_: id_ not in target.forbidding_rules)


def _never_called(
    tool: str,
    least: Sequence[RuleAutomaton],
    called: Callable[[Sequence[RuleAutomaton]], OrderResult],
    target: LintTarget,
) -> LintFinding:
    ids = _ids(least, target)
    least = sorted(least, key=lambda rule_automaton: ids.index(rule_automaton.rule.id))
    message = f"'{tool}' can never be called: no order of calls satisfies {rules_of(ids)}{' together' * (len(ids) > 1)}"
    path = called(least[:-1]).path
    assert path is not None
    broken = first_violation(least, path)
    assert broken is not None
    automaton, at = broken
    others = f", allowed by {rules_of(ids[:-1])}," if len(ids) > 1 else ""
    example = f"{calls_of(path)}{others} is denied by rule '{automaton.rule.id}' at {path[at].call.tool}()"
    return LintFinding("contradictory", ids[-1], tool, message, example, tuple(ids[:-1]))


def _unsatisfiable(least: Sequence[RuleAutomaton], target: LintTarget) -> LintFinding:
    ids = _ids(least, target)
    message = f"no conversation satisfies {rules_of(ids)}{' together' * (len(ids) > 1)}"
    first = next(iter(target.named_tools), "another_tool")
    example = f"{first}(), or no call at all: a rule is violated either way"
    return LintFinding("contradictory", ids[-1], None, message, example, tuple(ids[:-1]))


# --- sequences in natural language


def call_of(call: SessionCall) -> str:
    """Describes a call with its action, decision and tags."""
    labels = [f"action {call.action}"] if call.action else []
    labels += [f"decision {call.decision}"] if call.decision else []
    labels += [f"tag {tag}" for tag in sorted(call.tags)]
    return f"{call.tool}(){f' ({join_words(labels)})' if labels else ''}"


def calls_of(path: Sequence[StepKind]) -> str:
    """Describes calls in order."""
    if not path:
        return "no call at all"
    return ", then ".join(f"{call_of(step.call)}{'' if step.ok else ', which fails'}" for step in path)
