"""The semantics of rules for a proposed call, defined on the syntax of their terms and patterns.

A rule combines the results of its atomic rules. As in the evaluator, a conjunction considers only this call; other
rules also consider whether their atomic rules held so far.

A rule asks for an earlier step if each call that violates it would be right after other steps: `refund` without an
earlier `login` is such a violation. A refund that is too large is not one, since no earlier step makes it smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from guardagent.policy.evaluation.history_index import ANY, AnyTool
from guardagent.policy.evaluation.operands import StateFunctionError, applied_function, read_as_json
from guardagent.policy.functions import RuleFunction, rule_functions
from guardagent.policy.language import ast
from guardagent.policy.language.printer import key_of
from guardagent.policy.language.values import Unknown
from guardagent.policy.logic.expressions import Expression, arithmetic, conditional, conj, disj, neg, same
from guardagent.policy.logic.expressions import greatest as greater
from guardagent.policy.logic.expressions import least as lesser
from guardagent.policy.logic.operations import Operations, number
from guardagent.policy.logic.values import (
    FALSE,
    TRANSLATIONS,
    TRUE,
    UNKNOWN,
    Leaf,
    ListValue,
    Range,
    ScalarValue,
    Value,
    all_known,
    conjunction,
    disjunction,
    ends_of,
    joined,
    known_truth,
    negation,
    of_leaf,
    only_if,
    truth,
    when_false,
    when_true,
)
from guardagent.policy.monitors.automaton import Automaton
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.monitors.rule import Rule, precondition
from guardagent.types import Functions

# --- terms and patterns


@dataclass(frozen=True, slots=True)
class SymbolicCall:
    """A call with symbolic arguments, output and outcome. `may_succeed`: it is in flight, and no outcome is assumed."""

    tool: Expression
    args: Value
    output: Value = UNKNOWN
    failed: Value = UNKNOWN
    time: Value = UNKNOWN
    may_succeed: bool = False

    @property
    def succeeded(self) -> Expression:
        return when_false(self.failed)


Calls = Sequence[tuple[Expression, SymbolicCall]]  # at most one guard holds
Bindings = Mapping[str, Any]  # a variable -> Value, a label -> Calls


class EvaluationContext(Protocol):
    """The facts, the state and the history for the evaluation of a rule."""

    def fact(self, path: Sequence[str]) -> Value: ...

    def principal(self) -> Value: ...

    def state(self) -> Value: ...

    def state_field(self, name: str) -> Value: ...

    def call_state(self, function: str, arguments: Sequence[Value]) -> Value: ...

    def sources(self, value: Value) -> Value: ...

    def seen(self, labels: Sequence[str]) -> Value: ...

    def text(self, role: str) -> Value: ...

    def counter(self, name: str, keys: Sequence[Value]) -> Value: ...

    def some(self, semantics: Semantics, node: ast.SomeCall, names: Bindings) -> Value: ...

    def count(self, semantics: Semantics, node: ast.CountCalls, names: Bindings) -> Value: ...

    def sum(self, semantics: Semantics, node: ast.SumCalls, names: Bindings) -> Value: ...

    def fold(self, semantics: Semantics, node: ast.CallFold, names: Bindings) -> Value: ...

    def pending(self, semantics: Semantics, node: ast.CallInFlight, names: Bindings) -> Value: ...

    def select(self, semantics: Semantics, node: ast.Selected, names: Bindings) -> Calls: ...

    def now(self) -> Value: ...

    def elapsed(self) -> Value: ...

    def zone(self) -> Value: ...


class Semantics:
    """Evaluates terms and patterns in a context.

    Args:
        operations: the operations on values.
        context: the facts, the state and the history.
        tags: the tools of each tag.
        functions: the functions of the toolbox.
    """

    def __init__(
        self,
        operations: Operations,
        context: EvaluationContext,
        tags: Mapping[str, frozenset[str]],
        functions: Functions,
    ) -> None:
        self.operations, self.context, self._tags, self._functions = operations, context, tags, functions

    # --- patterns

    def tools_of(self, pattern: ast.Pattern) -> frozenset[str]:
        if ANY in pattern.tools:
            return AnyTool()
        sets = (self._tags.get(name[1:], frozenset()) if name[0] == "@" else {name} for name in pattern.tools)
        return frozenset(tool for tools in sets for tool in tools)

    def match_proposed(self, pattern: ast.Pattern, call: SymbolicCall, names: Bindings) -> tuple[Value, Bindings]:
        """Matches a proposed call, and returns the condition and the bindings. A missing argument is unknown."""
        bindings = {**names, **({pattern.label: [(True, call)]} if pattern.label else {})}
        tools = self.tools_of(pattern)
        tool = True if isinstance(tools, AnyTool) else disj(*(same(call.tool, tool) for tool in tools))
        if tool is False:
            return FALSE, bindings
        tests = [
            self._fits(argument.value, self.operations.field(call.args, argument.name), bindings)
            for argument in pattern.arguments
        ]
        return conjunction([known_truth(tool), *tests]), bindings

    def match_past(self, pattern: ast.Pattern, call: SymbolicCall, names: Bindings) -> tuple[Value, Bindings]:
        """Matches a past call, which must have every argument of the pattern."""
        there = [self.operations.has_key(call.args, argument.name) for argument in pattern.arguments]
        has_all = conj(*map(when_true, there))
        if has_all is False:
            return FALSE, names
        matched, bindings = self.match_proposed(pattern, call, names)
        return conjunction([known_truth(has_all), matched]), bindings

    def match_condition(
        self,
        pattern: ast.Pattern,
        condition: ast.Term,
        call: SymbolicCall,
        names: Bindings,
        within: ast.Term | None = None,
    ) -> tuple[Value, Bindings]:
        """Matches a past call that must also satisfy a condition, and be in a time window."""
        matched, bindings = self.match_past(pattern, call, names)
        if when_false(matched) is True:
            return FALSE, bindings
        recent = [] if within is None else [self._in_window(within, call, names)]
        return conjunction([matched, self.value(condition, bindings), *recent]), bindings

    def _in_window(self, within: ast.Term, call: SymbolicCall, names: Bindings) -> Value:
        age = self.operations.arithmetic(self.context.now(), "-", call.time)
        window = self.value(within, names)
        valid = when_true(self.operations.compare(window, ">=", self.operations.constant(0)))
        return only_if(valid, self.operations.compare(age, "<=", window))

    def _fits(self, wanted: Any, value: Value, names: dict[str, Any]) -> Value:
        match wanted:
            case ast.AnyValue():
                return TRUE
            case ast.RegexValue(regex):
                return self.operations.matches(value, regex)
            case ast.ExactValue(literal):
                return self.operations.is_literal(value, literal)
        if wanted.name in names:
            return self.operations.equal(names[wanted.name], value)
        names[wanted.name] = value
        return TRUE

    # --- terms

    def value(self, node: ast.Term, names: Bindings) -> Value:
        """Evaluates a term."""
        return getattr(self, f"_{type(node).__name__.lower()}")(node, names)  # type: ignore[no-any-return]

    def _values(self, nodes: Iterable[ast.Term], names: Bindings) -> Iterator[Value]:
        return (self.value(node, names) for node in nodes)

    def _constant(self, node: ast.Constant, _: Bindings) -> Value:
        return self.operations.constant(node.value)

    def _variable(self, node: ast.Variable, names: Bindings) -> Value:
        return names[node.name]  # type: ignore[no-any-return]

    def _listof(self, node: ast.ListOf, names: Bindings) -> Value:
        items = tuple(self._values(node.items, names))
        return only_if(all_known(items), of_leaf(ListValue(items)))

    def _setof(self, node: ast.SetOf, names: Bindings) -> Value:
        return self.operations.set_of(list(self._values(node.items, names)))

    def _setoperation(self, node: ast.SetOperation, names: Bindings) -> Value:
        left, right = self._values((node.left, node.right), names)
        return self.operations.combine_sets(left, node.operator, right)

    def _apply(self, node: ast.Apply, names: Bindings) -> Value:
        regexes = tuple(argument for argument in node.arguments if isinstance(argument, ast.RegexValue))
        arguments = [
            self.value(argument, names) for argument in node.arguments if not isinstance(argument, ast.RegexValue)
        ]

        def function(*values: Any) -> Any:
            left = iter(values)
            written = [
                argument.regex if isinstance(argument, ast.RegexValue) else next(left) for argument in node.arguments
            ]
            try:
                return applied_function(node, self._functions)(written)
            except StateFunctionError as error:  # the session denies the call
                return Unknown(str(error))

        if node.function == "has" and type(key := self.operations.plain(arguments[1])) is str:
            return self.operations.has_key(arguments[0], key)
        known = rule_functions().get(node.function)
        if known is None:
            return self.operations.applied((node.function, regexes), function, arguments)
        result = self.operations.applied((node.function, regexes), function, arguments, _kind(known.result))
        if known.range is not None:
            self.operations.constrain(result, *known.range)
        result = only_if(_accepts(known, arguments), result)
        exact = node.function in TRANSLATIONS
        return self.operations.translated(node.function, arguments, result) if exact else result

    def _and(self, node: ast.And, names: Bindings) -> Value:
        return conjunction(self._values(node.parts, names))

    def _or(self, node: ast.Or, names: Bindings) -> Value:
        return disjunction(self._values(node.parts, names))

    def _negation(self, node: ast.Negation, names: Bindings) -> Value:
        return negation(self.value(node.body, names))

    def _implies(self, node: ast.Implies, names: Bindings) -> Value:
        return disjunction(self._values((ast.Negation(node.first), node.second), names))

    def _compare(self, node: ast.Compare, names: Bindings) -> Value:
        return self.operations.compare(self.value(node.left, names), node.operator, self.value(node.right, names))

    def _matches(self, node: ast.Matches, names: Bindings) -> Value:
        return self.operations.matches(self.value(node.body, names), node.regex)

    def _arithmetic(self, node: ast.Arithmetic, names: Bindings) -> Value:
        return self.operations.arithmetic(self.value(node.left, names), node.operator, self.value(node.right, names))

    def _negative(self, node: ast.Negative, names: Bindings) -> Value:
        return self.operations.arithmetic(self.operations.constant(0), "-", self.value(node.body, names))

    def _length(self, node: ast.Length, names: Bindings) -> Value:
        return self.operations.length(self.value(node.body, names))

    def _known(self, node: ast.Known, names: Bindings) -> Value:
        known = self.value(node.body, names).known
        readable = conj(*(self.operations.readable(self.value(text, names)) for text in read_as_json(node.body)))
        return known_truth(known) if True in (known, readable) else truth(known, conj(neg(known), readable))

    def _field(self, node: ast.Field, names: Bindings) -> Value:
        if isinstance(node.body, ast.State):
            return self.context.state_field(node.name)
        return self.operations.field(self.value(node.body, names), node.name)

    def _item(self, node: ast.Item, names: Bindings) -> Value:
        return self.operations.item(self.value(node.body, names), self.value(node.index, names))

    def _fact(self, node: ast.Fact, _: Bindings) -> Value:
        return self.context.fact(node.path)

    def _principal(self, _node: ast.Principal, _: Bindings) -> Value:
        return self.context.principal()

    def _state(self, _node: ast.State, _: Bindings) -> Value:
        return self.context.state()

    def _stateof(self, node: ast.StateOf, names: Bindings) -> Value:
        return self.context.call_state(node.function, list(self._values(node.arguments, names)))

    def _sources(self, node: ast.Sources, names: Bindings) -> Value:
        return self.context.sources(self.value(node.body, names))

    def _seen(self, node: ast.Seen, _: Bindings) -> Value:
        return self.context.seen(node.labels)

    def _messagestext(self, node: ast.MessagesText, _: Bindings) -> Value:
        return self.context.text(node.role)

    def _countervalue(self, node: ast.CounterValue, names: Bindings) -> Value:
        return self.context.counter(node.name, list(self._values(node.keys, names)))

    # --- calls

    def _ofcall(self, node: ast.OfCall, names: Bindings) -> Value:
        return joined((guard, _property(call, node.what)) for guard, call in self._calls(node.call, names))

    def _calls(self, node: ast.Label | ast.Selected, names: Bindings) -> Calls:
        return names[node.name] if isinstance(node, ast.Label) else self.context.select(self, node, names)

    def _timeof(self, node: ast.TimeOf, names: Bindings) -> Value:
        return joined((guard, call.time) for guard, call in self._calls(node.call, names))

    def _now(self, _node: ast.Now, _: Bindings) -> Value:
        return self.context.now()

    def _elapsed(self, _node: ast.Elapsed, _: Bindings) -> Value:
        return self.context.elapsed()

    def _zone(self, _node: ast.Zone, _: Bindings) -> Value:
        return self.context.zone()

    def _somecall(self, node: ast.SomeCall, names: Bindings) -> Value:
        return self.context.some(self, node, names)

    def _countcalls(self, node: ast.CountCalls, names: Bindings) -> Value:
        return self.context.count(self, node, names)

    def _sumcalls(self, node: ast.SumCalls, names: Bindings) -> Value:
        return self.context.sum(self, node, names)

    def _callfold(self, node: ast.CallFold, names: Bindings) -> Value:
        return self.context.fold(self, node, names)

    def _callinflight(self, node: ast.CallInFlight, names: Bindings) -> Value:
        return self.context.pending(self, node, names)

    # --- items

    def _overitems(self, node: ast.OverItems, names: Bindings) -> Value:
        items = self.value(node.items, names)
        return joined((guard, self._over(node, leaf, names)) for guard, leaf in items.cases if leaf.kind == "list")

    def _over(self, node: ast.OverItems, whole: Leaf, names: Bindings) -> Value:
        items = self.operations.items_of(whole)
        if items is None:
            return self._over_some(node, whole, names)
        truths = (self.value(node.condition, {**names, node.variable: item}) for item in items)
        match node.which:
            case "all":
                return conjunction(truths)
            case "any":
                return disjunction(truths)
        return count_true(list(truths))

    def _over_some(self, node: ast.OverItems, whole: Leaf, names: Bindings) -> Value:
        """Evaluates over a symbolic list: equal conditions give the same symbolic value."""
        symbols = self.operations.symbols
        key = node.which, whole, key_of(node.condition), node.variable, self.used_bindings(node.condition, names)
        if node.which == "count":
            return symbols.any_count(key)
        return symbols.any_truth(key)

    @staticmethod
    def used_bindings(node: object, names: Bindings) -> tuple[tuple[str, Any], ...]:
        """Returns the bindings that a term uses, which distinguish terms with the same text."""
        used = {node.name for node in ast.walk(node) if isinstance(node, ast.Variable | ast.Label)}
        return tuple(
            (name, value if isinstance(value, Value) else tuple(value))
            for name, value in sorted(names.items(), key=lambda binding: binding[0])
            if name in used
        )


def _property(call: SymbolicCall, what: str) -> Value:
    return of_leaf(ScalarValue("text", call.tool)) if what == "tool" else getattr(call, what)


def count_true(truths: Sequence[Value]) -> Value:
    """Counts the true values; the number has bounds if some are unknown."""
    return total_of([(truth, number(1)) for truth in truths])


def total_of(shares: Sequence[tuple[Value, Value]]) -> Value:
    """Adds the numbers whose conditions are true; the sum has bounds if some conditions or numbers are unknown."""
    least: Expression = 0
    most: Expression = 0
    known, bounded = [], []
    for condition, amount in shares:
        yes, no = when_true(condition), when_false(condition)
        cases = [(guard, leaf, ends) for guard, leaf in amount.cases if (ends := ends_of(leaf)) is not None]
        known.append(disj(no, conj(yes, *[disj(*(g for g, leaf, _ in cases if not isinstance(leaf, Range)))])))
        bounded.append(disj(no, *(guard for guard, _, _ in cases)))
        for guard, _, (low, high) in cases:
            sure, open_ = conj(guard, yes), conj(guard, neg(yes), neg(no))
            least = _plus(least, conditional(sure, low, conditional(open_, lesser(0, low), 0)))
            most = _plus(most, conditional(sure, high, conditional(open_, greater(0, high), 0)))
    exactly = conj(*known)
    return joined([(exactly, number(least)), (conj(neg(exactly), *bounded), of_leaf(Range(least, most)))])


def _plus(left: Expression, right: Expression) -> Expression:
    return arithmetic(left, "+", right)


def _accepts(function: RuleFunction, arguments: Sequence[Value]) -> Expression:
    """Whether all arguments have kinds that a function accepts. A regular expression follows them, if there is one."""
    accepted = [list(map(_kind, function.kinds(at))) for at in range(len(arguments))]
    return conj(
        *(
            disj(*(guard for guard, leaf in value.cases if not kinds or leaf.kind in kinds))
            for value, kinds in zip(arguments, accepted, strict=True)
        )
    )


def _kind(kind: str) -> str:
    return "truth" if kind == "truth value" else kind


# --- rules

Tree = int | tuple[str, tuple["Tree", ...]]  # the index of an atomic rule, or "all" or "any" of trees


@dataclass(frozen=True, slots=True)
class AtomicRule:
    """A rule without AND, OR and NOT; `negated` if it is under an odd number of NOTs."""

    rule: ast.Rule
    negated: bool

    @property
    def is_propositional(self) -> bool:
        return isinstance(self.rule, ast.Temporal)


class RuleTree:
    """The atomic rules of a rule, in the evaluator's order, and their combination."""

    def __init__(self, rules: Sequence[ast.Rule]) -> None:
        self.atomic_rules: list[AtomicRule] = []
        trees = tuple(self._tree(rule, negated=False) for rule in rules)
        self.tree: Tree = trees[0] if len(trees) == 1 else ("all", trees)
        self.is_conjunction = _is_conjunction(self.tree)

    def _tree(self, rule: ast.Rule, *, negated: bool) -> Tree:
        match rule:
            case ast.AllOf(parts) | ast.AnyOf(parts):
                every = isinstance(rule, ast.AllOf) is not negated
                return "all" if every else "any", tuple(self._tree(part, negated=negated) for part in parts)
            case ast.Not(body):
                return self._tree(body, negated=not negated)
        self.atomic_rules.append(AtomicRule(rule, negated))
        return len(self.atomic_rules) - 1

    def combine(self, values: Sequence[Value], so_far: Callable[[int], Value]) -> Value:
        """Combines results of the atomic rules to the result of the rule.

        Args:
            values: the results of the atomic rules for a call.
            so_far: returns whether an atomic rule held so far.
        """
        every = conjunction(values)
        if self.is_conjunction or when_true(every) is True:
            return every
        kept = [conjunction([so_far(at), value]) for at, value in enumerate(values)]
        tree_value = _value(self.tree, kept)
        fine = when_true(every)
        return truth(disj(fine, when_true(tree_value)), conj(neg(fine), when_false(tree_value)))


