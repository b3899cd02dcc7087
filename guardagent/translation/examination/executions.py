"""Recorded calls that were executed and that a policy denies: it is too tight, or the agent broke a rule."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from guardagent.batch.audit import judge_events
from guardagent.batch.records import Case, Trace
from guardagent.batch.trace_steps import TraceStep
from guardagent.policy.policies import Policies
from guardagent.translation.drafting.draft import Problem
from guardagent.translation.samples.concealment import conceal
from guardagent.translation.samples.traces import read_records
from guardagent.types import Verdict, thaw

_MOST = 20  # unknown values that are reported
_LONGEST = 400


def execution_problems(policies: Policies, path: Path | str) -> Iterator[Problem]:
    """Yields a problem for each rule that denies calls of a file, and for each unknown value that does.

    Raises:
        InputError: the file cannot be read.
    """
    executions = _Executions(policies)
    for record in read_records(path, policies.failed_output):
        executions.add(_trace_of(record))
    yield from executions.problems()


def _trace_of(record: Case | Trace) -> Trace:
    """A trace; of a case, its history: nobody knows whether the proposed call was executed."""
    if isinstance(record, Trace):
        return record
    steps = tuple(TraceStep(one) for one in record.history)
    return Trace(record.id, steps, record.state, record.facts, record.principal)


class _Executions:
    """Counts the executed calls of traces, and those that a policy denies."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._calls: Counter[str] = Counter()
        self._denied: Counter[tuple[str, str]] = Counter()  # (rule, tool)
        self._unknown: Counter[tuple[str, str]] = Counter()  # (the error, tool)
        self._examples: dict[tuple[str, str], str] = {}

    def add(self, trace: Trace) -> None:
        """Judges a trace."""
        self._calls.update(one.event.tool for one in trace.steps if _is_executed(one))
        judge_events(self._policies, trace, partial(self._count, trace))

    def _count(self, trace: Trace, at: int | None, verdict: Verdict) -> None:
        if at is None or verdict.label == 0 or not _is_executed(trace.steps[at]):
            return
        tool = trace.steps[at].event.tool
        counts, names = (self._denied, verdict.rules) if verdict.rules else (self._unknown, verdict.errors)
        for name in names:
            counts[name, tool] += 1
            self._examples.setdefault((name, tool), _shown(trace, at))

    def problems(self) -> Iterator[Problem]:
        """Yields the problems, the most frequent first."""
        for (rule, tool), count in self._denied.most_common():
            text = (
                f"{count} of {self._calls[tool]} executed calls of {tool!r} violate the rule; either the agent broke "
                "it, or it is too tight"
            )
            yield Problem("too_tight", text, rule, example=self._examples[rule, tool])
        for (error, tool), count in self._unknown.most_common(_MOST):
            rule = error.partition(": ")[0]
            text = (
                f"{count} of {self._calls[tool]} executed calls of {tool!r} are denied only because something is "
                f"unknown: {error:.300}; record it, or test it with 'known'"
            )
            known = rule if rule in self._policies.ids else ""
            yield Problem("unknown_in_traces", text, known, example=self._examples[error, tool])
        if (more := len(self._unknown) - _MOST) > 0:
            yield Problem("unknown_in_traces", f"{more} more values are unknown in executed calls")


def _is_executed(step: TraceStep) -> bool:
    """Whether a call was executed, as far as it is known."""
    return bool(step.event.tool) and step.event.status != "failed"


def _shown(trace: Trace, at: int) -> str:
    """A call, without secrets."""
    event = trace.steps[at].event
    args = json.dumps(conceal(thaw(event.args)), ensure_ascii=False, default=str)
    return f"{trace.id!r} events[{at}]: {event.tool} {args if len(args) <= _LONGEST else args[:_LONGEST] + ' …'}"
