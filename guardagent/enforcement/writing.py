"""Has verdicts, outcomes and approvals written to the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from guardagent.enforcement.approval import Approval
from guardagent.enforcement.calls import HostCall
from guardagent.errors import InputError
from guardagent.types import Verdict

if TYPE_CHECKING:
    from guardagent.policy.evaluation.findings import Status
    from guardagent.session.permit import Permit


class Log(Protocol):
    """Where verdicts are written: `guardagent.log.AuditLog`."""

    def append(self, record: Mapping[str, Any]) -> Any: ...


def spooled(log: Log | None, on_error: str, path: Path | str | None) -> Log | None:
    """The log, with a file for what cannot be written to it, where that is wanted.

    Raises:
        InputError: the options do not fit together, or there is no place for the file.
    """
    if (path is not None and on_error != "spool") or (log is None and on_error == "spool"):
        raise InputError("a spool is for a log: expected log=..., on_log_error='spool' and perhaps log_spool=FILE")
    if log is None or on_error != "spool":
        return log
    from guardagent.log.spool import Spool

    return Spool(log, path)


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
