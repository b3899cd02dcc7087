"""Recorded calls that were executed and that a policy denies: it is too tight, or the agent broke a rule."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cached_property, partial
from pathlib import Path

from guardagent.batch.audit import judge_events
from guardagent.batch.records import Case, Trace
from guardagent.batch.trace_steps import TraceStep
from guardagent.policy.language import ast
from guardagent.policy.policies import Policies
from guardagent.translation.drafting.draft import Problem
from guardagent.translation.samples.concealment import conceal
from guardagent.translation.samples.traces import read_records
from guardagent.types import Verdict, thaw

_MOST = 20  # unknown values that are reported
_LONGEST = 400
_MOMENTARY = (ast.Fact, ast.State, ast.StateOf, ast.SolverRule)


def execution_problems(policies: Policies, path: Path | str) -> Iterator[Problem]:
    """Yields a problem for each rule that denies calls of a file, and for each unknown value that does.

    Raises:
        InputError: the file cannot be read.
    """
    executions = _Executions(policies)
    for record in read_records(path, policies.failed_output):
        executions.add(record)
    yield from executions.problems()


def _history_of(record: Case) -> Trace:
    """The history of a case: nobody knows whether the proposed call was executed.

    The state and the facts of a case are those of its proposed call. At the time of an earlier call, they were others.
    """
    return Trace(record.id, tuple(TraceStep(one) for one in record.history), principal=record.principal)


def _momentary(policies: Policies) -> frozenset[str]:
    """The policies that read the state or a fact at the time of a call, or may do so."""
    walked = {one.id: [node for rule in one.rules for node in ast.walk(rule)] for one in policies.rules}
    plain = {name for name, nodes in walked.items() if not any(isinstance(one, _MOMENTARY) for one in nodes)}
    return frozenset(policies.ids) - plain


class _Executions:
    """Counts the executed calls of traces, and those that a policy denies."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._calls: Counter[str] = Counter()
        self._denied: Counter[tuple[str, str]] = Counter()  # (rule, tool)
        self._unknown: Counter[tuple[str, str]] = Counter()  # (the error, tool)
        self._examples: dict[tuple[str, str], str] = {}

    def add(self, record: Case | Trace) -> None:
        """Judges a trace, or the history of a case by the rules that need neither its state nor its facts."""
        trace = record if isinstance(record, Trace) else _history_of(record)
        left_out = frozenset() if record is trace else self._momentary
        self._calls.update(one.event.tool for one in trace.steps if _is_executed(one))
        judge_events(self._policies, trace, partial(self._count, trace, left_out))

    @cached_property
    def _momentary(self) -> frozenset[str]:
        return _momentary(self._policies)

    def _count(self, trace: Trace, left_out: Collection[str], at: int | None, verdict: Verdict) -> None:
        if at is None or verdict.label == 0 or not _is_executed(trace.steps[at]):
            return
        tool = trace.steps[at].event.tool
        counts, names = (self._denied, verdict.rules) if verdict.rules else (self._unknown, verdict.errors)
        for name in (one for one in names if one.partition(": ")[0] not in left_out):
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
