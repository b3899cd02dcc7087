"""Views of the history: what the history terms of a rule need of it, kept up to date as it grows.

A history term speaks of calls that match a pattern and satisfy a condition. The condition is taken apart into what
depends on the past call alone (decided once, when the call's outcome is recorded), equations between the past call and
the rest (by which the calls are indexed), and what is left, which is decided when it is asked for.
"""

from __future__ import annotations

import sys
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from guardagent.policy.values import Truth, Unknown, arithmetic, conjunction, disjunction, equal, hash_key, kind_of_key

Env = list[Any]  # the values of a rule's names; the first is the Trace
Term = Callable[[Env], Any]


class PastCall(Protocol):
    """What a view reads of a call."""

    tool: str
    args: Any
    place: int

    @property
    def status(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """What a history term asks for, compiled.

    Attributes:
        tools: the tools of the pattern.
        size: how many names the rule has.
        label: the place of the past call among them.
        required: arguments that a past call must have.
        binders: (place of a variable, the argument that it is bound to).
        own: conditions on the past call alone.
        joined: those of the equations that are of variables: (place of the variable, the argument that it equals).
        joins: equations: (a side that depends on the past call alone, the side that does not depend on it).
        rest: the other conditions.
        ok_only: whether only calls that went well count.
        term: what is summed up, if it depends on the past call alone; with `late_term` otherwise.
    """

    tools: frozenset[str]
    size: int
    label: int
    required: tuple[str, ...]
    binders: tuple[tuple[int, str], ...]
    own: tuple[Term, ...]
    joined: tuple[tuple[int, str], ...]
    joins: tuple[tuple[Term, Term], ...]
    rest: tuple[Term, ...]
    ok_only: bool = False
    term: Term | None = None
    late_term: Term | None = None

    def bind(self, env: Env, call: PastCall) -> bool:
        """Puts a past call and its arguments among the names; false where it lacks one."""
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
        """Everything, for one past call."""
        if not self.bind(env, call):
            return False
        return conjunction([*(test(env) for test in self.own), *self._joined(env), *(test(env) for test in self.rest)])

    def _joined(self, env: Env) -> Iterable[Truth]:
        return (equal(own(env), other(env)) for own, other in self.joins)

    def judge_entry(self, env: Env, entry: Entry) -> Truth:
        """Everything but what was decided already."""
        self.bind(env, entry.call)
        return conjunction([entry.own, *self._joined(env), *(test(env) for test in self.rest)])

    def judge_match(self, env: Env, entry: Entry) -> Truth:
        """What is left where the equations hold."""
        if not self.rest:  # the common case
            return entry.own
        self.bind(env, entry.call)
        return conjunction([entry.own, *(test(env) for test in self.rest)])


class Entry(NamedTuple):
    """A past call in a view. `own`: true, or unknown."""

    place: int
    call: Any
    own: Truth


_by_place = attrgetter("place")


class _Bucket:
    """The calls for which the equations have the same values."""

    __slots__ = ("entries", "total", "unsure")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.unsure = 0
        self.total: Any = 0

    def copied(self) -> _Bucket:
        copy = _Bucket()
        copy.entries, copy.unsure, copy.total = list(self.entries), self.unsure, self.total
        return copy

    def before(self, place: int) -> _Bucket:
        """Without the calls from a place on; the total is not known then."""
        if not self.entries or self.entries[-1].place < place:
            return self
        found = _Bucket()
        found.entries = [entry for entry in self.entries if entry.place < place]
        found.unsure, found.total = sum(entry.own is not True for entry in found.entries), None
        return found


class View:
    """The calls of one session that a history term may mean."""

    __slots__ = ("_buckets", "_kinds", "_odd", "_spec", "_texts")

    def __init__(self, spec: ViewSpec) -> None:
        self._spec = spec
        self._buckets: dict[Any, _Bucket] = {}  # by the values of the equations: by one alone, or a tuple
        self._kinds: dict[tuple[str, ...], list[Entry]] = {}  # by the kinds of the values: others are incomparable
        self._odd: list[Entry] = []  # those whose values cannot be indexed
        self._texts = True  # whether all are indexed, by one text

    def copied(self) -> View:
        """The same calls, for a session of its own."""
        copy = View(self._spec)
        copy._buckets = {key: bucket.copied() for key, bucket in self._buckets.items()}
        copy._kinds = {kinds: list(entries) for kinds, entries in self._kinds.items()}
        copy._odd, copy._texts = list(self._odd), self._texts
        return copy

    def add(self, trace: Any, call: PastCall) -> None:
        """Takes in a call whose outcome was recorded."""
        spec = self._spec
        if spec.ok_only and call.status != "ok":
            return
        env: Env = [None] * spec.size
        env[0] = trace
        if not spec.bind(env, call):
            return
        own = conjunction(test(env) for test in spec.own)
        if own is False:
            return
        entry = Entry(call.place, call, own)
        keys = [hash_key(side(env)) for side, _ in spec.joins]
        self._texts = self._texts and len(keys) == 1 and type(keys[0]) is str
        if None in keys:
            insort(self._odd, entry, key=_by_place)
            return
        insort(self._kinds.setdefault(tuple(map(kind_of_key, keys)), []), entry, key=_by_place)
        self._put(keys[0] if len(keys) == 1 else tuple(keys), entry, env)

    def _put(self, key: Any, entry: Entry, env: Env) -> None:
        bucket = self._buckets.setdefault(key, _Bucket())
        insort(bucket.entries, entry, key=_by_place)
        bucket.unsure += entry.own is not True
        if self._spec.term is not None:
            bucket.total = arithmetic(bucket.total, "+", self._spec.term(env))

    def _found(self, env: Env) -> tuple[_Bucket | None, Sequence[Entry]]:
        """(the calls for which the equations hold, those for which they have to be looked at)."""
        bucket, others = self._looked_up(env)
        until = env[0].until
        if until is None:
            return bucket, others
        bucket = bucket and bucket.before(until)
        return bucket if bucket and bucket.entries else None, [entry for entry in others if entry.place < until]

    def _looked_up(self, env: Env) -> tuple[_Bucket | None, Sequence[Entry]]:
        joins = self._spec.joins
        if len(joins) == 1:
            value = joins[0][1](env)
            if type(value) is str and self._texts:  # the common case
                return self._buckets.get(value), ()
            keys = [hash_key(value)]
        else:
            keys = [hash_key(side(env)) for _, side in joins]
        if None in keys:
            return None, sorted([*self._odd, *(e for group in self._kinds.values() for e in group)], key=_by_place)
        kinds = tuple(map(kind_of_key, keys))
        others = self._odd
        if self._kinds and self._kinds.keys() != {kinds}:
            others = [*others, *(e for own, group in self._kinds.items() if own != kinds for e in group)]
        return self._buckets.get(keys[0] if len(keys) == 1 else tuple(keys)), others

    def some(self, env: Env) -> Truth:
        """Whether there is such a call."""
        spec = self._spec
        bucket, others = self._found(env)
        if not others and spec.ok_only and not spec.rest and not env[0].in_flight:  # the common case
            if bucket is None:
                return False
            return True if len(bucket.entries) > bucket.unsure else bucket.entries[0].own
        found = [spec.judge_match(env, entry) for entry in (bucket.entries if bucket else ())]
        if True in found:
            return True
        found += [spec.judge_entry(env, entry) for entry in others]
        found += [spec.judge(env, call) for call in self._in_flight(env) if not spec.ok_only or call.assumed == "ok"]
        return disjunction(found)

    def _in_flight(self, env: Env) -> list[Any]:
        """The calls that may be meant and whose outcome is open: no view has them yet."""
        in_flight: list[Any] = env[0].in_flight
        if not in_flight:
            return in_flight
        until = env[0].until or sys.maxsize
        return [call for call in in_flight if call.tool in self._spec.tools and call.place < until]

    def _all(self, env: Env) -> list[tuple[int, Any, Truth]]:
        """(place, call, whether it is one), in order, of all calls that may be."""
        spec = self._spec
        bucket, others = self._found(env)
        found = [(e.place, e.call, spec.judge_match(env, e)) for e in (bucket.entries if bucket else ())]
        found += [(e.place, e.call, spec.judge_entry(env, e)) for e in others]
        found += [(call.place, call, spec.judge(env, call)) for call in self._in_flight(env)]
        return sorted((one for one in found if one[2] is not False), key=lambda one: one[0])

    def _settled(self, env: Env) -> _Bucket | None:
        """The bucket that alone decides, where one does."""
        if self._spec.rest or self._in_flight(env):
            return None
        bucket, others = self._found(env)
        if others:
            return None
        return _NOTHING if bucket is None else None if bucket.unsure else bucket

    def count(self, env: Env) -> int | Unknown:
        """How many such calls there are."""
        bucket = self._settled(env)
        if bucket is not None:
            return len(bucket.entries)
        found = self._all(env)
        return _first_unknown(value for _, _, value in found) or len(found)

    def select(self, env: Env, which: str) -> Any:
        """The first or last such call."""
        bucket = self._settled(env)
        if bucket is not None:
            if bucket.entries:
                return bucket.entries[0 if which == "first" else -1].call
            return Unknown(f"there is no {which} call of {' or '.join(sorted(self._spec.tools))}")
        found = self._all(env)
        for _, call, value in found if which == "first" else reversed(found):
            return call if value is True else value
        return Unknown(f"there is no {which} call of {' or '.join(sorted(self._spec.tools))}")

    def sum(self, env: Env) -> Any:
        """The sum of a term over them."""
        bucket = self._settled(env) if self._spec.term is not None else None
        if bucket is not None and bucket.total is not None:
            return bucket.total
        term = self._spec.term or self._spec.late_term
        assert term is not None
        total: Any = 0
        for _, call, value in self._all(env):
            if type(value) is Unknown:
                return value
            self._spec.bind(env, call)
            total = arithmetic(total, "+", term(env))
        return total


_NOTHING = _Bucket()


def _first_unknown(values: Iterable[Truth]) -> Unknown | None:
    return next((value for value in values if type(value) is Unknown), None)
