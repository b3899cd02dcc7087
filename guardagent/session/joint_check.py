"""Judges calls that a model proposes together. All of them are recorded as in flight, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from guardagent.session.session import Session
from guardagent.types import Decision, Verdict

ProposedCall = tuple[str, Mapping[str, Any]]  # a tool and its arguments


def judge_jointly(
    session: Session, calls: Sequence[ProposedCall], options: Mapping[str, Any]
) -> tuple[Sequence[ProposedCall], Sequence[Verdict]]:
    """Returns the judged calls and their verdicts. Calls are recorded as in flight only if all are allowed.

    If a call would halt or escalate by itself, only the most severe such call is judged and returned. So a halt takes
    effect, and an approval refers to one call.

    Args:
        session: judges the calls.
        calls: the calls; at least one.
        options: the options of `session.check`.
    """
    if len(calls) == 1:
        return calls, [session.check(*calls[0], **options)]
    alone = [session.check(*call, **options, reserve=False) for call in calls]
    worst = max(range(len(calls)), key=lambda at: alone[at].decision.severity)
    if _escalates(alone[worst]):
        return judge_jointly(session, [calls[worst]], options)
    tried = session.fork().check_all(calls, **options)
    if any(verdict.label for verdict in tried):
        return calls, [_as_denial(verdict) if _escalates(verdict) else verdict for verdict in tried]
    return calls, session.check_all(calls, **options)


def _escalates(verdict: Verdict) -> bool:
    return verdict.decision >= Decision.ESCALATE


def _as_denial(verdict: Verdict) -> Verdict:
    """Downgrades a verdict that escalates or halts only in combination with calls that do not run."""
    return replace(verdict, decision=Decision.DENY, grant=None)


def withdraw(session: Session, verdicts: Sequence[Verdict]) -> None:
    """Withdraws allowed calls that do not run, because a concurrent call of another thread led to a denial."""
    for verdict in verdicts:
        if verdict.permit is not None and verdict.label == 0:
            session.withdraw(verdict.permit, "proposed together with a call that was denied")
