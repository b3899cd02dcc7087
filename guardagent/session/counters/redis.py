"""Counters on a Redis server that several machines share.

    key:KEY          hash: the totals of a key, its version, its latest time, and the time at which it is forgotten
    amounts:KEY      sorted set by time: the amounts that can still leave its window, as `1 AMOUNT ID` in flight, else 0
    reservation:ID   hash: KEY -> amount and time of a call in flight
    in_flight        sorted set: the ids of these, in the order of their bytes
    expiries         sorted set: KEY by the time at which it is forgotten

Sums are exact, which Lua's are not: a process computes the new totals, and one script writes them if nobody else has
changed the old ones.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from guardagent._support.redis import Check, Command, RedisServer
from guardagent._support.stores import StoreFormat
from guardagent.errors import CounterError
from guardagent.policy.evaluation.counters import CountedAmount, CounterKey
from guardagent.session.counters.memory import (
    CounterReading,
    CountersChangedError,
    FoundAmount,
    Reservation,
    id_range,
    number,
    reading_of,
)

MAX_TRIES = 200  # while other processes write the same keys
_MARGIN = 0.01  # seconds; the exact comparison of times is not the server's
_SWEPT = 2  # other keys that a reservation deletes, since their amounts have long been out of their window
_FORMAT = StoreFormat(
    "store of counters",
    1,
    "continue with the release that created it, or choose another prefix: then all counts begin at zero",
    CounterError,
    "guardagent_counters",
)


class RedisCounters:
    """A store on a server. Its address is `redis://user:password@host/0`, or `rediss://…` with TLS.

    Args:
        rest: the address after the scheme's colon.
        scheme: the scheme.

    Raises:
        InputError: as `RedisServer`.
    """

    def __init__(self, rest: str, scheme: str = "redis") -> None:
        self._server = RedisServer(scheme, rest, _FORMAT)
        self._expiries, self._in_flight = self._server.key("expiries"), self._server.key("in_flight")

    def close(self) -> None:
        """Closes all connections; the next use opens new ones."""
        self._server.close()

    def read(self, key: CounterKey, now: float) -> CounterReading:
        replies = self._server.read(*self._queries(key, now))
        return _read(key, replies, now)[0]

    def reserve(
        self, reservation: str, amounts: Sequence[CountedAmount], now: float, seen: Mapping[CounterKey, Any]
    ) -> None:
        if not amounts and len(seen) < 2:
            return  # nothing to add, and one value is consistent by itself
        versions = [(self._key(key), "version", version) for key, version in seen.items()]
        for _ in range(MAX_TRIES):
            queries = [query for counted in amounts for query in self._queries(counted.key, now)]
            old_keys = ("ZRANGEBYSCORE", self._expiries, "-inf", f"({now!r}", "LIMIT", 0, _SWEPT)
            *replies, old = self._server.read(*queries, old_keys)
            self._forget(old)
            checks, writes = list(versions), list[Command]()
            for at, counted in enumerate(amounts):
                part = self._added(reservation, counted, replies[2 * at : 2 * at + 2], now)
                checks += part[0]
                writes += part[1]
            failed = self._server.commit(checks, writes)
            if 0 < failed <= len(versions):
                raise CountersChangedError("a counter was raised since it was read")
            if not failed:
                return
        raise CounterError("other processes kept changing the same counters; nothing was reserved")

    def settle(self, reservation: str) -> None:
        self._close(reservation, counts=True)

    def release(self, reservation: str) -> None:
        self._close(reservation, counts=False)

    def pending(self, prefix: str = "") -> list[Reservation]:
        pending, first = [], self._server.key("reservation", "")
        names: Iterable[str] = (place.removeprefix(first) for place in self._server.keys("reservation"))
        if prefix:
            start, end = id_range(prefix)
            (names,) = self._server.read(("ZRANGEBYLEX", self._in_flight, f"[{start}", f"({end}"))
        for name in names:
            (amounts,) = self._server.read(("HGETALL", self._reservation(name)))
            if not amounts:  # all of them have left their windows
                self._server.commit([], [("ZREM", self._in_flight, name)])
            for key, text in _pairs(amounts):
                counter, values = json.loads(key)
                amount, time = json.loads(text)
                pending.append(Reservation(name, counter, values, number(amount), time))
        return sorted(pending, key=lambda reservation: (reservation.time, reservation.id))

    # --- steps

    def _added(
        self, reservation: str, counted: CountedAmount, replies: Sequence[Any], now: float
    ) -> tuple[list[Check], list[Command]]:
        """Returns the checks and writes that add an amount to the found totals of its key."""
        key, name, place = counted.key, _name(counted.key), self._key(counted.key)
        reading, clock, expired = _read(key, replies, now)
        totals = str(reading.settled), str(reading.pending + counted.amount)
        checks = [(place, field, value) for field, value in zip(_FIELDS, replies[0], strict=True)]
        fields = dict(zip(_FIELDS, (*totals, secrets.token_hex(8), repr(clock)), strict=True))
        if key.window is not None:  # so that a clock that goes back frees nothing
            fields["expires"] = repr(clock + 2 * key.window)
        writes: list[Command] = [
            ("HSET", place, *(part for pair in fields.items() for part in pair)),
            ("HSET", self._reservation(reservation), name, json.dumps([str(counted.amount), clock])),
            ("ZADD", self._in_flight, 0, reservation),
        ]
        if key.window is not None:
            writes += [
                ("ZADD", self._amounts(name), repr(clock), _member(reservation, str(counted.amount), in_flight=True)),
                ("ZADD", self._expiries, fields["expires"], name),
            ]
        for member, _ in _pairs(replies[1]):
            if _found(member, 0).reservation in expired:
                writes += self._removed(name, member)
        return checks, writes

    def _removed(self, name: str, member: str) -> list[Command]:
        return [
            ("ZREM", self._amounts(name), member),
            *([("HDEL", self._reservation(_found(member, 0).reservation), name)] if member.startswith("1 ") else ()),
        ]

    def _close(self, reservation: str, *, counts: bool) -> None:
        place = self._reservation(reservation)
        for _ in range(MAX_TRIES):
            (fields,) = self._server.read(("HGETALL", place))
            amounts = _pairs(fields)
            if not amounts:
                return
            rows = self._server.read(*(("HMGET", self._key_of(name), *_FIELDS, "expires") for name, _ in amounts))
            checks, writes = list[Check](), list[Command]()
            for (name, text), row in zip(amounts, rows, strict=True):
                checks += [
                    (place, name, text),
                    *((self._key_of(name), *pair) for pair in zip(_FIELDS, row, strict=False)),
                ]
                writes += self._settled(reservation, name, text, row, counts=counts)
            if not self._server.commit(checks, writes):
                return
        raise CounterError("other processes kept changing the same counters; the call was not settled")

    def _settled(self, reservation: str, name: str, text: str, row: Sequence[Any], *, counts: bool) -> list[Command]:
        """Returns the writes that settle or release an amount of a key with these totals."""
        amount, time = json.loads(text)
        if row[0] is None:
            raise CounterError(f"the counter of {name} lacks its total; its keys were changed or are damaged")
        settled, pending = number(row[0]) + (number(amount) if counts else 0), number(row[1]) - number(amount)
        place, member = self._key_of(name), _member(reservation, amount, in_flight=True)
        writes: list[Command] = [("HSET", place, "settled", str(settled), "pending", str(pending))]
        if row[4] is None and not settled and not pending:
            writes = [("DEL", place)]
        elif row[4] is not None and counts:  # the amount leaves the window later
            writes.append(("ZADD", self._amounts(name), repr(time), _member(reservation, amount, in_flight=False)))
        return [
            *writes,
            ("ZREM", self._amounts(name), member),
            ("HDEL", self._reservation(reservation), name),
            ("ZREM", self._in_flight, reservation),
        ]

    def _forget(self, names: Iterable[str]) -> None:
        """Deletes keys whose amounts have long been out of their window, unless somebody uses them meanwhile."""
        for name in names:
            (row, members) = self._server.read(
                ("HMGET", self._key_of(name), *_FIELDS), ("ZRANGE", self._amounts(name), 0, -1)
            )
            gone = [command for member in members for command in self._removed(name, member)]
            checks = [(self._key_of(name), *pair) for pair in zip(_FIELDS, row, strict=True)]
            self._server.commit(checks, [("DEL", self._key_of(name)), ("ZREM", self._expiries, name), *gone])

    # --- keys

    def _queries(self, key: CounterKey, now: float) -> tuple[Command, Command]:
        """Reads the totals of a key, and the amounts that are out of its window now; earlier ones are deleted."""
        until = "-inf" if key.window is None else repr(now - key.window + _MARGIN)
        amounts = ("ZRANGEBYSCORE", self._amounts(_name(key)), "-inf", until, "WITHSCORES")
        return ("HMGET", self._key(key), *_FIELDS), amounts

    def _key(self, key: CounterKey) -> str:
        return self._key_of(_name(key))

    def _key_of(self, name: str) -> str:
        return self._server.key("key", name)

    def _amounts(self, name: str) -> str:
        return self._server.key("amounts", name)

    def _reservation(self, reservation: str) -> str:
        return self._server.key("reservation", reservation)


open_with_tls = partial(RedisCounters, scheme="rediss")


_FIELDS = ("settled", "pending", "version", "clock")


def _read(key: CounterKey, replies: Sequence[Any], now: float) -> tuple[CounterReading, float, list[str]]:
    """Returns the state of a key, its latest time, and the reservations that are out of its window."""
    settled, pending, version, clock = replies[0]
    if settled is None:
        return CounterReading(0, 0, None), now, []
    amounts = [_found(member, score) for member, score in _pairs(replies[1])]
    return reading_of(key, (settled, pending, version, _time(clock)), amounts, now)


def _time(text: Any) -> Any:
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


def _name(key: CounterKey) -> str:
    return json.dumps([key.counter, key.key])


def _member(reservation: str, amount: str, *, in_flight: bool) -> str:
    return f"{int(in_flight)} {amount} {reservation}"


def _found(member: str, score: Any) -> FoundAmount:
    in_flight, amount, reservation = member.split(" ", 2)
    return FoundAmount(reservation, _time(score), amount, in_flight == "1")


def _pairs(fields: Any) -> list[tuple[Any, Any]]:
    """Returns the pairs of an answer, which the client gives as a mapping, as pairs or in one list."""
    if isinstance(fields, Mapping):
        return list(fields.items())
    if fields and isinstance(fields[0], list | tuple):
        return [(field[0], field[1]) for field in fields]
    return list(zip(fields[::2], fields[1::2], strict=True))
