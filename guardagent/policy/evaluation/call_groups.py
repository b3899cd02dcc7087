"""Groups of recorded calls that a condition cannot tell apart, and the groups that a check can match.

The conditions of a history term are decided once per group and check: by its first call. A group is kept as long as the
index. When it appears, its probes give the keys by which later checks find it; see `probes`. A check decides only the
groups with its keys, and those for which no probe is necessary.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from guardagent.policy.evaluation.history_query import Env, HistoryQuery, IndexEntry
from guardagent.policy.evaluation.probes import KeyProbe, Prober
from guardagent.policy.language.values import MAX_CAUSES, StringSet, Truth, Unknown, arithmetic, kind_of_key

by_place = attrgetter("place")
_SCALARS = frozenset({str, int, bool, float, type(None), Decimal, Fraction, StringSet})  # equal if their `repr` is


NOT_KEPT = object()
"""Stands for a value that is not kept."""


class CallGroup:
    """Calls that the conditions do not tell apart.

    Attributes:
        members: the calls, by place.
        is_certain: whether their own conditions are true; otherwise all are unknown for the same reason.
        total: the sum of their summands; None if it is not computed.
        truth: the truth of the residual conditions for every check; None if it depends on the check.
        values: the values of the terms that tell calls apart, as far as they are small; None if none is.
        truths: the truths of the first members, as far as they are computed, if `truth` is unknown.
    """

    __slots__ = ("is_certain", "members", "total", "truth", "truths", "values")

    def __init__(self, *members: IndexEntry) -> None:
        self.members = list(members)
        self.is_certain = not members or members[0].own is True
        self.total: Any = None
        self.truth: Truth | None = None
        self.truths: list[Truth] = []
        self.values: Sequence[Any] | None = None

    def copied(self) -> CallGroup:
        copy = CallGroup(*self.members)
        copy.total, copy.truth, copy.values = self.total, self.truth, self.values
        return copy

    def causes(self, truth: Truth) -> Sequence[IndexEntry]:
        """Enough members for the causes of an unknown result: those of one kind, or all if a log leaves some open."""
        own = self.members[0].own
        is_open = any(type(value) is Unknown and value.undetermined for value in (own, truth))
        return self.members if is_open else self.members[:MAX_CAUSES]


class CallGroups:
    """The groups of the calls in a bucket.

    Args:
        query: the query, which has a narrowing.
        entries: the calls so far.
        is_keyed: whether the calls satisfy the equations of the query; otherwise these are conditions like the others.
    """

    def __init__(self, query: HistoryQuery, entries: Iterable[IndexEntry], *, is_keyed: bool) -> None:
        assert query.narrowing is not None
        self._query, self._narrowing, self._is_keyed = query, query.narrowing, is_keyed
        self._pending = list(entries)  # not yet classified
        self._groups: dict[Any, CallGroup] = {}
        self._live: list[CallGroup] = []  # those that some check can match
        probes = [probe for probe, _ in self._narrowing.probes] if is_keyed else []
        alternatives = [probe for probe in probes if not probe.is_order]
        self._sets = [ProbeSet(probe) for probe in probes]
        if len(alternatives) > 1:
            self._sets.append(ProbeSet(*alternatives))

    def copied(self) -> CallGroups:
        """A copy for another session."""
        copy = CallGroups(self._query, self._pending, is_keyed=self._is_keyed)
        copies = {group: group.copied() for group in self._groups.values()}
        copy._groups = {key: copies[group] for key, group in self._groups.items()}
        copy._live = [copies[group] for group in self._live]
        copy._sets = [probe_set.copied(copies) for probe_set in self._sets]
        return copy

    def candidates(self, env: Env) -> Sequence[CallGroup]:
        """The groups that may match; all others are certainly false."""
        for entry in self._pending:
            self.add(env, entry)
        self._pending = []
        try:
            for term in self._narrowing.fallible:
                term(env)
            values = {probe: other(env) for probe, other in self._narrowing.probes} if self._sets else {}
            choices = [groups for probe_set in self._sets if (groups := probe_set.candidates(values)) is not None]
        except Exception:  # noqa: BLE001 - raised again below where a call meets it
            for group in self._groups.values():
                self.truth(env, group)
            choices = []
        return min(choices, key=len, default=self._live)

    def truth(self, env: Env, group: CallGroup) -> Truth:
        """Decides all but the own conditions for the calls of a group."""
        return self._query.decide(env, group.members[0], is_keyed=self._is_keyed)

    def add(self, env: Env, entry: IndexEntry) -> None:
        """Adds a call to its group."""
        query = self._query
        query.bind(env, entry.call)
        own = [term(env) for term in self._narrowing.own]
        values = own if self._is_keyed else [*own, *(side(env) for side, _ in query.equations)]
        key = _identity(values if entry.own is True else [*values, entry.own])
        group = self._groups.get(entry.place if key is None else key)
        if group is None:
            group = self._groups[entry.place if key is None else key] = CallGroup(entry)
            group.total = None if query.term is None else 0
            kept = [value if _is_small(value) else NOT_KEPT for value in own]
            group.values = None if all(value is NOT_KEPT for value in kept) else kept
            self._index(env, group)
        elif group.members[-1].place < entry.place:
            group.members.append(entry)
        else:
            insort(group.members, entry, key=by_place)
            group.truths = []
        if query.term is not None:
            query.bind(env, entry.call)
            group.total = arithmetic(group.total, "+", query.term(env))

    def _index(self, env: Env, group: CallGroup) -> None:
        """Enters a new group under the keys of its probes."""
        if not self._is_keyed:
            self._live.append(group)
            return
        prober = env[self._narrowing.mode] = Prober()
        try:
            truth = self.truth(env, group)
            if truth is False:
                return
            group.truth = None if prober.is_open else truth
            self._live.append(group)
            for probe_set in self._sets:
                prober.failing = {probe: set() for probe in probe_set.probes}
                probe_set.add(group, prober.failing if self.truth(env, group) is False else None)
        finally:
            env[self._narrowing.mode] = None


class ProbeSet:
    """Groups by the keys of some probes, one of which must succeed for them to match.

    Attributes:
        probes: the probes.
    """

    def __init__(self, *probes: KeyProbe) -> None:
        self.probes = probes
        self._tables = [KeyTable(probe) for probe in probes]
        self._rest: list[CallGroup] = []  # the groups that may match although all of the probes fail

    def copied(self, copies: Mapping[CallGroup, CallGroup]) -> ProbeSet:
        copy = ProbeSet(*self.probes)
        copy._tables = [table.copied(copies) for table in self._tables]
        copy._rest = [copies[group] for group in self._rest]
        return copy

    def add(self, group: CallGroup, keys: Mapping[KeyProbe, set[Any]] | None) -> None:
        """Adds a group with the keys of each probe, of one kind; None: it may match in any case."""
        if keys is None or any(len(set(map(kind_of_key, probe_keys))) > 1 for probe_keys in keys.values()):
            self._rest.append(group)
            return
        for table in self._tables:
            table.add(group, keys[table.probe])

    def candidates(self, values: Mapping[KeyProbe, Any]) -> Sequence[CallGroup] | None:
        """The groups that may match; None if a value of the check is not a key."""
        parts = [table.candidates(values[table.probe]) for table in self._tables]
        if None in parts:
            return None
        return [*(parts[0] if len(parts) == 1 else dict.fromkeys(chain(*parts))), *self._rest]  # type: ignore[misc,arg-type]


class KeyTable:
    """Groups by the keys of one probe."""

    def __init__(self, probe: KeyProbe) -> None:
        self.probe = probe
        self._by_key: dict[Any, list[CallGroup]] = {}
        self._by_kind: dict[str, tuple[list[Any], list[CallGroup]]] = {}  # the groups, and for an order their bounds

    def copied(self, copies: Mapping[CallGroup, CallGroup]) -> KeyTable:
        copy = KeyTable(self.probe)
        copy._by_key = {key: [copies[group] for group in groups] for key, groups in self._by_key.items()}
        for kind, (bounds, groups) in self._by_kind.items():
            copy._by_kind[kind] = list(bounds), [copies[group] for group in groups]
        return copy

    def add(self, group: CallGroup, keys: set[Any]) -> None:
        """Adds a group that does not match without these keys of one kind."""
        for kind in set(map(kind_of_key, keys)):
            bounds, groups = self._by_kind.setdefault(kind, ([], []))
            if self.probe.is_order:
                bound = max(keys) if self.probe.operator[0] == ">" else min(keys)
                at = bisect_right(bounds, bound)
                bounds.insert(at, bound)
                groups.insert(at, group)
                return
            groups.append(group)
            for key in keys:
                self._by_key.setdefault(key, []).append(group)

    def candidates(self, value: Any) -> list[CallGroup] | None:
        """The groups that may match for a value of the check; None if it is not a key."""
        keys = self.probe.wanted_keys(value)
        kinds = {None if key is None else kind_of_key(key) for key in keys}
        if len(kinds) != 1 or None in kinds:
            return None
        [kind] = kinds
        bounds, groups = self._by_kind.get(kind, ([], []))  # type: ignore[arg-type]  # not None
        if self.probe.is_order:
            at = (bisect_left if self.probe.operator[0] == ">" else bisect_right)(bounds, keys[0])
            matching = groups[at:] if self.probe.operator[0] == ">" else groups[:at]
        else:
            lists = [self._by_key.get(key, []) for key in keys]
            whole = self.probe.operator == "mentions"  # all words are needed
            matching = min(lists, key=len) if whole else [group for part in lists for group in part]
        return [*matching, *(group for other, (_, part) in self._by_kind.items() if other != kind for group in part)]


def _identity(values: Sequence[Any]) -> str | bytes | None:
    """The identity of values: equal only if no condition tells them apart. None: such values are not JSON."""
    described = [
        (value.why, value.undetermined, value.unrecorded, value.bounds) if type(value) is Unknown else value
        for value in values
    ]
    if not _is_json(described):
        return None
    text = repr(described)
    return text if len(text) < 32 else blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _is_small(value: Any) -> bool:
    """Whether a value is kept: a number, a truth value, a short string, or unknown."""
    return len(value) <= 100 if type(value) is str else type(value) in _SCALARS or type(value) is Unknown


def _is_json(value: Any) -> bool:
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is list or kind is tuple:
        return all(map(_is_json, value))
    return (kind is dict or kind is MappingProxyType) and all(map(_is_json, value.values()))
