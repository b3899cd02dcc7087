"""A second evaluator of data rules, written straight from their definitions.

It searches the whole history each time, without an index or a cache. It tries every outcome of a call
in flight.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, Literal

from guardagent.policy.language import ast
from guardagent.policy.language.formula import Formula, atoms
from guardagent.policy.language.parser import step_pattern
from guardagent.policy.monitors.automaton import Letter
from tests.policy.naive import holds
from tests.policy.naive_functions import applied
from tests.policy.naive_sources import Labels, seen, sources
from tests.policy.naive_values import (
    UNKNOWN,
    Between,
    SetRange,
    Truth,
    both,
    computed,
    contained,
    either,
    ends,
    equal,
    is_ambiguous,
    kind,
    looked_up,
    none_as_unknown,
    opposite,
    ordered,
    sets_combined,
    string_set,
)

ZONE = "Europe/Berlin"  # of the clock
Names = dict[str, Any]  # the variables and labels of a rule, with their values
Leaf = tuple[ast.Rule, bool]  # a rule without operators; False under an odd number of NOTs


@dataclass(frozen=True)
class Step:
    """A call with its outcome, facts and state. A call that has not begun may never run."""

    tool: str
    args: Mapping[str, Any]
    output: Any = None
    status: Literal["ok", "failed", "unknown", "withdrawn"] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    state: Any = None
    principal: Mapping[str, Any] | None = None
    begun: bool = True
    ended: bool = True
    time: Any = None

    @property
    def outcome(self) -> Literal["ok", "failed", "unknown"] | None:
        """The status of a call that ran."""
        return None if self.status == "withdrawn" else self.status


@dataclass(frozen=True)
class Scene:
    """A step and the steps before it."""

    step: Step
    earlier: Sequence[Step]
    in_flight: Sequence[Step] = ()


class Naive:
    """One rule."""

    def __init__(
        self,
        rule: ast.Rule,
        functions: Mapping[str, Callable[..., Any]],
        tags: Mapping[str, frozenset[str]],
        labels: Labels | None = None,
        messages: Sequence[Any] = (),
    ) -> None:
        self._messages = messages
        self.rule, self._functions, self._tags, self._labels = rule, functions, tags, labels or {}
        self._leaves = list(_leaves(rule))
        self.conjunctive = _is_conjunctive(rule)

    # --- the answers

    def check(self, history: Sequence[Step], proposed: Step) -> Truth:
        """Whether a call satisfies the rule, for every outcome of the calls in flight."""
        return both(self._checked([*way, replace(proposed, status="ok")]) for way in _ways(history))

    def end(self, history: Sequence[Step], *, reported: bool = False) -> Truth:
        """Whether the rule is satisfied at the end; a reported violation is not reported again.

        A call that is still in flight satisfies nothing itself. In a condition, its outcome is unknown.
        """
        return (reported and not self.conjunctive) or _combined(self.rule, partial(self._ended, history))

    def _checked(self, steps: Sequence[Step]) -> Truth:
        """Whether a call is allowed; an earlier violation only matters under OR."""
        judged = {id(leaf): self._judged(leaf, positive, steps) for leaf, positive in self._leaves}
        if all(values[-1] is True for values in judged.values()):
            return True

        def value(leaf: ast.Rule, _: bool) -> Truth:
            values = judged[id(leaf)]
            return values[-1] if self.conjunctive or isinstance(leaf, ast.After) else both(values)

        return _combined(self.rule, value)

    # --- the forms

    def _judged(self, leaf: ast.Rule, positive: bool, steps: Sequence[Step]) -> list[Truth]:
        """The result for each proposed step."""
        steps, everything = _that_ran(steps), steps
        if isinstance(leaf, ast.Temporal):
            ways = self._replayed(leaf.formula, positive, steps)
            return [_agreed(values) for values in zip(*(values for values, _ in ways), strict=True)]
        scenes = [
            Scene(step, _that_ran(everything[:at]), [earlier for earlier in everything[:at] if not earlier.ended])
            for at, step in enumerate(everything)
            if step.status != "withdrawn"
        ]
        match leaf, positive:
            case ast.Forall(pattern, condition), True:
                return [self._if(scene, pattern, ast.TRUE, partial(self._value, condition)) for scene in scenes]
            case ast.Before(pattern, condition, partner, wanted), True:
                earlier = partial(self._earlier, partner, wanted, ok=True)
                return [self._if(scene, pattern, condition, earlier) for scene in scenes]
            case ast.Exists(pattern, condition), False:
                denied = partial(self._value, ast.Negation(condition))
                return [self._if(scene, pattern, ast.TRUE, denied) for scene in scenes]
            case ast.After(pattern, condition), True:
                obliged = [self._concerned(scene, pattern, condition)[0] for scene in scenes]
                return [UNKNOWN if value is UNKNOWN else True for value in obliged]
        return [True for _ in scenes]

    def _ended(self, steps: Sequence[Step], leaf: ast.Rule, positive: bool) -> Truth:
        scenes = [Scene(step, steps[:at]) for at, step in enumerate(steps)]
        fine = [scene for scene in scenes if scene.step.status == "ok"]
        match leaf, positive:
            case ast.Exists(pattern, condition), True:
                return either(self._meets(scene, pattern, partial(self._value, condition)) for scene in fine)
            case ast.Forall(pattern, condition), False:
                return either(
                    self._meets(scene, pattern, partial(self._value, ast.Negation(condition))) for scene in fine
                )
            case ast.Before(), False:
                return either(self._lacks_earlier(scene, leaf) for scene in fine)
            case ast.After(), True:
                return both(opposite(self._lacks_later(at, scenes, leaf, ok=True)) for at in range(len(scenes)))
            case ast.After(), False:
                some = [at for at, scene in enumerate(scenes) if scene in fine]
                return either(self._lacks_later(at, scenes, leaf, ok=False) for at in some)
            case ast.Temporal(formula), _:
                return both(self._ended_formula(formula, positive, _that_ran(way)) for way in _ways(steps))
        return self.conjunctive or both(both(self._judged(leaf, positive, way)) for way in _ways(steps))

    def _concerned(self, scene: Scene, pattern: ast.Pattern, condition: ast.Term) -> tuple[Truth, Names]:
        """Whether a proposed call matches and satisfies a condition, and the names that it bound."""
        names: Names = {}
        matched = self._matched(scene.step, pattern, names)
        return both([matched, matched and self._value(condition, scene, names)]), names

    def _if(self, scene: Scene, pattern: ast.Pattern, condition: ast.Term, then: Callable[..., Truth]) -> Truth:
        concerned, names = self._concerned(scene, pattern, condition)
        return concerned is False or either([opposite(concerned), then(scene, names)])

    def _meets(
        self, scene: Scene, pattern: ast.Pattern, condition: Callable[..., Truth], names: Names | None = None
    ) -> Truth:
        """Whether a call that happened matches and satisfies a condition."""
        inner = dict(names or {})
        matched = self._recalled(scene.step, pattern, inner)
        return both([matched, matched and condition(scene, inner)])

    def _earlier(self, pattern: ast.Pattern, condition: ast.Term, scene: Scene, names: Names, *, ok: bool) -> Truth:
        return _any_of(self._found(pattern, condition, scene, names), ok=ok)

    def _lacks_earlier(self, scene: Scene, rule: ast.Before) -> Truth:
        def alone(scene: Scene, names: Names) -> Truth:
            earlier = self._earlier(rule.partner, rule.partner_condition, scene, names, ok=False)
            return both([self._value(rule.condition, scene, names), opposite(earlier)])

        return self._meets(scene, rule.pattern, alone)

    def _lacks_later(self, at: int, scenes: Sequence[Scene], rule: ast.After, *, ok: bool) -> Truth:
        """Whether a call has an obligation that no later call discharged."""
        obliges, names = self._concerned(scenes[at], rule.pattern, rule.condition)
        later = [scene for scene in scenes[at + 1 :] if not ok or scene.step.status == "ok"]
        fits = partial(self._value, rule.partner_condition)
        came = either(self._meets(scene, rule.partner, fits, names) for scene in later) if obliges else False
        return both([obliges, opposite(came)])

    # --- patterns

    def _tools(self, pattern: ast.Pattern) -> set[str]:
        return {tool for name in pattern.tools for tool in (self._tags[name[1:]] if name[0] == "@" else [name])}

    def _matched(self, step: Step, pattern: ast.Pattern, names: Names) -> Truth:
        """Whether a proposed call matches; an argument that it lacks is unknown."""
        if "*" not in pattern.tools and step.tool not in self._tools(pattern):
            return False
        if pattern.label:
            names[pattern.label] = step
        return both(
            [
                _fits(argument.value, none_as_unknown(step.args.get(argument.name)), names)
                for argument in pattern.arguments
            ]
        )

    def _recalled(self, step: Step, pattern: ast.Pattern, names: Names) -> Truth:
        """Whether a past call matches; one that lacks an argument does not."""
        return all(argument.name in step.args for argument in pattern.arguments) and self._matched(step, pattern, names)

    def _found(
        self,
        pattern: ast.Pattern,
        condition: ast.Term,
        scene: Scene,
        names: Names,
        within: ast.Term | None = None,
        among: Sequence[Step] | None = None,
    ) -> list[tuple[Step, Truth, Names]]:
        """(a call, whether it matches and satisfies the condition, the names it bound), of all earlier calls."""
        steps = []
        for step in scene.earlier if among is None else among:
            inner = dict(names)
            matched = self._recalled(step, pattern, inner)
            value = both([matched, matched and self._value(condition, scene, inner)])
            steps.append((step, both([value, self._recent(step, within, scene, names)]), inner))
        return steps

    def _recent(self, step: Step, within: ast.Term | None, scene: Scene, names: Names) -> Truth:
        """Whether a call is in a time window."""
        if within is None:
            return True
        age = computed(none_as_unknown(scene.step.time), "-", none_as_unknown(step.time))
        window = self._value(within, scene, names)
        return UNKNOWN if _COMPARED[">="](window, 0) is not True else _COMPARED["<="](age, window)

    # --- terms

    def _value(self, term: ast.Term, scene: Scene, names: Names) -> Any:  # noqa: C901, PLR0912 - a case for each kind
        def value(inner: ast.Term) -> Any:
            return self._value(inner, scene, names)

        match term:
            case ast.Constant(constant):
                return constant
            case ast.Variable(name):
                return names[name]
            case ast.ListOf(items):
                values = [value(item) for item in items]
                return UNKNOWN if any(item is UNKNOWN or isinstance(item, Between) for item in values) else values
            case ast.And(parts):
                return both(value(part) for part in parts)
            case ast.Or(parts):
                return either(value(part) for part in parts)
            case ast.Negation(body):
                return opposite(value(body))
            case ast.Implies(first, second):
                return either([opposite(value(first)), value(second)])
            case ast.Compare(left, sign, right):
                return _COMPARED[sign](value(left), value(right))
            case ast.Matches(body, regex):
                return _fully(regex, value(body))
            case ast.Arithmetic(left, sign, right):
                return computed(value(left), sign, value(right))
            case ast.Negative(body):
                return computed(0, "-", value(body))
            case ast.Length(body):
                return len(value(body)) if kind(value(body)) in ("text", "list", "mapping", "set") else UNKNOWN
            case ast.SetOf(items):
                return string_set([value(item) for item in items])
            case ast.SetOperation(left, sign, right):
                return sets_combined(value(left), sign, value(right))
            case ast.Apply(function, arguments):
                written = [
                    argument.regex if isinstance(argument, ast.RegexValue) else value(argument)
                    for argument in arguments
                ]
                return applied(function, written)
            case ast.Sources(body):
                return UNKNOWN if value(body) is UNKNOWN else sources(value(body), scene.earlier, self._labels)
            case ast.Seen(labels):
                return seen(labels, scene.earlier, self._labels)
            case ast.MessagesText(role):
                return _text_of(self._messages, role)
            case ast.Known(body):
                if value(body) is not UNKNOWN and not isinstance(value(body), Between | SetRange):
                    return True
                return UNKNOWN if any(is_ambiguous(value(text)) for text in _read_texts(body)) else False
            case ast.Field(body, name):
                return looked_up(value(body), name)
            case ast.Item(body, index):
                return looked_up(value(body), value(index))
            case ast.Now():
                return none_as_unknown(scene.step.time)
            case ast.Elapsed():
                return _elapsed(scene)
            case ast.Zone():
                return ZONE
            case ast.Fact(path):
                return _followed(scene.step.facts, path)
            case ast.Principal():
                return none_as_unknown(_effective(scene.step.principal))
            case ast.State():
                return none_as_unknown(scene.step.state)
            case ast.StateOf(function, arguments):
                return self._state_value(function, [value(argument) for argument in arguments], scene)
        return self._of_history(term, scene, names)

    def _of_history(self, term: ast.Term, scene: Scene, names: Names) -> Any:  # noqa: C901 - a case for each kind
        match term:
            case ast.SomeCall(pattern, condition, ok, within):
                matches = self._found(pattern, condition, scene, names, within)
                return _any_of(matches, ok=ok)
            case ast.CallInFlight(pattern, condition):
                return either(
                    value for _, value, _ in self._found(pattern, condition, scene, names, among=scene.in_flight)
                )
            case ast.TimeOf(ast.Label(name)):
                return _time_of(names[name])
            case ast.TimeOf(ast.Selected(which, pattern, condition)):
                return _time_of(self._selected(which, self._found(pattern, condition, scene, names)))
            case ast.OfCall(what, ast.Label(name)):
                return _of_call(what, names[name])
            case ast.OfCall(what, ast.Selected(which, pattern, condition)):
                return _of_call(what, self._selected(which, self._found(pattern, condition, scene, names)))
            case ast.CountCalls(pattern, condition, within):
                matches = self._found(pattern, condition, scene, names, within)
                return _total([(step, value, 1) for step, value, _ in matches])
            case ast.SumCalls(pattern, condition, summed, within):
                matches = self._found(pattern, condition, scene, names, within)
                return _total(
                    [(step, match, match and self._value(summed, scene, inner)) for step, match, inner in matches]
                )
            case ast.CallFold("distinct", pattern, condition, counted, within):
                matches = self._found(pattern, condition, scene, names, within)
                return _different(
                    [
                        (step, match, match and self._value(counted or ast.TRUE, scene, inner))
                        for step, match, inner in matches
                    ]
                )
            case ast.CallFold(which, pattern, condition, _, within):
                matches = self._found(pattern, condition, scene, names, within)
                return _last_place(matches, ok=which == "last ok")
            case ast.OverItems(which, name, items, condition):
                listed = self._value(items, scene, names)
                if kind(listed) != "list":
                    return UNKNOWN
                return _FOLDED[which](
                    self._value(condition, scene, {**names, name: none_as_unknown(item)}) for item in listed
                )
        raise AssertionError(term)

    def _state_value(self, function: str, arguments: Sequence[Any], scene: Scene) -> Any:
        if scene.step.state is None or any(
            argument is UNKNOWN or isinstance(argument, Between) for argument in arguments
        ):
            return UNKNOWN
        return none_as_unknown(self._functions[function](scene.step.state, *arguments))

    def _selected(self, which: str, steps: Sequence[tuple[Step, Truth, Names]]) -> Any:
        """The first or last matching call, if known."""
        for step, value, _ in steps if which == "first" else reversed(steps):
            if value is not False:
                return step if value is True and _runs(step) else UNKNOWN
        return UNKNOWN

    # --- propositional rules

    def _replayed(self, formula: Formula, positive: bool, steps: Sequence[Step]) -> list[tuple[list[Truth], bool]]:
        """For all that unknown arguments may be: the result for each step, and whether it holds at the end."""
        names = atoms(formula)
        rows = [list(self._possible_steps(names, step)) for step in steps]
        return [self._replayed_as(formula, positive, steps, matches) for matches in product(*rows)]

    def _replayed_as(
        self, formula: Formula, positive: bool, steps: Sequence[Step], matches: Sequence[frozenset[str]]
    ) -> tuple[list[Truth], bool]:
        values: list[Truth] = []
        kept: list[Letter] = []
        for step, ran in zip(steps, matches, strict=True):
            went_well = ran if step.status == "ok" else frozenset[str]()
            kept.append(Letter(went_well, ran) if positive else Letter(ran, went_well))
            values.append(self._can_be_kept(formula, positive, kept))
            if not values[-1]:
                kept.pop()
        return values, holds(formula, kept) is positive

    def _possible_steps(self, names: Iterable[str], step: Step) -> Iterator[frozenset[str]]:
        """The atoms that a step may be. It is not two that want different values of an argument."""
        truths = {name: self._is_step(name, step) for name in names}
        for chosen in product(*((True, False) if truth is UNKNOWN else (truth,) for truth in truths.values())):
            ran = frozenset(name for name, truth in zip(truths, chosen, strict=True) if truth)
            values: dict[str, Any] = {}
            patterns = [pattern for name in sorted(ran) if (pattern := step_pattern(name)) is not None]
            exact = [argument for pattern in patterns for argument in pattern.arguments]
            wanted = [
                (argument.name, argument.value) for argument in exact if isinstance(argument.value, ast.ExactValue)
            ]
            if all(values.setdefault(name, value) == value for name, value in wanted):
                yield ran

    def _is_step(self, atom: str, step: Step) -> Truth:
        if (pattern := step_pattern(atom)) is None:
            return step.tool in (self._tags[atom[1:]] if atom[0] == "@" else [atom.removeprefix("tool:")])
        stated = [UNKNOWN if argument.name not in step.args else True for argument in pattern.arguments]
        return both([self._matched(step, pattern, {}), *stated])

    def _can_be_kept(self, formula: Formula, positive: bool, trace: Sequence[Letter]) -> bool:
        """Whether at most two more steps can make it true."""
        names = [frozenset({name}) for name in atoms(formula)]
        letters = [Letter(name, name) for name in (frozenset[str](), *names)]
        return any(
            holds(formula, [*trace, *more]) is positive
            for length in range(3)
            for more in product(letters, repeat=length)
        )

    def _ended_formula(self, formula: Formula, positive: bool, steps: Sequence[Step]) -> Truth:
        ways = self._replayed(formula, positive, steps)
        return _agreed([holds_at_end and (self.conjunctive or both(values) is True) for values, holds_at_end in ways])


def _agreed(values: Sequence[Truth]) -> Truth:
    """The result that all have; otherwise it is unknown."""
    return values[0] if all(value is values[0] for value in values) else UNKNOWN


# --- how rules combine


def _effective(principal: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The principal with the roles that it shares with the one that it acts for."""
    if principal is None or "on_behalf_of" not in principal:
        return principal
    shared = [role for role in principal["roles"] if role in principal["on_behalf_of"]["roles"]]
    return {**principal, "roles": sorted(shared)}


