"""Writes verdicts, outcomes and approvals to the audit log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from guardagent.enforcement.approval import Approval
from guardagent.enforcement.calls import HostCall
from guardagent.errors import InputError
from guardagent.types import Verdict

if TYPE_CHECKING:
    from guardagent.policy.evaluation.monitor_interface import CallStatus
    from guardagent.session.shadow import ShadowDifference
    from guardagent.session.state import Permit


_log = logging.getLogger("guardagent")


class AuditSink(Protocol):
    """A destination of audit records, such as `guardagent.log.AuditLog`."""

    def append(self, record: Mapping[str, Any]) -> Any: ...


def spooled_log(log: AuditSink | None, on_error: str, path: Path | str | None) -> AuditSink | None:
    """Wraps the log in a spool file if `on_error` is `spool`.

    Raises:
        InputError: the options contradict each other, or the spool file has no usable path.
    """
    if (path is not None and on_error != "spool") or (log is None and on_error == "spool"):
        raise InputError("a spool needs a log; expected log=..., on_log_error='spool' and perhaps log_spool=FILE")
    if log is None or on_error != "spool":
        return log
    from guardagent.log.spool import Spool

    return Spool(log, path)


@dataclass(frozen=True, slots=True)
class AuditRecords:
    """Writes verdicts, outcomes and approvals.

    Attributes:
        log: the destination.
        policy: returns the digest of the policy of a conversation.
        required: whether a verdict counts only once it is in the log.
    """

    log: AuditSink
    policy: Callable[[str | None], str]
    required: bool

    def verdict(
        self,
        kind: str,
        call: HostCall,
        verdict: Verdict,
        principal: Mapping[str, Any] | None = None,
        policy: str = "",
        now: Mapping[str, Any] | None = None,
    ) -> Exception | None:
        """Writes a verdict. Returns the error if it could not be written and the log is required.

        Args:
            kind: the kind of the record.
            call: the call.
            verdict: the verdict.
            principal: the principal of the call.
            policy: the digest of the policy; by default that of the conversation.
            now: the time of the check, as for `verdict_record`.
        """
        from guardagent.log.records import verdict_record

        about = {
            **_call_fields(call),
            "args": call.args,
            "facts": call.facts,
            "principal": principal,
            "now": now,
            "action": call.action,
            "tags": call.tags,
        }
        try:
            policy = policy or self.policy(call.conversation)
            self.log.append({**verdict_record(verdict, policy=policy, permit=verdict.permit, **about), "kind": kind})
        except Exception as error:  # noqa: BLE001 - any error of the log
            _log.error("the audit log cannot be written: %s", error)
            return error if self.required else None
        return None

    def outcome(
        self, call: HostCall, output: Any, status: CallStatus, permit: Permit | None, *, ended: bool = True
    ) -> None:
        """Writes the outcome of a call."""
        from guardagent.log.records import outcome_record

        about = {"permit": permit, "ended": ended, **_call_fields(call)}
        self._append(lambda: outcome_record(status=status, output=output, **about))

    def withdrawal(self, call: HostCall, why: str, permit: Permit | None) -> None:
        """Writes that an allowed call never ran."""
        from guardagent.log.records import outcome_record

        self._append(lambda: outcome_record(status="withdrawn", why=why, permit=permit, **_call_fields(call)))

    def approval(self, call: HostCall, approval: Approval) -> None:
        """Writes a reviewer's answer."""
        answer = {
            "answer": approval.choice,
            "approver": approval.by,
            "reasons": [approval.reason] if approval.reason else [],
        }
        self._append(lambda: {"kind": "approval", **_call_fields(call), "args": call.args, **answer})

    def difference(self, found: ShadowDifference) -> None:
        """Writes that the candidate of `shadow:` decides otherwise on a call."""
        self._append(
            lambda: {
                "kind": "shadow",
                "conversation": found.session,
                "agent": found.agent,
                "tool": found.tool,
                "call_id": found.call_id,
                "args": found.args,
                "decision": found.candidate["decision"],
                "rules": found.candidate["rules"],
                "undecided": found.candidate["undecided"],
                "errors": found.errors,
                "live": found.live,
                "policy": found.policy,
            }
        )

    def _append(self, record: Callable[[], Mapping[str, Any]]) -> None:
        """Writes a record that no call waits for. If this fails, the next verdict meets the same error."""
        try:
            self.log.append(record())
        except Exception as error:  # noqa: BLE001 - as above
            _log.error("the audit log cannot be written: %s", error)


def _call_fields(call: HostCall) -> dict[str, Any]:
    return {"tool": call.tool, "conversation": call.conversation, "agent": call.agent, "call_id": call.id}