def _is_conjunction(tree: Tree) -> bool:
    return isinstance(tree, int) or (tree[0] == "all" and all(map(_is_conjunction, tree[1])))


def _value(tree: Tree, values: Sequence[Value]) -> Value:
    if isinstance(tree, int):
        return values[tree]
    kind, trees = tree
    return (conjunction if kind == "all" else disjunction)(_value(tree, values) for tree in trees)


# --- atomic rules


def judge_call(part: AtomicRule, call: SymbolicCall, semantics: Semantics) -> Value:
    """Judges a proposed call by an atomic data rule, with all outcomes known."""
    match part.rule, part.negated:
        case ast.Forall(pattern, condition), False:
            return _required(pattern, condition, call, semantics)
        case ast.Before(pattern, condition, partner, wanted), False:
            earlier = ast.SomeCall(partner, wanted, ok=True)
            return _required(pattern, ast.Implies(condition, earlier), call, semantics)
        case ast.Exists(pattern, condition), True:
            return _required(pattern, ast.Negation(condition), call, semantics)
        case ast.After(pattern, condition), False:
            return _known(creates_obligation(pattern, condition, call, semantics))
    return TRUE  # decided at the end


def _required(pattern: ast.Pattern, condition: ast.Term, call: SymbolicCall, semantics: Semantics) -> Value:
    matched, names = semantics.match_proposed(pattern, call, {})
    if when_false(matched) is True:
        return TRUE
    return disjunction([negation(matched), semantics.value(condition, names)])


