"""History indexes: answer the history terms of a rule, and are updated as calls are recorded.

A history term selects the calls that match a pattern and satisfy a condition. The condition is split into conditions on
the past call alone (decided once, when its outcome is recorded), equations with the rest (they give the index
keys), and residual conditions, which are decided by each query.

A term such as `count(f:pay(), within 24h)` has a time window: a call is in it if `now - time(f) <= 24h`. Times never
decrease from call to call, so the calls of a window are the last ones of their bucket. Their number and sum take the
same time in a long history as in a short one.

Indexes are made when they are first used: a conversation touches few of a large policy's rules.
"""

from __future__ import annotations

import sys
import weakref
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from guardagent.policy.language.values import (
    OpenOutcome,
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

# --- sets of tools

ANY = "*"
"""The name in a pattern that matches every tool."""


class AnyTool(frozenset[str]):
    """All tools, known or not, as `*(...)` matches them. Its items are the known ones, as examples."""

    __slots__ = ()

    def __contains__(self, _: object) -> bool:
        return True

    def __and__(self, other: Any) -> frozenset[str]:
        return frozenset(other)

    __rand__ = __and__

    def __or__(self, _: Any) -> AnyTool:
        return self

    __ror__ = __or__

    def __le__(self, other: Any) -> bool:
        return isinstance(other, AnyTool)

    def __ge__(self, _: Any) -> bool:
        return True


def names(tools: frozenset[str], tool: str) -> bool:
    """Whether a set names a tool, and does not just match any."""
    return tool in tools and not isinstance(tools, AnyTool)


def union_of(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """The tools that are in one of the sets."""
    union: frozenset[str] = frozenset()
    for tool_set in sets:
        union = union | tool_set
    return union


def suggested(tools: frozenset[str]) -> Iterator[str]:
    """The tools of a pattern that a remedy can name, in order; none if any tool would do."""
    return iter(()) if isinstance(tools, AnyTool) else iter(sorted(tools))


# --- queries and buckets

Env = list[Any]  # slot 0: the RuleContext; then the values of a rule's names
Term = Callable[[Env], Any]


class PastCall(Protocol):
    """The parts of a call that indexes and the recorder of sources read."""

    tool: str
    args: Any
    place: int
    output: Any
    time: int | None

    @property
    def status(self) -> str | None: ...

    @property
    def assumed_status(self) -> str | None: ...

    @property
    def may_be_withdrawn(self) -> bool: ...

    @property
    def provenance(self) -> Any: ...


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
        conditions = [test(env) for test in self.own_conditions]
        conditions += [equal(own(env), other(env)) for own, other in self.equations]
        if any(value is False for value in conditions):  # as for an indexed call, the residual conditions do not matter
            return False
        conditions += [test(env) for test in self.residual_conditions]
        if self.window is not None:
            conditions.append(in_window(call, self.window(env)))
        return conjunction(conditions)

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
        bucket = Bucket()
        bucket.entries = [entry for entry in self.entries if entry.place < place]
        bucket.uncertain, bucket.total = sum(entry.own is not True for entry in bucket.entries), None
        bucket.unrecorded = next(filter(None, map(_unrecorded, bucket.entries)), None) if self.unrecorded else None
        return bucket


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
        judge_matches = [query.judge_match(env, entry) for entry in (bucket.entries if bucket else ())]
        if True in judge_matches:
            return True
        judge_matches += [query.judge_entry(env, entry) for entry in others]
        judge_matches += [self._may_fit(env, call) for call in self._in_flight(env)]
        return disjunction(judge_matches)

    def _may_fit(self, env: Env, call: Any) -> Truth:
        """Whether a call in flight matches; unknown as long as nothing says whether it ends well."""
        if self._query.ok_only and call.assumed_status == "failed":
            return False
        value = self._query.judge(env, call)
        if value is True and self._query.ok_only and call.assumed_status is None:
            return Unknown(OpenOutcome(f"it is unknown whether {call.tool!r} (call {call.place}) ends well"))
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
            call
            for call in in_flight
            if call.tool in tools and call.place < until and call.assumed_status != "withdrawn"
        ]

    def _settled_calls(self, env: Env) -> list[tuple[int, Any, Truth]]:
        """(place, call, whether it matches) for the settled calls that may match."""
        query = self._query
        bucket, others = self._matching(env)
        matches = [(e.place, e.call, query.judge_match(env, e)) for e in (bucket.entries if bucket else ())]
        matches += [(e.place, e.call, query.judge_entry(env, e)) for e in others]
        return [match for match in matches if match[2] is not False]

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
        settled_calls: list[tuple[int, Any, Truth]]
        if bucket is None:
            settled_calls = self._settled_calls(env)
        else:
            settled_calls = [(entry.place, entry.call, True) for entry in bucket.entries[at : at + 1 or None]]
        settled_calls += [(call.place, call, self._matches_call(env, call)) for call in self._in_flight(env)]
        for _, call, value in sorted(settled_calls, key=_first_of, reverse=which == "last"):
            if value is not False:
                return call if value is True else value
        tools = " or ".join(map(repr, suggested(self._query.tools))) or "any tool"
        return Unknown(f"no call of {tools} was made")

    def _matches_call(self, env: Env, call: Any) -> Truth:
        value = self._query.judge(env, call)
        return _may_not_run(call) if value is True and call.may_be_withdrawn else value


# --- time windows

_EMPTY_BUCKET = Bucket()
_first_of = itemgetter(0)


def _may_not_run(call: PastCall) -> Unknown:
    return Unknown(OpenOutcome(f"it is unknown whether {call.tool!r} (call {call.place}) runs"))


def _if_it_counts(amount: Any, why: Any) -> Unknown:
    """The share of a call that may not count, for which `why` is the cause."""
    bounds = bounds_of(amount)
    if bounds is None:
        return amount & why if type(amount) is Unknown else why  # type: ignore[no-any-return]
    return why.within((min(0, bounds[0]), max(0, bounds[1])))  # type: ignore[no-any-return]


class WindowBucket(Bucket):
    """The calls with the same key, with their times and the sums up to each of them.

    Attributes:
        times: the times of the entries, in order.
        untimed: the number of entries without a time.
        amounts: the summands of the entries.
        sums: the sum of the summands before each entry, and of all of them.
        open_sums: the positions of the entries whose summands are not numbers.
    """

    __slots__ = ("amounts", "open_sums", "sums", "times", "untimed")

    def __init__(self) -> None:
        super().__init__()
        self.times: list[int] = []
        self.amounts: list[Any] = []
        self.sums: list[Any] = [0]
        self.open_sums: list[int] = []
        self.untimed = 0

    def put(self, entry: IndexEntry, amount: Any) -> None:
        """Adds an entry at its place, which is the end unless an earlier call ended later."""
        at = bisect_left(self.entries, entry.place, key=attrgetter("place"))
        self.entries.insert(at, entry)
        self.uncertain += entry.own is not True
        self.untimed += entry.call.time is None
        self.times.insert(at, entry.call.time or 0)
        self.amounts.insert(at, amount)
        del self.sums[at + 1 :], self.open_sums[bisect_left(self.open_sums, at) :]
        for place in range(at, len(self.amounts)):
            self._add(place)

    def _add(self, place: int) -> None:
        total = arithmetic(self.sums[-1], "+", self.amounts[place])
        if type(total) is Unknown:
            self.open_sums.append(place)
        self.sums.append(self.sums[-1] if type(total) is Unknown else total)

    def copied(self) -> WindowBucket:
        copy = WindowBucket()
        copy.entries, copy.uncertain, copy.total = list(self.entries), self.uncertain, self.total
        copy.times, copy.amounts, copy.untimed = list(self.times), list(self.amounts), self.untimed
        copy.sums, copy.open_sums = list(self.sums), list(self.open_sums)
        return copy

    def before(self, place: int) -> WindowBucket:
        if not self.entries or self.entries[-1].place < place:
            return self
        window_bucket = WindowBucket()
        for entry, amount in zip(self.entries, self.amounts, strict=True):
            if entry.place < place:
                window_bucket.put(entry, amount)
        return window_bucket

    def since(self, start: int) -> Bucket:
        """The calls in the window that starts at a moment. Every call has a time."""
        at = bisect_left(self.times, start)
        bucket = Bucket()
        bucket.entries = _Tail(self.entries, at)  # type: ignore[assignment]
        bucket.uncertain = sum(entry.own is not True for entry in bucket.entries) if self.uncertain else 0
        known = not self.open_sums or self.open_sums[-1] < at
        bucket.total = arithmetic(self.sums[-1], "-", self.sums[at]) if known else None
        return bucket


class _Tail(Sequence[IndexEntry]):
    """The entries from a position on, without a copy."""

    __slots__ = ("_at", "_entries")

    def __init__(self, entries: list[IndexEntry], at: int) -> None:
        self._entries, self._at = entries, at

    def __len__(self) -> int:
        return len(self._entries) - self._at

    def __getitem__(self, at: Any) -> Any:
        return self._entries[self._at :][at] if isinstance(at, slice) else self._entries[self._at + at]

    def __iter__(self) -> Iterator[IndexEntry]:
        return (self._entries[at] for at in range(self._at, len(self._entries)))


class WindowIndex(HistoryIndex):
    """An index of the calls of one session for one history term with a window."""

    __slots__ = ()

    def _put(self, key: Any, entry: IndexEntry, env: Env) -> None:
        term = self._query.term
        bucket: Any = self._buckets.setdefault(key, WindowBucket())
        bucket.put(entry, 0 if term is None else term(env))

    def _matching(self, env: Env) -> tuple[Bucket | None, Sequence[IndexEntry]]:
        """The bucket and the other entries that may match, of the calls in the window."""
        bucket, others = super()._matching(env)
        if bucket is None and not others:
            return None, ()
        assert self._query.window is not None
        start = self._query.window(env)
        entries = [entry for entry in (_windowed(index_entry, start) for index_entry in others) if entry is not None]
        return None if bucket is None else _within(bucket, start), entries


def _within(bucket: Any, start: int | Unknown) -> Bucket | None:
    if type(start) is not Unknown and not bucket.untimed:
        recent = bucket.since(start)
        return recent if recent.entries else None
    recent = Bucket()
    recent.entries = [entry for entry in (_windowed(entry, start) for entry in bucket.entries) if entry is not None]
    recent.uncertain, recent.total = sum(entry.own is not True for entry in recent.entries), None
    return recent if recent.entries else None


def _windowed(entry: IndexEntry, start: int | Unknown) -> IndexEntry | None:
    """The entry with its window among its own conditions; None if it is outside."""
    own = conjunction([entry.own, in_window(entry.call, start)])
    return None if own is False else entry._replace(own=own)


# --- indexes on demand

T = TypeVar("T")


class OnDemand(dict[int, T], Generic[T]):
    """A mapping that makes a missing value by its number.

    Args:
        make: for each number, a function that makes its value.
        made: values that are there already.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Sequence[Callable[[], T]], made: Mapping[int, T] | None = None) -> None:
        super().__init__(made or ())
        self._make = make

    def __missing__(self, number: int) -> T:
        made = self[number] = self._make[number]()
        return made

    def changed(self, change: Callable[[int, T], T]) -> OnDemand[T]:
        """Returns another mapping with a changed value for each one that is there."""
        return OnDemand(self._make, {number: change(number, value) for number, value in self.items()})
