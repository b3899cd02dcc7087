"""The work on the rows of traces: a replay compares two policies on each trace, and an audit judges it.

A batch never fails as a whole: an unreadable trace is a row with an error.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import islice
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from guardagent.batch.arrow.assembly import AssembledTrace, assembled
from guardagent.batch.arrow.policy_bundle import PolicyBundle
from guardagent.batch.arrow.rows import EventRow, rows_by_trace
from guardagent.batch.arrow.schema import DIFFERENCES, VERDICTS, batch_of
from guardagent.batch.arrow.work import Work
from guardagent.batch.audit import ignored_tools, judge_together, judge_traces, require_times
from guardagent.batch.replay import compare_traces
from guardagent.batch.replay.comparison import DifferenceTable, RuleDifferences
from guardagent.batch.replay.conversation import ReplayPolicy
from guardagent.batch.report import rules_for_report
from guardagent.errors import InputError, error_text
from guardagent.policy.policies import Policies
from guardagent.types import Verdict

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
    policies = [ReplayPolicy(bundle.policies()) for bundle in bundles]
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


def judge(batches: Iterable[pa.RecordBatch], policies: Policies | PolicyBundle) -> Iterator[pa.RecordBatch]:
    """Yields the verdicts on traces, in the schema `VERDICTS`: one row for each trace.

    Args:
        batches: rows in the schema `EVENTS`. The rows of a trace are adjacent; their order does not matter.
        policies: the rules. If they count across conversations, all traces are replayed together, in the order of time.

    Raises:
        InputError: the rows of a trace are not adjacent, or the policies cannot be loaded.
    """
    rules = policies.policies() if isinstance(policies, PolicyBundle) else policies
    ignored = ignored_tools(rules)
    traces = (assembled(trace, rows, rules.failed_output, ignored) for trace, rows in rows_by_trace(batches))
    groups = iter([list(traces)]) if rules.counters else _in_groups(traces)
    for group in groups:
        if group:
            yield batch_of(_judged(rules, group), VERDICTS)


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


def _judged(policies: Policies, group: list[AssembledTrace]) -> Iterator[dict[str, Any]]:
    """Yields the row of each trace."""
    if policies.counters:
        group = [_with_times(policies, assembled_trace) for assembled_trace in group]
    traces = [assembled_trace.trace for assembled_trace in group if assembled_trace.trace is not None]
    verdicts = iter((judge_together if policies.counters else judge_traces)(policies, traces))
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
        require_times(policies, assembled_trace.trace, f"trace {assembled_trace.id!r}")
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
        violated: rule id -> the number of traces that break it.
    """

    traces: int = 0
    events: int = 0
    denied: int = 0
    unchecked: int = 0
    unreadable: int = 0
    violated: Counter[str] = field(default_factory=Counter)

    @property
    def status(self) -> int:
        """The exit status, as that of all commands with many verdicts."""
        return 2 if self.unreadable else 3 if self.unchecked else 1 if self.denied else 0

    def __add__(self, other: AuditCounts) -> AuditCounts:
        return AuditCounts(
            self.traces + other.traces,
            self.events + other.events,
            self.denied + other.denied,
            self.unchecked + other.unchecked,
            self.unreadable + other.unreadable,
            self.violated + other.violated,
        )

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Self:
        """Counts the verdicts of a batch in the schema `VERDICTS`."""
        readable = batch.filter(pc.is_null(batch.column("error")))
        return cls(
            batch.num_rows,
            pc.sum(readable.column("events")).as_py() or 0,
            pc.sum(readable.column("label")).as_py() or 0,
            pc.sum(pc.greater(pc.list_value_length(readable.column("errors")), 0)).as_py() or 0,
            batch.num_rows - readable.num_rows,
            Counter(pc.list_flatten(readable.column("rules")).to_pylist()),
        )

    def to_dict(self) -> dict[str, Any]:
        return {**{field.name: getattr(self, field.name) for field in fields(self)}, "violated": dict(self.violated)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "violated": Counter(values["violated"])})


def audit_work(bundle: PolicyBundle) -> Work[AuditCounts]:
    """Judges each trace; its results are rows in the schema `VERDICTS`."""
    policies = bundle.policies()
    about = {
        "policies": {"digest": bundle.policy_digest, "files": list(bundle.files)},
        "rules": rules_for_report(policies),
    }
    counters = tuple(counter.name for counter in policies.counters)
    results = partial(_audited, bundle)
    return Work("audit", VERDICTS, AuditCounts, bundle.policy_digest, about, results, counters)


def _audited(bundle: PolicyBundle, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, AuditCounts]]:
    for batch in judge(rows, bundle):
        yield batch, AuditCounts.of(batch)
