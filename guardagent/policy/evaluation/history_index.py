"""History indexes: answer the history terms of a rule, and are updated as calls are recorded.

A history term selects the calls that match a pattern and satisfy a condition. The condition is split into conditions on
the past call alone (decided once, when its outcome is recorded), equations with the rest (they give the index
keys), and residual conditions, which are decided by each query for the calls that its check can match
(see `call_groups`).

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
from fractions import Fraction
from operator import attrgetter, itemgetter
from typing import Any, Generic, TypeVar

from guardagent.policy.evaluation.call_groups import CallGroup, CallGroups, by_place
from guardagent.policy.evaluation.history_query import Env, HistoryQuery, IndexEntry, PastCall, in_window
from guardagent.policy.language.values import (
    OpenOutcome,
    Truth,
    Unknown,
    arithmetic,
    bounds_of,
    conjunction,
    count_of,
    disjunction,
    exact,
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


# --- buckets

_TEXT = ("text",)  # the kinds of a key that is a single string


def _insert(entries: list[IndexEntry], entry: IndexEntry) -> None:
    """Inserts an entry by its place, which is mostly the last one."""
    if not entries or entries[-1].place < entry.place:
        entries.append(entry)
    else:
        insort(entries, entry, key=by_place)


def _removed(entries: list[IndexEntry], place: int) -> IndexEntry | None:
    at = bisect_left(entries, place, key=by_place)
    return entries.pop(at) if at < len(entries) and entries[at].place == place else None


def _unrecorded(entry: IndexEntry) -> Unknown | None:
    return entry.own if type(entry.own) is Unknown and entry.own.unrecorded else None


FEW = 8  # calls of a bucket up to which all are decided


class Bucket:
    """The calls with the same key. `unrecorded`: a condition of one of them that a log leaves open.

    `is_part`: it is made for one check.
    """

    __slots__ = ("entries", "groups", "is_part", "total", "uncertain", "unrecorded")

    def __init__(self, entries: Iterable[IndexEntry] = (), *, is_part: bool = False) -> None:
        self.entries = list(entries)
        self.groups: CallGroups | None = None
        self.is_part = is_part
        self.uncertain = 0
        self.unrecorded: Unknown | None = None
        self.total: Any = 0

    def copied(self) -> Bucket:
        copy = Bucket()
        copy.entries, copy.uncertain = list(self.entries), self.uncertain
        copy.total = set(self.total) if type(self.total) is set else self.total
        copy.unrecorded, copy.groups = self.unrecorded, self.groups and self.groups.copied()
        return copy

    def add(self, env: Env, entry: IndexEntry) -> None:
        _insert(self.entries, entry)
        if entry.own is not True:
            self.uncertain += 1
            self.unrecorded = self.unrecorded or _unrecorded(entry)
        if self.groups is not None:
            self.groups.add(env, entry)

    def remove(self, place: int) -> None:
        """Removes the entry of a place; the total stays."""
        if (entry := _removed(self.entries, place)) is not None:
            self.uncertain -= entry.own is not True
            self.groups = None

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
        bucket = Bucket((entry for entry in self.entries if entry.place < place), is_part=True)
        bucket.uncertain, bucket.total = sum(entry.own is not True for entry in bucket.entries), None
        bucket.unrecorded = next(filter(None, map(_unrecorded, bucket.entries)), None) if self.unrecorded else None
        return bucket


GroupMatch = tuple[CallGroup, int, Truth]  # a group of calls that match or may match; 0 if the equations hold for them


def number_of_different(values: Iterable[tuple[Truth, Any]]) -> int | Unknown:
    """The number of different values, each with whether its call matches: true or unknown."""
    sure, possible, unread, cause, is_any = set[Any](), set[Any](), 0, Unknown(), False
    for truth, value in values:
        key = hash_key(value)
        is_any = is_any or truth is True
        (sure if truth is True else possible).update(() if key is None else (key,))
        unread += key is None
        reasons = [why for why in (truth, value) if type(why) is Unknown]
        cause = reasons[0] if reasons else Unknown("a value cannot be counted") if key is None else cause
    least, most = max(len(sure), int(is_any)), len(sure | possible) + unread
    return least if least == most else cause.within((least, most))


class HistoryIndex:
    """An index of the calls of one session for one history term."""

    __slots__ = ("_buckets", "_deferred", "_keyed_by_string", "_kinds", "_query", "_unindexed")

    def __init__(self, query: HistoryQuery) -> None:
        self._query = query
        self._buckets: dict[Any, Bucket] = {}  # by key: a single value or a tuple
        self._kinds: dict[
            tuple[str, ...], list[IndexEntry]
        ] = {}  # by the kinds of the key: different kinds are incomparable
        self._unindexed = Bucket()  # calls without an index key
        self._keyed_by_string = True  # whether all keys are single strings
        # by key: what `add` was given, still to be decided; weak, since the context has the index
        self._deferred: dict[str, list[tuple[weakref.ref[Any], Any]]] = {}

    def copied(self) -> HistoryIndex:
        """A copy of the index for another session."""
        self._decide_all()
        copy: HistoryIndex = type(self)(self._query)
        copy._buckets = {key: bucket.copied() for key, bucket in self._buckets.items()}
        copy._kinds = {kinds: list(entries) for kinds, entries in self._kinds.items()}
        copy._unindexed, copy._keyed_by_string = self._unindexed.copied(), self._keyed_by_string
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
            self._unindexed.add(env, entry)
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
        bucket.add(env, entry)
        if self._query.distinct:
            bucket.total = self._with_value(bucket.total, env)
        elif self._query.term is not None:
            bucket.total = arithmetic(bucket.total, "+", self._query.term(env))

    def _with_value(self, values: Any, env: Env) -> set[Any] | None:
        """The different values of a bucket with another one; None if one is not known, or depends on the check."""
        value = None if self._query.term is None or values is None else hash_key(self._query.term(env))
        if value is None:
            return None
        values = values or set()
        values.add(value)
        return values  # type: ignore[no-any-return]

    def _matching(self, env: Env) -> tuple[Bucket | None, Sequence[Bucket]]:
        """(calls that satisfy the equations, calls for which they must be decided)."""
        bucket, others = self._lookup(env)
        until = env[0].before_place
        if until is None:
            return bucket, others
        bucket = bucket and bucket.before(until)
        earlier = [other.before(until) for other in others]
        return bucket if bucket and bucket.entries else None, [other for other in earlier if other.entries]

    def _lookup(self, env: Env) -> tuple[Bucket | None, Sequence[Bucket]]:
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
        kinds = () if None in keys else tuple(map(kind_of_key, keys))
        entries = [entry for own, group in self._kinds.items() if own != kinds for entry in group]
        if None in keys:
            entries = sorted([*self._unindexed.entries, *entries], key=by_place)
            return None, [Bucket(entries, is_part=True)] if entries else []
        others = [part for part in (self._unindexed, Bucket(entries, is_part=True)) if part.entries]
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
        open_matches = []
        for match in self._matches(env, bucket, others):
            if match[2] is True and match[0].is_certain:
                return True
            open_matches.append(match)
        in_flight = (self._may_fit(env, call) for call in self._in_flight(env))
        return disjunction([*self._causes(env, open_matches), *in_flight])

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

    def _groups(self, env: Env, bucket: Bucket | None, others: Sequence[Bucket]) -> Iterator[tuple[CallGroup, int]]:
        """The groups of settled calls that may match, each with its number: 0 if the equations hold."""
        narrow = self._query.narrowing is not None
        for number, part in enumerate((bucket, *others)):
            if part is None or part.is_part or len(part.entries) <= FEW or not narrow:
                groups: Iterable[CallGroup] = map(CallGroup, part.entries if part else ())
            else:
                part.groups = part.groups or CallGroups(self._query, part.entries, is_keyed=number == 0)
                groups = part.groups.candidates(env)
            yield from ((group, number) for group in groups)

    def _matches(self, env: Env, bucket: Bucket | None, others: Sequence[Bucket]) -> Iterator[GroupMatch]:
        """The groups of settled calls that match or may match."""
        for group, number in self._groups(env, bucket, others):
            truth = group.truth
            if truth is None:
                truth = self._query.decide(env, group.members[0], is_keyed=number == 0, values=group.values)
            if truth is not False:
                yield group, number, truth

    def _causes(self, env: Env, matches: Iterable[GroupMatch]) -> list[Truth]:
        """The truths of calls that may match, in order: those of which a combined result names the causes."""
        causes: list[tuple[int, int, Truth]] = []
        for group, number, truth in matches:
            for at, entry in enumerate(group.causes(truth)):
                value = group.truths[at] if at < len(group.truths) else None
                if value is None:
                    value = self._query.judge_entry(env, entry, is_keyed=number == 0)
                    group.truths += [] if group.truth is None else [value]
                causes.append((number, entry.place, value))
        return [value for _, _, value in sorted(causes, key=itemgetter(0, 1))]

    def count(self, env: Env) -> int | Unknown:
        """The number of matching calls."""
        bucket, others = self._matching(env)
        if not others and not self._query.residual_conditions:  # the common case
            return self._plus_in_flight(env, bucket.count() if bucket is not None else 0)  # type: ignore[no-any-return]
        matches = list(self._matches(env, bucket, others))
        open_matches = [match for match in matches if match[2] is not True or not match[0].is_certain]
        most, unsure = (sum(len(group.members) for group, _, _ in part) for part in (matches, open_matches))
        number: Any = most
        if open_matches:
            number = count_of(self._causes(env, open_matches)).within((most - unsure, most))  # type: ignore[union-attr]
        return self._plus_in_flight(env, number)  # type: ignore[no-any-return]

    def sum(self, env: Env) -> Any:
        """The sum of a term over the matching calls."""
        bucket, others = self._matching(env)
        is_decisive = bucket is None or not (bucket.uncertain or bucket.total is None)
        if not others and not self._query.residual_conditions and self._query.term is not None and is_decisive:
            return self._plus_in_flight(env, 0 if bucket is None else bucket.total)
        matches = list(self._matches(env, bucket, others))
        totals = [group.total if truth is True and group.is_certain else None for group, _, truth in matches]
        if all(type(total) in (int, Fraction) for total in totals):
            return self._plus_in_flight(env, exact(sum(totals)))
        total: Any = 0
        entries = [(entry, number == 0) for group, number, _ in matches for entry in group.members]
        for entry, is_keyed in sorted(entries, key=lambda pair: pair[0].place):
            value = self._query.judge_entry(env, entry, is_keyed=is_keyed)
            self._query.bind(env, entry.call)
            amount = self._amount(env)
            total = arithmetic(total, "+", amount if value is True else _if_it_counts(amount, value))
        return self._plus_in_flight(env, total)

    def _truths(self, env: Env, bucket: Bucket | None, others: Sequence[Bucket]) -> Iterator[tuple[Any, Truth]]:
        """Yields each call that may match, and whether it does; its names are bound at that moment."""
        matches = list(self._matches(env, bucket, others))
        for group, number, _ in matches:
            for entry in group.members:
                value = self._query.judge_entry(env, entry, is_keyed=number == 0)
                self._query.bind(env, entry.call)
                yield entry.call, value
        for call in self._in_flight(env):
            may_fit = self._may_fit if self._query.ok_only else self._matches_call
            yield call, may_fit(env, call)

    def distinct(self, env: Env) -> int | Unknown:
        """The number of different values of a term over the matching calls."""
        bucket, others = self._matching(env)
        is_plain = bucket is None or (type(bucket.total) is set and not bucket.uncertain)
        if is_plain and not others and not self._query.residual_conditions and not self._in_flight(env):
            return 0 if bucket is None else len(bucket.total)
        term: Any = self._query.term or self._query.late_term
        truths = self._truths(env, bucket, others)
        return number_of_different((truth, term(env)) for _, truth in truths if truth is not False)

    def last_place(self, env: Env, none: int) -> int | Unknown:
        """The place of the last matching call in the history; `none` without one."""
        bucket, others = self._matching(env)
        if not others and not self._query.residual_conditions and not self._in_flight(env):
            if bucket is None:
                return none
            if bucket.entries[-1].own is True:
                return bucket.entries[-1].place
        least = most = none
        cause = Unknown()
        for call, truth in self._truths(env, bucket, others):
            least = max(least, call.place) if truth is True else least
            if truth is not False and call.place > most:
                most, cause = call.place, truth if type(truth) is Unknown else cause
        return least if least == most else cause.within((least, most))

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
        bucket, others = self._matching(env)
        settled_calls = self._selected(env, which, bucket, others)
        settled_calls += [(call.place, call, self._matches_call(env, call)) for call in self._in_flight(env)]
        for _, call, value in sorted(settled_calls, key=_first_of, reverse=which == "last"):
            if value is not False:
                return call if value is True else value
        tools = " or ".join(map(repr, suggested(self._query.tools))) or "any tool"
        return Unknown(f"no call of {tools} was made")

    def _selected(
        self, env: Env, which: str, bucket: Bucket | None, others: Sequence[Bucket]
    ) -> list[tuple[int, Any, Truth]]:
        """(place, call, whether it matches) for the first or last settled call that may match, if there is one."""
        query, at = self._query, 0 if which == "first" else -1
        if bucket is not None and not others and not query.residual_conditions:  # the common case
            return [(entry.place, entry.call, entry.own) for entry in bucket.entries[at : at + 1 or None]]
        ends = [(group.members[at], number == 0, group) for group, number in self._groups(env, bucket, others)]
        for entry, is_keyed, group in sorted(ends, key=lambda end: end[0].place, reverse=which == "last"):
            if query.decide(env, group.members[0], is_keyed=is_keyed, values=group.values) is not False:
                return [(entry.place, entry.call, query.judge_entry(env, entry, is_keyed=is_keyed))]
        return []

    def _matches_call(self, env: Env, call: Any) -> Truth:
        value = self._query.judge(env, call)
        return _may_not_run(call) if value is True and call.may_be_withdrawn else value


# --- time windows

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

    def put(self, env: Env, entry: IndexEntry, amount: Any) -> None:
        """Adds an entry at its place, which is the end unless an earlier call ended later."""
        at = bisect_left(self.entries, entry.place, key=attrgetter("place"))
        self.entries.insert(at, entry)
        self.uncertain += entry.own is not True
        self.untimed += entry.call.time is None
        self.times.insert(at, entry.call.time or 0)
        self.amounts.insert(at, amount)
        if self.groups is not None:
            self.groups.add(env, entry)
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
        copy.groups = self.groups and self.groups.copied()
        return copy

    def before(self, place: int) -> WindowBucket:
        if not self.entries or self.entries[-1].place < place:
            return self
        window_bucket = WindowBucket()
        window_bucket.is_part = True
        for entry, amount in zip(self.entries, self.amounts, strict=True):
            if entry.place < place:
                window_bucket.put([], entry, amount)
        return window_bucket

    def since(self, start: int) -> Bucket:
        """The calls in the window that starts at a moment. Every call has a time."""
        at = bisect_left(self.times, start)
        bucket = Bucket(is_part=True)
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
        bucket.put(env, entry, 0 if term is None or self._query.distinct else term(env))

    def _matching(self, env: Env) -> tuple[Bucket | None, Sequence[Bucket]]:
        """The bucket and the other calls that may match, of the calls in the window."""
        bucket, others = super()._matching(env)
        if self._query.residual_conditions or (bucket is None and not others):
            return bucket, others
        assert self._query.window is not None
        start = self._query.window(env)
        windows = [_part_within(other.entries, start) for other in others]
        return None if bucket is None else _within(bucket, start), [window for window in windows if window.entries]

    def _groups(self, env: Env, bucket: Bucket | None, others: Sequence[Bucket]) -> Iterator[tuple[CallGroup, int]]:
        groups = super()._groups(env, bucket, others)
        if not self._query.residual_conditions or (bucket is None and not others):
            yield from groups
            return
        assert self._query.window is not None
        start = self._query.window(env)
        for group, number in groups:
            entries = [entry for member in group.members if (entry := _windowed(member, start)) is not None]
            certain = [entry for entry in entries if entry.own is True]
            for part in [certain, *([entry] for entry in entries if entry.own is not True)]:
                if part:
                    yield CallGroup(*part), number


def _within(bucket: Any, start: int | Unknown) -> Bucket | None:
    if type(start) is not Unknown and not bucket.untimed:
        recent = bucket.since(start)
        return recent if recent.entries else None
    recent = _part_within(bucket.entries, start)
    recent.uncertain, recent.total = sum(entry.own is not True for entry in recent.entries), None
    return recent if recent.entries else None


def _part_within(entries: Iterable[IndexEntry], start: int | Unknown) -> Bucket:
    windowed = (_windowed(entry, start) for entry in entries)
    return Bucket((entry for entry in windowed if entry is not None), is_part=True)


def _windowed(entry: IndexEntry, start: int | Unknown) -> IndexEntry | None:
    """The entry with its window among its own conditions; None if it is outside."""
    own = conjunction([entry.own, in_window(entry.call, start)])
    return None if own is False else entry._replace(own=own)


# --- calls in flight


class PendingIndex(HistoryIndex):
    """An index of the calls in flight. Their own conditions are decided by the first check after them."""

    __slots__ = ("_keys", "_undecided")

    def __init__(self, query: HistoryQuery) -> None:
        super().__init__(query)
        self._undecided: dict[int, PastCall] = {}
        self._keys: dict[int, Any] = {}  # by place, for the calls with an index key

    def copied(self) -> HistoryIndex:
        copy: PendingIndex = super().copied()  # type: ignore[assignment]
        copy._undecided, copy._keys = dict(self._undecided), dict(self._keys)
        return copy

    def add(self, _: Any, call: PastCall) -> None:
        """Adds a call that is now in flight."""
        self._undecided[call.place] = call

    def remove(self, call: PastCall) -> None:
        """Removes a call that is no longer in flight."""
        if self._undecided.pop(call.place, None) is not None:
            return
        key = self._keys.pop(call.place, None)
        bucket = self._unindexed if key is None else self._buckets[key]
        bucket.remove(call.place)
        if key is not None and not bucket.entries:
            del self._buckets[key]
        for entries in self._kinds.values():
            _removed(entries, call.place)

    def _put(self, key: Any, entry: IndexEntry, env: Env) -> None:
        super()._put(key, entry, env)
        self._keys[entry.place] = key

    def _lookup(self, env: Env) -> tuple[Bucket | None, Sequence[Bucket]]:
        for place, call in list(self._undecided.items()):
            self._decide(env[0], call)
            del self._undecided[place]
        return super()._lookup(env)

    def _in_flight(self, _: Env) -> list[Any]:
        return []  # they are indexed


def index_type(query: HistoryQuery) -> type[HistoryIndex]:
    """The type of the index for a query."""
    if query.in_flight:
        return PendingIndex
    return HistoryIndex if query.window is None else WindowIndex


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
