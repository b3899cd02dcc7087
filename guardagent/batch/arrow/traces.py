"""Puts the rows of a trace together: its events in order, and what holds for all of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

from guardagent._support.strict_json import loads
from guardagent.batch.records import Trace, TraceStep, event_of, principal_of, trace_of
from guardagent.errors import InputError

_TRACE_COLUMNS = ("trace_state", "trace_facts", "principal", "task", "success")
_IN_FILES = frozenset(("source", "row"))  # columns that are not the trace's own
_JSON = frozenset(("args", "output", "facts", "state", "trace_state", "trace_facts", "principal"))

Row = Mapping[str, Any]  # the columns of `EVENTS` that are not null


def rows_by_trace(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str | None, list[Row]]]:
    """Yields each trace with its rows. Rows of a trace are adjacent; rows without one come one by one."""
    current: str | None = None
    rows: list[Row] = []
    for batch in batches:
        for row in _present_values(batch):
            trace = row.get("trace")
            if rows and (trace is None or trace != current):
                yield current, rows
                rows = []
            current = trace
            rows.append(row)
    if rows:
        yield current, rows


def _present_values(batch: pa.RecordBatch) -> Iterator[Row]:
    names = [name for name in batch.schema.names if batch.column(name).null_count < batch.num_rows]
    columns = [batch.column(name).to_pylist() for name in names]
    for values in zip(*columns, strict=True):
        yield {name: value for name, value in zip(names, values, strict=True) if value is not None}


@dataclass(frozen=True, slots=True)
class AssembledTrace:
    """The trace of some rows, or the reason why it cannot be read.

    Attributes:
        id: its id; None if the rows have none.
        trace: the trace; None if it cannot be read.
        error, source: what is wrong, and the file.
        task, success: what the agent was to do, and whether it did, if that is known.
    """

    id: str | None
    trace: Trace | None = None
    error: str | None = None
    source: str | None = None
    task: str | None = None
    success: bool | None = None

    @property
    def times(self) -> tuple[float | None, float | None]:
        """The first and the last time of an event."""
        times = [step.time for step in self.trace.steps if step.time is not None] if self.trace else []
        return (min(times), max(times)) if times else (None, None)


class _Place(NamedTuple):
    """The place of an event: in its trace, if that is known, and in its file."""

    position: int | None
    time: float | None
    source: str
    row: int
    at: int


@dataclass(slots=True)
class _Parts:
    """What the rows of a trace hold: events, values of the whole trace, and the texts of whole traces.

    `rows` is the number of rows that events come from.
    """

    steps: list[tuple[_Place, TraceStep]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    records: set[str] = field(default_factory=set)
    rows: int = 0

    def add_values(self, values: Mapping[str, Any]) -> None:
        """Adds values of the whole trace, which are the same in all of its rows."""
        for name in _TRACE_COLUMNS:
            value = values.get(name)
            if value is not None and self.values.setdefault(name, value) != value:
                raise InputError(
                    f"rows of the trace have different values of {name!r}; expected the same in all of them"
                )


def assembled(trace: str | None, rows: Sequence[Row], failed_output: Any = None) -> AssembledTrace:
    """Puts a trace together.

    Events are ordered by `position`, or else by `time`. Without either, all of them have to come from one file, whose
    order counts. The events of a single record keep its order.

    Args:
        trace: the id.
        rows: its rows, in any order.
        failed_output: the compiled pattern of the outputs of failed calls, if the policy has one.
    """
    try:
        parts = _parts(rows, failed_output)
        steps = tuple(step for _, step in _ordered(parts))
        values = parts.values
        principal = principal_of(values.get("principal"))
    except (ValueError, InputError, RecursionError) as error:
        reason = "a value is nested too deep" if isinstance(error, RecursionError) else str(error)
        return AssembledTrace(trace, error=reason, source=_source_of(rows))
    found = Trace(trace or "", steps, values.get("trace_state"), values.get("trace_facts") or {}, principal)
    return AssembledTrace(trace, found, task=values.get("task"), success=values.get("success"))


def _source_of(rows: Sequence[Row]) -> str | None:
    return min((row["source"] for row in rows if "source" in row), default=None)


def _parts(rows: Sequence[Row], failed_output: Any) -> _Parts:
    parts = _Parts()
    for row in sorted(rows, key=lambda row: (row.get("source", ""), row.get("row", 0))):
        if "error" in row:
            raise InputError(row["error"])
        if "trace" not in row:
            raise InputError("the row has no 'trace'; expected the id of its conversation")
        if "record" in row:
            _add_record(parts, row, loads(row["record"]), failed_output)
        else:
            _add_event(parts, row, {name: _decoded(name, row[name]) for name in row}, failed_output)
    return parts


def _decoded(name: str, value: Any) -> Any:
    if name not in _JSON:
        return value
    try:
        return loads(value)
    except ValueError as error:
        raise InputError(f"{name!r} is not JSON: {error}") from None


def _add_record(parts: _Parts, row: Row, record: Any, failed_output: Any) -> None:
    if not isinstance(record, dict) or "events" not in record:
        _add_event(parts, row, record, failed_output)
        return
    if row["record"] in parts.records:
        return  # delivered more than once
    trace = trace_of(record, failed_output)
    parts.rows += 1
    parts.records.add(row["record"])
    parts.add_values({**record, "trace_state": record.get("state"), "trace_facts": record.get("facts")})
    source, number = row.get("source", ""), row.get("row", 0)
    parts.steps += [(_Place(None, step.time, source, number, index), step) for index, step in enumerate(trace.steps)]


def _add_event(parts: _Parts, row: Row, values: Any, failed_output: Any) -> None:
    step = event_of({name: value for name, value in values.items() if name not in _IN_FILES}, failed_output)
    parts.add_values(values)
    parts.rows += 1
    parts.steps.append((_Place(values.get("position"), step.time, row.get("source", ""), row.get("row", 0), 0), step))


def _ordered(parts: _Parts) -> list[tuple[_Place, TraceStep]]:
    steps = parts.steps
    if parts.rows == 1:
        return steps  # one event, or those of one record
    if all(place.position is not None for place, _ in steps):
        return _in_order(steps, "position")
    if all(place.time is not None for place, _ in steps):
        return _in_order(steps, "time")
    if len({place.source for place, _ in steps}) == 1:
        return steps  # in the order of the file
    raise InputError("its events come from several files, and not all have a 'position' or a 'time'; add one of them")


def _in_order(steps: Sequence[tuple[_Place, TraceStep]], key: str) -> list[tuple[_Place, TraceStep]]:
    """Sorts events by position or time."""
    found: list[tuple[_Place, TraceStep]] = []
    for value, group in groupby(sorted(steps, key=lambda one: getattr(one[0], key)), lambda one: getattr(one[0], key)):
        equal = list(group)
        alike = all(step == equal[0][1] for _, step in equal)
        if key == "position" and alike:
            equal = equal[:1]  # one event that was delivered more than once
        elif not alike and (key == "position" or len({place.source for place, _ in equal}) > 1):
            raise InputError(
                f"different events have the {key} {value!r}, so that their order is unknown; "
                "expected a 'position' of its own for each event"
            )
        found += equal
    return found
