"""Judges the rows of traces: one row of `VERDICTS` for each trace. A batch never fails as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from guardagent.batch.arrow.bundle import PolicyBundle
from guardagent.batch.arrow.event_rows import rows_by_trace
from guardagent.batch.arrow.schema import VERDICTS, batch_of
from guardagent.batch.arrow.traces import AssembledTrace, assembled
from guardagent.batch.audit import judge_traces
from guardagent.batch.counted_traces import judge_together, require_times
from guardagent.batch.ignored_tools import ignored_tools
from guardagent.errors import InputError
from guardagent.policy.policies import Policies
from guardagent.types import Verdict

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
    for one in traces:
        group.append(one)
        events += 1 + (len(one.trace.steps) if one.trace else 0)
        if events >= _EVENTS_AT_ONCE:
            yield group
            group, events = [], 0
    yield group


def _judged(policies: Policies, group: list[AssembledTrace]) -> Iterator[dict[str, Any]]:
    """Yields the row of each trace."""
    if policies.counters:
        group = [_with_times(policies, one) for one in group]
    traces = [one.trace for one in group if one.trace is not None]
    verdicts = iter((judge_together if policies.counters else judge_traces)(policies, traces))
    for one in group:
        yield _error_row(one) if one.trace is None else _verdict_row(one, next(verdicts))


def _with_times(policies: Policies, one: AssembledTrace) -> AssembledTrace:
    """The trace, if its events can be put in order with those of other traces."""
    if one.trace is None:
        return one
    try:
        require_times(policies, one.trace, f"trace {one.id!r}")
    except InputError as error:
        return AssembledTrace(one.id, error=str(error), source=one.source)
    return one


def _error_row(one: AssembledTrace) -> dict[str, Any]:
    return {"trace": one.id, "label": 1, "error": one.error, "source": one.source}


def _verdict_row(one: AssembledTrace, verdict: Verdict) -> dict[str, Any]:
    started, ended = one.times
    details = verdict.details
    return {
        "trace": one.id,
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
        "task": one.task,
        "success": one.success,
        "elapsed_ms": verdict.elapsed_ms,
    }


def _violation(violation: Any) -> dict[str, Any]:
    evidence = violation.to_dict()["evidence"]
    event = evidence.pop("event", None)
    text = json.dumps(evidence, ensure_ascii=False, default=str)
    return {"rule": violation.policy, "event": event, "message": violation.message, "evidence": text}
