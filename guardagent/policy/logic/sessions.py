"""The current session: its facts, its state and its calls, with an assumed outcome of each call in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product, zip_longest
from math import prod
from typing import Any, NamedTuple

from guardagent.errors import GuardError
from guardagent.policy.evaluation.clock import ClockError, Reading
from guardagent.policy.evaluation.monitor_interface import CallStatus, RuleContext, SessionCall
from guardagent.policy.language import ast
from guardagent.policy.language.instants import seconds_of
from guardagent.policy.language.values import Unknown, as_read, bounds_of, kind_of
from guardagent.policy.logic.expressions import Expression, conj
from guardagent.policy.logic.operations import UNDECIDED, Operations, number
from guardagent.policy.logic.semantics import Bindings, Calls, Semantics, SymbolicCall, count_true, total_of
from guardagent.policy.logic.values import (
    FALSE,
    TRUE,
    UNKNOWN,
    Opaque,
    Value,
    all_known,
    conjunction,
    disjunction,
    known_truth,
    only_if,
    when_false,
    when_true,
)
from guardagent.policy.provenance.recorder import SourceRecorder


class CallSurroundings(NamedTuple):
    """The facts of a call, and the calls in flight."""

    facts: Mapping[str, Any]
    in_flight: Sequence[SessionCall]


MAX_COMBINATIONS = 100  # combinations of outcomes that are tried
Outcomes = Mapping[int, CallStatus]  # the history index of a call in flight -> its outcome


def outcome_combinations(in_flight: Sequence[SessionCall]) -> Iterator[Outcomes]:
    """Yields combinations of outcomes of the calls in flight; if there are too many, only those with equal outcomes."""
    ends = [call.possible_statuses for call in in_flight]
    for combination in product(*ends) if tries_every_ending(in_flight) else zip_longest(*ends, fillvalue="failed"):
        yield {call.place: end for call, end in zip(in_flight, combination, strict=True)}


def tries_every_ending(in_flight: Sequence[SessionCall]) -> bool:
    """Whether all combinations are tried."""
    return prod(len(call.possible_statuses) for call in in_flight) <= MAX_COMBINATIONS


def state_of(trace: RuleContext) -> Any:
    """Returns the current state, or None if its source fails; the session denies calls that need it."""
    try:
        return trace.state_source() if callable(trace.state_source) else trace.state_source
    except Exception:  # noqa: BLE001 - a host's source may raise anything
        return None


def reading_of(trace: RuleContext) -> Reading:
    """Returns the reading of the clock; unknown if it fails, since the session denies calls that need it."""
    try:
        return trace.clock.read()
    except ClockError:
        return None, None


class CurrentSession:
    """The current facts, state and history.

    Args:
        operations: the operations on values.
        trace: the session's trace.
        calls: the session's calls.
        facts: the facts of this call.
        functions: the state functions.
        outcomes: the assumed outcomes of calls in flight; unknown if missing.
        reading: the reading of the clock.

    Attributes:
        state_queries: calls of state functions with symbolic arguments, as (function, arguments, result).
    """

    def __init__(
        self,
        operations: Operations,
        trace: RuleContext,
        calls: Sequence[SessionCall],
        facts: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
        outcomes: Outcomes,
        reading: Reading,
    ) -> None:
        self._operations, self._facts, self._functions = operations, facts, functions
        self._reading, self._latest = reading, trace.latest
        self._state, self._counters, self._principal = state_of(trace), trace.counters, trace.session_principal
        self._trace = trace
        ends = [(call, call.status or outcomes.get(call.place)) for call in calls]
        self._calls = [self._called(call, end) for call, end in ends if end != "withdrawn"]
        self.state_queries: list[tuple[str, Sequence[Value], Value]] = []

    def _called(self, call: SessionCall, end: CallStatus | None) -> SymbolicCall:
        constant = self._operations.constant
        failed = {"ok": FALSE, "failed": TRUE}.get(end or "", UNKNOWN)
        return SymbolicCall(
            call.tool,
            constant(call.args),
            UNKNOWN if call.status is None else constant(call.output),
            failed,
            self._instant(call.time),
            may_succeed=end is None,
        )

    # --- time

    def _instant(self, moment: int | None) -> Value:
        return UNKNOWN if moment is None else self._operations.constant(seconds_of(moment))

    def now(self) -> Value:
        """Returns the time of the clock; unknown if it went back, since the session denies calls that need it."""
        moment = self._reading[0]
        return self._instant(None if moment is None or moment < self._latest else moment)

    def zone(self) -> Value:
        zone = self._reading[1]
        return UNKNOWN if zone is None else self._operations.constant(zone)

    # --- facts and state

    def fact(self, path: Sequence[str]) -> Value:
        value: Any = self._facts
        for name in path:
            value = as_read(value.get(name)) if kind_of(value) == "mapping" else None
        return self._operations.constant(value)

    def principal(self) -> Value:
        return self._operations.constant(self._principal)

    def state(self) -> Value:
        return self._operations.constant(self._state)

    def state_field(self, name: str) -> Value:
        state = self._state
        if kind_of(state) == "mapping":
            return self._operations.constant(state.get(name))
        return self._operations.constant(getattr(state, name, None))

    def call_state(self, function: str, arguments: Sequence[Value]) -> Value:
        if self._state is None or any(one == UNKNOWN for one in arguments):
            return UNKNOWN
        plain = [self._operations.plain(one) for one in arguments]
        if not any(one is UNDECIDED for one in plain):
            return self.answer(function, plain)
        answer = self._operations.symbols.any_value(("ask", function, tuple(arguments)))
        self.state_queries.append((function, arguments, answer))
        return only_if(all_known(arguments), answer)

    def counter(self, name: str, keys: Sequence[Value]) -> Value:
        """Returns the value of a counter; any number from 0 if a key is open or the counters cannot be read."""
        plain = [self._operations.plain(one) for one in keys]
        if any(type(one) is Unknown for one in plain):
            return UNKNOWN
        bounds: tuple[Any, Any] | None = (0, None)
        if self._counters is not None and not any(one is UNDECIDED for one in plain):
            try:
                bounds = bounds_of(self._counters.named(name, plain))
            except GuardError:
                return UNKNOWN
        if bounds is None:
            return UNKNOWN
        if bounds[0] == bounds[1]:
            return self._operations.constant(bounds[0])
        return only_if(
            all_known(keys), number(self._operations.symbols.amount(("counter", name, tuple(keys)), *bounds))
        )

    def answer(self, function: str, arguments: Sequence[Any]) -> Value:
        """Calls a state function. An exception or a missing result is unknown, and the session denies the call."""
        if any(type(one) is Unknown for one in arguments):
            return UNKNOWN
        try:
            found = self._functions[function](self._state, *arguments)
        except Exception:  # noqa: BLE001 - a state function may raise anything
            return UNKNOWN
        value = self._operations.constant(found)
        return UNKNOWN if any(isinstance(leaf, Opaque) and kind_of(found) is None for _, leaf in value.cases) else value

    # --- sources

    def sources(self, value: Value) -> Value:
        plain = self._operations.plain(value)
        if plain is UNDECIDED:
            return only_if(value.known, self._operations.symbols.any_value(("sources", value), kinds=("set",)))
        return self._operations.set_value(self._recorder.sources(plain, self._surroundings))

    def seen(self, labels: Sequence[str]) -> Value:
        found = self._recorder.seen(labels, self._surroundings)
        return UNKNOWN if type(found) is Unknown else known_truth(found)

    @property
    def _recorder(self) -> SourceRecorder:
        assert self._trace.provenance is not None  # a rule reads the sources
        return self._trace.provenance

    @property
    def _surroundings(self) -> CallSurroundings:
        return CallSurroundings(self._facts, self._trace.in_flight)

    # --- history

    def _matching_calls(
        self,
        semantics: Semantics,
        pattern: ast.Pattern,
        condition: ast.Term,
        names: Bindings,
        within: ast.Term | None = None,
    ) -> list[tuple[SymbolicCall, Value, Bindings]]:
        """Returns (call, condition of a match, bindings) for each call that may match."""
        tools = semantics.tools_of(pattern)
        found = [
            (call, *semantics.match_condition(pattern, condition, call, names, within))
            for call in self._calls
            if call.tool in tools
        ]
        return [one for one in found if when_false(one[1]) is not True]

    def some(self, semantics: Semantics, node: ast.SomeCall, names: Bindings) -> Value:
        found = self._matching_calls(semantics, node.pattern, node.condition, names, node.within)
        if not node.ok:
            return disjunction(value for _, value, _ in found)
        fits = (value if call.succeeded is True else conjunction([value, UNKNOWN]) for call, value in _may_fit(found))
        return disjunction(fits)

    def count(self, semantics: Semantics, node: ast.CountCalls, names: Bindings) -> Value:
        found = self._matching_calls(semantics, node.pattern, node.condition, names, node.within)
        return count_true([value for _, value, _ in found])

    def sum(self, semantics: Semantics, node: ast.SumCalls, names: Bindings) -> Value:
        found = self._matching_calls(semantics, node.pattern, node.condition, names, node.within)
        return total_of([(value, semantics.value(node.term, inner)) for _, value, inner in found])

    def select(self, semantics: Semantics, node: ast.Selected, names: Bindings) -> Calls:
        found = self._matching_calls(semantics, node.pattern, node.condition, names)
        before: Expression = True
        calls = []
        for call, value, _ in found if node.which == "first" else reversed(found):
            calls.append((conj(before, when_true(value)), call))
            before = conj(before, when_false(value))
        return [(guard, call) for guard, call in calls if guard is not False]


def _may_fit(found: Sequence[tuple[SymbolicCall, Value, Bindings]]) -> Iterator[tuple[SymbolicCall, Value]]:
    """Yields the calls that succeeded or may yet succeed."""
    return ((call, value) for call, value, _ in found if call.succeeded is True or call.may_succeed)


def same_values(operations: Operations, values: Sequence[Value], plain: Sequence[Any]) -> Expression:
    """Returns the condition that symbolic values equal concrete ones."""
    return conj(
        *(when_true(operations.equal(v, operations.constant(one))) for v, one in zip(values, plain, strict=True))
    )
