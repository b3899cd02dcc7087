"""Compiles temporal formulas to minimal deterministic automata over finite traces, and runs several as one product.

An event has one tool, one action, one decision and any number of tags. Tools that satisfy the same atoms form a class,
and so do actions and decisions. The letters of an automaton are the product of these classes and the subsets of the
tags, once for steps that succeeded and once for all others. For a tool with calls with arguments there
is a letter for each way to match some of them; an event with unknown arguments has several possible letters.

A formula is first read as a nondeterministic automaton. Its states are the pending obligations, a set of formulas for
the rest of the trace, and one bit for each past operator. A future formula inside of a past operator is guessed, and a
guess that it holds adds an obligation. Past operators are monotone in negation normal form, so a guess that it does not
hold needs no check. The subset construction makes the automaton deterministic; partition refinement minimises it.

The full product can be huge, but a trace visits little of it. Letters and transitions are built when an event first
needs them, and cached. After that an event costs two look-ups for any number of rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache, reduce
from itertools import product
from operator import and_
from typing import Any, NamedTuple

from guardagent.errors import InputError
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.evaluation.operands import Test, argument_of, argument_test
from guardagent.policy.language import formula as f
from guardagent.policy.language.ast import ExactValue, Pattern
from guardagent.policy.language.parser import CALL, step_pattern
from guardagent.policy.language.values import Truth, Unknown, conjunction
from guardagent.types import Event

# --- alphabets

MAX_LETTERS = 4096
MAX_MATCHES = 256  # ways in which a call matches the calls with arguments of a rule


LabelledEvent = Event | SessionCall


@dataclass(frozen=True, slots=True)
class Letter:
    """The atoms that hold for a successful step, and those that hold for any step that ran."""

    ok: frozenset[str]
    ran: frozenset[str]


class Alphabet:
    """The alphabet for a list of atoms.

    Args:
        atoms: `tool:NAME`, `action:NAME`, `decision:NAME`, `@NAME` for a set of tools, `call:NAME(...)`, or a tag.
        sets: the sets of tools by name.

    Raises:
        InputError: the atoms need too many letters.
    """

    def __init__(self, atoms: Iterable[str], sets: Mapping[str, frozenset[str]] | None = None) -> None:
        atoms = list(atoms)
        known = {name: (sets or {})[name[1:]] for name in atoms if name.startswith("@")}
        explicit = _named(atoms, "tool:")
        steps = {name: step for name in atoms if (step := step_pattern(name)) is not None}
        known |= {name: tools_of_step(step, sets or {}) for name, step in steps.items()}
        tools = {tool for members in known.values() for tool in members} | set(explicit.values())
        members = {
            tool: frozenset([name for name, named in explicit.items() if named == tool])
            | {name for name, group in known.items() if tool in group}
            for tool in tools
        }
        class_numbers, classes = _classes(members)
        calls = [sorted(names & steps.keys()) for names in classes]
        rows = [_possible_matches([steps[name] for name in names]) for names in calls]
        tool_classes, firsts = list[frozenset[str]](), list[int]()
        for names, own, matches in zip(classes, calls, rows, strict=True):  # each with the arguments that match
            firsts.append(len(tool_classes))
            tool_classes += [names - {name for name, held in zip(own, row, strict=True) if not held} for row in matches]
        tool_numbers = {tool: firsts[number] for tool, number in class_numbers.items()}
        action_numbers, action_classes = _classes(_each(_named(atoms, "action:")))
        decision_numbers, decision_classes = _classes(_each(_named(atoms, "decision:")))
        tags = [name for name in atoms if not name.startswith(("tool:", "action:", "decision:", "@", CALL))]
        parts = [tool_classes, action_classes, decision_classes]
        parts += [[frozenset[str](), frozenset([tag])] for tag in tags]
        size = 2
        for part in parts:
            size *= len(part)
        if size > MAX_LETTERS:
            raise InputError(
                f"the rule distinguishes {size:,} kinds of steps; expected at most {MAX_LETTERS:,}: split the rule"
            )
        strides = _strides([len(part) for part in parts])
        self._tools = _times(tool_numbers, strides[0])
        self._actions = _times(action_numbers, strides[1])
        self._decisions = _times(decision_numbers, strides[2])
        self._tags: dict[str | None, int] = dict(zip(tags, strides[3:], strict=True))
        self._stride = strides[0]
        tests = {name: [(part.name, argument_test(part)) for part in step.arguments] for name, step in steps.items()}
        self._calls = {
            tool: _Calls([tests[name] for name in calls[number]], {row: at for at, row in enumerate(rows[number])})
            for tool, number in class_numbers.items()
            if calls[number]
        }
        self._tools_only = not (self._actions or self._decisions or self._tags or self._calls)
        self.letters: list[Letter] = []
        for choice in product(*parts):
            held = frozenset[str]().union(*choice)
            self.letters += [Letter(frozenset(), held), Letter(held, held)]

    def index(self, event: LabelledEvent, *, ok: bool) -> int:
        """The number of the letter for an event: the sum of the offsets of its fields. `ok`: the event succeeded.

        Arguments that may match do not; see `possible`.
        """
        at = self._tools.get(event.tool, 0)
        if self._tools_only:  # the common case
            return at + ok
        if event.tool in self._calls:
            calls = self._calls[event.tool]
            at += calls.numbers[tuple([truth is True for truth in calls.truths(event.args)])] * self._stride
        if self._actions:
            at += self._actions.get(event.action, 0)
        if self._decisions:
            at += self._decisions.get(event.decision, 0)
        for tag, stride in self._tags.items():
            if tag in event.tags:
                at += stride
        return at + ok

    def reads_arguments(self, tool: str) -> bool:
        """Whether the letter of a call of a tool depends on its arguments."""
        return tool in self._calls

    def kinds(self, event: LabelledEvent) -> list[int]:
        """The numbers of the letters for successful events with the same fields, whatever their arguments."""
        at = self.index(event, ok=True)
        if event.tool not in self._calls:
            return [at]
        first = at - (at - 1) // self._stride * self._stride + self._tools[event.tool]
        return [first + number * self._stride for number in self._calls[event.tool].numbers.values()]

    def possible(self, event: LabelledEvent, *, ok: bool) -> tuple[int, ...]:
        """The numbers of the letters that an event has if all of its arguments are known."""
        at = self.index(event, ok=ok)
        if event.tool not in self._calls:
            return (at,)
        calls = self._calls[event.tool]
        truths = calls.truths(event.args)
        first = at - calls.numbers[tuple([truth is True for truth in truths])] * self._stride
        each = [(False, True) if type(truth) is Unknown else (truth is True,) for truth in truths]
        numbers = (calls.numbers.get(row) for row in product(*each))
        return tuple([first + number * self._stride for number in numbers if number is not None])

    def unknown(self, event: LabelledEvent) -> Unknown:
        """The causes why an event has several possible letters."""
        unknown = [truth for truth in self._calls[event.tool].truths(event.args) if type(truth) is Unknown]
        return reduce(and_, unknown)


class _Calls(NamedTuple):
    """The calls with arguments that concern a tool: their tests, and a number for each way to match some of them."""

    tests: list[list[tuple[str, Test]]]
    numbers: dict[tuple[bool, ...], int]

    def truths(self, args: Mapping[str, Any]) -> list[Truth]:
        """Whether a call matches each of them; unknown if it lacks an argument."""
        return [
            conjunction(
                [test(argument_of(args, name)) if name in args else argument_of(args, name) for name, test in tests]
            )
            for tests in self.tests
        ]


def _possible_matches(steps: Sequence[Pattern]) -> list[tuple[bool, ...]]:
    """For each way in which a call can match some of the steps, whether it matches each.

    Raises:
        InputError: there are too many.
    """
    rows: list[tuple[bool, ...]] = [()]
    for at, step in enumerate(steps):
        others = [earlier for earlier in range(at) if _exclude_each_other(steps[earlier], step)]
        rows += [(*row, True) for row in rows if not any(row[earlier] for earlier in others)]
        rows = [row if len(row) > at else (*row, False) for row in rows]
        if len(rows) > MAX_MATCHES:
            raise InputError(
                f"the rule has {len(steps)} calls of the same tool with different arguments; expected at most "
                f"{MAX_MATCHES} ways in which a call can match some of them: split the rule"
            )
    return rows


def _exclude_each_other(first: Pattern, second: Pattern) -> bool:
    """Whether the steps have different constants for the same argument."""
    return any(
        part.name == other.name
        and isinstance(other.value, ExactValue)
        and isinstance(part.value, ExactValue)
        and argument_test(part)(other.value.value) is False
        for part in first.arguments
        for other in second.arguments
    )


def tools_of_step(step: Pattern, sets: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The tools of a call with arguments as a step."""
    (name,) = step.tools
    return sets[name[1:]] if name[0] == "@" else frozenset([name])