def creates_obligation(pattern: ast.Pattern, condition: ast.Term, call: SymbolicCall, semantics: Semantics) -> Value:
    """Returns the condition under which a call requires a later one."""
    matched, names = semantics.match_proposed(pattern, call, {})
    if when_false(matched) is True:
        return matched
    return conjunction([matched, semantics.value(condition, names)])


def _known(value: Value) -> Value:
    """Returns true if a truth value is known, else unknown."""
    return truth(disj(when_true(value), when_false(value)), no=False)


def uses_known(part: AtomicRule) -> bool:
    """Whether an atomic rule uses `known`, so that more knowledge can change its result from true to false."""
    return any(isinstance(node, ast.Known) for node in ast.walk(part.rule))


def patterns_of(rules: Sequence[ast.Rule]) -> Iterator[ast.Pattern]:
    """Yields all patterns of data rules."""
    for rule in rules:
        for part in RuleTree([rule]).atomic_rules:
            if not part.is_propositional:
                yield from (node for node in ast.walk(part.rule) if isinstance(node, ast.Pattern))


# --- earlier steps

Need = Literal["earlier step", "later step", "other"]


def needs_earlier_step(rule: Rule) -> bool:
    """Whether every violation at a call is a missing earlier step; violations at the end do not count."""
    parts = RuleTree(rule.rules).atomic_rules
    needs = {_need(part, monitor) for part, monitor in zip(parts, rule.monitors, strict=True)}
    return "earlier step" in needs and "other" not in needs


