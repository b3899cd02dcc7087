"""The operations of the language on symbolic values, with the semantics of `policy/language/values.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, Final, TypeGuard

from guardagent.policy.evaluation.operands import folded_name, regex_test
from guardagent.policy.functions import JSON
from guardagent.policy.language.values import (
    StringSet,
    Unknown,
    as_read,
    combine_sets,
    exact,
    kind_of,
    parsed,
    set_bounds_of,
    set_of,
    unreadable,
)
from guardagent.policy.logic import expressions as ex
from guardagent.policy.logic.expressions import Expression, ExpressionNode, conj, neg, same
from guardagent.policy.logic.values import (
    FALSE,
    KINDS,
    NO_ORIGIN,
    TRANSLATIONS,
    UNKNOWN,
    Concrete,
    Leaf,
    ListValue,
    MappingValue,
    Opaque,
    PartialSet,
    Range,
    ScalarValue,
    SymbolicList,
    SymbolicMapping,
    SymbolicSet,
    Symbols,
    Value,
    all_known,
    computed_range,
    conjunction,
    disjunction,
    is_ranged,
    joined,
    known_truth,
    negation,
    of_leaf,
    only_if,
    range_is_less,
    truth,
    when_true,
)
from guardagent.types import thaw

UNDECIDED: Final = object()  # the concrete value of a symbolic one
_SORTS = {"text": "text", "number": "number", "truth value": "truth"}


class ExpressionLimitError(Exception):
    """The expression of a rule is too large."""


class Operations:
    """The operations of the language on symbolic values.

    Args:
        symbols: creates symbolic values.
        evaluate: evaluates an expression without variables; if given, no constant is folded.
        most_pairs: the number of pairs of cases that all operations together may combine.
    """

    def __init__(
        self, symbols: Symbols, evaluate: Callable[[ExpressionNode], Any] | None = None, *, most_pairs: float = math.inf
    ) -> None:
        self.symbols = symbols
        self._evaluate = evaluate
        self._pairs_left = most_pairs

    def _pairs(self, left: Value, right: Value, result: Callable[[Leaf, Leaf], Value]) -> Value:
        """Applies a function to each pair of cases.

        Raises:
            ExpressionLimitError: there are too many.
        """
        self._pairs_left -= len(left.cases) * len(right.cases)
        if self._pairs_left < 0:
            raise ExpressionLimitError
        pairs = []
        for first, case in left.cases:
            for second, other in right.cases:
                both = conj(first, second)
                if both is not False:
                    pairs.append((both, result(case, other)))
        return joined(pairs)

    # --- concrete values

    def constant(self, value: Any) -> Value:
        """Returns a concrete value. Null is unknown."""
        return UNKNOWN if value is None else of_leaf(self._leaf(value))

    def _leaf(self, value: Any) -> Leaf:
        value = as_read(value)
        kind = kind_of(value)
        if kind in ("list", "mapping", "set"):
            return Concrete(kind, value)  # type: ignore[arg-type]
        if kind is None:
            return Opaque(value)
        content: Any = exact(value) if kind == "number" else str(value) if kind == "text" else bool(value)
        if type(content) is Unknown:
            return Opaque(value)
        sort: Any = _SORTS[kind]
        return ScalarValue(sort, content if self._evaluate is None else ex.fixed(sort, content), value)

    def plain(self, value: Value) -> Any:
        """Returns the concrete value, `Unknown`, or UNDECIDED if it depends on a variable."""
        for guard, leaf in value.cases:
            holds = self._closed(guard)
            if holds is UNDECIDED:
                return UNDECIDED
            if holds:
                return Unknown() if isinstance(leaf, Range) else self._plain(leaf)
        return Unknown()

    def _closed(self, expression: Expression) -> Any:
        if not isinstance(expression, ExpressionNode):
            return expression
        if expression.is_open:
            return UNDECIDED
        if expression.name == "fixed":
            return expression.parts[0]
        return UNDECIDED if self._evaluate is None else self._evaluate(expression)

    def _plain(self, leaf: Leaf) -> Any:
        match leaf:
            case ScalarValue():
                return self._closed(leaf.payload) if leaf.origin is NO_ORIGIN else leaf.origin
            case Concrete(content=content) | Opaque(content=content):
                return thaw(content)
            case PartialSet(least, most):
                return Unknown(bounds=(StringSet(least), StringSet(most)))
            case ListValue(items):
                parts = [self.plain(item) for item in items]
                return UNDECIDED if any(part is UNDECIDED for part in parts) else [_null(part) for part in parts]
            case MappingValue(items):
                named = {name: self.plain(item) for name, item in items}
                return (
                    UNDECIDED
                    if any(part is UNDECIDED for part in named.values())
                    else {k: _null(v) for k, v in named.items()}
                )
        return UNDECIDED

    def items_of(self, leaf: Leaf) -> Sequence[Value] | None:
        """Returns the items of a list, or None if they are not known."""
        if isinstance(leaf, Concrete):
            return [self.constant(part) for part in leaf.content]
        return leaf.items if isinstance(leaf, ListValue) else None

    def fields_of(self, leaf: Leaf) -> dict[str, Value] | None:
        """Returns the keys and values of a mapping, or None if it may have more."""
        if isinstance(leaf, Concrete):
            return {name: self.constant(part) for name, part in leaf.content.items()}
        return dict(leaf.items) if isinstance(leaf, MappingValue) else None

    # --- comparisons

    def compare(self, left: Value, sign: str, right: Value) -> Value:
        match sign:
            case "==":
                return self.equal(left, right)
            case "!=":
                return negation(self.equal(left, right))
            case "in":
                return self.contains(left, right)
            case "<":
                return self._pairs(left, right, self._less)
            case ">":
                return self._pairs(right, left, self._less)
            case "<=":
                return self._pairs(left, right, self._at_most)
        return self._pairs(right, left, self._at_most)

    def _less(self, left: Leaf, right: Leaf) -> Value:
        if left.kind == right.kind == "set":
            return conjunction([self._subset(left, right), negation(self._subset(right, left))])
        return range_is_less(left, right) if is_ranged(left, right) else _less(left, right)

    def _at_most(self, left: Leaf, right: Leaf) -> Value:
        return self._subset(left, right) if left.kind == right.kind == "set" else negation(self._less(right, left))

    def _subset(self, left: Leaf, right: Leaf) -> Value:
        first, second = _bounds(left), _bounds(right)
        if first is not None and second is not None:
            return truth(first[1] <= second[0], not first[0] <= second[1])
        if isinstance(left, Concrete):
            return conjunction(self._contains(self.constant(item), right) for item in sorted(left.content))
        return known_truth(self.symbols.truth(("subset", left, right)))

    def equal(self, left: Value, right: Value) -> Value:
        return self._pairs(left, right, self._equal)

    def _equal(self, left: Leaf, right: Leaf) -> Value:
        if is_ranged(left, right):
            apart = disjunction([range_is_less(left, right), range_is_less(right, left)])
            return truth(False, when_true(apart))  # noqa: FBT003
        if left.kind != right.kind or left.kind == "opaque":
            return UNKNOWN
        if isinstance(left, ScalarValue) and isinstance(right, ScalarValue):
            return known_truth(same(left.payload, right.payload))
        if left.kind == "set":
            return conjunction([self._subset(left, right), self._subset(right, left)])
        return self._equal_lists(left, right) if left.kind == "list" else self._equal_mappings(left, right)

    def _equal_lists(self, left: Leaf, right: Leaf) -> Value:
        first, second = self.items_of(left), self.items_of(right)
        if first is None or second is None:
            return self.symbols.any_truth(("equal", frozenset((left, right))))
        return FALSE if len(first) != len(second) else conjunction(map(self.equal, first, second))

    def _equal_mappings(self, left: Leaf, right: Leaf) -> Value:
        first, second = self.fields_of(left), self.fields_of(right)
        if first is None or second is None:
            return self.symbols.any_truth(("equal", frozenset((left, right))))
        return FALSE if first.keys() != second.keys() else conjunction(self.equal(first[k], second[k]) for k in first)

    def contains(self, item: Value, whole: Value) -> Value:
        return joined((guard, self._contains(item, leaf)) for guard, leaf in whole.cases)

    def _contains(self, item: Value, whole: Leaf) -> Value:
        if whole.kind == "list":
            items = self.items_of(whole)
            if items is None:
                return self.symbols.any_truth(("in", item, whole))
            return only_if(_is_searchable(items), disjunction(self.equal(item, member) for member in items))
        texts = [(guard, leaf) for guard, leaf in item.cases if isinstance(leaf, ScalarValue) and leaf.kind == "text"]
        if isinstance(whole, ScalarValue) and whole.kind == "text":
            return joined((guard, known_truth(ex.is_substring(leaf.payload, whole.payload))) for guard, leaf in texts)
        if whole.kind == "set":
            return joined((guard, self._in_set(leaf.payload, whole)) for guard, leaf in texts)
        return UNKNOWN

    def _in_set(self, item: Expression, whole: Leaf) -> Value:
        bounds = _bounds(whole)
        if bounds is None:
            return known_truth(self.symbols.truth(("in", item, whole)))
        has, can_have = (ex.disj(*(same(item, member) for member in sorted(some))) for some in bounds)
        return truth(has, neg(can_have))

    # --- sets and functions

    def set_of(self, items: Sequence[Value]) -> Value:
        members = [self.plain(item) for item in items]
        if any(member is UNDECIDED for member in members):
            return self.symbols.any_value(("set", tuple(items)), kinds=("set",))
        return self.set_value(set_of(members))

    def set_value(self, members: Any) -> Value:
        """Returns a concrete set, which can be unknown in part."""
        bounds = set_bounds_of(members)
        if bounds is None:
            return UNKNOWN
        return of_leaf(Concrete("set", members) if type(members) is not Unknown else PartialSet(*bounds))

    def combine_sets(self, left: Value, operator: str, right: Value) -> Value:
        first, second = self.plain(left), self.plain(right)
        if first is not UNDECIDED and second is not UNDECIDED:
            return self.set_value(combine_sets(first, operator, second))
        return self.applied(
            ("set", operator), lambda first_set, other: combine_sets(first_set, operator, other), [left, right]
        )

    def applied(self, key: Hashable, function: Callable[..., Any], arguments: Sequence[Value], kind: str = "") -> Value:
        """Returns the result of a function on concrete values, and an arbitrary one for symbolic values.

        Equal arguments give the same value. `kind`: the kind of the result, if it is always the same.
        """
        plain_arguments = [self.plain(argument) for argument in arguments]
        if any(type(plain_argument) is Unknown for plain_argument in plain_arguments):
            return UNKNOWN
        if any(plain_argument is UNDECIDED for plain_argument in plain_arguments):
            kinds = (kind,) if kind else (*KINDS, "set")
            result = self.symbols.any_value(("apply", key, tuple(arguments)), kinds=kinds)
            return only_if(all_known(arguments), result)
        result = function(*plain_arguments)
        return UNKNOWN if type(result) is Unknown else self.constant(result)

    def constrain(self, value: Value, least: int, most: int) -> None:
        """States that a symbolic number is in a range."""
        for guard, leaf in value.cases:
            if isinstance(leaf, ScalarValue) and isinstance(leaf.payload, ExpressionNode) and leaf.kind == "number":
                outside = ex.disj(ex.less(leaf.payload, least), ex.less(most, leaf.payload))
                self.symbols.axioms.append(neg(conj(guard, outside)))

    def translated(self, name: str, arguments: Sequence[Value], otherwise: Value) -> Value:
        """Returns the exact result of a function where its arguments have the kind of its translation."""
        kind, translation = TRANSLATIONS[name]
        payloads = [
            [(guard, leaf.payload) for guard, leaf in argument.cases if _is_scalar(leaf, kind)]
            for argument in arguments
        ]
        exactly = conj(*(ex.disj(*(guard for guard, _ in cases)) for cases in payloads))
        cases = [
            (conj(*(guard for guard, _ in combination)), [p for _, p in combination])
            for combination in product(*payloads)
        ]
        translations = [(guard, translation(values)) for guard, values in cases]
        return joined([*translations, (neg(exactly), otherwise)])

    def has_key(self, mapping: Value, key: str) -> Value:
        """Returns whether a mapping has a key; a string is parsed as JSON."""
        return joined((guard, self._has(leaf, key)) for guard, leaf in mapping.cases if leaf.kind in JSON)

    def _has(self, whole: Leaf, key: str) -> Value:
        if isinstance(whole, ScalarValue):
            return self._has_in_json(whole, key)
        if isinstance(whole, Concrete):
            return known_truth(key in whole.content)
        if isinstance(whole, MappingValue):
            return known_truth(key in dict(whole.items))
        assert isinstance(whole, SymbolicMapping)
        if key in dict(whole.items):
            return known_truth(truth=True)
        if whole.names is not None and key not in whole.names:
            return FALSE
        there = self.symbols.truth(("has", whole.key, key))
        self.symbols.axioms.append(ex.implies(self.field(of_leaf(whole), key).known, there))
        return known_truth(there)

    def _has_in_json(self, text: ScalarValue, key: str) -> Value:
        content = self._closed(text.payload)
        if content is not UNDECIDED:
            value = parsed(content)
            return self.has_key(self.constant(value), key) if kind_of(value) == "mapping" else UNKNOWN
        is_mapping, there = (self.symbols.truth((what, text.payload)) for what in ("json mapping", ("json has", key)))
        readable = conj(is_mapping, self._is_exact(text.payload))
        known = self.field(of_leaf(text), key).known
        self.symbols.axioms.append(ex.implies(known, conj(readable, there)))
        return only_if(readable, known_truth(there))

    def readable(self, value: Value) -> Expression:
        """Whether a value is no string that readers of JSON can see differently."""
        texts = ((guard, leaf) for guard, leaf in value.cases if _is_scalar(leaf, "text"))
        return conj(*(ex.implies(guard, self._is_exact(leaf.payload)) for guard, leaf in texts))

    def _is_exact(self, text: Expression) -> Expression:
        content = self._closed(text)
        return self.symbols.truth(("exact json", text)) if content is UNDECIDED else unreadable(content) is None

    # --- numbers

    def arithmetic(self, left: Value, sign: str, right: Value) -> Value:
        def result(first: Leaf, second: Leaf) -> Value:
            if is_ranged(first, second):
                return computed_range(first, sign, second)
            if not (isinstance(first, ScalarValue) and isinstance(second, ScalarValue)):
                return UNKNOWN
            return _computed(first, sign, second)

        return self._pairs(left, right, result)

    def length(self, value: Value) -> Value:
        return joined((guard, self._length(leaf)) for guard, leaf in value.cases)

    def _length(self, leaf: Leaf) -> Value:
        match leaf:
            case ScalarValue("text", payload):
                return number(ex.size(payload))
            case Concrete(content=content):
                return self.constant(len(content))
            case ListValue(items) | MappingValue(items):
                return self.constant(len(items))
            case SymbolicList(key) | SymbolicMapping(key) | SymbolicSet(key):
                return number(self.symbols.size(key))
        return UNKNOWN

    # --- fields and items

    def field(self, value: Value, name: str) -> Value:
        return joined((guard, self._field(leaf, name)) for guard, leaf in value.cases)

    def _field(self, leaf: Leaf, name: str) -> Value:
        match leaf:
            case ScalarValue("text", payload):
                return self._in_json(payload, lambda whole: self.field(whole, name), ("field", name))
            case Concrete("mapping", content):
                return self.constant(content.get(name))
            case MappingValue(items):
                return dict(items).get(name, UNKNOWN)
            case SymbolicMapping(key, items, names):
                if names is not None and name not in names:
                    return UNKNOWN
                return dict(items).get(name) or self.symbols.content(key, name)
        return UNKNOWN

    def _in_json(self, text: Expression, look: Callable[[Value], Value], what: Any) -> Value:
        """Applies an access to a string's JSON content."""
        content = self._closed(text)
        if content is UNDECIDED:
            value = self.symbols.any_value(("json", text, what))
            self.symbols.axioms.append(ex.implies(value.known, self._is_exact(text)))
            return value
        value = parsed(content)
        return UNKNOWN if type(value) is Unknown else look(self.constant(value))

    def item(self, value: Value, index: Value) -> Value:
        def item_at(whole: Leaf, at: Leaf) -> Value:
            if not isinstance(at, ScalarValue):
                return UNKNOWN
            if isinstance(whole, ScalarValue) and whole.kind == "text":
                return self._in_json(whole.payload, lambda read: self.item(read, of_leaf(at)), ("item", at))
            return self._item(whole, at)

        return self._pairs(value, index, item_at)

    def _item(self, whole: Leaf, at: ScalarValue) -> Value:
        if whole.kind == "mapping" and at.kind == "text":
            return self._item_of_mapping(whole, at.payload)
        if whole.kind != "list" or at.kind != "number":
            return UNKNOWN
        items = self.items_of(whole)
        if items is not None and not isinstance(at.payload, ExpressionNode):
            place = int(at.payload)
            return items[place] if place == at.payload and -len(items) <= place < len(items) else UNKNOWN
        if items is not None:
            places = [(place, item) for n, item in enumerate(items) for place in (n, n - len(items))]
            return joined((same(at.payload, place), item) for place, item in places)
        assert isinstance(whole, SymbolicList)
        if not isinstance(at.payload, ExpressionNode) and Fraction(at.payload).denominator != 1:
            return UNKNOWN
        there = self.symbols.has_index(whole.key, at.payload)
        return only_if(there, self.symbols.content(whole.key, at.payload))

    def _item_of_mapping(self, whole: Leaf, key: Expression) -> Value:
        if not isinstance(key, ExpressionNode):
            return self._field(whole, key)
        fields = self.fields_of(whole)
        if fields is None:
            return self.symbols.any_value((whole, key))
        return joined((same(key, name), item) for name, item in fields.items() if isinstance(name, str))

    # --- patterns

    def matches(self, value: Value, regex: str) -> Value:
        return joined((guard, self._matches(leaf, regex)) for guard, leaf in value.cases)

    @staticmethod
    def _matches(leaf: Leaf, regex: str) -> Value:
        if not isinstance(leaf, ScalarValue) or leaf.kind != "text":
            return UNKNOWN
        if isinstance(leaf.payload, ExpressionNode):
            return known_truth(ex.full_match(leaf.payload, regex))
        test = regex_test(regex)(leaf.payload)
        return UNKNOWN if type(test) is Unknown else known_truth(test)

    def is_literal(self, value: Value, literal: Any) -> Value:
        """Whether a value equals a pattern's literal; unknown if they differ in case or surrounding space only."""
        if not isinstance(literal, str):
            return self.equal(value, self.constant(literal))
        return joined((guard, _literal_match(leaf, literal)) for guard, leaf in value.cases)