def _named(atoms: Iterable[str], prefix: str) -> dict[str, str]:
    return {name: name.removeprefix(prefix) for name in atoms if name.startswith(prefix)}


def _each(named: Mapping[str, str]) -> dict[str, frozenset[str]]:
    return {value: frozenset([name]) for name, value in named.items()}


def _classes(members: Mapping[str, frozenset[str]]) -> tuple[dict[str, int], list[frozenset[str]]]:
    """(name -> its class, the atoms of each class). Class 0 stands for all other names."""
    classes: list[frozenset[str]] = [frozenset()]
    numbers: dict[str, int] = {}
    for name in sorted(members):
        if members[name] not in classes:
            classes.append(members[name])
        numbers[name] = classes.index(members[name])
    return numbers, classes


def _times(numbers: Mapping[str, int], stride: int) -> dict[str | None, int]:
    return {name: number * stride for name, number in numbers.items()}


def _strides(sizes: Sequence[int]) -> list[int]:
    """The stride of each part. Every letter exists twice: for steps that succeeded and for all others."""
    strides, stride = [], 2
    for size in reversed(sizes):
        strides.append(stride)
        stride *= size
    return strides[::-1]


# --- automata

MAX_STATES = 5000
MAX_WORK = 300_000  # formulas and sets of formulas visited: one or two seconds

