"""Acquits the traces of rows in the schema `EVENTS`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent.batch.acquittal import Acquittal
from guardagent.batch.acquittal.checks import Bools, Ints
from guardagent.batch.arrow.event_columns import TraceColumns, event_columns, is_valid
from guardagent.batch.arrow.record_columns import record_columns
from guardagent.batch.arrow.rows import filtered
from guardagent.batch.arrow.schema import VERDICTS
from guardagent.batch.audit import Assumptions
from guardagent.errors import InputError

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