def _need(part: AtomicRule, monitor: object) -> Need:
    if isinstance(monitor, PropositionalMonitor):
        return _need_of(monitor.automaton)
    match part.rule, part.negated:
        case ast.Before(_, condition, partner, wanted), False:
            return "earlier step" if _is_earlier_call(precondition(condition, partner, wanted)) else "other"
        case ast.Forall(_, condition), False:
            return "earlier step" if _is_earlier_call(condition) else "other"
        case (ast.Exists() | ast.After(), False) | (ast.Before() | ast.Forall(), True):
            return "later step"
    return "other"


def _is_earlier_call(condition: ast.Term) -> bool:
    match condition:
        case ast.SomeCall():
            return True
        case ast.Implies(_, second):
            return _is_earlier_call(second)
        case ast.And(parts):
            return all(map(_is_earlier_call, parts))
    return False


def _need_of(automaton: Automaton) -> Need:
    """The need of an automaton. Steps that the rule does not name neither violate it nor suffice."""
    rows, violated = automaton.table, automaton.violated
    live = {state for state in range(len(rows)) if not violated[state]}
    breaking = [{state for state in live if violated[rows[state][letter]]} for letter in range(len(rows[0]))]
    if not any(breaking):
        return "later step"
    every = {state: live.intersection(rows[state]) for state in live}
    unnamed = {state: live.intersection(rows[state][:2]) for state in live}  # the letters 0 and 1 satisfy no atom
    for states in {frozenset(state_set) for state_set in breaking if state_set}:
        right = live - states
        if states - _reaching(right, every) or states & _reaching(right, unnamed):
            return "other"
    return "other" if any(breaking[:2]) else "earlier step"


def _reaching(targets: Iterable[int], steps: Mapping[int, AbstractSet[int]]) -> set[int]:
    """The states from which steps lead to a target, and the targets."""
    reaching = set(targets)
    while more := {state for state, following in steps.items() if state not in reaching and following & reaching}:
        reaching |= more
    return reaching