Obligation = tuple[f.Formula, bool]  # a formula for the rest of the trace; True: the rest must not be empty
Obligations = frozenset[Obligation]
NfaState = tuple[Obligations, tuple[bool, ...]]
Values = dict[f.Formula, bool]

_DONE: Obligations = frozenset()
_DIVIDE = "split the rule, replace many tools by one '@set', or shorten the bounds"


class Standing(IntEnum):
    """The status of a rule after some steps."""

    VIOLATED = 0  # no continuation satisfies the rule
    UNMET = 1  # violated if the trace ends here
    MET = 2  # satisfied if the trace ends here
    SATISFIED = 3  # every continuation satisfies the rule


@dataclass(frozen=True, slots=True)
class Automaton:
    """A minimal deterministic automaton. State 0 is the initial state; at most one state is violated.

    Attributes:
        table: state -> letter -> next state.
        accepting: whether the trace may end in a state.
        violated: whether no continuation from a state satisfies the rule.
        satisfied: whether every continuation from a state satisfies the rule.
    """

    table: tuple[tuple[int, ...], ...]
    accepting: tuple[bool, ...]
    violated: tuple[bool, ...]
    satisfied: tuple[bool, ...]

    def standing(self, state: int) -> Standing:
        if self.violated[state]:
            return Standing.VIOLATED
        if self.satisfied[state]:
            return Standing.SATISFIED
        return Standing.MET if self.accepting[state] else Standing.UNMET


def compile_formula(formula: f.Formula, letters: Sequence[Letter]) -> Automaton:
    """Compiles a formula to a minimal deterministic automaton.

    Raises:
        InputError: the automaton has too many states, or takes too much work to build.
    """
    parts = f.subformulas(formula)
    named = {part.atom for part in parts if isinstance(part, f.Literal)}
    numbers = {name: str(at) for at, name in enumerate(sorted(named))}
    sets = [
        frozenset([numbers[name] for name in atoms if name in named])
        for letter in letters
        for atoms in (letter.ok, letter.ran)
    ]
    return _compiled(f.renamed(parts, numbers), tuple(sets))


