"""Compares two policies on a trace: whole, from a file or from the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from guardagent.batch.records import Trace
from guardagent.batch.replay.candidate import ReplayPolicy
from guardagent.batch.replay.comparison import DifferenceTable
from guardagent.batch.replay.conversation import ReplayedConversation, RuleAnswers
from guardagent.batch.replay.log_steps import LoggedCall, LogStep
from guardagent.batch.traces import TraceStep
from guardagent.types import freeze, thaw
from guardagent.types.values import SessionPrincipal


def compare_traces(old: tuple[ReplayPolicy, Trace], new: tuple[ReplayPolicy, Trace], table: DifferenceTable) -> None:
    """Compares the answers to each event of a trace, and at its end.

    Args:
        old: the other policy, with the trace as it reads it: a policy may tell which calls failed.
        new: the candidate, likewise.
        table: counts the differences.
    """
    steps = (*new[1].steps, None)
    for at, (step, before, after) in enumerate(zip(steps, _trace_answers(*old), _trace_answers(*new), strict=True)):
        table.compare(before, after, partial(_shown_event, new[1].id, at, step))


def _shown_event(name: str | int, at: int, step: TraceStep | None) -> Mapping[str, Any]:
    if step is None:
        return {"conversation": name, "event": None}
    return {"conversation": name, "event": at, "tool": step.event.tool, "args": thaw(step.event.args)}


def _trace_answers(candidate: ReplayPolicy, trace: Trace) -> Iterator[RuleAnswers]:
    """Yields the answers to each event of a trace, and at its end."""
    facts = freeze(trace.facts)
    conversation = ReplayedConversation(candidate, trace.state, facts)
    for step in trace.steps:
        if step.state is not None:
            conversation.change_state(step.state)
        call = _recorded_call(step, facts, trace.principal)
        answers, judged = conversation.judge(call)
        yield answers
        conversation.reserve(judged)
        output = freeze(step.event.output)
        conversation.settle(LogStep("outcome", None, call, status=step.event.status, output=output), final=True)
    yield conversation.end(None if trace.principal is None else trace.principal.value)


def _recorded_call(step: TraceStep, facts: Mapping[str, Any], principal: SessionPrincipal | None) -> LoggedCall:
    event = step.event
    known = facts if step.facts is None else freeze({**facts, **step.facts})
    return LoggedCall(
        {},
        event.tool,
        event.args,
        known,
        event.action,
        event.decision,
        event.tags,
        time=event.time,
        principal=None if principal is None else principal.value,
        agent=event.agent,
    )
