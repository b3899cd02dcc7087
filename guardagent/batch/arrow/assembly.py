"""Puts the rows of a trace together: its events in order, and values that hold for all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from guardagent._support.json_values import loads
from guardagent.batch.arrow.rows import EventRow
from guardagent.batch.records import Trace, event_of, principal_of, trace_of
from guardagent.batch.traces import TraceStep, step_of_columns
from guardagent.errors import InputError
from guardagent.types import EMPTY

_TRACE_COLUMNS = ("trace_state", "trace_facts", "principal", "task", "success")
_JSON_COLUMNS = frozenset(_TRACE_COLUMNS[:3])
_NOTHING = (None,) * len(_TRACE_COLUMNS)


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


class _EventPlace(NamedTuple):
    """The place of an event: in its trace, if that is known, and in its file."""

    position: int | None
    time: float | None
    source: str
    row: int


@dataclass(slots=True)
class _Parts:
    """The content of the rows of a trace: events, values of the whole trace, and the texts of whole traces.

    `rows` is the number of rows that events come from.
    """

    failed_output: Any
    ignored: Mapping[str, bool]
    steps: list[tuple[_EventPlace, TraceStep]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    records: set[str] = field(default_factory=set)
    rows: int = 0

    def read(self, rows: Sequence[EventRow]) -> None:
        """Adds rows, in the order of their places."""
        for row in rows if len(rows) == 1 else sorted(rows, key=_place_of):
            if row.error is not None:
                raise InputError(row.error)
            if row.trace is None:
                raise InputError("the row has no 'trace'; expected the id of its conversation")
            if row.record is None:
                self._add_event(row)
            elif row.record not in self.records:  # it may be delivered more than once
                self._add_record(row, loads(row.record))

    def _add_event(self, row: EventRow) -> None:
        columns = (*row[3:12], row.time)  # from `tool` to `state`
        of_trace = row[12:17]  # from `trace_state` to `success`
        if of_trace != _NOTHING:
            values = zip(_TRACE_COLUMNS, of_trace, strict=True)
            self._add_values({name: _decoded(name, value) for name, value in values})
        self._add(row, row.position, step_of_columns(columns, self.failed_output, self.ignored))

    def _add_record(self, row: EventRow, record: Any) -> None:
        if not isinstance(record, dict) or "events" not in record:
            step = event_of(record, self.failed_output, self.ignored)
            self._add_values(record)
            self._add(row, record.get("position"), step)
            return
        trace = trace_of(record, self.failed_output, self.ignored)
        self.records.add(str(row.record))
        self._add_values({**record, "trace_state": record.get("state"), "trace_facts": record.get("facts")})
        self._add(row, None, *trace.steps)

    def _add(self, row: EventRow, position: int | None, *steps: TraceStep) -> None:
        self.rows += 1
        source, number = _place_of(row)
        self.steps += [(_EventPlace(position, step.time, source, number), step) for step in steps]

    def _add_values(self, values: Mapping[str, Any]) -> None:
        """Adds values of the whole trace, which are the same in all of its rows."""
        for name in _TRACE_COLUMNS:
            value = values.get(name)
            if value is not None and self.values.setdefault(name, value) != value:
                raise InputError(
                    f"rows of the trace have different values of {name!r}; expected the same in all of them"
                )


def _place_of(row: EventRow) -> tuple[str, int]:
    return row.source or "", row.row or 0


def _decoded(name: str, value: Any) -> Any:
    if value is None or name not in _JSON_COLUMNS:
        return value
    try:
        record = loads(value)
    except ValueError as error:
        raise InputError(f"{name!r} is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise InputError(f"{name!r} is not an object; expected a JSON object")
    return record


def assembled(
    trace: str | None, rows: Sequence[EventRow], failed_output: Any = None, ignored: Mapping[str, bool] = EMPTY
) -> AssembledTrace:
    """Puts a trace together.

    Events are ordered by `position`, or else by `time`. Without either, all of them have to come from one file, whose
    order counts. The events of a single record keep its order.

    Args:
        trace: the id.
        rows: its rows, in any order.
        failed_output: the compiled pattern of the outputs of failed calls, if the policy has one.
        ignored: as for `plain_step`.
    """
    try:
        parts = _Parts(failed_output, ignored)
        parts.read(rows)
        steps = tuple(step for _, step in _ordered(parts))
        values = parts.values
        principal = principal_of(values.get("principal"))
    except (ValueError, InputError, RecursionError) as error:
        reason = "a value is nested too deep" if isinstance(error, RecursionError) else str(error)
        return AssembledTrace(trace, error=reason, source=_source_of(rows))
    assembled_trace = Trace(trace or "", steps, values.get("trace_state"), values.get("trace_facts") or {}, principal)
    return AssembledTrace(trace, assembled_trace, task=values.get("task"), success=values.get("success"))


def _source_of(rows: Sequence[EventRow]) -> str | None:
    return min((row.source for row in rows if row.source is not None), default=None)


def _ordered(parts: _Parts) -> list[tuple[_EventPlace, TraceStep]]:
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


def _in_order(steps: Sequence[tuple[_EventPlace, TraceStep]], key: str) -> list[tuple[_EventPlace, TraceStep]]:
    """Sorts events by position or time."""
    value_of = (lambda step: step[0].position) if key == "position" else (lambda step: step[0].time)
    ordered = sorted(steps, key=value_of)
    if len(set(map(value_of, ordered))) == len(ordered):
        return ordered
    places: list[tuple[_EventPlace, TraceStep]] = []
    for value, group in groupby(ordered, value_of):
        equal = list(group)
        alike = all(step == equal[0][1] for _, step in equal)
        if key == "position" and alike:
            equal = equal[:1]  # one event that was delivered more than once
        elif not alike and (key == "position" or len({place.source for place, _ in equal}) > 1):
            raise InputError(
                f"different events have the {key} {value!r}, so that their order is unknown; "
                "expected a 'position' of its own for each event"
            )
        places += equal
    return places
