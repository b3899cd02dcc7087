"""Compiles the monitors of data rules to checks of columns, each of which finds the events that need a session.

The events of many traces as columns, and the codes of their values: equal values have equal codes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guardagent.policy.evaluation.history_index import OnDemand
from guardagent.policy.evaluation.history_query import HistoryQuery
from guardagent.policy.evaluation.monitor_interface import Clock, Monitor, RuleContext, SessionCall
from guardagent.policy.functions import function
from guardagent.policy.language import ast
from guardagent.policy.language.values import Unknown, conjunction, exact, hash_key, kind_of, kind_of_key
from guardagent.policy.monitors.eventual import ExistsMonitor, ResponseMonitor
from guardagent.policy.monitors.immediate import ForallMonitor
from guardagent.types import EMPTY, freeze
from guardagent.types.values import readable_copy

# --- columns

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNKNOWN, OK, FAILED = 0, 1, 2
_STATUSES: Any = ("unknown", "ok", "failed")


class EventKind(NamedTuple):
    """The parts of an event that tell which rules concern it."""

    tool: str
    action: str | None = None
    decision: str | None = None
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EventColumns:
    """The events of many traces: all of the first trace in their order, then all of the second, and so on.

    Attributes:
        ends: the end of each trace among the events.
        kinds: the index of the kind of each event.
        names: the kinds.
        status: `OK`, `FAILED` or `UNKNOWN` for each event.
        args: the arguments of each event.
        outputs: the output of each event.
        facts: the facts of each trace.
        doubtful: the events that certainly need a session.
    """

    ends: Ints
    kinds: Ints
    names: Sequence[EventKind]
    status: NDArray[np.int8]
    args: Sequence[Mapping[str, Any]]
    outputs: Sequence[Any]
    facts: Sequence[Mapping[str, Any]]
    doubtful: Bools


# --- values and their codes

_MISSING = object()
OUTPUT, ARGUMENTS, FACTS = 1, 2, 3  # what rules read besides single arguments
Reads = frozenset[str | int]
_KEY_KINDS = {"text": 0, "number": 1, "truth value": 2}
_NO_KEY = -1
_SPARSE = 4  # codes are renumbered if they exceed this multiple of their number


class CodedColumns:
    """The columns of some traces, with the codes of their values.

    Attributes:
        trace: the index of the trace of each event.
        start, end: for each event, where its trace begins and ends.
        doubt: the events that need a session.
    """

    def __init__(self, columns: EventColumns) -> None:
        self.columns = columns
        starts = np.concatenate([[0], columns.ends])[:-1]
        lengths = columns.ends - starts
        self.trace = np.repeat(np.arange(len(lengths)), lengths)
        self.start, self.end = np.repeat(starts, lengths), np.repeat(columns.ends, lengths)
        self.doubt = columns.doubtful.copy()
        self._codes: dict[Any, int] = {_MISSING: 0}
        self._values: list[Any] = [_MISSING]
        self._columns: dict[str | int, Ints] = {}

    def codes(self, read: str | int, rows: Ints) -> Ints:
        """The codes of an argument, or of something else that a rule reads, in some events. A missing one has 0."""
        column = self._columns.get(read)
        if column is None:
            column = self._columns[read] = np.full(len(self.trace), -1, np.int64)
        if len(new := rows[column[rows] < 0]):
            column[new] = self._coded(self._read(read, new))
        return column[rows]

    def _read(self, read: str | int, rows: Ints) -> list[Any]:
        args, numbers = self.columns.args, rows.tolist()
        if isinstance(read, str):
            return [args[row].get(read, _MISSING) for row in numbers]
        if read == OUTPUT:
            return list(map(self.columns.outputs.__getitem__, numbers))
        if read == ARGUMENTS:
            return [repr(args[row]) for row in numbers]
        return [repr(self.columns.facts[trace]) for trace in self.trace[rows].tolist()]

    def _coded(self, values: list[Any]) -> Ints:
        codes: Iterable[Any]
        if set(map(type, values)) == {str}:
            new = set(values) - self._codes.keys()
            self._codes.update(zip(new, itertools.count(len(self._values)), strict=False))
            self._values += new
            codes = map(self._codes.__getitem__, values)
        else:
            codes = (self._code(value if type(value) is str else _comparable(value)) for value in values)
        return np.fromiter(codes, np.int64, len(values))

    def _code(self, value: Any) -> int:
        code = self._codes.setdefault(value, len(self._values))
        if code == len(self._values):
            self._values.append(value)
        return code

    def keys(self, read: str, rows: Ints) -> tuple[Ints, Ints]:
        """(the codes of the index keys of an argument, their kinds): two keys are equal if their codes are."""
        distinct, places = _dense(self.codes(read, rows))
        values = [self._values[code] for code in distinct.tolist()]
        if set(map(type, values)) == {str}:  # the common case
            return self.codes(read, rows), np.zeros(len(rows), np.int64)
        keys = [value if type(value) is str else hash_key(value[1]) if type(value) is tuple else None
                for value in values]  # fmt: skip
        codes = [code if type(key) is str else self._code(("key", key))
                 for code, key in zip(distinct.tolist(), keys, strict=True)]  # fmt: skip
        kinds = [_NO_KEY if key is None else _KEY_KINDS[kind_of_key(key)] for key in keys]
        return np.array(codes, np.int64)[places], np.array(kinds, np.int64)[places]

    def combinations(self, rows: Ints, reads: Iterable[str | int], *more: Ints) -> tuple[Ints, Ints]:
        """(the first of some events with each combination of values, the place of each event among them)."""
        columns = [self.columns.kinds[rows], self.columns.status[rows].astype(np.int64)]
        columns += [self.codes(read, rows) for read in reads]
        return combined([*columns, *more], len(rows))

    def call(self, row: int) -> SessionCall:
        """An event as rules read it."""
        columns = self.columns
        kind = columns.names[columns.kinds[row]]
        call = SessionCall(kind.tool, freeze(columns.args[row]), row + 1)
        call.output = readable_copy(columns.outputs[row])
        return call.labelled(kind.action, kind.decision, kind.tags)

    def past(self, row: int) -> SessionCall:
        call = self.call(row)
        call.status = _STATUSES[self.columns.status[row]]
        return call

    def facts(self, row: int) -> Mapping[str, Any]:
        return self.columns.facts[int(self.trace[row])]


def _comparable(value: Any) -> Any:
    """A key that is equal only for the same values: 1 is neither 1.0 nor true."""
    return value if value is _MISSING else (repr(value), value) if kind_of(value) in _KEY_KINDS else (repr(value), None)


def _dense(codes: Ints) -> tuple[Ints, Ints]:
    """(the distinct codes, the place of each code among them)."""
    size = int(codes.max(initial=-1)) + 1
    if size > _SPARSE * len(codes) + 1000:
        return np.unique(codes, return_inverse=True)
    present = np.zeros(size, np.bool_)
    present[codes] = True
    places = np.cumsum(present) - 1
    return np.flatnonzero(present), places[codes]


def combined(columns: Sequence[Ints], count: int) -> tuple[Ints, Ints]:
    """(the first row of each combination of codes, the place of each row among the combinations)."""
    codes, size = np.zeros(count, np.int64), 1
    for column in columns:
        distinct, places = _dense(column)
        codes, size = codes * len(distinct) + places, size * len(distinct)
        if size > _SPARSE * count + 1000:
            distinct, codes = _dense(codes)
            size = len(distinct)
    distinct, places = _dense(codes)
    firsts = np.zeros(len(distinct), np.int64)
    firsts[places[::-1]] = np.arange(count)[::-1]
    return firsts, places


FALSE, TRUE, UNSURE = 0, 1, 2


def decided(
    block: CodedColumns, rows: Ints, reads: Reads, decide: Callable[[int], Any], *more: Ints
) -> NDArray[np.int8]:
    """The value of a condition for some events: `TRUE`, `FALSE` or `UNSURE`.

    Args:
        block: the columns.
        rows: the events. Those for which the condition crashes are in doubt.
        reads: the values that it reads, besides the kind and the status of the event.
        decide: the condition on the event at a place in `rows`.
        more: codes of further values that it reads.
    """
    firsts, places = block.combinations(rows, reads, *more)
    truths = np.full(len(firsts), UNSURE, np.int8)
    crashed = np.zeros(len(firsts), np.bool_)
    for number, first in enumerate(firsts.tolist()):
        try:
            value = decide(first)
        except Exception:  # noqa: BLE001 - a session shows the error
            crashed[number] = True
        else:
            truths[number] = TRUE if value is True else FALSE if value is False else UNSURE
    block.doubt[rows[crashed[places]]] = True
    return truths[places]


# --- what a rule reads

_PLAIN_TERMS = (
    ast.Constant, ast.ListOf, ast.SetOf, ast.SetOperation, ast.And, ast.Or, ast.Negation, ast.Implies, ast.Compare,
    ast.Matches, ast.Arithmetic, ast.Negative, ast.Length, ast.Known, ast.Field, ast.Item, ast.RegexValue,
)  # fmt: skip
_Joinable = ast.SomeCall | ast.CountCalls | ast.SumCalls


class _Inexpressible(Exception):  # noqa: N818 - a signal, which never leaves this module
    """A rule reads something that is not in the columns."""


class _CallNames:
    """The names of a call in a rule.

    Args:
        pattern: the pattern of the call.
        outer: the names of the call around it.

    Attributes:
        variables: variable -> the argument that binds it.
        reads: the arguments that decide whether the pattern matches.
        joins: the pairs of an outer argument and the argument that equals it.
        terms: the terms over earlier calls in the conditions that were examined; None where there can be none.
    """

    def __init__(self, pattern: ast.Pattern, outer: _CallNames | None = None) -> None:
        self._label = pattern.label
        self.variables: dict[str, str] = {}
        self.joins: list[tuple[str, str]] = []
        self.terms: list[_Joinable] | None = None if outer else []
        reads: set[str | int] = set()
        for argument in pattern.arguments:
            match argument.value:
                case ast.Variable(name) if outer and name in outer.variables:
                    self.joins.append((outer.variables[name], argument.name))
                case ast.Variable(name) if name in self.variables:
                    reads |= {argument.name, self.variables[name]}
                case ast.Variable(name):
                    self.variables[name] = argument.name
                case ast.ExactValue() | ast.RegexValue():
                    reads.add(argument.name)
        self.reads: Reads = frozenset(reads)

    def examine(self, node: object, bound: frozenset[str] = frozenset()) -> Reads:
        """The values that a condition reads, besides those of earlier calls.

        Raises:
            _Inexpressible: it reads something else.
        """
        match node:
            case ast.Variable(name) if name in bound:
                return frozenset()
            case ast.Variable(name) if name in self.variables:
                return frozenset([self.variables[name]])
            case ast.Field(ast.OfCall("args", ast.Label(label)), name) if label == self._label:
                return frozenset([name])
            case ast.OfCall(what, ast.Label(label)) if label == self._label:
                read = {"args": ARGUMENTS, "output": OUTPUT}.get(what)
                return frozenset([] if read is None else [read])
            case ast.Fact():
                return frozenset([FACTS])
            case ast.OverItems(_, variable, items, condition):
                return self.examine(items, bound) | self.examine(condition, bound | {variable})
            case ast.SomeCall() | ast.CountCalls() | ast.SumCalls() if self.terms is not None and not bound:
                self.terms.append(node)
                return frozenset()
        is_plain = isinstance(node, _PLAIN_TERMS) or (isinstance(node, ast.Apply) and function(node.function))
        if not is_plain:
            raise _Inexpressible
        return frozenset().union(*(self.examine(child, bound) for child in ast.children(node)))


class _PastCalls:
    """The calls that a history query selects, joined with other calls by their arguments."""

    def __init__(
        self, query: HistoryQuery, pattern: ast.Pattern, outer: _CallNames | None, condition: ast.Term, *more: ast.Term
    ) -> None:
        self.scope, self.query = _CallNames(pattern, outer), query
        self.scope.terms = None
        joins = {len(self.scope.joins), len(query.equations), len(query.variable_equations)}
        if query.window is not None or query.residual_conditions or len(joins) > 1:
            raise _Inexpressible
        self._reads = self.scope.reads | self.scope.examine(condition)
        inside = (node for term in (condition, *more) for node in ast.walk(term))
        self._is_lazy = not any(isinstance(node, ast.Apply) for node in inside)  # no condition can fail

    def rows(self, block: CodedColumns, *, ok_only: bool, between: tuple[Ints, Ints] | None = None) -> Ints:
        """The calls of its tools that have the arguments of the pattern; perhaps only those between two places."""
        columns, tools = block.columns, self.query.tools
        rows = np.flatnonzero(np.array([kind.tool in tools for kind in columns.names], np.bool_)[columns.kinds])
        if ok_only:
            rows = rows[columns.status[rows] == OK]
        if between is not None:
            first, last = (places[block.trace[rows]] for places in between)
            rows = rows[(first <= rows) & (rows <= last)]
        for name in self.query.required:
            rows = rows[block.codes(name, rows) != 0]
        return rows

    def own(self, block: CodedColumns, rows: Ints) -> NDArray[np.int8]:
        """Whether calls satisfy the conditions on them alone."""
        query, context = self.query, rule_context()
        if not query.own_conditions:
            return np.ones(len(rows), np.int8)

        def decide(at: int) -> Any:
            env: list[Any] = [context, *[None] * (query.size - 1)]
            return query.bind(env, block.past(int(rows[at]))) and conjunction(
                [test(env) for test in query.own_conditions]
            )

        return decided(block, rows, self._reads, decide)

    def joined(self, block: CodedColumns, others: Ints, *, ok_only: bool, later: bool = False) -> _Join:
        """Joins its calls with other calls: those before each of them in its trace, or those behind it."""
        count, traces = len(block.trace), len(block.columns.ends)
        first, last = np.full(traces, 0 if not later else count), np.full(traces, -1 if not later else count)
        if later:
            first[block.trace[others[::-1]]] = others[::-1]
        else:
            last[block.trace[others]] = others
        rows = self.rows(block, ok_only=ok_only, between=(first, last) if self._is_lazy else None)
        keys, other_keys = self._keys(block, rows, others)
        places, other_places = keys * count + rows, other_keys * count + others
        limits = other_keys * count + (block.end if later else block.start)[others]
        if self._is_lazy and self.query.own_conditions:
            ordered = np.sort(other_places)
            edges = keys * count + (block.start if later else block.end)[rows]
            wanted = np.searchsorted(ordered, places) != np.searchsorted(ordered, edges)
            rows, places = rows[wanted], places[wanted]
        return _Join(rows, places, self.own(block, rows), other_places + later, limits)

    def _keys(self, block: CodedColumns, rows: Ints, others: Ints) -> tuple[Ints, Ints]:
        """(a number for the index key of each call, the same for other calls)."""
        both, columns = np.concatenate([rows, others]), []
        for outer, inner in self.scope.joins:
            pairs = zip(block.keys(inner, rows), block.keys(outer, others), strict=True)
            codes, kinds = (np.concatenate(pair) for pair in pairs)
            usual = np.bincount(kinds + 1, minlength=2)[1:].argmax()
            block.doubt[both[kinds != usual]] = True  # keys of different kinds cannot be compared
            columns.append(codes)
        _, numbers = combined(columns, len(both))
        return numbers[: len(rows)], numbers[len(rows) :]


@dataclass(frozen=True, slots=True)
class _Join:
    """Calls of a query, and other calls that ask for them.

    Attributes:
        rows: the calls.
        places: their keys and places, in one number each.
        truths: whether they satisfy the query.
        others, limits: for each of the other calls its key and place, and where its trace begins or ends. The place is
            the next one if the calls behind it count.
    """

    rows: Ints
    places: Ints
    truths: NDArray[np.int8]
    others: Ints
    limits: Ints

    def count(self, truth: int) -> Ints:
        """The number of calls with a truth value between each other call and its limit."""
        ordered = np.sort(self.places[self.truths == truth])
        count: Ints = np.abs(np.searchsorted(ordered, self.others) - np.searchsorted(ordered, self.limits))
        return count


def rule_context(facts: Mapping[str, Any] = EMPTY, indexes: Any = None) -> RuleContext:
    return RuleContext(facts, None, OnDemand(()) if indexes is None else indexes, clock=_CLOCK)


_CLOCK = Clock(lambda: None)  # no expressible rule reads the time


# --- checks: each finds the events on which a monitor could report something


class _TermColumn:
    """A term over earlier calls. Stands for the history index while the condition around it is judged.

    Attributes:
        value: the value of the term.
    """

    value: Any = None

    def __init__(self, node: _Joinable, query: HistoryQuery, outer: _CallNames) -> None:
        more = [node.term] if isinstance(node, ast.SumCalls) else []
        self._query, self._node = _PastCalls(query, node.pattern, outer, node.condition, *more), node
        self._summand: Reads = frozenset()
        if isinstance(node, ast.SumCalls):
            if query.term is None:
                raise _Inexpressible
            self._summand = self._query.scope.examine(node.term)

    def exists(self, _env: object) -> Any:
        return self.value

    count = sum = exists

    def values(self, block: CodedColumns, rows: Ints) -> tuple[Ints, Callable[[int], Any]]:
        """(a number for each call, the value of the term for each number); calls where it is unknown are in doubt."""
        some = isinstance(self._node, ast.SomeCall)
        joined = self._query.joined(block, rows, ok_only=self._query.query.ok_only)
        unsure = joined.count(UNSURE) > 0
        if isinstance(self._node, ast.SumCalls):
            block.doubt[rows[unsure]] = True
            return self._sums(block, joined)
        number = joined.count(TRUE)
        block.doubt[rows[unsure & (number == 0) if some else unsure]] = True
        return (np.minimum(number, 1), bool) if some else (number, int)

    def _sums(self, block: CodedColumns, joined: _Join) -> tuple[Ints, Callable[[int], Any]]:
        order = np.argsort(joined.places)
        order = order[joined.truths[order] == TRUE]
        rows, places = joined.rows[order], joined.places[order]
        firsts, numbers = block.combinations(rows, self._summand)
        amounts = [self._amount(block, int(rows[first])) for first in firsts.tolist()]
        known = np.array([amount is not None for amount in amounts], np.bool_)
        fractions = [amount or Fraction(0) for amount in amounts]
        unit = lcm(*(amount.denominator for amount in fractions))
        whole = [int(amount * unit) for amount in fractions]
        if sum(map(abs, whole)) * len(rows) >= 2**62:
            known[:], whole = False, [0] * len(whole)
        block.doubt[rows[~known[numbers]]] = True
        totals = np.concatenate([[0], np.cumsum(np.array(whole, np.int64)[numbers])])
        first, last = (np.searchsorted(places, limits) for limits in (joined.limits, joined.others))
        distinct, codes = np.unique(totals[last] - totals[first], return_inverse=True)
        return codes, lambda code: exact(Fraction(int(distinct[code]), unit))

    def _amount(self, block: CodedColumns, row: int) -> Fraction | None:
        """The summand of a call; None if it is not a number."""
        query = self._query.query
        env: list[Any] = [rule_context(), *[None] * (query.size - 1)]
        try:
            query.bind(env, block.past(row))
            value = query.term(env) if query.term is not None else None
            number = exact(value) if kind_of(value) == "number" else None
        except Exception:  # noqa: BLE001 - a session shows the error
            return None
        return None if number is None or isinstance(number, Unknown) else Fraction(number)


class _ForallCheck:
    """Judges calls by a monitor of `forall` or `before`."""

    def __init__(self, monitor: ForallMonitor, queries: Sequence[HistoryQuery]) -> None:
        scope = _CallNames(monitor.rule.pattern)
        self._reads = scope.reads | scope.examine(monitor.rule.condition)
        numbers = monitor.compiler.index_of
        self._terms = {
            numbers[id(node)]: _TermColumn(node, queries[numbers[id(node)]], scope) for node in scope.terms or ()
        }
        self._monitor, self._memory = monitor, monitor.start()

    def doubt(self, block: CodedColumns, concerned: Bools) -> None:
        rows = np.flatnonzero(concerned[block.columns.kinds])
        if not len(rows):
            return
        values = [(term, *term.values(block, rows)) for term in self._terms.values()]

        def decide(at: int) -> bool:
            for term, codes, value_of in values:
                term.value = value_of(int(codes[at]))
            row = int(rows[at])
            context = rule_context(block.facts(row), self._terms)
            return self._monitor.judge(context, block.call(row), self._memory) is None

        truths = decided(block, rows, self._reads, decide, *(codes for _, codes, _ in values))
        block.doubt[rows[truths != TRUE]] = True


class _ResponseCheck:
    """Finds the calls of an `after` whose partner does not follow."""

    def __init__(self, monitor: ResponseMonitor) -> None:
        rule = monitor.rule
        scope = _CallNames(rule.pattern)
        scope.terms = None
        if monitor.negated:
            raise _Inexpressible
        self._reads = scope.reads | scope.examine(rule.condition)
        self._partner = _PastCalls(monitor.partner, rule.partner, scope, rule.partner_condition)
        self._monitor = monitor

    def doubt(self, block: CodedColumns, concerned: Bools) -> None:
        first = np.array([kind.tool in self._monitor.first for kind in block.columns.names], np.bool_)
        rows = np.flatnonzero((concerned & first)[block.columns.kinds])
        if not len(rows):
            return

        def decide(at: int) -> Any:
            row = int(rows[at])
            env: list[Any] = [rule_context(block.facts(row)), *[None] * (self._monitor.compiler.size - 1)]
            return self._monitor.obliges(env, block.call(row))

        truths = decided(block, rows, self._reads, decide)
        block.doubt[rows[truths == UNSURE]] = True
        rows = rows[truths == TRUE]
        answered = self._partner.joined(block, rows, ok_only=True, later=True).count(TRUE) > 0
        block.doubt[rows[~answered]] = True


class _ExistsCheck:
    """Finds the traces without the call that `exists` requires."""

    def __init__(self, monitor: ExistsMonitor) -> None:
        self._wanted = _PastCalls(monitor.wanted, monitor.rule.pattern, None, monitor.rule.condition)

    def doubt(self, block: CodedColumns, _concerned: Bools) -> None:
        rows = self._wanted.rows(block, ok_only=True)
        satisfied = np.zeros(len(block.columns.ends), np.bool_)
        satisfied[block.trace[rows[self._wanted.own(block, rows) == TRUE]]] = True
        block.doubt |= ~satisfied[block.trace]


Check = _ForallCheck | _ResponseCheck | _ExistsCheck


def check_of(monitor: Monitor, queries: Sequence[HistoryQuery]) -> Check | None:
    """The check of a monitor; None if its rule cannot be expressed."""
    try:
        match monitor:
            case ForallMonitor():
                return _ForallCheck(monitor, queries)
            case ResponseMonitor():
                return _ResponseCheck(monitor)
            case ExistsMonitor():
                return _ExistsCheck(monitor)
    except _Inexpressible:
        pass
    return None
