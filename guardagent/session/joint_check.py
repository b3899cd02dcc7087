"""Calls that a model proposes together: they take their places all or none."""

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
    """The calls that were judged, and the verdict on each. Of several, nothing takes its place unless all may.

    One that would halt or escalate by itself is put by itself, the most severe one, and is then the only one that is
    given back: so a halt holds, and an approval finds its call.

    Args:
        session: judges them.
        calls: at least one.
        options: those of `session.check`.
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
    """Of a call that would escalate or halt only after the others, which do not run either."""
    return replace(verdict, decision=Decision.DENY, grant=None)


def withdraw(session: Session, verdicts: Sequence[Verdict]) -> None:
    """Withdraws placed calls that do not run: another thread's call came between, and had one denied."""
    for verdict in verdicts:
        if verdict.permit is not None and verdict.label == 0:
            session.withdraw(verdict.permit, "it was proposed with a call that is denied")
