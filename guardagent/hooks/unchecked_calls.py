"""Records a call that the host ran although no verdict allowed it: its hook gave no answer, or was not obeyed."""

from __future__ import annotations

import time

from guardagent.enforcement import HostCall, Outcome
from guardagent.log import AuditLog
from guardagent.log.records import verdict_record
from guardagent.session.session import Session
from guardagent.session.snapshot import HistoryChangedError
from guardagent.types import Event, Verdict, freeze, thaw

UNCHECKED = "unchecked"
"""The kind of its entry in the log, and its tag for rules."""
_TRIES = 50


def record_unchecked(session: Session, log: AuditLog, call: HostCall, outcome: Outcome) -> Verdict | None:
    """Records the call with its outcome, so that rules see it as any other. Its entry in the log says what they object.

    Returns:
        What the rules say about it; None if it was recorded before.

    Raises:
        GuardError: the history or the log cannot be written.
    """
    if any(one.id == call.id for one in session.history):
        return None
    failed = any(session.status_of(one, failed=False) == "failed" for one in outcome.other_outputs)
    status = session.status_of(outcome.output, failed or outcome.failed)
    assert status != "withdrawn"
    event = Event(
        tool=call.tool,
        args=freeze(call.args),
        output=outcome.output,
        status=status,
        tags=frozenset((UNCHECKED,)),
        agent=call.agent,
        id=call.id,
        time=time.time(),
    )
    verdict = _observed(session, event)
    record = verdict_record(
        verdict,
        tool=call.tool,
        args=thaw(call.args),
        conversation=session.id,
        agent=call.agent,
        call_id=call.id,
        policy=session.policies.digest,
        tags=event.tags,
    )
    log.append({**record, "kind": UNCHECKED, "status": status, "output": outcome.output})
    return verdict


def _observed(session: Session, event: Event) -> Verdict:
    for _ in range(_TRIES):
        try:
            return session.observe(event)
        except HistoryChangedError:
            session.catch_up()
    raise HistoryChangedError(f"other processes kept extending the history; {event.tool!r} was not recorded")
