"""History indexes: answer the history terms of a rule, and are updated as calls are recorded.

A history term selects the calls that match a pattern and satisfy a condition. The condition is split into conditions on
the past call alone (decided once, when its outcome is recorded), equations with the rest (they give the index
keys), and residual conditions, which are decided by each query.
"""

from __future__ import annotations

import sys
import weakref
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, Protocol

from guardagent.policy.evaluation.tool_sets import suggested
from guardagent.policy.language.values import (
    Truth,
    Unknown,
    arithmetic,
    bounds_of,
    conjunction,
    count_of,
    disjunction,
    equal,
    hash_key,
    kind_of_key,
)

Env = list[Any]  # slot 0: the RuleContext; then the values of a rule's names
Term = Callable[[Env], Any]


class PastCall(Protocol):
    """The parts of a call that an index reads."""

    tool: str
    args: Any
    place: int
    time: int | None

    @property
    def status(self) -> str | None: ...

    @property
    def assumed_status(self) -> str | None: ...

    @property
    def may_be_withdrawn(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """A compiled history term.

    Attributes:
        tools: the tools of the pattern.
        size: the size of the environment.
        label: the slot of the past call.
        required: the arguments that a past call must have.
        binders: (slot of a variable, the argument that binds it).
        own_conditions: the conditions on the past call alone.
        variable_equations: the equations of variables: (slot of the variable, the argument that it equals).
        equations: (side that depends on the past call alone, side that is independent of it).
        residual_conditions: the other conditions.
        ok_only: whether only successful calls count.
        term: the summand, if it depends on the past call alone; otherwise `late_term` is set.
        window: the start of the time window, in microseconds since the epoch; None for all calls.
        deferred_by: the argument that is the only index key, if the own conditions can be decided when a query asks
            for that key: they can neither fail nor have an effect. None decides them when the outcome is recorded.
    """

    tools: frozenset[str]
    size: int
    label: int
    required: tuple[str, ...]
    binders: tuple[tuple[int, str], ...]
    own_conditions: tuple[Term, ...]
    variable_equations: tuple[tuple[int, str], ...]
    equations: tuple[tuple[Term, Term], ...]
    residual_conditions: tuple[Term, ...]
    ok_only: bool = False
    term: Term | None = None
    late_term: Term | None = None
    window: Term | None = None
    deferred_by: str | None = None

    @property
    def decided_by_key(self) -> bool:
        """Whether all settled calls with the same index key match alike."""
        return not self.residual_conditions and self.window is None

    def bind(self, env: Env, call: PastCall) -> bool:
        """Binds a past call and its arguments; false if it lacks an argument."""
        args = call.args
        for name in self.required:
            if name not in args:
                return False
        env[self.label] = call
        for slot, name in self.binders:
            value = args[name]
            env[slot] = Unknown(f"{name!r} of {call.tool} is null") if value is None else value
        return True

    def judge(self, env: Env, call: PastCall) -> Truth:
        """Decides all conditions for a past call."""
        if not self.bind(env, call):
            return False
        found = [test(env) for test in self.own_conditions]
        found += [equal(own(env), other(env)) for own, other in self.equations]
        found += [test(env) for test in self.residual_conditions]
        if self.window is not None:
            found.append(in_window(call, self.window(env)))
        return conjunction(found)

    def judge_entry(self, env: Env, entry: IndexEntry) -> Truth:
        """Decides the equations and residual conditions for an indexed call."""
        self.bind(env, entry.call)
        joined = [equal(own(env), other(env)) for own, other in self.equations]
        return conjunction([entry.own, *joined, *(test(env) for test in self.residual_conditions)])

    def judge_match(self, env: Env, entry: IndexEntry) -> Truth:
        """Decides the residual conditions for an indexed call that satisfies the equations."""
        if not self.residual_conditions:  # the common case
            return entry.own
        self.bind(env, entry.call)
        return conjunction([entry.own, *(test(env) for test in self.residual_conditions)])


def in_window(call: PastCall, start: int | Unknown) -> Truth:
    """Whether a call is in a window that starts at a moment."""
    if type(start) is Unknown:
        return start
    if call.time is None:
        return Unknown(f"the time of {call.tool!r} (call {call.place}) is unknown")
    return call.time >= start  # type: ignore[operator]


class IndexEntry(NamedTuple):
    """An indexed call. `own`: its own conditions are true or unknown."""

    place: int
    call: Any
    own: Truth


_by_place = attrgetter("place")
_TEXT = ("text",)  # the kinds of a key that is a single string


def _insert(entries: list[IndexEntry], entry: IndexEntry) -> None:
    """Inserts an entry by its place, which is mostly the last one."""
    if not entries or entries[-1].place < entry.place:
        entries.append(entry)
    else:
        insort(entries, entry, key=_by_place)


def _unrecorded(entry: IndexEntry) -> Unknown | None:
    return entry.own if type(entry.own) is Unknown and entry.own.unrecorded else None


class Bucket:
    """The calls with the same key. `unrecorded`: a condition of one of them that a log leaves open."""

    __slots__ = ("entries", "total", "uncertain", "unrecorded")

    def __init__(self) -> None:
        self.entries: list[IndexEntry] = []
        self.uncertain = 0
        self.unrecorded: Unknown | None = None
        self.total: Any = 0

    def copied(self) -> Bucket:
        copy = Bucket()
        copy.entries, copy.uncertain, copy.total = list(self.entries), self.uncertain, self.total
        copy.unrecorded = self.unrecorded
        return copy

    def count(self) -> int | Unknown:
        """The number of the calls; with bounds if some of them are uncertain."""
        number = len(self.entries)
        if not self.uncertain:
            return number
        why: Any = next(entry.own for entry in self.entries if entry.own is not True)
        return why.within((number - self.uncertain, number))  # type: ignore[no-any-return]

    def before(self, place: int) -> Bucket:
        """The calls before a place. Their total is not computed."""
        if not self.entries or self.entries[-1].place < place:
            return self
        found = Bucket()
        found.entries = [entry for entry in self.entries if entry.place < place]
        found.uncertain, found.total = sum(entry.own is not True for entry in found.entries), None
        found.unrecorded = next(filter(None, map(_unrecorded, found.entries)), None) if self.unrecorded else None
        return found


class HistoryIndex:
    """An index of the calls of one session for one history term."""

    __slots__ = ("_buckets", "_deferred", "_keyed_by_string", "_kinds", "_query", "_unindexed")

    def __init__(self, query: HistoryQuery) -> None:
        self._query = query
        self._buckets: dict[Any, Bucket] = {}  # by key: a single value or a tuple
        self._kinds: dict[
            tuple[str, ...], list[IndexEntry]
        ] = {}  # by the kinds of the key: different kinds are incomparable
        self._unindexed: list[IndexEntry] = []  # calls without an index key
        self._keyed_by_string = True  # whether all keys are single strings
        # by key: what `add` was given, still to be decided; weak, since the context has the index
        self._deferred: dict[str, list[tuple[weakref.ref[Any], Any]]] = {}

    def copied(self) -> HistoryIndex:
        """A copy of the index for another session."""
        self._decide_all()
        copy: HistoryIndex = type(self)(self._query)
        copy._buckets = {key: bucket.copied() for key, bucket in self._buckets.items()}
        copy._kinds = {kinds: list(entries) for kinds, entries in self._kinds.items()}
        copy._unindexed, copy._keyed_by_string = list(self._unindexed), self._keyed_by_string
        return copy

    def add(self, context: Any, call: PastCall) -> None:
        """Adds a call whose outcome is recorded."""
        query = self._query
        if query.ok_only and call.status != "ok":
            return
        if query.deferred_by is not None:
            key = call.args.get(query.deferred_by)
            if type(key) is str:
                self._deferred.setdefault(key, []).append((weakref.ref(context), call))
                return
        self._decide(context, call)

    def _decide(self, context: Any, call: PastCall) -> None:
        """Adds a call unless its own conditions are false."""
        query = self._query
        env: Env = [None] * query.size
        env[0] = context
        if not query.bind(env, call):
            return
        own = conjunction([test(env) for test in query.own_conditions]) if query.own_conditions else True
        if own is False:
            return
        entry = IndexEntry(call.place, call, own)
        keys = [hash_key(side(env)) for side, _ in query.equations]
        self._keyed_by_string = self._keyed_by_string and len(keys) == 1 and type(keys[0]) is str
        if None in keys:
            _insert(self._unindexed, entry)
            return
        kinds = _TEXT if self._keyed_by_string else tuple(map(kind_of_key, keys))
        _insert(self._kinds.setdefault(kinds, []), entry)
        self._put(keys[0] if len(keys) == 1 else tuple(keys), entry, env)

    def _decide_deferred(self, key: str) -> None:
        for context, call in self._deferred.pop(key):
            self._decide(context(), call)

    def _decide_all(self) -> None:
        for key in list(self._deferred):
            self._decide_deferred(key)

    def _put(self, key: Any, entry: IndexEntry, env: Env) -> None:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket()
        _insert(bucket.entries, entry)
        if entry.own is not True:
            bucket.uncertain += 1
            bucket.unrecorded = bucket.unrecorded or _unrecorded(entry)
        if self._query.term is not None:
            bucket.total = arithmetic(bucket.total, "+", self._query.term(env))

    def _matching(self, env: Env) -> tuple[Bucket | None, Sequence[IndexEntry]]:
        """(calls that satisfy the equations, calls for which they must be decided)."""
        bucket, others = self._lookup(env)
        until = env[0].before_place
        if until is None:
            return bucket, others
        bucket = bucket and bucket.before(until)
        return bucket if bucket and bucket.entries else None, [entry for entry in others if entry.place < until]

    def _lookup(self, env: Env) -> tuple[Bucket | None, Sequence[IndexEntry]]:
        joins = self._query.equations
        if len(joins) == 1:
            value = joins[0][1](env)
            if type(value) is str and self._keyed_by_string:  # the common case
                if value in self._deferred:
                    self._decide_deferred(value)
                return self._buckets.get(value), ()
            keys = [hash_key(value)]
        else:
            keys = [hash_key(side(env)) for _, side in joins]
        if self._deferred:
            self._decide_all()
        if None in keys:
            return None, sorted(
                [*self._unindexed, *(e for group in self._kinds.values() for e in group)], key=_by_place
            )
        kinds = tuple(map(kind_of_key, keys))
        others = self._unindexed
        if self._kinds and self._kinds.keys() != {kinds}:
            others = [*others, *(e for own, group in self._kinds.items() if own != kinds for e in group)]
        return self._buckets.get(keys[0] if len(keys) == 1 else tuple(keys)), others

    def exists(self, env: Env) -> Truth:
        """Whether a matching call exists."""
        query = self._query
        bucket, others = self._matching(env)
        if not others and not query.residual_conditions:  # the common case
            past = bucket is not None and (
                len(bucket.entries) > bucket.uncertain or bucket.unrecorded or bucket.entries[0].own
            )
            if past is True or not env[0].in_flight:
                return past
        found = [query.judge_match(env, entry) for entry in (bucket.entries if bucket else ())]
        if True in found:
            return True
        found += [query.judge_entry(env, entry) for entry in others]
        found += [self._may_fit(env, call) for call in self._in_flight(env)]
        return disjunction(found)

    def _may_fit(self, env: Env, call: Any) -> Truth:
        """Whether a call in flight matches; unknown as long as nothing says whether it ends well."""
        if self._query.ok_only and call.assumed_status == "failed":
            return False
        value = self._query.judge(env, call)
        if value is True and self._query.ok_only and call.assumed_status is None:
            return Unknown(f"it is unknown whether {call.tool!r} (call {call.place}) ends well")
        return value

    def has_certain(self, key: Any) -> bool:
        """Whether a settled call with this index key certainly matches; `HistoryQuery.decided_by_key` must hold."""
        if key in self._deferred:
            self._decide_deferred(key)
        bucket = self._buckets.get(key)
        return bucket is not None and len(bucket.entries) > bucket.uncertain

    def _in_flight(self, env: Env) -> list[Any]:
        """The calls in flight that may match. They are not indexed yet."""
        in_flight: list[Any] = env[0].in_flight
        if not in_flight:
            return in_flight
        until, tools = env[0].before_place or sys.maxsize, self._query.tools
        return [
            one for one in in_flight if one.tool in tools and one.place < until and one.assumed_status != "withdrawn"
        ]

    def _settled_calls(self, env: Env) -> list[tuple[int, Any, Truth]]:
        """(place, call, whether it matches) for the settled calls that may match."""
        query = self._query
        bucket, others = self._matching(env)
        found = [(e.place, e.call, query.judge_match(env, e)) for e in (bucket.entries if bucket else ())]
        found += [(e.place, e.call, query.judge_entry(env, e)) for e in others]
        return [one for one in found if one[2] is not False]

    def _decisive_bucket(self, env: Env, *, certain: bool = True) -> Bucket | None:
        """The bucket that contains exactly the settled calls that match, or may match if not `certain`; else None."""
        if self._query.residual_conditions:
            return None
        bucket, others = self._matching(env)
        if others:
            return None
        return _EMPTY_BUCKET if bucket is None else None if certain and bucket.uncertain else bucket

    def count(self, env: Env) -> int | Unknown:
        """The number of matching calls."""
        bucket = self._decisive_bucket(env, certain=False)
        settled = (value for _, _, value in self._settled_calls(env)) if bucket is None else ()
        number = count_of(settled) if bucket is None else bucket.count()
        return self._plus_in_flight(env, number)  # type: ignore[no-any-return]

    def sum(self, env: Env) -> Any:
        """The sum of a term over the matching calls."""
        bucket = self._decisive_bucket(env) if self._query.term is not None else None
        if bucket is not None and bucket.total is not None:
            return self._plus_in_flight(env, bucket.total)
        total: Any = 0
        for _, call, value in sorted(self._settled_calls(env), key=_first_of):
            self._query.bind(env, call)
            amount = self._amount(env)
            total = arithmetic(total, "+", amount if value is True else _if_it_counts(amount, value))
        return self._plus_in_flight(env, total)

    def _amount(self, env: Env) -> Any:
        """The summand of the bound past call."""
        term = self._query.term or self._query.late_term
        return 1 if term is None else term(env)

    def _plus_in_flight(self, env: Env, total: Any) -> Any:
        for call in self._in_flight(env) if type(total) is not Unknown or total.bounds else ():
            total = arithmetic(total, "+", self.contribution(env, call))
        return total

    def contribution(self, env: Env, call: Any) -> Any:
        """The contribution of a call in flight to a count or sum; unknown with bounds if it may not count."""
        if call.tool not in self._query.tools:
            return 0
        if call.assumed_status == "withdrawn" or (self._query.ok_only and call.assumed_status != "ok"):
            return 0
        value = self._query.judge(env, call)
        if value is False:
            return 0
        amount = arithmetic(0, "+", self._amount(env))
        if value is True and not call.may_be_withdrawn:
            return amount
        return _if_it_counts(amount, value if type(value) is Unknown else _may_not_run(call))

    def select(self, env: Env, which: str) -> Any:
        """The first or last matching call."""
        bucket, at = self._decisive_bucket(env), 0 if which == "first" else -1
        found: list[tuple[int, Any, Truth]]
        if bucket is None:
            found = self._settled_calls(env)
        else:
            found = [(one.place, one.call, True) for one in bucket.entries[at : at + 1 or None]]
        found += [(one.place, one, self._matches_call(env, one)) for one in self._in_flight(env)]
        for _, call, value in sorted(found, key=_first_of, reverse=which == "last"):
            if value is not False:
                return call if value is True else value
        tools = " or ".join(map(repr, suggested(self._query.tools))) or "any tool"
        return Unknown(f"no call of {tools} was made")

    def _matches_call(self, env: Env, call: Any) -> Truth:
        value = self._query.judge(env, call)
        return _may_not_run(call) if value is True and call.may_be_withdrawn else value


_EMPTY_BUCKET = Bucket()
_first_of = itemgetter(0)


def _may_not_run(call: PastCall) -> Unknown:
    return Unknown(f"it is unknown whether {call.tool!r} (call {call.place}) runs")


def _if_it_counts(amount: Any, why: Any) -> Unknown:
    """The share of a call that may not count, for which `why` is the cause."""
    bounds = bounds_of(amount)
    if bounds is None:
        return amount if type(amount) is Unknown else why
    return why.within((min(0, bounds[0]), max(0, bounds[1])))  # type: ignore[no-any-return]