def _leaves(rule: ast.Rule, positive: bool = True) -> Iterator[Leaf]:  # noqa: FBT002
    match rule:
        case ast.AllOf(parts) | ast.AnyOf(parts):
            for part in parts:
                yield from _leaves(part, positive)
        case ast.Not(body):
            yield from _leaves(body, not positive)
        case _:
            yield rule, positive


def _combined(rule: ast.Rule, value: Callable[[ast.Rule, bool], Truth], positive: bool = True) -> Truth:  # noqa: FBT002
    match rule:
        case ast.AllOf(parts):
            return (both if positive else either)([_combined(part, value, positive) for part in parts])
        case ast.AnyOf(parts):
            return (either if positive else both)([_combined(part, value, positive) for part in parts])
        case ast.Not(body):
            return _combined(body, value, not positive)
    return value(rule, positive)


def _is_conjunctive(rule: ast.Rule, positive: bool = True) -> bool:  # noqa: FBT002
    match rule:
        case ast.AllOf(parts):
            return positive and all(_is_conjunctive(part, positive) for part in parts)
        case ast.AnyOf(parts):
            return not positive and all(_is_conjunctive(part, positive) for part in parts)
        case ast.Not(body):
            return _is_conjunctive(body, not positive)
    return True


def _ways(history: Sequence[Step]) -> Iterator[list[Step]]:
    """Every outcome of the calls in flight, including withdrawal; outputs stay unknown."""
    ends: list[list[list[Step]]] = []
    for step in history:
        if step.status is not None:
            ends.append([[step]])
        else:
            ran = [[replace(step, status="ok", ended=False)], [replace(step, status="failed", ended=False)]]
            withdrawn = replace(step, status="withdrawn", ended=False)
            ends.append(ran if step.begun else [*ran, [withdrawn]])
    for way in product(*ends):
        yield [step for steps in way for step in steps]


