"""Acquits the traces of rows in the schema `EVENTS`.

Reads whole traces, each a JSON object, as the columns by which traces are acquitted.

The objects of events are read into structs, in a fraction of the time of dictionaries. A trace that is not certainly
read as a session reads it gives no event, so that it is not acquitted.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent._support import json_values
from guardagent.batch.acquittal import Acquittal
from guardagent.batch.acquittal.checks import FAILED, OK, UNKNOWN, Bools, EventColumns, EventKind, Ints
from guardagent.batch.arrow.event_columns import (
    LEVELS,
    TraceColumns,
    event_columns,
    failures_of,
    is_valid,
    members_of,
    possible_members,
)
from guardagent.batch.arrow.rows import filtered
from guardagent.batch.arrow.schema import VERDICTS
from guardagent.batch.audit import Assumptions
from guardagent.batch.json_object import is_unrelated
from guardagent.batch.records import principal_of
from guardagent.batch.traces import LAST_SECOND
from guardagent.errors import InputError
from guardagent.policy.language.values import parsed_instant
from guardagent.types import EMPTY

# --- whole traces

_FIELDS = ("tool", "args", "output", "failed")
_LABELS = ("action", "decision", "tags", "facts", "state", "time")
_SHARED = ("id", "state", "facts", "principal", "task", "success")
_KEYS = frozenset({*_SHARED, "events"})


class _Decoders(NamedTuple):
    """Decoders and types of traces.

    Attributes:
        usual: decodes a trace without other keys, whose events have no labels.
        parts: decodes a trace to its parts, which are still JSON.
        labelled: decodes events that can have labels.
        labelled_type: their type.
        shared_type: the type of a trace without its events.
        absent: the value of an absent key.
    """

    usual: Any
    parts: Any
    labelled: Any
    labelled_type: Any
    shared_type: Any
    absent: Any


@lru_cache(1)
def _decoders() -> _Decoders:
    import msgspec

    absent, objects = msgspec.UNSET, dict[str, Any] | None
    types: dict[str, Any] = {
        "tool": str | None, "args": objects, "output": Any, "failed": bool | None, "action": str | None,
        "decision": str | None, "tags": list[str] | None, "facts": objects, "state": objects,
        "time": int | float | str | None, "id": str | int, "principal": Any, "task": str | None, "success": bool | None,
    }  # fmt: skip

    def struct(name: str, fields: Sequence[str], *more: Any) -> Any:
        pairs = [(key, types[key] if types[key] is Any else types[key] | msgspec.UnsetType, absent) for key in fields]
        return msgspec.defstruct(name, [*more, *pairs], forbid_unknown_fields=True, gc=False)

    plain, labelled, shared = (
        struct("PlainEvent", _FIELDS), struct("LabelledEvent", (*_FIELDS, *_LABELS)), struct("Shared", _SHARED)
    )  # fmt: skip
    usual, decoder = struct("UsualTrace", _SHARED, ("events", list[plain])), msgspec.json.Decoder  # type: ignore[valid-type]
    return _Decoders(
        decoder(usual), decoder(dict[str, msgspec.Raw]), decoder(list[labelled]), labelled, shared, absent  # type: ignore[valid-type]
    )  # fmt: skip


@dataclass(slots=True)
class _Lists:
    """The events of traces, read one after another."""

    acquittal: Acquittal
    ends: list[int] = field(default_factory=list)
    values: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in (*_FIELDS, *_LABELS)})
    shared: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, text: str, members: int) -> None:
        try:
            shared, columns = self._read(text, members)
        except (ValueError, RecursionError, InputError, KeyError, TypeError):
            shared, columns = {}, {name: [] for name in self.values}
        for name, values in columns.items():
            self.values[name] += values
        self.shared.append(shared)
        self.ends.append(len(self.values["tool"]))

    def _read(self, text: str, possible: int) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """(the values of a trace, the columns of its events).

        Raises:
            Exception: it is not certain that a session reads the same.
        """
        absent = _decoders().absent
        trace, events, labelled, more = _decoded(text)
        shared = {name: value for name in _SHARED if (value := getattr(trace, name)) is not absent}
        if "id" not in shared or "" in map(attrgetter("tool"), events):
            raise ValueError(text)
        if shared.get("principal") is not None:
            principal_of(shared["principal"])
        names = (*_FIELDS, *_LABELS) if labelled else _FIELDS
        columns = {name: [absent] * len(events) for name in _LABELS}
        lists = [list(column) for column in zip(*map(attrgetter(*names), events), strict=True)] or [[] for _ in names]
        columns |= dict(zip(names, lists, strict=True))
        members = more + 1 + len(shared) + sum(map(members_of, shared.values()))
        members += sum(len(events) - _absences(columns[name]) for name in names)
        members += sum(map(len, filter(None, columns["args"])))
        if members != possible or labelled or text.count("[") > LEVELS:
            members += sum(members_of(args) - len(args) for args in filter(None, columns["args"]))
            members += sum(map(members_of, itertools.chain(columns["output"], columns["facts"], columns["state"])))
            if members != possible:
                json_values.loads(text)
        if self.acquittal.reads_facts and any(values not in (None, absent) for values in columns["facts"]):
            raise ValueError(text)
        return shared, columns


def _decoded(text: str) -> tuple[Any, list[Any], bool, int]:
    """(a trace, its events, whether they can have labels, the number of members that nobody reads)."""
    import msgspec

    decoders = _decoders()
    try:
        trace = decoders.usual.decode(text)
    except msgspec.ValidationError:
        pass
    else:
        return trace, trace.events, False, 0
    parts = decoders.parts.decode(text)
    events, shared = parts.pop("events"), {key: msgspec.json.decode(raw) for key, raw in parts.items()}
    trace, more = _known(shared, _KEYS, decoders.shared_type)
    try:
        return trace, decoders.labelled.decode(events), True, more
    except msgspec.ValidationError:
        pairs = [
            _known(values, frozenset((*_FIELDS, *_LABELS)), decoders.labelled_type)
            for values in msgspec.json.decode(events, type=list[dict[str, Any]])
        ]
    return trace, [event for event, _ in pairs], True, more + sum(number for _, number in pairs)


def _known(values: Mapping[str, Any], keys: frozenset[str], kind: Any) -> tuple[Any, int]:
    """(the values of known keys, as a struct, the number of members in the others).

    Raises:
        ValueError: another key could stand in for a known one.
    """
    import msgspec

    others = values.keys() - keys
    if not all(is_unrelated(key, keys) for key in others):
        raise ValueError(others)
    own = {key: value for key, value in values.items() if key in keys}
    return msgspec.convert(own, kind), sum(1 + members_of(values[key]) for key in others)


def _absences(values: list[Any]) -> int:
    """The number of absent values."""
    absent = type(_decoders().absent)
    kinds = set(map(type, values))
    return 0 if absent not in kinds else len(values) if len(kinds) == 1 else list(map(type, values)).count(absent)


def _kinds(values: Mapping[str, list[Any]], absent: Any) -> tuple[Ints, list[EventKind]]:
    """(the index of the kind of each event, the kinds)."""
    numbers: dict[Any, int] = {}
    labels = [values[name] for name in ("action", "decision", "tags")]
    if all(_absences(column) == len(column) for column in labels):
        numbers = dict(zip(dict.fromkeys(values["tool"]), itertools.count(), strict=False))
        codes = list(map(numbers.__getitem__, values["tool"]))
        return np.array(codes, np.int64), [EventKind("" if tool in (None, absent) else tool) for tool in numbers]
    codes = []
    for tool, action, decision, tags in zip(values["tool"], *labels, strict=True):
        parts: list[Any] = [None if part is absent else part for part in (tool, action, decision, tags)]
        kind = EventKind(parts[0] or "", parts[1], parts[2], frozenset(parts[3] or ()))
        codes.append(numbers.setdefault(kind, len(numbers)))
    return np.array(codes, np.int64), list(numbers)


def _times(column: list[Any], absent: Any, doubtful: Bools) -> Any:
    """The time of each event; NaN for none. An invalid one is in doubt."""
    times = np.full(len(column), np.nan)
    if _absences(column) < len(column):
        for at, value in enumerate(column):
            if value is absent or value is None:
                continue
            try:
                times[at] = parsed_instant(value).timestamp() if type(value) is str else value
                doubtful[at] |= type(value) is not str and not 0 <= value <= LAST_SECOND
            except (ValueError, OverflowError):
                doubtful[at] = True
    return times


def record_columns(
    records: pa.Array, acquittal: Acquittal, failed_output: Any, assumptions: Assumptions
) -> TraceColumns:
    """Reads some traces, each of them a JSON object.

    Args:
        records: the objects.
        acquittal: the acquittal that they are read for.
        failed_output: the compiled pattern of the outputs of failed calls, if the policy has one.
        assumptions: what is assumed of all traces.
    """
    lists = _Lists(acquittal)
    for text, members in zip(records.to_pylist(), possible_members(records), strict=True):
        lists.add(text, members)
    values, ends = lists.values, np.array(lists.ends, np.int64)
    absent = _decoders().absent
    kinds, names = _kinds(values, absent)
    doubtful = np.array([not any(kind) for kind in names], np.bool_)[kinds]
    times = _times(values["time"], absent, doubtful)
    args = [value or EMPTY for value in values["args"]]
    outputs = values["output"]
    if unstated := _absences(outputs):
        outputs = [None if value is absent else value for value in outputs]
    is_call = np.array([bool(kind.tool) for kind in names], np.bool_)[kinds]
    status = np.full(len(kinds), UNKNOWN, np.int8)
    if failed_output is not None:
        status[:] = np.where(failures_of(failed_output, outputs), FAILED, OK)
        if unstated:
            status[[value is absent for value in values["output"]]] = UNKNOWN
    status[~is_call] = OK
    if _absences(values["failed"]) < len(kinds):
        for truth, state in ((True, FAILED), (False, OK)):
            status[[value is truth for value in values["failed"]]] = state
    if assumptions.ok:
        status[status == UNKNOWN] = OK
    facts = [{**assumptions.facts, **(shared.get("facts") or {})} for shared in lists.shared]
    events = EventColumns(ends, kinds, names, status, args, outputs, facts, doubtful)
    started, ended = np.full(len(ends), np.nan), np.full(len(ends), np.nan)
    filled = np.diff(ends, prepend=0) > 0
    if filled.any():
        starts = np.append(0, ends)[:-1][filled]
        started[filled], ended[filled] = np.fmin.reduceat(times, starts), np.fmax.reduceat(times, starts)
    task, success = ([shared.get(name) for shared in lists.shared] for name in ("task", "success"))
    return TraceColumns(events, started, ended, task, success)


# --- rows

_BLOCK_ROWS = 2**16


@dataclass(frozen=True, slots=True)
class TraceBlock:
    """All rows of some traces. A row without a trace is a trace by itself.

    Attributes:
        rows: rows in the schema `EVENTS`; those of a trace are adjacent.
        starts: where the rows of each trace begin.
        trace: the index of the trace of each row.
    """

    rows: pa.Table
    starts: Ints
    trace: Ints

    @classmethod
    def of(cls, rows: pa.Table) -> TraceBlock:
        """The traces of some rows, which are adjacent."""
        changes = np.append(np.ones(min(1, rows.num_rows), np.bool_), _changes(rows.column("trace").combine_chunks()))
        return cls(rows, np.flatnonzero(changes), np.cumsum(changes) - 1)

    @property
    def lengths(self) -> Ints:
        """The number of rows of each trace."""
        return np.diff(np.append(self.starts, self.rows.num_rows))

    def ids(self) -> list[str | None]:
        """The id of each trace."""
        ids: list[str | None] = self.rows.column("trace").take(pa.array(self.starts)).to_pylist()
        return ids

    def select(self, traces: Bools) -> TraceBlock:
        """The block of some of the traces."""
        lengths = self.lengths[traces]
        rows = self.rows if traces.all() else filtered(self.rows, traces[self.trace])
        return TraceBlock(rows, np.cumsum(lengths) - lengths, np.repeat(np.arange(len(lengths)), lengths))

    def traces_with(self, name: str) -> Bools:
        """The traces with a value in a column."""
        marked = np.zeros(len(self.starts), np.bool_)
        if self.rows.column(name).null_count < self.rows.num_rows:
            marked[self.trace[is_valid(self.rows.column(name).combine_chunks())]] = True
        return marked


def sorted_by_trace(rows: pa.Table) -> pa.Table:
    """Rows with the same trace beside each other; all of them have one."""
    codes = rows.column("trace").combine_chunks().dictionary_encode()
    if len(codes.dictionary) == len(TraceBlock.of(rows).starts):
        return rows
    return rows.take(pa.array(np.argsort(codes.indices.to_numpy(), kind="stable")))


def trace_blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[TraceBlock]:
    """Collects rows to blocks of whole traces.

    Raises:
        InputError: the rows of a trace are not adjacent.
    """
    gathered: list[pa.RecordBatch] = []
    seen: set[int] = set()
    for batch in (part for whole in batches for part in _parts(whole)):
        gathered.append(batch)
        if sum(rows.num_rows for rows in gathered) >= _BLOCK_ROWS:
            rows = pa.Table.from_batches(gathered)
            changes = np.flatnonzero(_changes(rows.column("trace").combine_chunks()))
            if len(changes):
                gathered = rows.slice(int(changes[-1]) + 1).combine_chunks().to_batches()
                yield _checked(TraceBlock.of(rows.slice(0, int(changes[-1]) + 1)), seen)
    if any(batch.num_rows for batch in gathered):
        yield _checked(TraceBlock.of(pa.Table.from_batches(gathered)), seen)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return (batch.slice(start, _BLOCK_ROWS) for start in range(0, batch.num_rows, _BLOCK_ROWS))


def _changes(traces: pa.Array) -> Bools:
    """For each row after the first: whether it is of another trace than the row before."""
    changes = pc.fill_null(pc.not_equal(traces[1:], traces[:-1]), True)  # noqa: FBT003 - a value
    return np.asarray(changes.to_numpy(zero_copy_only=False), np.bool_)


def _checked(block: TraceBlock, seen: set[int]) -> TraceBlock:
    for trace in block.ids():
        if trace is None:
            continue
        if hash(trace) in seen:
            raise InputError(f"the rows of the trace {trace!r} are not adjacent; expected rows sorted by 'trace'")
        seen.add(hash(trace))
    return block


def acquitted(
    block: TraceBlock, acquittal: Acquittal, failed_output: Any, assumptions: Assumptions
) -> tuple[Bools, pa.Table]:
    """(the traces of a block that keep all rules, one row in the schema `EVENTS` for each of them).

    Args:
        block: the traces.
        acquittal: the acquittal by the policies.
        failed_output: the compiled pattern of the outputs of failed calls, if the policy has one.
        assumptions: what is assumed of all traces.
    """
    kept = block.traces_with("trace") & ~block.traces_with("error") & ~block.traces_with("acquitted")
    whole = block.traces_with("record")
    events, records = kept & ~whole, kept & whole & (block.lengths == 1)
    kept, rows = np.zeros(len(kept), np.bool_), []
    for traces in (events, records):
        if traces.any():
            part, began = block.select(traces), time.perf_counter()
            if traces is records:
                column = part.rows.column("record").combine_chunks()
                columns = record_columns(column, acquittal, failed_output, assumptions)
            else:
                columns = event_columns(part.rows, part.starts, acquittal, failed_output, assumptions)
            proved = acquittal.acquitted(columns.events)
            elapsed = (time.perf_counter() - began) * 1000 / len(proved)
            ids = part.rows.column("trace").take(pa.array(part.starts[proved]))
            rows.append(_acquitted_rows(columns, ids, np.flatnonzero(proved), elapsed, block.rows.schema))
            kept[np.flatnonzero(traces)[proved]] = True
    order = np.argsort(np.concatenate([np.flatnonzero(kept & events), np.flatnonzero(kept & records)]))
    return kept, pa.concat_tables([block.rows.slice(0, 0), *rows]).take(pa.array(order))


def _acquitted_rows(columns: TraceColumns, ids: Any, traces: Ints, elapsed: float, schema: pa.Schema) -> pa.Table:
    facts = [
        pa.array(np.diff(columns.events.ends, prepend=0)[traces]),
        pa.array(columns.started[traces], from_pandas=True),
        pa.array(columns.ended[traces], from_pandas=True),
        pa.repeat(elapsed, len(traces)),
    ]
    kind = schema.field("acquitted").type
    values = {
        "trace": ids,
        "task": pa.array([columns.task[trace] for trace in traces.tolist()], schema.field("task").type),
        "success": pa.array([columns.success[trace] for trace in traces.tolist()], pa.bool_()),
        "acquitted": pa.StructArray.from_arrays(facts, fields=list(kind)),
    }
    nulls = {field.name: pa.nulls(len(traces), field.type) for field in schema if field.name not in values}
    return pa.table({**nulls, **values}).select(schema.names).cast(schema)


def verdicts_of(rows: pa.Table) -> pa.RecordBatch:
    """The verdicts on acquitted traces in the schema `VERDICTS`, from their rows: plain allowances."""
    facts, count = rows.column("acquitted").combine_chunks(), rows.num_rows
    values = {field.name: facts.field(number) for number, field in enumerate(facts.type)}
    values |= {name: rows.column(name).combine_chunks() for name in ("trace", "task", "success")}
    values |= {"decision": pa.repeat("allow", count), "label": pa.repeat(pa.scalar(0, pa.int8()), count)}
    empty = pa.array(np.zeros(count + 1, np.int32))

    def column(field: pa.Field) -> pa.Array:
        if field.name in values:
            return values[field.name].cast(field.type)
        if pa.types.is_list(field.type):
            return pa.ListArray.from_arrays(empty, pa.array([], field.type.value_type))
        return pa.nulls(count, field.type)

    return pa.RecordBatch.from_arrays(list(map(column, VERDICTS)), schema=VERDICTS)
