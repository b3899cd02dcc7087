"""What the terms and patterns of a rule mean, read straight from their syntax."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from guardagent.policy.language import ast
from guardagent.policy.language.printing import text_of
from guardagent.policy.logic.expressions import Expression, chosen, conj, disj, same
from guardagent.policy.logic.operations import Operations, number
from guardagent.policy.logic.values import (
    FALSE,
    TRUE,
    UNKNOWN,
    Leaf,
    Listed,
    Value,
    all_known,
    conjunction,
    decided,
    disjunction,
    inverse,
    joined,
    of_leaf,
    only_if,
    truth,
    when_false,
    when_true,
)


@dataclass(frozen=True, slots=True)
class Called:
    """A call, as the terms of a rule see it. `went_well`: whether it is known to."""

    tool: Expression
    args: Value
    output: Value = UNKNOWN
    failed: Value = UNKNOWN

    @property
    def went_well(self) -> Expression:
        return when_false(self.failed)


Calls = Sequence[tuple[Expression, Called]]  # of which at most one holds
Names = Mapping[str, Any]  # a variable -> Value, a label -> Calls


class Moment(Protocol):
    """When a rule is asked: the facts, the state and the history."""

    def fact(self, path: Sequence[str]) -> Value: ...

    def state(self) -> Value: ...

    def in_state(self, name: str) -> Value: ...

    def ask(self, function: str, arguments: Sequence[Value]) -> Value: ...

    def some(self, meaning: Meaning, node: ast.SomeCall, names: Names) -> Value: ...

    def count(self, meaning: Meaning, node: ast.CountCalls, names: Names) -> Value: ...

    def sum(self, meaning: Meaning, node: ast.SumCalls, names: Names) -> Value: ...

    def select(self, meaning: Meaning, node: ast.Selected, names: Names) -> Calls: ...


class Meaning:
    """Gives the values of terms at one moment.

    Args:
        operations: what is done with values.
        moment: when.
        tags: the sets of tools, by name.
    """

    def __init__(self, operations: Operations, moment: Moment, tags: Mapping[str, frozenset[str]]) -> None:
        self.operations, self.moment, self._tags = operations, moment, tags

    # --- patterns

    def tools_of(self, pattern: ast.Pattern) -> frozenset[str]:
        sets = (self._tags.get(name[1:], frozenset()) if name[0] == "@" else {name} for name in pattern.tools)
        return frozenset(tool for tools in sets for tool in tools)

    def proposed(self, pattern: ast.Pattern, call: Called, names: Names) -> tuple[Value, Names]:
        """Whether a proposed call matches, and the names with those that it binds. What it lacks is unknown."""
        found = {**names, **({pattern.label: [(True, call)]} if pattern.label else {})}
        tool = disj(*(same(call.tool, one) for one in self.tools_of(pattern)))
        if tool is False:
            return FALSE, found
        tests = [self._fits(one.value, self.operations.field(call.args, one.name), found) for one in pattern.arguments]
        return conjunction([decided(tool), *tests]), found

    def past(self, pattern: ast.Pattern, call: Called, names: Names) -> tuple[Value, Names]:
        """The same of a past call. It has to have every argument."""
        there = [self.operations.contains(self.operations.given(one.name), call.args) for one in pattern.arguments]
        has_all = conj(*map(when_true, there))
        if has_all is False:
            return FALSE, names
        matched, found = self.proposed(pattern, call, names)
        return conjunction([decided(has_all), matched]), found

    def meets(self, pattern: ast.Pattern, condition: ast.Term, call: Called, names: Names) -> tuple[Value, Names]:
        """Whether a past call matches and satisfies a condition."""
        matched, found = self.past(pattern, call, names)
        if when_false(matched) is True:
            return FALSE, found
        return conjunction([matched, self.value(condition, found)]), found

    def _fits(self, wanted: Any, value: Value, names: dict[str, Any]) -> Value:
        match wanted:
            case ast.Anything():
                return TRUE
            case ast.Matching(regex):
                return self.operations.matches(value, regex)
            case ast.Exactly(literal):
                return self.operations.is_literal(value, literal)
        if wanted.name in names:
            return self.operations.equal(names[wanted.name], value)
        names[wanted.name] = value
        return TRUE

    # --- terms

    def value(self, node: ast.Term, names: Names) -> Value:
        """The value of a term."""
        return getattr(self, f"_{type(node).__name__.lower()}")(node, names)  # type: ignore[no-any-return]

    def _values(self, nodes: Iterable[ast.Term], names: Names) -> Iterator[Value]:
        return (self.value(node, names) for node in nodes)

    def _constant(self, node: ast.Constant, _: Names) -> Value:
        return self.operations.given(node.value)

    def _variable(self, node: ast.Variable, names: Names) -> Value:
        return names[node.name]  # type: ignore[no-any-return]

    def _listof(self, node: ast.ListOf, names: Names) -> Value:
        items = tuple(self._values(node.items, names))
        return only_if(all_known(items), of_leaf(Listed(items)))

    def _and(self, node: ast.And, names: Names) -> Value:
        return conjunction(self._values(node.parts, names))

    def _or(self, node: ast.Or, names: Names) -> Value:
        return disjunction(self._values(node.parts, names))

    def _inverted(self, node: ast.Inverted, names: Names) -> Value:
        return inverse(self.value(node.body, names))

    def _implies(self, node: ast.Implies, names: Names) -> Value:
        return disjunction(self._values((ast.Inverted(node.first), node.second), names))

    def _compared(self, node: ast.Compared, names: Names) -> Value:
        return self.operations.compare(self.value(node.left, names), node.operator, self.value(node.right, names))

    def _matches(self, node: ast.Matches, names: Names) -> Value:
        return self.operations.matches(self.value(node.body, names), node.regex)

    def _arithmetic(self, node: ast.Arithmetic, names: Names) -> Value:
        return self.operations.arithmetic(self.value(node.left, names), node.operator, self.value(node.right, names))

    def _negative(self, node: ast.Negative, names: Names) -> Value:
        return self.operations.arithmetic(self.operations.given(0), "-", self.value(node.body, names))

    def _length(self, node: ast.Length, names: Names) -> Value:
        return self.operations.length(self.value(node.body, names))

    def _known(self, node: ast.Known, names: Names) -> Value:
        return decided(self.value(node.body, names).known)

    def _field(self, node: ast.Field, names: Names) -> Value:
        if isinstance(node.body, ast.State):
            return self.moment.in_state(node.name)
        return self.operations.field(self.value(node.body, names), node.name)

    def _item(self, node: ast.Item, names: Names) -> Value:
        return self.operations.item(self.value(node.body, names), self.value(node.index, names))

    def _fact(self, node: ast.Fact, _: Names) -> Value:
        return self.moment.fact(node.path)

    def _state(self, _node: ast.State, _: Names) -> Value:
        return self.moment.state()

    def _stateof(self, node: ast.StateOf, names: Names) -> Value:
        return self.moment.ask(node.function, list(self._values(node.arguments, names)))

    # --- calls

    def _ofcall(self, node: ast.OfCall, names: Names) -> Value:
        label = node.call
        calls: Calls = names[label.name] if isinstance(label, ast.Label) else self.moment.select(self, label, names)
        return joined((guard, getattr(call, node.what)) for guard, call in calls)

    def _somecall(self, node: ast.SomeCall, names: Names) -> Value:
        return self.moment.some(self, node, names)

    def _countcalls(self, node: ast.CountCalls, names: Names) -> Value:
        return self.moment.count(self, node, names)

    def _sumcalls(self, node: ast.SumCalls, names: Names) -> Value:
        return self.moment.sum(self, node, names)

    # --- items

    def _overitems(self, node: ast.OverItems, names: Names) -> Value:
        items = self.value(node.items, names)
        return joined((guard, self._over(node, leaf, names)) for guard, leaf in items.cases if leaf.kind == "list")

    def _over(self, node: ast.OverItems, whole: Leaf, names: Names) -> Value:
        items = self.operations.items_of(whole)
        if items is None:
            return self._over_some(node, whole, names)
        truths = (self.value(node.condition, {**names, node.variable: item}) for item in items)
        match node.which:
            case "all":
                return conjunction(truths)
            case "any":
                return disjunction(truths)
        return tally(list(truths))

    def _over_some(self, node: ast.OverItems, whole: Leaf, names: Names) -> Value:
        """Of a list of which nothing is known: the same of the same condition."""
        symbols = self.operations.symbols
        key = node.which, whole, text_of(node.condition), node.variable, self.used(node.condition, names)
        if node.which == "count":
            return only_if(symbols.truth((key, "known")), number(symbols.size(key)))
        return symbols.any_truth(key)

    @staticmethod
    def used(node: object, names: Names) -> tuple[tuple[str, Any], ...]:
        """The names that a term uses, with their values: what makes it another one with the same text."""
        used = {one.name for one in ast.walk(node) if isinstance(one, ast.Variable | ast.Label)}
        return tuple(
            (name, value if isinstance(value, Value) else tuple(value))
            for name, value in sorted(names.items(), key=lambda one: one[0])
            if name in used
        )


def tally(truths: Sequence[Value]) -> Value:
    """In how many cases it is so."""
    total: Expression = 0
    for one in truths:
        total = plus(total, chosen(when_true(one), 1, 0))
    return only_if(all_known([truth(when_true(one), when_false(one)) for one in truths]), number(total))


def plus(left: Expression, right: Expression) -> Expression:
    from guardagent.policy.logic.expressions import computed

    return computed(left, "+", right)