def _that_ran(steps: Sequence[Step]) -> list[Step]:
    return [step for step in steps if step.status != "withdrawn"]


# --- small pieces


def _text_of(messages: Sequence[Any], role: str) -> Any:
    contents = [message["content"] for message in messages if message["role"] == role]
    parts = [part for content in contents for part in ([content] if isinstance(content, str) else content)]
    texts = [part if isinstance(part, str) else part.get("text") for part in parts]
    return "\n".join(texts) if messages and None not in texts else UNKNOWN


def _fits(wanted: Any, value: Any, names: Names) -> Truth:
    """Whether an argument matches; a variable is bound by its first use."""
    match wanted:
        case ast.AnyValue():
            return True
        case ast.RegexValue(regex):
            return _fully(regex, value)
        case ast.ExactValue(str() as literal) if kind(value) == "text" and value != literal:
            return UNKNOWN if value.strip().casefold() == literal.strip().casefold() else False
        case ast.ExactValue(literal):
            return equal(value, literal)
    if wanted.name not in names:
        names[wanted.name] = value
        return True
    return equal(value, names[wanted.name])


def _fully(regex: str, value: Any) -> Truth:
    return re.fullmatch(regex, value, re.ASCII) is not None if kind(value) == "text" else UNKNOWN


def _followed(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = none_as_unknown(value.get(name)) if kind(value) == "mapping" else UNKNOWN
    return value


def _elapsed(scene: Scene) -> Any:
    began = next((step.time for step in scene.earlier if step.time is not None), scene.step.time)
    return UNKNOWN if scene.step.time is None else scene.step.time - began


def _time_of(step: Any) -> Any:
    return UNKNOWN if step is UNKNOWN else none_as_unknown(step.time)


def _read_texts(term: object) -> Iterator[Any]:
    """The terms that are read as JSON where they are texts, outside of conditions on items and calls."""
    match term:
        case ast.Field(body) | ast.Item(body) | ast.Apply("keys" | "values" | "has" | "[=]", (body, *_)):
            yield body
        case ast.OverItems(items=items):
            yield from _read_texts(items)
            return
        case ast.SomeCall() | ast.CountCalls() | ast.SumCalls() | ast.CallFold() | ast.CallInFlight() | ast.Selected():
            return
    for child in ast.children(term):
        yield from _read_texts(child)


def _of_call(what: str, step: Any) -> Any:
    if step is UNKNOWN:
        return UNKNOWN
    if what == "failed":
        return {"ok": False, "failed": True}.get(step.status, UNKNOWN)
    if what == "tool":
        return step.tool
    return step.args if what == "args" else none_as_unknown(step.output)


def _runs(step: Step) -> bool:
    """Whether a call certainly runs or ran."""
    return step.begun or step.status is not None


def _any_of(steps: Sequence[tuple[Step, Truth, Names]], *, ok: bool) -> Truth:
    """Whether a call was found; where it has to end well, one in flight may still do so."""
    ended = {"ok": True, None: UNKNOWN} if ok else {}
    return either(both([value, ended.get(step.status, not ok)]) for step, value, _ in steps)


def _total(steps: Sequence[tuple[Step, Truth, Any]]) -> Any:
    """A sum over both possibilities of each call that may count."""
    total: Any = 0
    for step, value, amount in steps:
        if value is True and _runs(step):
            total = computed(total, "+", amount)
        elif value is not False:
            bounds = ends(amount)
            share = UNKNOWN if bounds is None else Between(min(0, bounds[0]), max(0, bounds[1]))
            total = computed(total, "+", share)
    return total


def _last_place(steps: Sequence[tuple[Step, Truth, Names]], *, ok: bool) -> Any:
    """The place of the last call over both possibilities of each call; -1 or 0 without one."""
    least = most = -1 if ok else 0
    for place, (step, match, _) in enumerate(steps, 1):
        ended = {"ok": True, None: UNKNOWN}.get(step.status, False) if ok else True if _runs(step) else UNKNOWN
        counts = both([match, ended])
        least, most = (place if counts is True else least), (most if counts is False else place)
    return least if least == most else Between(least, most)


def _different(steps: Sequence[tuple[Step, Truth, Any]]) -> Any:
    """The number of different scalars, over both possibilities of each call; an unknown one may be another."""
    sure: list[Any] = []
    possible: list[Any] = []
    unread, is_any = 0, False
    for step, match, value in steps:
        counts = both([match, True if _runs(step) else UNKNOWN])
        if counts is False:
            continue
        is_any = is_any or counts is True
        if kind(value) not in ("text", "number", "truth value") or equal(value, value) is UNKNOWN:
            unread += 1
        elif not any(equal(value, other) is True for other in (sure if counts is True else possible)):
            (sure if counts is True else possible).append(value)
    more = [value for value in possible if not any(equal(value, other) is True for other in sure)]
    least, most = max(len(sure), int(is_any)), len(sure) + len(more) + unread
    return least if least == most else Between(least, most)


def _count(values: Iterator[Any]) -> Any:
    truths = list(values)
    sure, unsure = truths.count(True), len(truths) - truths.count(True) - truths.count(False)
    return Between(sure, sure + unsure) if unsure else sure


_FOLDED: dict[str, Callable[[Iterator[Any]], Any]] = {"all": both, "any": either, "count": _count}
_COMPARED: dict[str, Callable[[Any, Any], Truth]] = {
    "==": equal,
    "!=": lambda left, right: opposite(equal(left, right)),
    "<": lambda left, right: ordered(left, right, operator.lt),
    "<=": lambda left, right: ordered(left, right, operator.le),
    ">": lambda left, right: ordered(left, right, operator.gt),
    ">=": lambda left, right: ordered(left, right, operator.ge),
    "in": contained,
}
