"""An arbitrary session: facts, a state and earlier calls that only the rules constrain.

The value of a history term is symbolic, and a symbolic call witnesses it: if the call exists, it satisfies the term.
History terms are not independent, since each of them ranges over the witnesses of the others too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from guardagent.policy.language import ast
from guardagent.policy.language.instants import LAST, MICROSECONDS
from guardagent.policy.language.printer import text_of
from guardagent.policy.logic.expressions import Expression, conj, disj, implies, less, neg, same, variable
from guardagent.policy.logic.operations import Operations, number
from guardagent.policy.logic.semantics import Bindings, Calls, Semantics, SymbolicCall
from guardagent.policy.logic.values import (
    FALSE,
    Opaque,
    Range,
    ScalarValue,
    SymbolicMapping,
    Value,
    all_known,
    joined,
    of_leaf,
    only_if,
    when_false,
    when_true,
)

_FACTS = "facts"
_PRINCIPAL = "principal"
_STATE = "state"
_HISTORY = (ast.SomeCall, ast.CountCalls, ast.SumCalls, ast.Selected)


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """The witness of a history term: whether it exists, the call, and the text of its pattern."""

    exists: Expression
    call: SymbolicCall
    text: str


@dataclass(frozen=True, slots=True)
class HistoryTerm:
    """A history term and its symbolic value."""

    kind: Literal["some", "count", "select"]
    pattern: ast.Pattern
    condition: ast.Term
    names: Bindings
    value: Value
    ok: bool = False
    within: ast.Term | None = None


class SymbolicSession:
    """A session about which nothing is known.

    Args:
        operations: the operations on values.
        tools: the tools that may have been called.

    Attributes:
        calls: the witnesses of the history terms.
        terms: the history terms.
        state_queries: calls of state functions, as (function, arguments, result).
    """

    def __init__(self, operations: Operations, tools: frozenset[str]) -> None:
        self._operations, self._tools = operations, tools
        self._symbols = operations.symbols
        self.calls: list[EarlierCall] = []
        self.terms: list[HistoryTerm] = []
        self._reads_time = False
        self.state_queries: dict[Hashable, tuple[str, Sequence[Value], Value]] = {}

    # --- facts and state

    def fact(self, path: Sequence[str]) -> Value:
        value = of_leaf(SymbolicMapping(_FACTS))
        for name in path:
            mappings = joined((guard, of_leaf(leaf)) for guard, leaf in value.cases if leaf.kind == "mapping")
            value = self._operations.field(mappings, name)
        self._symbols.descriptions[f"fact({'.'.join(path)})"] = value
        return value

    def principal(self) -> Value:
        result = self._symbols.once(
            ("value", _PRINCIPAL), lambda: self._symbols.one_of([SymbolicMapping(_PRINCIPAL)], known=False)
        )
        assert isinstance(result, Value)
        return result

    def state(self) -> Value:
        result = self._symbols.once(
            ("value", _STATE), lambda: self._symbols.one_of([SymbolicMapping(_STATE), Opaque(_STATE)], known=False)
        )
        assert isinstance(result, Value)
        return result

    def state_field(self, name: str) -> Value:
        value = only_if(self.state().known, self._symbols.content(_STATE, name))
        self._symbols.descriptions[f"state.{name}"] = value
        return value

    def call_state(self, function: str, arguments: Sequence[Value]) -> Value:
        key = "ask", function, tuple(arguments)
        answer = only_if(conj(self.state().known, all_known(arguments)), self._symbols.any_value(key))
        self.state_queries[key] = function, arguments, answer
        return answer

    # --- time

    def now(self) -> Value:
        now = self._symbols.any_value("now", "now", ("number",))
        if not self._reads_time:
            self._operations.constrain(now, 0, LAST // MICROSECONDS)
        self._reads_time = True
        return now

    def zone(self) -> Value:
        return self._symbols.any_value("zone", kinds=("text",))

    # --- sources

    def sources(self, value: Value) -> Value:
        return only_if(value.known, self._symbols.any_value(("sources", value), kinds=("set",)))

    def seen(self, labels: Sequence[str]) -> Value:
        return self._symbols.any_truth(("seen", frozenset(labels)))

    def counter(self, name: str, keys: Sequence[Value]) -> Value:
        """Returns a number from 0; unknown if a key is, or while counted calls are in flight."""
        key = "counter", name, tuple(keys)
        known = conj(all_known(keys), self._symbols.truth((key, "known")))
        value = only_if(known, number(self._symbols.amount(key)))
        self._symbols.descriptions[f"counter({name}{', ...' if keys else ''})"] = value
        return value

    # --- history

    def _key(self, semantics: Semantics, node: Any, names: Bindings) -> Hashable:
        own = (node.ok,) if isinstance(node, ast.SomeCall) else ()
        term = text_of(node.term) if isinstance(node, ast.SumCalls) else ""
        which = node.which if isinstance(node, ast.Selected) else ""
        within = getattr(node, "within", None)
        window = "" if within is None else text_of(within)
        text = type(node).__name__, which, text_of(node.pattern), text_of(node.condition), term, window
        return (*text, own, semantics.used_bindings(node, names))

    def some(self, semantics: Semantics, node: ast.SomeCall, names: Bindings) -> Value:
        def result() -> Value:
            value = self._symbols.any_truth(key)
            call = self._earlier(semantics, node, names, key, when_true(value))
            if call is None:
                return FALSE
            self._symbols.axioms.append(implies(when_true(value), call.succeeded if node.ok else True))
            self.terms.append(HistoryTerm("some", node.pattern, node.condition, names, value, node.ok, node.within))
            return value

        key = self._key(semantics, node, names)
        return self._symbols.once(key, result)  # type: ignore[no-any-return]

    def count(self, semantics: Semantics, node: ast.CountCalls, names: Bindings) -> Value:
        def result() -> Value:
            value = self._symbols.any_count(key)
            some = when_true(self._operations.compare(self._operations.constant(0), "<", value))
            if self._earlier(semantics, node, names, key, some) is None:
                return self._operations.constant(0)
            self.terms.append(HistoryTerm("count", node.pattern, node.condition, names, value, within=node.within))
            self._symbols.descriptions[text_of(node)] = value
            return value

        key = self._key(semantics, node, names)
        return self._symbols.once(key, result)  # type: ignore[no-any-return]

    def sum(self, semantics: Semantics, node: ast.SumCalls, names: Bindings) -> Value:
        if not semantics.tools_of(node.pattern) & self._tools:
            return self._operations.constant(0)
        key = self._key(semantics, node, names)
        value = self._symbols.any_value(key, text_of(node), ("number",))
        bounds = self._symbols.once((key, "bounds"), self._open_range)
        return joined([(value.known, value), (neg(value.known), of_leaf(bounds))])

    def _open_range(self) -> Range:
        least, most = (variable("number", self._symbols.name("v")) for _ in range(2))
        return Range(least, most)

    def select(self, semantics: Semantics, node: ast.Selected, names: Bindings) -> Calls:
        def result() -> Calls:
            exists = self._symbols.truth((key, "exists"))
            call = self._earlier(semantics, node, names, key, exists)
            return [] if call is None else [(exists, call)]

        key = self._key(semantics, node, names)
        return self._symbols.once(key, result)  # type: ignore[no-any-return]

    def _earlier(
        self, semantics: Semantics, node: Any, names: Bindings, key: Hashable, exists: Expression
    ) -> SymbolicCall | None:
        """Returns the witness of a term, or None if no tool can match."""
        tools = sorted(semantics.tools_of(node.pattern) & self._tools)
        if not tools:
            return None
        call = self._call(key, tools)
        within = getattr(node, "within", None)
        met, _ = semantics.match_condition(node.pattern, node.condition, call, names, within)
        self._symbols.axioms.append(implies(exists, when_true(met)))
        self.calls.append(EarlierCall(exists, call, text_of(node.pattern)))
        return call

    def _call(self, key: Hashable, tools: Sequence[str]) -> SymbolicCall:
        tool: Expression = tools[0]
        if len(tools) > 1:
            tool = variable("text", self._symbols.name("tool"))
            self._symbols.axioms.append(disj(*(same(tool, one) for one in tools)))
        output = self._symbols.any_value((key, "output"))
        args, failed = of_leaf(SymbolicMapping((key, "args"))), self._symbols.any_truth((key, "failed"))
        return SymbolicCall(tool, args, output, failed, self._symbols.any_value((key, "time"), kinds=("number",)))

    # --- consistency of the history terms

    def add_consistency_axioms(self, semantics: Semantics) -> None:
        """Relates each term to the witnesses of the others; call it after all terms have been evaluated."""
        terms = [one for one in self.terms if not any(isinstance(n, _HISTORY) for n in ast.walk(one.condition))]
        for earlier in list(self.calls):
            for term in terms:
                self._symbols.axioms += self._consistency(semantics, term, earlier)
            if self._reads_time:
                self._symbols.axioms.append(
                    neg(when_true(self._operations.compare(earlier.call.time, ">", self.now())))
                )

    @staticmethod
    def _consistency(semantics: Semantics, term: HistoryTerm, earlier: EarlierCall) -> list[Expression]:
        met, _ = semantics.match_condition(term.pattern, term.condition, earlier.call, term.names, term.within)
        yes, no = conj(earlier.exists, when_true(met)), when_false(met)
        if term.kind == "some":
            well = earlier.call.succeeded if term.ok else True
            none = when_false(term.value)
            return [implies(conj(yes, well), when_true(term.value)), implies(conj(none, earlier.exists, well), no)]
        counted, bounded = (leaf for _, leaf in term.value.cases)
        assert isinstance(counted, ScalarValue)
        assert isinstance(bounded, Range)
        known = term.value.known
        return [
            implies(conj(yes, known), less(0, counted.payload)),
            implies(conj(yes, neg(known)), less(0, bounded.least)),
            implies(conj(earlier.exists, known), disj(when_true(met), no)),
            implies(conj(earlier.exists, neg(no)), less(0, bounded.most)),
        ]
