"""The work of a replay over tables: comparing two policies on each trace. A batch never fails as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Self

import pyarrow as pa

from guardagent.batch.arrow.bundle import PolicyBundle
from guardagent.batch.arrow.event_rows import EventRow, rows_by_trace
from guardagent.batch.arrow.schema import DIFFERENCES, batch_of
from guardagent.batch.arrow.traces import AssembledTrace, assembled
from guardagent.batch.replay.candidate import ReplayPolicy
from guardagent.batch.replay.comparison import DifferenceTable, RuleDifferences
from guardagent.batch.replay.traces import compare_traces
from guardagent.errors import error_text

_TRACES_AT_ONCE = 1000  # whose differences are in memory


@dataclass(slots=True)
class ReplaySummary:
    """The differences of all traces.

    Attributes:
        traces: all traces, also unreadable ones.
        unreadable: traces that could not be compared.
        table: the differences by rule, and the number of compared calls.
    """

    traces: int = 0
    unreadable: int = 0
    table: DifferenceTable = field(default_factory=DifferenceTable)

    def __add__(self, other: Self) -> Self:
        table = DifferenceTable()
        table.add(self.table)
        table.add(other.table)
        return type(self)(self.traces + other.traces, self.unreadable + other.unreadable, table)

    def to_dict(self) -> dict[str, Any]:
        return {"traces": self.traces, "unreadable": self.unreadable, **self.table.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(values["traces"], values["unreadable"], DifferenceTable.from_dict(values))


@dataclass(frozen=True, slots=True)
class ReplayWork:
    """Compares a candidate with another policy; see `Work`.

    Its results are rows in the schema `DIFFERENCES`: one for each trace and rule that differs or is undecidable, and
    one for each trace that cannot be compared. Counters across conversations are not replayed: rules that read them
    are undecidable.
    """

    name: ClassVar = "replay"
    schema: ClassVar = DIFFERENCES
    summary: ClassVar = ReplaySummary
    counters: ClassVar[tuple[str, ...]] = ()

    candidate: PolicyBundle
    against: PolicyBundle

    @property
    def digest(self) -> str:
        return f"{self.candidate.policy_digest} against {self.against.policy_digest}"

    @property
    def about(self) -> Mapping[str, Any]:
        return {"candidate": self.candidate.policy_digest, "against": self.against.policy_digest}

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, ReplaySummary]]:
        policies = [ReplayPolicy(bundle.policies()) for bundle in (self.against, self.candidate)]
        traces = rows_by_trace(rows)
        while group := list(islice(traces, _TRACES_AT_ONCE)):
            summary = ReplaySummary(len(group))
            found = [row for trace, its_rows in group for row in _compared(trace, its_rows, policies, summary)]
            yield batch_of(found, DIFFERENCES), summary


def _compared(
    trace: str | None, rows: Sequence[EventRow], policies: Sequence[ReplayPolicy], summary: ReplaySummary
) -> Iterator[dict[str, Any]]:
    """Yields the rows of a trace, and counts its differences."""
    found = _differences(trace, rows, policies)
    if isinstance(found, AssembledTrace):
        summary.unreadable += 1
        yield {"trace": trace, "error": found.error, "source": found.source}
        return
    summary.table.add(found)
    yield from ({"trace": trace, **_columns(row)} for row in found.rows.values())


def _differences(
    trace: str | None, rows: Sequence[EventRow], policies: Sequence[ReplayPolicy]
) -> DifferenceTable | AssembledTrace:
    """The differences in a trace; or the trace with an error."""
    old, new = policies
    patterns = [one.policies.failed_output for one in policies]
    before = after = assembled(trace, rows, patterns[0])
    if patterns[0] is not patterns[1]:
        after = assembled(trace, rows, patterns[1])
    if before.trace is None or after.trace is None:
        return before if before.trace is None else after
    table = DifferenceTable()
    try:
        compare_traces((old, before.trace), (new, after.trace), table)
    except Exception as error:  # noqa: BLE001 - what crashes is not compared
        return AssembledTrace(trace, error=error_text(error))
    return table


def _columns(row: RuleDifferences) -> dict[str, Any]:
    values = row.to_dict()
    example = values.pop("example") or {}
    args = json.dumps(example["args"], ensure_ascii=False) if "args" in example else None
    changes = [{"change": change, "count": count} for change, count in row.changes.items()]
    return {**example, **values, "args": args, "changes": changes}
