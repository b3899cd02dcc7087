"""The events of many traces as columns, and the codes of their values: equal values have equal codes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.language.values import hash_key, kind_of, kind_of_key
from guardagent.types import freeze
from guardagent.types.values import readable_copy

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
