"""The work on the rows of traces: a replay compares two policies on each trace, and an audit judges it.

A batch never fails as a whole: an unreadable trace is a row with an error.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import groupby, islice
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent._support.json_values import loads
from guardagent.batch import audit
from guardagent.batch.acquittal import acquittal
from guardagent.batch.arrow.columns import acquitted, sorted_by_trace, trace_blocks, verdicts_of
from guardagent.batch.arrow.policy_bundle import PolicyBundle
from guardagent.batch.arrow.rows import EventRow, rows_by_trace
from guardagent.batch.arrow.schema import DIFFERENCES, VERDICTS, batch_of
from guardagent.batch.arrow.work import Work
from guardagent.batch.records import Trace, event_of, principal_of, trace_of
from guardagent.batch.replay import DifferenceTable, RuleDifferences, compare_traces
from guardagent.batch.replay.conversation import ReplayPolicy
from guardagent.batch.report import rules_for_report
from guardagent.batch.traces import TraceStep, step_of_columns
from guardagent.errors import InputError, error_text
from guardagent.policy.policies import Policies
from guardagent.types import EMPTY, Verdict

# --- replay

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


def replay_work(candidate: PolicyBundle, against: PolicyBundle) -> Work[ReplaySummary]:
    """Compares a candidate with another policy.

    Its results are rows in the schema `DIFFERENCES`: one for each trace and rule that differs or is undecidable, and
    one for each trace that cannot be compared. Counters across conversations are not replayed: rules that read them
    are undecidable.
    """
    digests = {"candidate": candidate.policy_digest, "against": against.policy_digest}
    results = partial(_replayed, (against, candidate))
    return Work("replay", DIFFERENCES, ReplaySummary, " against ".join(digests.values()), digests, results)


def _replayed(
    bundles: Sequence[PolicyBundle], rows: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, ReplaySummary]]:
    yield from replayed([ReplayPolicy(bundle.policies()) for bundle in bundles], rows)


def replayed(
    policies: Sequence[ReplayPolicy], rows: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, ReplaySummary]]:
    """Yields the differing rows of traces, some at once; `policies` are the old and the new ones.

    A trace that both acquit has no differences.

    Raises:
        InputError: the rows of a trace are not adjacent.
    """
    proofs = [acquittal(policy.policies.current) for policy in policies]
    if not all(proof.is_possible and not proof.reads_zone for proof in proofs):  # a log has no zone
        yield from replayed_by_sessions(policies, rows)
        return
    for block in trace_blocks(rows):
        kept, counted = np.ones(len(block.starts), np.bool_), block.rows.slice(0, 0)
        for proof, policy in zip(proofs, policies, strict=True):
            part, counted = acquitted(block.select(kept), proof, policy.policies.failed_output, audit.NO_ASSUMPTIONS)
            kept[kept] = part
        summary = ReplaySummary(counted.num_rows)
        events = pc.sum(pc.struct_field(counted.column("acquitted"), "events")).as_py() or 0
        summary.table.same = events + counted.num_rows  # an answer to each event, and at the end
        yield batch_of([], DIFFERENCES), summary
        yield from replayed_by_sessions(policies, block.select(~kept).rows.to_batches())


def replayed_by_sessions(
    policies: Sequence[ReplayPolicy], rows: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, ReplaySummary]]:
    """As `replayed`, with a session for each trace."""
    traces = rows_by_trace(rows)
    while group := list(islice(traces, _TRACES_AT_ONCE)):
        summary = ReplaySummary(len(group))
        differing_rows = [row for trace, its_rows in group for row in _compared(trace, its_rows, policies, summary)]
        yield batch_of(differing_rows, DIFFERENCES), summary


def _compared(
    trace: str | None, rows: Sequence[EventRow], policies: Sequence[ReplayPolicy], summary: ReplaySummary
) -> Iterator[dict[str, Any]]:
    """Yields the rows of a trace, and counts its differences."""
    differences = _differences(trace, rows, policies)
    if isinstance(differences, AssembledTrace):
        summary.unreadable += 1
        yield {"trace": trace, "error": differences.error, "source": differences.source}
        return
    summary.table.add(differences)
    yield from ({"trace": trace, **_columns(row)} for row in differences.rows.values())


def _differences(
    trace: str | None, rows: Sequence[EventRow], policies: Sequence[ReplayPolicy]
) -> DifferenceTable | AssembledTrace:
    """The differences in a trace; or the trace with an error."""
    old, new = policies
    patterns = [policy.policies.failed_output for policy in policies]
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


# --- verdicts

_EVENTS_AT_ONCE = 4_000  # in memory, apart from traces that have more


def judge(
    batches: Iterable[pa.RecordBatch],
    policies: Policies | PolicyBundle,
    assumptions: audit.Assumptions = audit.NO_ASSUMPTIONS,
) -> Iterator[pa.RecordBatch]:
    """Yields the verdicts on traces, in the schema `VERDICTS`: one row for each trace.

    Args:
        batches: rows in the schema `EVENTS`. The rows of a trace are adjacent; their order does not matter.
        policies: the rules. If they count across conversations, all traces are replayed together, in the order of time.
        assumptions: what is assumed of all traces.

    Raises:
        InputError: the rows of a trace are not adjacent, or the policies cannot be loaded.
    """
    rules = policies.policies() if isinstance(policies, PolicyBundle) else policies
    proof = acquittal(rules.current)
    if not proof.is_possible:
        yield from judge_by_sessions(batches, rules, assumptions)
        return
    for block in trace_blocks(batches):
        kept, rows = acquitted(block, proof, rules.failed_output, assumptions)
        earlier = block.traces_with("acquitted") & (block.lengths == 1)
        rows = pa.concat_tables([rows, block.select(earlier).rows])
        rest = block.select(~(kept | earlier)).rows.to_batches()
        table = pa.Table.from_batches([verdicts_of(rows), *judge_by_sessions(rest, rules, assumptions)], VERDICTS)
        groups = np.select([kept, earlier], [0, 1], 2)
        yield from table.take(pa.array(np.argsort(np.argsort(groups, kind="stable")))).combine_chunks().to_batches()


def judge_by_sessions(
    batches: Iterable[pa.RecordBatch], rules: Policies, assumptions: audit.Assumptions
) -> Iterator[pa.RecordBatch]:
    ignored = audit.ignored_tools(rules)
    traces = (assembled(trace, rows, rules.failed_output, ignored) for trace, rows in rows_by_trace(batches))
    groups = iter([list(traces)]) if rules.counters else _in_groups(traces)
    for group in groups:
        if group:
            yield batch_of(_judged(rules, group, assumptions), VERDICTS)


def _in_groups(traces: Iterable[AssembledTrace]) -> Iterator[list[AssembledTrace]]:
    group: list[AssembledTrace] = []
    events = 0
    for trace in traces:
        group.append(trace)
        events += 1 + (len(trace.trace.steps) if trace.trace else 0)
        if events >= _EVENTS_AT_ONCE:
            yield group
            group, events = [], 0
    yield group


def _judged(
    policies: Policies, group: list[AssembledTrace], assumptions: audit.Assumptions
) -> Iterator[dict[str, Any]]:
    """Yields the row of each trace."""
    if policies.counters:
        group = [_with_times(policies, assembled_trace) for assembled_trace in group]
    traces = [assembled_trace.trace for assembled_trace in group if assembled_trace.trace is not None]
    verdicts = iter((audit.judge_together if policies.counters else audit.judge_traces)(policies, traces, assumptions))
    for member in group:
        if member.trace is None:
            yield {"trace": member.id, "label": 1, "error": member.error, "source": member.source}
        else:
            yield _verdict_row(member, next(verdicts))


def _with_times(policies: Policies, assembled_trace: AssembledTrace) -> AssembledTrace:
    """The trace, if its events can be put in order with those of other traces."""
    if assembled_trace.trace is None:
        return assembled_trace
    try:
        audit.require_times(policies, assembled_trace.trace, f"trace {assembled_trace.id!r}")
    except InputError as error:
        return AssembledTrace(assembled_trace.id, error=str(error), source=assembled_trace.source)
    return assembled_trace


def _verdict_row(assembled_trace: AssembledTrace, verdict: Verdict) -> dict[str, Any]:
    started, ended = assembled_trace.times
    details = verdict.details
    return {
        "trace": assembled_trace.id,
        "decision": str(verdict.decision),
        "label": verdict.label,
        "rules": list(verdict.rules),
        "reasons": list(verdict.reasons),
        "violations": [_violation(violation) for violation in verdict.violations],
        "counts": [{"rule": rule, "count": count} for rule, count in (details.get("violations") or {}).items()],
        "errors": list(verdict.errors),
        "events": details.get("events"),
        "started": started,
        "ended": ended,
        "task": assembled_trace.task,
        "success": assembled_trace.success,
        "elapsed_ms": verdict.elapsed_ms,
    }


def _violation(violation: Any) -> dict[str, Any]:
    evidence = violation.to_dict()["evidence"]
    event = evidence.pop("event", None)
    text = json.dumps(evidence, ensure_ascii=False, default=str)
    return {"rule": violation.policy, "event": event, "message": violation.message, "evidence": text}


# --- audit


@dataclass(slots=True)
class AuditCounts:
    """The number of traces by result.

    Attributes:
        traces: all traces, also unreadable ones.
        events: the events of those that were read.
        denied, unchecked, unreadable: traces that break a rule, that could not be checked, that could not be read.
        escalated: traces that only needed approval; they are not among the denied ones.
        violated: rule id -> the number of traces that break it.
    """

    traces: int = 0
    events: int = 0
    denied: int = 0
    unchecked: int = 0
    unreadable: int = 0
    violated: Counter[str] = field(default_factory=Counter)
    escalated: int = 0

    @property
    def status(self) -> int:
        """The exit status, as that of all commands with many verdicts."""
        return 2 if self.unreadable else 3 if self.unchecked else 1 if self.denied or self.escalated else 0

    def __add__(self, other: AuditCounts) -> AuditCounts:
        return AuditCounts(
            self.traces + other.traces,
            self.events + other.events,
            self.denied + other.denied,
            self.unchecked + other.unchecked,
            self.unreadable + other.unreadable,
            self.violated + other.violated,
            self.escalated + other.escalated,
        )

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Self:
        """Counts the verdicts of a batch in the schema `VERDICTS`."""
        readable = batch.filter(pc.is_null(batch.column("error")))
        escalated = pc.sum(pc.equal(readable.column("decision"), "escalate")).as_py() or 0
        return cls(
            batch.num_rows,
            pc.sum(readable.column("events")).as_py() or 0,
            (pc.sum(readable.column("label")).as_py() or 0) - escalated,
            pc.sum(pc.greater(pc.list_value_length(readable.column("errors")), 0)).as_py() or 0,
            batch.num_rows - readable.num_rows,
            Counter(pc.list_flatten(readable.column("rules")).to_pylist()),
            escalated,
        )

    def to_dict(self) -> dict[str, Any]:
        return {**{field.name: getattr(self, field.name) for field in fields(self)}, "violated": dict(self.violated)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "violated": Counter(values["violated"])})


def audit_work(bundle: PolicyBundle, assumptions: audit.Assumptions = audit.NO_ASSUMPTIONS) -> Work[AuditCounts]:
    """Judges each trace; its results are rows in the schema `VERDICTS`."""
    policies = bundle.policies()
    about = {
        "policies": {"digest": bundle.policy_digest, "files": list(bundle.files)},
        "rules": rules_for_report(policies),
    }
    counters = tuple(counter.name for counter in policies.counters)
    results = partial(_audited, bundle, assumptions)
    digest = bundle.policy_digest + assumptions.digest
    reduce = partial(_reduced, bundle, assumptions) if acquittal(policies).is_possible else None
    return Work("audit", VERDICTS, AuditCounts, digest, about, results, counters, reduce)


def _reduced(bundle: PolicyBundle, assumptions: audit.Assumptions, rows: pa.Table) -> pa.Table:
    """The rows of whole traces, with one row for each that is acquitted."""
    policies, tables = bundle.policies(), [rows.slice(0, 0)]
    for block in trace_blocks(sorted_by_trace(rows).to_batches()):
        kept, acquitted_rows = acquitted(block, acquittal(policies), policies.failed_output, assumptions)
        tables += [acquitted_rows, block.select(~kept).rows]
    return pa.concat_tables(tables)


def _audited(
    bundle: PolicyBundle, assumptions: audit.Assumptions, rows: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, AuditCounts]]:
    for batch in judge(rows, bundle, assumptions):
        yield batch, AuditCounts.of(batch)


# --- traces, put together from their rows

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
