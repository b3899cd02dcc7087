"""Has verdicts and outcomes written to the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from guardagent.enforcement.calls import HostCall
from guardagent.types import Verdict


class Log(Protocol):
    """Where verdicts are written: `guardagent.log.AuditLog`."""

    def append(self, record: Mapping[str, Any]) -> Any: ...


def write_verdict(log: Log, policy: str, kind: str, call: HostCall, verdict: Verdict) -> None:
    """Returns once the verdict is in the log. Raises what the log raises."""
    from guardagent.log.records import verdict_record

    log.append(verdict_record(verdict, kind=kind, policy=policy, permit=verdict.permit, **_about(call)))


def write_outcome(log: Log, policy: str, kind: str, call: HostCall, said: Mapping[str, Any]) -> None:
    """As `write_verdict`, of what came of a call or what a person said of it."""
    from guardagent.log.records import outcome_record

    log.append(outcome_record(kind=kind, policy=policy, **_about(call), **said))


def _about(call: HostCall) -> dict[str, Any]:
    return {
        "tool": call.tool,
        "args": call.args,
        "conversation": call.conversation,
        "agent": call.agent,
        "call_id": call.id,
    }
