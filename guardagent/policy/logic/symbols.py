"""Creates symbolic values: each has a key, and equal keys mean the same value."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final

from guardagent.policy.logic.expressions import Expression, ExpressionNode, conj, less, neg, variable, whole_variable
from guardagent.policy.logic.values import (
    Leaf,
    Range,
    ScalarValue,
    SymbolicList,
    SymbolicMapping,
    SymbolicSet,
    Value,
    truth,
)

KINDS: Final = ("number", "text", "truth", "list", "mapping")


class Symbols:
    """Creates symbolic values.

    Attributes:
        axioms: constraints that always hold.
        descriptions: the values that examples show, by description.
        contents: the accessed contents of symbolic lists and mappings, by key.
    """

    def __init__(self) -> None:
        self.axioms: list[Expression] = []
        self.descriptions: dict[str, Value] = {}
        self.contents: dict[Hashable, dict[Any, Value]] = {}
        self._known: dict[Any, Any] = {}
        self._fresh = 0

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns the object created for a key, creating it on first use."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def name(self, letter: str) -> str:
        self._fresh += 1
        return f"{letter}{self._fresh}"

    def truth(self, key: Hashable) -> ExpressionNode:
        """Returns a truth value that is known."""
        return self.once(("truth", key), lambda: variable("truth", self.name("b")))  # type: ignore[no-any-return]

    def any_truth(self, key: Hashable) -> Value:
        """Returns a truth value that may be unknown."""
        return truth(conj(known := self.truth((key, "known")), it := self.truth(key)), conj(known, neg(it)))

    def size(self, key: Hashable) -> ExpressionNode:
        """Returns a non-negative whole number."""

        def result() -> ExpressionNode:
            self.axioms.append(neg(less(found := whole_variable(self.name("n")), 0)))
            return found

        return self.once(("size", key), result)  # type: ignore[no-any-return]

    def any_count(self, key: Hashable) -> Value:
        """Returns a non-negative whole number, or unknown with such bounds, which differ: something may not count."""
        known, least, most = self.truth((key, "known")), self.size((key, "least")), self.size((key, "most"))
        self.axioms.append(less(least, most))
        cases = (known, ScalarValue("number", self.size(key))), (neg(known), Range(least, most))
        return Value(cases)

    def amount(self, key: Hashable, least: Any = 0, most: Any = None) -> ExpressionNode:
        """Returns a number within bounds."""

        def result() -> ExpressionNode:
            found = variable("number", self.name("v"))
            self.axioms.append(neg(less(found, least)))
            if most is not None:
                self.axioms.append(neg(less(most, found)))
            return found

        return self.once(("amount", key), result)  # type: ignore[no-any-return]

    def any_value(
        self, key: Hashable, description: str = "", kinds: Sequence[str] = KINDS, *, known: bool = False
    ) -> Value:
        """Returns a value of one of these kinds, or unknown unless `known`."""
        value: Value = self.once(("value", key), lambda: self._made(key, kinds, known=known))
        if description:
            self.descriptions[description] = value
        return value

    def content(self, key: Hashable, at: Hashable) -> Value:
        """Returns an item of a symbolic list or mapping."""
        value = self.any_value((key, at))
        self.contents.setdefault(key, {})[at] = value
        return value

    def _made(self, key: Hashable, kinds: Sequence[str], *, known: bool) -> Value:
        return self.one_of([self._leaf(kind, key) for kind in kinds], known=known)

    def one_of(self, leaves: Iterable[Leaf], *, known: bool) -> Value:
        """Returns a value that is one of the leaves, or unknown unless `known`."""
        left = list(leaves)
        cases: list[tuple[Expression, Leaf]] = []
        before: list[Expression] = []
        for at, leaf in enumerate(left):
            last = known and at == len(left) - 1
            here = True if last else variable("truth", self.name("k"))
            cases.append((conj(*map(neg, before), here), leaf))
            before.append(here)
        return Value(tuple(cases))

    def _leaf(self, kind: str, key: Hashable) -> Leaf:
        if kind == "list":
            return SymbolicList(key)
        if kind == "mapping":
            return SymbolicMapping(key)
        if kind == "set":
            return SymbolicSet(key)
        assert kind in ("number", "text", "truth")
        return ScalarValue(kind, variable(kind, self.name("v")))  # type: ignore[arg-type]

    def simplicity_constraints(self) -> list[Expression]:
        """Returns constraints for readable examples: only accessed values are lists or mappings."""
        found: list[Expression] = []
        for key, value in self._known.items():
            if isinstance(value, Value) and key[0] == "value":
                nested = key[1] in self.contents
                wanted = [
                    guard
                    for guard, leaf in value.cases
                    if isinstance(leaf, SymbolicMapping | SymbolicList) is not nested
                ]
                found += map(neg, wanted)
        return found

    def has_index(self, key: Hashable, index: Expression) -> Expression:
        """Whether a list has an item at this index."""
        below = 0 if isinstance(index, ExpressionNode) else index if index >= 0 else -1 - index
        return less(below, self.size(key))