def _bounds(leaf: Leaf) -> tuple[frozenset[str], frozenset[str]] | None:
    """Returns the items that a set has, and those that it can have; None if they depend on a variable."""
    if isinstance(leaf, Concrete):
        return leaf.content, leaf.content
    return (leaf.least, leaf.most) if isinstance(leaf, PartialSet) else None


def number(payload: Expression) -> Value:
    return of_leaf(ScalarValue("number", payload))


def _is_scalar(leaf: Leaf, kind: str) -> TypeGuard[ScalarValue]:
    return isinstance(leaf, ScalarValue) and leaf.kind == kind


def _null(value: Any) -> Any:
    return None if type(value) is Unknown else value


def _is_searchable(items: Sequence[Value]) -> Expression:
    """Whether all items are scalars of one kind, or lists, apart from nulls."""
    return ex.disj(
        *(conj(*(_is_of_kind(item, kind) for item in items)) for kind in ("text", "number", "truth", "list"))
    )


def _is_of_kind(item: Value, kind: str) -> Expression:
    others = (guard for guard, leaf in item.cases if _kind_in_list(leaf) != kind)
    return neg(ex.disj(*others))


def _kind_in_list(leaf: Leaf) -> str:
    """The kind of a leaf; NaN is a number."""
    return "number" if isinstance(leaf, Opaque) and kind_of(leaf.content) == "number" else leaf.kind


def _less(left: Leaf, right: Leaf) -> Value:
    if (
        left.kind != right.kind
        or not isinstance(left, ScalarValue)
        or not isinstance(right, ScalarValue)
        or left.kind == "truth"
    ):
        return UNKNOWN
    return known_truth(ex.less(left.payload, right.payload))


def _computed(left: ScalarValue, sign: str, right: ScalarValue) -> Value:
    if left.kind == right.kind == "text" and sign == "+":
        return of_leaf(ScalarValue("text", ex.concatenation(left.payload, right.payload)))
    if left.kind != "number" or right.kind != "number":
        return UNKNOWN
    possible = neg(same(right.payload, 0)) if sign in "/%" else True
    if possible is False:
        return UNKNOWN
    return only_if(possible, number(ex.arithmetic(left.payload, sign, right.payload)))


def _literal_match(leaf: Leaf, literal: str) -> Value:
    if not isinstance(leaf, ScalarValue) or leaf.kind != "text":
        return UNKNOWN
    yes, folded = same(leaf.payload, literal), folded_name(literal)
    if isinstance(leaf.payload, ExpressionNode):
        return truth(yes, neg(ex.equal_folded(leaf.payload, folded)))
    return truth(yes, folded_name(leaf.payload) != folded)
