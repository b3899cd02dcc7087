"""Reads event rows in the schema `EVENTS` as the columns by which traces are acquitted.

Each value is read as a session reads it, or its row is in doubt.

Reads the values of JSON strings in columns, exactly as the strict parser reads them.

msgspec accepts only JSON that the strict parser accepts, with the same values, but allows a key twice. So the number of
members that it found has to be the number of colons that can stand behind a key. Otherwise the strict parser reads the
value again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent._support import json_values
from guardagent.batch.acquittal import Acquittal
from guardagent.batch.acquittal.checks import FAILED, OK, UNKNOWN, Bools, EventColumns, EventKind, Ints
from guardagent.batch.audit import Assumptions
from guardagent.batch.records import principal_of
from guardagent.batch.traces import LAST_SECOND
from guardagent.errors import InputError
from guardagent.policy.evaluation.call_outcomes import is_failure, literals_of
from guardagent.types import EMPTY

# --- JSON strings in columns

_MAX_JOINED = 2**30
LEVELS = 100  # of a value that a session certainly can read
_QUOTE, _COLON, _BACKSLASH, _SPACES = 34, 58, 92, np.frombuffer(b" \t\n\r", np.uint8)


@lru_cache(1)
def _decoders() -> tuple[Any, Any, Any]:
    import msgspec

    return msgspec.json.Decoder(), msgspec.json.Decoder(dict[str, Any]), msgspec.json.Decoder(str)


def exact_value(text: str) -> Any:
    """The value of a JSON string, as a session reads it.

    Raises:
        ValueError: it is not JSON, is ambiguous, or is nested too deep for a session.
    """
    import msgspec

    try:
        value = _decoders()[0].decode(text)
        if type(value) not in (dict, list) or text.count(":") == members_of(value):
            return value
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass  # the strict parser decides
    value = json_values.plain_value(text)
    members_of(value)
    return value


def members_of(value: Any, levels: int = LEVELS) -> int:
    """The number of members in all objects of a value.

    Raises:
        ValueError: it is nested too deep for a session.
    """
    if type(value) not in (dict, list):
        return 0
    if not levels:
        raise ValueError("it is nested too deep")
    if type(value) is list:
        return sum(members_of(item, levels - 1) for item in value)
    return len(value) + sum(members_of(item, levels - 1) for item in value.values() if type(item) in (dict, list))


def values_of(column: pa.Array) -> tuple[list[Any], Bools]:
    """(the values of a column of JSON strings without nulls, the rows without a value).

    A value is as a session reads it; one that is not JSON, or is ambiguous or nested too deep, is None.
    """
    bad = np.zeros(len(column), np.bool_)
    texts = pc.and_(pc.starts_with(column, '"'), pc.ends_with(column, '"'))
    strings = _lines(column.filter(texts), _decoders()[2])
    values: list[Any] = [None] * len(column)
    rest = np.arange(len(column))
    if strings:
        is_text = texts.to_numpy(zero_copy_only=False)
        for row, value in zip(np.flatnonzero(is_text).tolist(), strings, strict=True):
            values[row] = value
        rest = np.flatnonzero(~is_text)
    for row, text in zip(rest.tolist(), column.take(pa.array(rest)).to_pylist(), strict=True):
        try:
            values[row] = exact_value(text)
        except ValueError:
            bad[row] = True
    return values, bad


def _lines(column: pa.Array, decoder: Any) -> list[Any]:
    """The values of JSON strings of which none can begin a value that the next one continues; empty if one is wrong."""
    import msgspec

    if not len(column) or column.nbytes > _MAX_JOINED:
        return []
    texts = pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column.cast(pa.string()))
    try:
        values: list[Any] = decoder.decode_lines(pc.binary_join(texts, "\n")[0].as_buffer())
    except (msgspec.MsgspecError, RecursionError):
        return []
    return values if len(values) == len(column) else []


def objects_of(column: pa.Array) -> tuple[list[Any], Bools]:
    """(the objects of a column of JSON strings without nulls, the rows whose value is not an object)."""
    count, bad = len(column), np.zeros(len(column), np.bool_)
    odd = np.ones(count, np.bool_)
    is_shaped = pc.all(pc.and_(pc.starts_with(column, "{"), pc.ends_with(column, "}"))).as_py()
    values = _lines(column, _decoders()[1]) if is_shaped else []
    if len(values) == count:
        sizes = np.fromiter(map(len, values), np.int64, count)
        odd = possible_members(column) != sizes
        if pc.any(pc.match_substring(column, "[")).as_py():
            odd |= pc.count_substring(column, "[").to_numpy(zero_copy_only=False) > LEVELS
    else:
        values = [EMPTY] * count
    rows = np.flatnonzero(odd)
    for row, text in zip(rows.tolist(), column.take(pa.array(rows)).to_pylist(), strict=True):
        try:
            value = exact_value(text)
        except ValueError:
            value, bad[row] = None, True
        bad[row] |= value is not None and type(value) is not dict
        values[row] = EMPTY if value is None or bad[row] else value
    return values, bad


def possible_members(column: pa.Array) -> Ints:
    """The number of possible members in each of some JSON objects.

    A possible member is a colon that can stand behind a key: after white space, or after the quote that ends the key.
    Such a quote does not come after just one backslash. Each member has one, and a string may contain others.
    """
    offsets = np.frombuffer(column.buffers()[1], np.int64 if pa.types.is_large_string(column.type) else np.int32)
    offsets = offsets[column.offset : column.offset + len(column) + 1].astype(np.int64)
    text = np.frombuffer(column.buffers()[2], np.uint8)[int(offsets[0]) : int(offsets[-1])]
    colons = np.flatnonzero(text == _COLON)
    before = text[colons - 1]
    escaped = (text[colons - 2] == _BACKSLASH) & (text[colons - 3] != _BACKSLASH)
    possible = colons[(before == _QUOTE) & ~escaped | np.isin(before, _SPACES)]
    members: Ints = np.diff(np.searchsorted(possible, offsets[1:] - offsets[0]), prepend=0)
    return members


def failures_of(pattern: Any, outputs: Sequence[Any]) -> Bools:
    """Whether a compiled pattern matches in each of some outputs."""
    failures = np.zeros(len(outputs), np.bool_)
    if pattern is None:
        return failures
    literals, kinds = literals_of(pattern), set(map(type, outputs))
    if literals is None or kinds - {str, type(None)}:
        known = {output: is_failure(pattern, output) for output in {value for value in outputs if type(value) is str}}
        for row, output in enumerate(outputs):
            failures[row] = known[output] if type(output) is str else is_failure(pattern, output)
        return failures
    column = pa.array(outputs, pa.string())
    for match, texts in ((pc.starts_with, literals.prefixes), (pc.match_substring, literals.parts)):
        for text in texts:
            failures |= pc.fill_null(match(column, text), False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - a value
    return failures


# --- event rows

_OF_TRACE = ("trace_state", "trace_facts", "principal", "task", "success")


@dataclass(frozen=True, slots=True)
class TraceColumns:
    """Some traces that may be acquitted.

    Attributes:
        events: their events.
        started, ended: the first and the last time of an event; NaN without one.
        task, success: the values of their rows.
    """

    events: EventColumns
    started: Any
    ended: Any
    task: Sequence[str | None]
    success: Sequence[bool | None]


class _Rows:
    """The rows of some traces, which are adjacent; none of them is a whole trace or unreadable."""

    def __init__(self, rows: pa.Table, starts: Ints, acquittal: Acquittal, failed_output: Any) -> None:
        self._rows, self._starts, self._count = rows, starts, rows.num_rows
        self._ends = np.append(starts[1:], self._count)
        self._trace = np.repeat(np.arange(len(starts)), self._ends - starts)
        self._acquittal, self._failed_output = acquittal, failed_output
        self.doubtful = np.zeros(self._count, np.bool_)

    def _column(self, name: str) -> pa.Array:
        column = self._rows.column(name).combine_chunks()
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    def _has(self, name: str) -> bool:
        return bool(self._rows.column(name).null_count < self._count)

    def _doubt_traces(self, traces: Bools) -> None:
        self.doubtful |= traces[self._trace]

    def columns(self, assumptions: Assumptions) -> TraceColumns:
        """Reads the columns, with the events of each trace in their order."""
        times = self._times()
        self._sort(times)
        times = self._times()
        kinds, names = self._kinds()
        args = self._args()
        status, outputs = self._outcomes(np.array([bool(kind.tool) for kind in names], np.bool_)[kinds])
        if assumptions.ok:
            status[status == UNKNOWN] = OK
        if self._acquittal.reads_facts and self._has("facts"):
            self.doubtful |= is_valid(self._column("facts"))
        self._doubt_invalid("facts")
        self._doubt_invalid("state")
        values = {name: self._of_traces(name) for name in _OF_TRACE}
        facts = [{**assumptions.facts, **(own or {})} for own in self._decoded(values["trace_facts"])]
        self._decoded(values["trace_state"])
        self._decoded(values["principal"], principal_of)
        events = EventColumns(self._ends, kinds, names, status, args, outputs, facts, self.doubtful)
        started, ended = (reduce.reduceat(times, self._starts) for reduce in (np.fmin, np.fmax))
        return TraceColumns(events, started, ended, values["task"], values["success"])

    def _times(self) -> Any:
        """The time of each event; NaN for none."""
        column = self._column("time")
        times = column.to_numpy(zero_copy_only=False).astype(np.float64)
        self.doubtful |= is_valid(column) & ~((times >= 0) & (times <= LAST_SECOND))
        return times

    def _sort(self, times: Any) -> None:
        """Orders the rows of each trace as `judge` does; a trace whose order is not clear is in doubt."""
        position = self._column("position")
        placed, timed = (
            np.logical_and.reduceat(known, self._starts) for known in (is_valid(position), ~np.isnan(times))
        )
        by_position, by_time = placed[self._trace], (~placed & timed)[self._trace]
        places = np.where(by_position, position.fill_null(0).to_numpy(zero_copy_only=False), 0)
        times = np.where(by_time, times, 0.0)
        rows = self._column("row").fill_null(0).to_numpy(zero_copy_only=False)
        keys = (rows, times, places, self._trace)
        same = self._trace[1:] == self._trace[:-1]
        more, equal = zip(*((key[1:] > key[:-1], key[1:] == key[:-1]) for key in (places, times, rows)), strict=True)
        forward = more[0] | equal[0] & (more[1] | equal[1] & (more[2] | equal[2]))
        if not (forward | ~same).all():
            order = np.lexsort(keys)
            self._rows, self.doubtful = self._rows.take(pa.array(order)), self.doubtful[order]
            places, times, by_position = places[order], times[order], by_position[order]
        tied = same & (places[1:] == places[:-1]) & (times[1:] == times[:-1])
        if tied.any():
            source = self._column("source").dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
            self.doubtful[1:] |= tied & ((source[1:] != source[:-1]) | by_position[1:])

    def _kinds(self) -> tuple[Ints, list[EventKind]]:
        """(the index of the kind of each event, the kinds)."""
        tools = self._column("tool").dictionary_encode()
        texts = [*tools.dictionary.to_pylist(), ""]
        codes = tools.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False).astype(np.int64)
        names = list(map(EventKind, texts))
        if any(map(self._has, ("action", "decision", "tags"))):
            labels = [self._column(name).to_pylist() for name in ("action", "decision", "tags")]
            numbers: dict[EventKind, int] = {}
            for row, (code, action, decision, tags) in enumerate(zip(codes.tolist(), *labels, strict=True)):
                kind = EventKind(texts[code], action, decision, frozenset(tags or ()))
                codes[row] = numbers.setdefault(kind, len(numbers))
            names = list(numbers)
        invalid = [not any(kind) or None in kind.tags for kind in names]
        for number in np.flatnonzero(invalid).tolist():
            self.doubtful |= codes == number
            names[number] = EventKind("")
        return codes, names

    def _args(self) -> list[Any]:
        values, bad = self._objects("args")
        self.doubtful |= bad
        return values

    def _objects(self, name: str) -> tuple[list[Any], Bools]:
        column = self._column(name)
        if not column.null_count:
            return objects_of(column)
        rows, bad = np.flatnonzero(is_valid(column)), np.zeros(self._count, np.bool_)
        values: list[Any] = [EMPTY] * self._count
        present, bad[rows] = objects_of(column.drop_null())
        for row, value in zip(rows.tolist(), present, strict=True):
            values[row] = value
        return values, bad

    def _doubt_invalid(self, name: str) -> None:
        if self._has(name):
            self.doubtful |= self._objects(name)[1]

    def _outcomes(self, calls: Bools) -> tuple[Any, list[Any]]:
        """(the status of each event, its output)."""
        encoded = self._column("output").dictionary_encode()
        present, places = is_valid(encoded.indices), encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        values, bad = values_of(encoded.dictionary)
        failures = failures_of(self._failed_output, values)
        values, bad, failures = [*values, None], np.append(bad, False), np.append(failures, False)
        places = np.where(present, places, len(values) - 1)
        self.doubtful |= bad[places]
        known = present & (self._failed_output is not None)
        status = np.where(known, np.where(failures[places], FAILED, OK), UNKNOWN).astype(np.int8)
        status[~calls] = OK
        if self._has("failed"):
            column = self._column("failed")
            stated = is_valid(column)
            failed = column.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - a value
            status[stated] = np.where(failed, FAILED, OK)[stated]
        return status, [values[place] for place in places.tolist()]

    def _of_traces(self, name: str) -> list[Any]:
        """The value of each trace, which all of its rows with a value have; else it is in doubt."""
        if not self._has(name):
            return [None] * len(self._starts)
        encoded = self._column(name).dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        most = np.maximum.reduceat(codes, self._starts)
        self.doubtful |= (codes >= 0) & (codes != most[self._trace])
        values = [*encoded.dictionary.to_pylist(), None]
        return [values[code] for code in most.tolist()]

    def _decoded(self, texts: Sequence[str | None], check: Callable[[Any], Any] | None = None) -> list[Any]:
        """The objects of each trace; those that are invalid are in doubt."""
        known: dict[str | None, Any] = {None: None}
        bad: set[str | None] = set()
        for text in set(texts) - {None}:
            try:
                known[text] = value = exact_value(str(text))
                if check is not None:
                    check(value)
            except (ValueError, InputError):
                value = None
            if type(value) is not dict:
                known[text] = None
                bad.add(text)
        if bad:
            self._doubt_traces(np.array([text in bad for text in texts], np.bool_))
        return [known[text] for text in texts]


def is_valid(column: pa.Array) -> Bools:
    """The rows of a column that have a value."""
    valid: Bools = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return valid


def event_columns(
    rows: pa.Table, starts: Ints, acquittal: Acquittal, failed_output: Any, assumptions: Assumptions
) -> TraceColumns:
    """Reads the events of some traces.

    Args:
        rows: event rows; those of a trace are adjacent.
        starts: where the rows of each trace begin.
        acquittal: the acquittal that they are read for.
        failed_output: the compiled pattern of the outputs of failed calls, if the policy has one.
        assumptions: what is assumed of all traces.
    """
    return _Rows(rows, starts, acquittal, failed_output).columns(assumptions)
