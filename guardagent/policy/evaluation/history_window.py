"""History indexes for terms with a time window, such as `count(f:pay(), within 24h)`.

A call is in the window if `now - time(f) <= 24h`. Times never decrease from call to call, so the calls of a window are
the last ones of their bucket. Their number and sum take the same time in a long history as in a short one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from guardagent.policy.evaluation.history_index import Bucket, Env, HistoryIndex, IndexEntry, in_window
from guardagent.policy.language.values import Unknown, arithmetic, conjunction


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
        found = WindowBucket()
        for entry, amount in zip(self.entries, self.amounts, strict=True):
            if entry.place < place:
                found.put(entry, amount)
        return found

    def since(self, start: int) -> Bucket:
        """The calls in the window that starts at a moment. Every call has a time."""
        at = bisect_left(self.times, start)
        found = Bucket()
        found.entries = _Tail(self.entries, at)  # type: ignore[assignment]
        found.uncertain = sum(entry.own is not True for entry in found.entries) if self.uncertain else 0
        known = not self.open_sums or self.open_sums[-1] < at
        found.total = arithmetic(self.sums[-1], "-", self.sums[at]) if known else None
        return found


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
        """As `HistoryIndex._matching`, for the calls in the window."""
        bucket, others = super()._matching(env)
        if bucket is None and not others:
            return None, ()
        assert self._query.window is not None
        start = self._query.window(env)
        found = [entry for entry in (_windowed(one, start) for one in others) if entry is not None]
        return None if bucket is None else _within(bucket, start), found


def _within(bucket: Any, start: int | Unknown) -> Bucket | None:
    if type(start) is not Unknown and not bucket.untimed:
        found = bucket.since(start)
        return found if found.entries else None
    found = Bucket()
    found.entries = [entry for entry in (_windowed(one, start) for one in bucket.entries) if entry is not None]
    found.uncertain, found.total = sum(entry.own is not True for entry in found.entries), None
    return found if found.entries else None


def _windowed(entry: IndexEntry, start: int | Unknown) -> IndexEntry | None:
    """The entry with its window among its own conditions; None if it is outside."""
    own = conjunction([entry.own, in_window(entry.call, start)])
    return None if own is False else entry._replace(own=own)
