"""Sessions for the reasoner: the current one, and an arbitrary one that only the rules constrain.

The current session has its facts, its state and its calls, with an assumed outcome of each call in flight. In an
arbitrary session the value of a history term is symbolic, and a symbolic call witnesses it: if the call exists, it
satisfies the term. History terms are not independent, since each of them ranges over the witnesses of the others too.

`KnownCalls` has the properties of a policy that judged calls have shown, so that no proof needs to look for them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product, zip_longest
from math import prod
from threading import RLock
from typing import Any, Literal, NamedTuple, Protocol

from guardagent.errors import GuardError
from guardagent.policy.evaluation import monitor_interface
from guardagent.policy.evaluation.history_index import number_of_different
from guardagent.policy.language import ast
from guardagent.policy.language.printer import key_of, text_of
from guardagent.policy.language.values import LAST, MICROSECONDS, Unknown, as_read, bounds_of, kind_of, seconds_of
from guardagent.policy.logic.expressions import Expression, conditional, conj, disj, implies, less, neg, same, variable
from guardagent.policy.logic.operations import UNDECIDED, Operations, number
from guardagent.policy.logic.semantics import Bindings, Calls, Semantics, SymbolicCall, count_true, total_of
from guardagent.policy.logic.values import (
    FALSE,
    TRUE,
    UNKNOWN,
    Opaque,
    Range,
    ScalarValue,
    SymbolicMapping,
    Value,
    all_known,
    conjunction,
    disjunction,
    joined,
    known_truth,
    of_leaf,
    only_if,
    when_false,
    when_true,
)
from guardagent.policy.monitors.conversation import ConversationState
from guardagent.policy.policies import Policies
from guardagent.policy.provenance.recorder import SourceRecorder
from guardagent.types import Event, Functions, Verdict

# --- the current session


class CallSurroundings(NamedTuple):
    """The facts of a call, and the calls in flight."""

    facts: Mapping[str, Any]
    in_flight: Sequence[monitor_interface.SessionCall]


MAX_COMBINATIONS = 100  # combinations of outcomes that are tried
Outcomes = Mapping[int, monitor_interface.CallStatus]  # the history index of a call in flight -> its outcome


def outcome_combinations(in_flight: Sequence[monitor_interface.SessionCall]) -> Iterator[Outcomes]:
    """Yields combinations of outcomes of the calls in flight; if there are too many, only those with equal outcomes."""
    ends = [call.possible_statuses for call in in_flight]
    for combination in product(*ends) if tries_every_ending(in_flight) else zip_longest(*ends, fillvalue="failed"):
        yield {call.place: end for call, end in zip(in_flight, combination, strict=True)}


def tries_every_ending(in_flight: Sequence[monitor_interface.SessionCall]) -> bool:
    """Whether all combinations are tried."""
    return prod(len(call.possible_statuses) for call in in_flight) <= MAX_COMBINATIONS


def state_of(trace: monitor_interface.RuleContext) -> Any:
    """Returns the current state, or None if its source fails; the session denies calls that need it."""
    try:
        return trace.state_source() if callable(trace.state_source) else trace.state_source
    except Exception:  # noqa: BLE001 - a host's source may raise anything
        return None


def reading_of(trace: monitor_interface.RuleContext) -> monitor_interface.Reading:
    """Returns the reading of the clock; unknown if it fails, since the session denies calls that need it."""
    try:
        return trace.clock.read()
    except monitor_interface.ClockError:
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
        trace: monitor_interface.RuleContext,
        calls: Sequence[monitor_interface.SessionCall],
        facts: Mapping[str, Any],
        functions: Functions,
        outcomes: Outcomes,
        reading: monitor_interface.Reading,
    ) -> None:
        self._operations, self._facts, self._functions = operations, facts, functions
        self._reading, self._latest, self._began = reading, trace.latest, trace.began
        self._state, self._counters, self._principal = state_of(trace), trace.counters, trace.session_principal
        self._trace = trace
        ends = [(call, call.status or outcomes.get(call.place)) for call in calls]
        self._calls = [self._called(call, end) for call, end in ends if end != "withdrawn"]
        self._in_flight = [self._called(call, None) for call in trace.in_flight]
        self.state_queries: list[tuple[str, Sequence[Value], Value]] = []

    def _called(self, call: monitor_interface.SessionCall, end: monitor_interface.CallStatus | None) -> SymbolicCall:
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

    def elapsed(self) -> Value:
        moment = self._reading[0]
        is_unknown = moment is None or moment < self._latest or self._began is None
        return self._instant(None if is_unknown or moment is None else moment - (self._began or moment))

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
        if self._state is None or any(argument == UNKNOWN for argument in arguments):
            return UNKNOWN
        plain = [self._operations.plain(argument) for argument in arguments]
        if not any(plain_value is UNDECIDED for plain_value in plain):
            return self.answer(function, plain)
        answer = self._operations.symbols.any_value(("ask", function, tuple(arguments)))
        self.state_queries.append((function, arguments, answer))
        return only_if(all_known(arguments), answer)

    def counter(self, name: str, keys: Sequence[Value]) -> Value:
        """Returns the value of a counter; any number from 0 if a key is open or the counters cannot be read."""
        plain = [self._operations.plain(key) for key in keys]
        if any(type(plain_value) is Unknown for plain_value in plain):
            return UNKNOWN
        bounds: tuple[Any, Any] | None = (0, None)
        if self._counters is not None and not any(plain_value is UNDECIDED for plain_value in plain):
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
        if any(type(argument) is Unknown for argument in arguments):
            return UNKNOWN
        try:
            answer = self._functions[function](self._state, *arguments)
        except Exception:  # noqa: BLE001 - a state function may raise anything
            return UNKNOWN
        value = self._operations.constant(answer)
        return (
            UNKNOWN if any(isinstance(leaf, Opaque) and kind_of(answer) is None for _, leaf in value.cases) else value
        )

    # --- sources

    def sources(self, value: Value) -> Value:
        plain = self._operations.plain(value)
        if plain is UNDECIDED:
            return only_if(value.known, self._operations.symbols.any_value(("sources", value), kinds=("set",)))
        return self._operations.set_value(self._recorder.sources(plain, self._surroundings))

    def seen(self, labels: Sequence[str]) -> Value:
        truth = self._recorder.seen(labels, self._surroundings)
        return UNKNOWN if type(truth) is Unknown else known_truth(truth)

    @property
    def _recorder(self) -> SourceRecorder:
        assert self._trace.provenance is not None  # a rule reads the sources
        return self._trace.provenance

    @property
    def _surroundings(self) -> CallSurroundings:
        return CallSurroundings(self._facts, self._trace.in_flight)

    def text(self, role: str) -> Value:
        try:
            text = monitor_interface.text_of_messages(self._trace.messages, role)
        except Exception:  # noqa: BLE001 - a host's source may raise anything
            return UNKNOWN
        return UNKNOWN if type(text) is Unknown else self._operations.constant(text)

    # --- history

    def _matching_calls(
        self,
        semantics: Semantics,
        pattern: ast.Pattern,
        condition: ast.Term,
        names: Bindings,
        within: ast.Term | None = None,
        among: Sequence[SymbolicCall] | None = None,
    ) -> list[tuple[SymbolicCall, Value, Bindings]]:
        """Returns (call, condition of a match, bindings) for each call that may match."""
        tools = semantics.tools_of(pattern)
        calls = [
            (call, *semantics.match_condition(pattern, condition, call, names, within))
            for call in (self._calls if among is None else among)
            if call.tool in tools
        ]
        return [call for call in calls if when_false(call[1]) is not True]

    def some(self, semantics: Semantics, node: ast.SomeCall, names: Bindings) -> Value:
        calls = self._matching_calls(semantics, node.pattern, node.condition, names, node.within)
        if not node.ok:
            return disjunction(value for _, value, _ in calls)
        fits = (value if call.succeeded is True else conjunction([value, UNKNOWN]) for call, value in _may_fit(calls))
        return disjunction(fits)

    def count(self, semantics: Semantics, node: ast.CountCalls, names: Bindings) -> Value:
        matching_calls = self._matching_calls(semantics, node.pattern, node.condition, names, node.within)
        return count_true([value for _, value, _ in matching_calls])

    def sum(self, semantics: Semantics, node: ast.SumCalls, names: Bindings) -> Value:
        matching_calls = self._matching_calls(semantics, node.pattern, node.condition, names, node.within)
        return total_of([(value, semantics.value(node.term, inner)) for _, value, inner in matching_calls])

    def fold(self, semantics: Semantics, node: ast.CallFold, names: Bindings) -> Value:
        """Returns the place of the last matching call, or the number of different values, which may be undecided."""
        matching = self._matching_calls(semantics, node.pattern, node.condition, names, node.within)
        if node.which == "distinct":
            return self._distinct(semantics, node, names, matching)
        is_ok = node.which == "last ok"
        fitting = {id(call): value for call, value, _ in matching}
        least: Expression = -1 if is_ok else 0
        most, decided = least, list[Expression]()
        for place, call in enumerate(self._calls, 1):
            value = fitting.get(id(call), FALSE)
            if is_ok and call.succeeded is not True:
                value = conjunction([value, UNKNOWN]) if call.may_succeed else FALSE
            least = conditional(when_true(value), place, least)
            most = conditional(neg(when_false(value)), place, most)
            decided.append(disj(when_true(value), when_false(value)))
        exactly = conj(*decided)
        return joined([(exactly, number(least)), (neg(exactly), of_leaf(Range(least, most)))])

    def _distinct(
        self,
        semantics: Semantics,
        node: ast.CallFold,
        names: Bindings,
        matching: Sequence[tuple[SymbolicCall, Value, Bindings]],
    ) -> Value:
        plain = self._operations.plain
        values = [(plain(value), plain(semantics.value(node.term or ast.TRUE, inner))) for _, value, inner in matching]
        if any(UNDECIDED in pair for pair in values):
            key = "fold", key_of(node), semantics.used_bindings(node, names)
            return any_number(self._operations.symbols, key, text_of(node))
        different = number_of_different(values)
        bounds = bounds_of(different)
        return number(different) if type(different) is int else UNKNOWN if bounds is None else of_leaf(Range(*bounds))

    def pending(self, semantics: Semantics, node: ast.CallInFlight, names: Bindings) -> Value:
        matching = self._matching_calls(semantics, node.pattern, node.condition, names, among=self._in_flight)
        return disjunction(value for _, value, _ in matching)

    def select(self, semantics: Semantics, node: ast.Selected, names: Bindings) -> Calls:
        matching_calls = self._matching_calls(semantics, node.pattern, node.condition, names)
        before: Expression = True
        calls = []
        for call, value, _ in matching_calls if node.which == "first" else reversed(matching_calls):
            calls.append((conj(before, when_true(value)), call))
            before = conj(before, when_false(value))
        return [(guard, call) for guard, call in calls if guard is not False]


def _may_fit(symbolic_calls: Sequence[tuple[SymbolicCall, Value, Bindings]]) -> Iterator[tuple[SymbolicCall, Value]]:
    """Yields the calls that succeeded or may yet succeed."""
    return ((call, value) for call, value, _ in symbolic_calls if call.succeeded is True or call.may_succeed)


def same_values(operations: Operations, values: Sequence[Value], plain: Sequence[Any]) -> Expression:
    """Returns the condition that symbolic values equal concrete ones."""
    return conj(
        *(when_true(operations.equal(v, operations.constant(value))) for v, value in zip(values, plain, strict=True))
    )


def any_number(symbols: Any, key: Hashable, text: str) -> Value:
    """Returns any number: a known one, or an unknown one with any bounds."""

    def open_range() -> Range:
        least, most = (variable("number", symbols.name("v")) for _ in range(2))
        return Range(least, most)

    value = symbols.any_value(key, text, ("number",))
    bounds = symbols.once((key, "bounds"), open_range)
    return joined([(value.known, value), (neg(value.known), of_leaf(bounds))])


# --- an arbitrary session

_FACTS = "facts"
_PRINCIPAL = "principal"
_STATE = "state"
_HISTORY = ast.OF_HISTORY


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """The witness of a history term.

    Attributes:
        exists: whether there is such a call.
        call: the call.
        text: the text of its pattern.
        may_succeed: whether it exists, and succeeded or is in flight; one that ended otherwise did not succeed.
    """

    exists: Expression
    call: SymbolicCall
    text: str
    may_succeed: Expression


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

    def elapsed(self) -> Value:
        is_new = "elapsed" not in self._symbols.descriptions
        elapsed = self._symbols.any_value("elapsed", "elapsed", ("number",))
        if is_new:
            self._operations.constrain(elapsed, 0, LAST // MICROSECONDS)
        return elapsed

    def zone(self) -> Value:
        return self._symbols.any_value("zone", kinds=("text",))

    # --- sources

    def sources(self, value: Value) -> Value:
        return only_if(value.known, self._symbols.any_value(("sources", value), kinds=("set",)))

    def seen(self, labels: Sequence[str]) -> Value:
        return self._symbols.any_truth(("seen", frozenset(labels)))

    def text(self, role: str) -> Value:
        return self._symbols.any_value(("text", role), f"text({role})", ("text",))

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
        term = "" if getattr(node, "term", None) is None else key_of(node.term)
        which = node.which if isinstance(node, ast.Selected | ast.CallFold) else ""
        within = getattr(node, "within", None)
        window = "" if within is None else key_of(within)
        text = type(node).__name__, which, key_of(node.pattern), key_of(node.condition), term, window
        return (*text, own, semantics.used_bindings(node, names))

    def some(self, semantics: Semantics, node: ast.SomeCall, names: Bindings) -> Value:
        def result() -> Value:
            value = self._symbols.any_truth(key)
            call = self._earlier(semantics, node, names, key, when_true(value), neg(when_false(value)))
            if call is None:
                return FALSE
            if node.ok:
                failed = when_true(call.failed)
                self._symbols.axioms.append(implies(when_true(value), call.succeeded))
                self._symbols.axioms.append(implies(neg(when_false(value)), neg(failed)))
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
        return any_number(self._symbols, self._key(semantics, node, names), text_of(node))

    def fold(self, semantics: Semantics, node: ast.CallFold, names: Bindings) -> Value:
        """Returns an undecided number: its place or its values are not those of one call."""
        return any_number(self._symbols, self._key(semantics, node, names), text_of(node))

    def pending(self, semantics: Semantics, node: ast.CallInFlight, names: Bindings) -> Value:
        def result() -> Value:
            value = self._symbols.any_truth(key)
            return FALSE if self._earlier(semantics, node, names, key, when_true(value)) is None else value

        key = self._key(semantics, node, names)
        return self._symbols.once(key, result)  # type: ignore[no-any-return]

    def select(self, semantics: Semantics, node: ast.Selected, names: Bindings) -> Calls:
        def result() -> Calls:
            exists = self._symbols.truth((key, "exists"))
            call = self._earlier(semantics, node, names, key, exists)
            return [] if call is None else [(exists, call)]

        key = self._key(semantics, node, names)
        return self._symbols.once(key, result)  # type: ignore[no-any-return]

    def _earlier(
        self,
        semantics: Semantics,
        node: Any,
        names: Bindings,
        key: Hashable,
        matches: Expression,
        may_match: Expression | None = None,
    ) -> SymbolicCall | None:
        """Returns the witness of a term, or None if no tool can match."""
        tools = sorted(semantics.tools_of(node.pattern) & self._tools)
        if not tools:
            return None
        call = self._call(key, tools)
        within = getattr(node, "within", None)
        met, _ = semantics.match_condition(node.pattern, node.condition, call, names, within)
        exists = matches if may_match is None else may_match
        self._symbols.axioms += [implies(matches, when_true(met)), implies(exists, neg(when_false(met)))]
        of_success = isinstance(node, ast.SomeCall) and node.ok
        may_succeed = exists if of_success else conj(exists, call.succeeded)
        self.calls.append(EarlierCall(exists, call, text_of(node.pattern), may_succeed))
        return call

    def _call(self, key: Hashable, tools: Sequence[str]) -> SymbolicCall:
        tool: Expression = tools[0]
        if len(tools) > 1:
            tool = variable("text", self._symbols.name("tool"))
            self._symbols.axioms.append(disj(*(same(tool, tool_name) for tool_name in tools)))
        output = self._symbols.any_value((key, "output"))
        args, failed = of_leaf(SymbolicMapping((key, "args"))), self._symbols.any_truth((key, "failed"))
        return SymbolicCall(tool, args, output, failed, self._symbols.any_value((key, "time"), kinds=("number",)))

    # --- consistency of the history terms

    def add_consistency_axioms(self, semantics: Semantics) -> None:
        """Relates each term to the witnesses of the others; call it after all terms have been evaluated."""
        terms = [term for term in self.terms if not any(isinstance(n, _HISTORY) for n in ast.walk(term.condition))]
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
            well, may_count = (earlier.call.succeeded, earlier.may_succeed) if term.ok else (True, earlier.exists)
            none = when_false(term.value)
            return [implies(conj(yes, well), when_true(term.value)), implies(conj(none, may_count), no)]
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


# --- the reasoner


class ReasonerSession(Protocol):
    """A conversation under a policy; see `guardagent.Session`."""

    policies: Policies
    _conversation: ConversationState
    _facts: Mapping[str, Any]
    _principal: Mapping[str, Any] | None
    _lock: RLock

    @property
    def halted(self) -> bool: ...

    @property
    def history(self) -> tuple[Event, ...]: ...

    def check(
        self, tool: str, args: Mapping[str, Any] = ..., *, facts: Mapping[str, Any] | None = ..., reserve: bool = ...
    ) -> Verdict: ...


@dataclass(frozen=True, slots=True)
class KnownCalls:
    """Facts about a policy that judged calls have shown.

    Attributes:
        allowed: the tools with a call that all rules together allow as the first one of a session.
        violated: the ids of the rules that a call, or the end of a session, violates.
    """

    allowed: frozenset[str] = frozenset()
    violated: frozenset[str] = frozenset()

    @classmethod
    def of(cls, allowed: Iterable[str], violated: Iterable[str]) -> KnownCalls:
        return cls(frozenset(allowed), frozenset(violated))


NOTHING_KNOWN = KnownCalls()
