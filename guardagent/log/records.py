"""Builds the records of verdicts and of call outcomes: plain mappings, for `AuditLog.append`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from guardagent.log.record_encoder import timestamp

if TYPE_CHECKING:
    from guardagent.types import Verdict


class PermitFields(Protocol):
    """The logged fields of a permit; see `guardagent.Permit`."""

    @property
    def policy(self) -> str: ...
    @property
    def session(self) -> str: ...
    @property
    def place(self) -> int: ...
    @property
    def expires(self) -> float: ...
    @property
    def nonce(self) -> str: ...


def verdict_record(
    verdict: Verdict,
    *,
    tool: str,
    args: Mapping[str, Any],
    conversation: str,
    agent: str | None = None,
    call_id: str | None = None,
    policy: str | None = None,
    permit: PermitFields | None = None,
    facts: Mapping[str, Any] | None = None,
    principal: Mapping[str, Any] | None = None,
    now: Mapping[str, Any] | None = None,
    action: str | None = None,
    tags: Iterable[str] = (),
) -> dict[str, Any]:
    """Returns the record of a verdict.

    Args:
        verdict: the verdict.
        tool: the proposed tool.
        args: the checked arguments; the log adds their hash.
        conversation: the session's id.
        agent: the agent of the session that proposed the call.
        call_id: the host's own id for the call.
        policy: the digest of the policy; default: that of the permit.
        permit: the permit of an allowed call; only the hash of its nonce is written.
        facts: the host's facts for this call; the log adds their hash.
        principal: on whose behalf the agent acts.
        now: the time of the check, if the session has a clock or a zone of its own: `time` in seconds, and `zone`.
        action: the action of the call, for rules.
        tags: the tags of the call, for rules.
    """
    return {
        "kind": "verdict",
        "conversation": conversation,
        "agent": agent,
        "tool": tool,
        "call_id": call_id,
        "args": args,
        **({"facts": facts} if facts else {}),
        **({"principal": principal} if principal else {}),
        **({"now": now} if now else {}),
        **({"action": action} if action is not None else {}),
        **({"tags": sorted(tags)} if tags else {}),
        "decision": str(verdict.decision),
        "label": verdict.label,
        "rules": verdict.rules,
        "reasons": verdict.reasons,
        "violations": [violation.to_dict() for violation in verdict.violations],
        "errors": verdict.errors,
        **({"withheld": verdict.withheld} if verdict.withheld else {}),
        "checked_by": verdict.checked_by,
        "policy": policy or (permit.policy if permit is not None else None),
        "permit": _permit(permit),
        "elapsed_ms": round(verdict.elapsed_ms, 3),
    }


def outcome_record(
    *,
    tool: str,
    status: Literal["ok", "failed", "unknown", "withdrawn"],
    conversation: str,
    output: Any = None,
    agent: str | None = None,
    call_id: str | None = None,
    permit: PermitFields | None = None,
    elapsed_ms: float | None = None,
    why: str | None = None,
    ended: bool = True,
) -> dict[str, Any]:
    """Returns the record of the outcome of a call.

    Args:
        tool: the tool that ran.
        status: how it ended; `withdrawn` if it was allowed and never ran.
        conversation: the session's id.
        output: its output; the log adds its hash.
        agent: the agent of the session that proposed it.
        call_id: the host's own id for the call.
        permit: its permit, whose place identifies the verdict of this outcome.
        elapsed_ms: its duration.
        why: the reason why it never ran.
        ended: false if it was interrupted and may still be running, so that it stays in flight.
    """
    return {
        "kind": "outcome",
        "conversation": conversation,
        "agent": agent,
        "tool": tool,
        "call_id": call_id,
        "status": status,
        "output": output,
        **({"reasons": [why]} if why else {}),
        **({} if ended else {"ended": False}),
        "permit": _permit(permit),
        "elapsed_ms": round(elapsed_ms, 3) if elapsed_ms is not None else None,
    }


def _permit(permit: PermitFields | None) -> dict[str, Any] | None:
    if permit is None:
        return None
    return {
        "session": permit.session,
        "place": permit.place,
        "expires": timestamp(permit.expires),
        "nonce_hash": f"sha256:{hashlib.sha256(permit.nonce.encode()).hexdigest()}",
    }