@lru_cache(256)  # many rules differ in their tools only
def _compiled(formula: f.Formula, sets: tuple[frozenset[str], ...]) -> Automaton:
    """As `compile_formula`; the sets are those of each letter, one letter after the other."""
    nfa, letters = _FormulaNfa(formula), list(map(Letter, sets[::2], sets[1::2]))
    start = frozenset([nfa.start])
    numbers, rows = {start: 0}, []
    waiting = [start]
    for states in waiting:  # grows while it is read
        row = []
        nfa.spend(len(letters))
        for letter in letters:
            following = _reduced(target for state in states for target in nfa.successors(state, letter))
            if following not in numbers:
                if len(numbers) >= MAX_STATES:
                    raise InputError(f"the rule needs more than {MAX_STATES:,} states; {_DIVIDE}")
                numbers[following] = len(numbers)
                waiting.append(following)
            row.append(numbers[following])
        rows.append(row)
    return _minimised(rows, [any(_may_end(state) for state in states) for states in numbers])


class _FormulaNfa:
    """The nondeterministic automaton of a formula."""

    def __init__(self, formula: f.Formula) -> None:
        parts = f.subformulas(formula)
        self._past = [part for part in parts if isinstance(part, f.Previous | f.Since | f.TriggerFormula)]
        self._future = _with_future_operators(parts)
        self._cache: dict[tuple[NfaState, Letter], list[NfaState]] = {}
        self._work = 0
        first = tuple(
            isinstance(part, f.TriggerFormula) or (isinstance(part, f.Previous) and not part.strong)
            for part in self._past
        )
        self.start: NfaState = (_split([(formula, not f.holds_on_empty_trace(formula))]), first)

    def spend(self, work: int) -> None:
        """Counts work, which can grow much faster than the automaton."""
        self._work += work
        if self._work > MAX_WORK:
            raise InputError(f"the rule is too complex to compile; {_DIVIDE}")

    def successors(self, state: NfaState, letter: Letter) -> list[NfaState]:
        """The states after a step."""
        if (state, letter) not in self._cache:
            self._cache[state, letter] = list(self._successors(state, letter))
        return self._cache[state, letter]

    def _successors(self, state: NfaState, letter: Letter) -> Iterable[NfaState]:
        obligations, bits = state
        for values, guessed, following in self._past_values(bits, letter):
            shown = [self._expand(body, letter, values) for body, _ in obligations]
            shown += [self._expand(body, letter, values) for body in guessed]
            for choice in _product(shown, self.spend):
                yield choice, following

    def _past_values(
        self, bits: tuple[bool, ...], letter: Letter
    ) -> Iterable[tuple[Values, list[f.Formula], tuple[bool, ...]]]:
        """(values of the past operators, formulas guessed to hold, bits for the next step) for each guess."""
        guessable = [child for part in self._past for child in _children(part) if child in self._future]
        guessable = list(dict.fromkeys(guessable))
        for guess in product((True, False), repeat=len(guessable)):
            values: Values = dict(zip(guessable, guess, strict=True))
            following = []
            for part, bit in zip(self._past, bits, strict=True):
                value, kept = self._past_value(part, letter, values, bit=bit)
                values[part] = value
                following.append(kept)
            yield values, [body for body, held in zip(guessable, guess, strict=True) if held], tuple(following)

    def _past_value(self, part: f.Formula, letter: Letter, values: Values, *, bit: bool) -> tuple[bool, bool]:
        """(current value of a past operator, its bit for the next step)."""
        match part:
            case f.Previous(body):
                return bit, self._value(body, letter, values)
            case f.Since(left, right):
                value = self._value(right, letter, values) or (bit and self._value(left, letter, values))
                return value, value
            case f.TriggerFormula(left, right):
                value = self._value(right, letter, values) and (bit or self._value(left, letter, values))
                return value, value
        raise AssertionError(part)

    def _value(self, formula: f.Formula, letter: Letter, values: Values) -> bool:
        """The value of a formula without future operators, or of a guessed one."""
        if formula in values:
            return values[formula]
        match formula:
            case f.TruthConstant(value):
                return value
            case f.Literal(name, positive):
                return name in letter.ok if positive else name not in letter.ran
            case f.Conjunction(parts):
                return all(self._value(part, letter, values) for part in parts)
            case f.Disjunction(parts):
                return any(self._value(part, letter, values) for part in parts)
        raise AssertionError(formula)

    def _expand(self, formula: f.Formula, letter: Letter, values: Values) -> list[Obligations]:
        """The alternative obligations for the next step that make a formula hold now."""
        self.spend(1)
        match formula:
            case f.TruthConstant() | f.Literal() | f.Previous() | f.Since() | f.TriggerFormula():
                return [_DONE] if self._value(formula, letter, values) else []
            case f.Conjunction(parts):
                return _product([self._expand(part, letter, values) for part in parts], self.spend)
            case f.Disjunction(parts):
                return _without_redundant(
                    obligations for part in parts for obligations in self._expand(part, letter, values)
                )
            case f.Next(body, strong):
                return [_split([(body, strong)])]
            case f.Within(steps, body):
                later = [_split([(f.Within(steps - 1, body), True)])] if steps else []
                return _without_redundant([*self._expand(body, letter, values), *later])
            case f.Until(left, right):
                later = _product([self._expand(left, letter, values), [_split([(formula, True)])]], self.spend)
                return _without_redundant([*self._expand(right, letter, values), *later])
            case f.Release(left, right):
                ends = _without_redundant([*self._expand(left, letter, values), _split([(formula, False)])])
                return _product([self._expand(right, letter, values), ends], self.spend)
        raise AssertionError(formula)


