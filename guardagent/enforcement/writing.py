"""Has verdicts, outcomes and approvals written to the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from guardagent.enforcement.approval import Approval
from guardagent.enforcement.calls import HostCall
from guardagent.types import Verdict

if TYPE_CHECKING:
    from guardagent.permit import Permit
    from guardagent.policy.findings import Status


class Log(Protocol):
    """Where verdicts are written: `guardagent.log.AuditLog`."""

    def append(self, record: Mapping[str, Any]) -> Any: ...


def write_verdict(log: Log, policy: str, kind: str, call: HostCall, verdict: Verdict) -> None:
    """Returns once the verdict is in the log. Raises what the log raises."""
    from guardagent.log.records import verdict_record

    about = {**_about(call), "args": call.args, "facts": call.facts}
    log.append({**verdict_record(verdict, policy=policy, permit=verdict.permit, **about), "kind": kind})


def write_outcome(log: Log, call: HostCall, output: Any, status: Status, permit: Permit | None) -> None:
    """As `write_verdict`, of what came of a call."""
    from guardagent.log.records import outcome_record

    log.append(outcome_record(status=status, output=output, permit=permit, **_about(call)))


def write_withdrawal(log: Log, call: HostCall, why: str, permit: Permit | None) -> None:
    """As `write_verdict`, of a call that was allowed and never ran."""
    from guardagent.log.records import outcome_record

    log.append(outcome_record(status="withdrawn", why=why, permit=permit, **_about(call)))


def write_approval(log: Log, call: HostCall, said: Approval) -> None:
    """As `write_verdict`, of what a person said of a call."""
    answer = {"answer": said.choice, "approver": said.by, "reasons": [said.reason] if said.reason else []}
    log.append({"kind": "approval", **_about(call), "args": call.args, **answer})


def _about(call: HostCall) -> dict[str, Any]:
    return {"tool": call.tool, "conversation": call.conversation, "agent": call.agent, "call_id": call.id}
