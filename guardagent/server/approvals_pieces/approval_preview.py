"""Foresees what an approval would do: the guard judges the call in a copy of its session, without effect."""

from __future__ import annotations

from typing import Any

from guardagent.enforcement.wire import read_value
from guardagent.errors import GuardError, error_text
from guardagent.server.approval_record import ApprovalRecord
from guardagent.session.session import Session
from guardagent.types import Decision, Verdict

JSON = dict[str, Any]


def preview(session: Session, tool: str, record: ApprovalRecord) -> JSON:
    """Returns the expected verdict.

    Args:
        session: the session of the call.
        tool: the rules' name of its tool.
        record: the approval.

    Returns:
        `decision`, `reasons`, `errors`; `obligations`, which the call would add; and `settles`, which it would meet.
    """
    copy = session.fork()
    before = copy.obligations
    try:
        verdict = _judged(copy, tool, record)
    except GuardError as error:
        return _shown("unknown", (), (error_text(error),), {}, {})
    after = copy.obligations if verdict.label == 0 else before
    decision = "unknown" if verdict.errors else str(verdict.decision)
    return _shown(decision, verdict.reasons, verdict.errors, _without(after, before), _without(before, after))


def _judged(copy: Session, tool: str, record: ApprovalRecord) -> Verdict:
    call = record.call
    args = read_value(record.args if record.args is not None else call["args"], "args")
    facts = read_value(call.get("facts") or {}, "facts")
    verdict = copy.check(
        tool,
        args,
        facts=facts or None,
        action=call.get("action"),
        agent=call.get("agent"),
        tags=tuple(call.get("tags", ())),
    )
    return copy.approve(verdict) if verdict.decision is Decision.ESCALATE else verdict


def _without(some: dict[str, str], others: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in some.items() if name not in others}


def _shown(decision: str, reasons: Any, errors: Any, obligations: JSON, settles: JSON) -> JSON:
    return {
        "decision": decision,
        "reasons": list(reasons),
        "errors": list(errors),
        "obligations": obligations,
        "settles": settles,
    }