def _children(part: f.Formula) -> list[f.Formula]:
    match part:
        case f.Previous(body):
            return [body]
        case f.Since(left, right) | f.TriggerFormula(left, right):
            return [left, right]
    return []


def _with_future_operators(parts: Sequence[f.Formula]) -> set[f.Formula]:
    """The formulas that contain a future operator outside of past operators."""
    formulas: set[f.Formula] = set()
    for part in parts:
        future = isinstance(part, f.Next | f.Until | f.Release | f.Within)
        if future or (isinstance(part, f.Conjunction | f.Disjunction) and part.parts & formulas):
            formulas.add(part)
    return formulas


def _split(obligations: Iterable[Obligation]) -> Obligations:
    """Obligations without conjunctions, and without those that others imply."""
    flat: set[Obligation] = set()
    for body, strong in obligations:
        if isinstance(body, f.Conjunction):
            flat |= _split((part, strong) for part in body.parts)
        else:
            flat.add((body, strong))
    soonest: dict[f.Formula, int] = {}
    for body, _ in flat:
        if isinstance(body, f.Within):
            soonest[body.body] = min(body.steps, soonest.get(body.body, body.steps))
    return frozenset(
        (body, strong)
        for body, strong in flat
        if not (isinstance(body, f.Within) and body.steps > soonest[body.body])
        and not (not strong and ((body, True) in flat or body == f.TruthConstant(value=True)))
    )


def _product(choices: Sequence[list[Obligations]], spend: Callable[[int], None]) -> list[Obligations]:
    """Every way to choose one alternative of each."""
    result = [_DONE]
    for alternatives in choices:
        spend(sum(map(len, result)) * len(alternatives))
        result = _without_redundant(_split(first | second) for first in result for second in alternatives)
    return result


def _without_redundant(alternatives: Iterable[Obligations]) -> list[Obligations]:
    """Drops alternatives that are supersets of another one."""
    kept: list[Obligations] = []
    for alternative in sorted(set(alternatives), key=len):
        if not any(other <= alternative for other in kept):
            kept.append(alternative)
    return kept


def _reduced(states: Iterable[NfaState]) -> frozenset[NfaState]:
    """Drops states whose obligations are a superset of another state's with at least the same bits."""
    kept: list[NfaState] = []
    for obligations, bits in sorted(set(states), key=lambda state: len(state[0])):
        if not any(less <= obligations and all(map(bool.__ge__, more, bits)) for less, more in kept):
            kept.append((obligations, bits))
    return frozenset(kept)


def _may_end(state: NfaState) -> bool:
    return not any(strong for _, strong in state[0])


def _minimised(rows: Sequence[Sequence[int]], accepting: Sequence[bool]) -> Automaton:
    """Merges equivalent states by Moore's partition refinement."""
    block = [int(value) for value in accepting]
    while True:
        signatures: dict[tuple[int, ...], int] = {}
        refined = [
            signatures.setdefault((block[state], *(block[target] for target in row)), len(signatures))
            for state, row in enumerate(rows)
        ]
        if len(signatures) == len(set(block)):
            break
        block = refined
    firsts = {number: state for state, number in reversed(list(enumerate(refined)))}
    table = tuple(tuple(refined[target] for target in rows[firsts[number]]) for number in range(len(firsts)))
    ends = tuple(accepting[firsts[number]] for number in range(len(firsts)))
    may_accept, may_reject = _can_reach(table, ends), _can_reach(table, [not end for end in ends])
    return Automaton(table, ends, tuple(not hope for hope in may_accept), tuple(not fear for fear in may_reject))


def _can_reach(table: Sequence[Sequence[int]], goals: Sequence[bool]) -> list[bool]:
    """Returns for each state whether it is a goal or can reach one."""
    sources: list[set[int]] = [set() for _ in table]
    for state, row in enumerate(table):
        for target in set(row):
            sources[target].add(state)
    reached, waiting = list(goals), [state for state, goal in enumerate(goals) if goal]
    while waiting:
        for source in sources[waiting.pop()]:
            if not reached[source]:
                reached[source] = True
                waiting.append(source)
    return reached


# --- products

Compiled = tuple[Alphabet, Automaton]
Parts = tuple[int, ...]  # a number for each rule
Key = tuple[str, str | None, str | None, frozenset[str], bool]  # the parts of an event that a propositional rule reads


class ProductLetter:
    """The letters of an event, one for each rule. Equal letters are one object, for fast look-ups."""

    __slots__ = ("parts",)

    def __init__(self, parts: Parts) -> None:
        self.parts = parts


class ProductState(dict[ProductLetter, tuple["ProductState", Parts]]):
    """A product state; maps each letter to the next state and the rules that the step violates.

    Attributes:
        parts: the state of each rule.
        violated: the rules that are violated in this state.
    """

    __slots__ = ("_product", "parts", "violated")

    def __init__(self, product: Product, parts: Parts, violated: Parts) -> None:
        super().__init__()
        self._product, self.parts, self.violated = product, parts, violated

    def __missing__(self, letter: ProductLetter) -> tuple[ProductState, Parts]:
        following = self._product.after(self.parts, letter)
        violated = tuple(rule for rule in following.violated if rule not in self.violated)
        self[letter] = following, violated
        return following, violated


class Letters(dict[Key, ProductLetter]):
    """Maps each kind of event to its letter: `letters[event.tool, event.action, event.decision, event.tags, ok]`."""

    __slots__ = ("_product",)

    def __init__(self, product: Product) -> None:
        super().__init__()
        self._product = product

    def __missing__(self, key: Key) -> ProductLetter:
        letter = self[key] = self._product.letter(key)
        return letter


class Product:
    """The product of several rules. Its caches only hold values that can be recomputed, so threads can share it.

    Args:
        rules: the alphabet and automaton of each rule.
        keep: the number of cached letters and transitions after which the cache is cleared.

    Attributes:
        rules: the rules; results refer to them by index.
        letters: the letter of each kind of event.
        start: the initial state.
    """

    def __init__(self, rules: Sequence[Compiled], keep: int = 50_000) -> None:
        self.rules = tuple(rules)
        self._keep = keep
        self.letters = Letters(self)
        self.start = ProductState(self, (0,) * len(self.rules), ())
        self._states: dict[Parts, ProductState] = {}
        self._letters: dict[Parts, ProductLetter] = {}
        self._kept = 0

    def letter(self, key: Key) -> ProductLetter:
        self._keep_one_more()
        tool, action, decision, tags, ok = key
        event = Event(tool, action=action, decision=decision, tags=tags)
        parts = tuple(alphabet.index(event, ok=ok) for alphabet, _ in self.rules)
        return self._letters.setdefault(parts, ProductLetter(parts))

    def after(self, parts: Parts, letter: ProductLetter) -> ProductState:
        self._keep_one_more()
        steps = zip(self.rules, parts, letter.parts, strict=True)
        following = tuple(automaton.table[state][part] for (_, automaton), state, part in steps)
        violated = tuple(rule for rule, state in enumerate(following) if self.rules[rule][1].violated[state])
        return self._states.setdefault(following, ProductState(self, following, violated))

    def _keep_one_more(self) -> None:
        """Clears the cache when it is full. Names and tags come from callers and are unbounded."""
        self._kept += 1
        if self._kept > self._keep:
            self._kept = 0
            for state in [self.start, *self._states.values()]:
                state.clear()
            self._states.clear()
            self._letters.clear()
            self.letters.clear()
