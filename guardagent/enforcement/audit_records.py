"""Records of verdicts, outcomes and approvals in the audit log, and OpenTelemetry's spans of checks.

A check has a span if the host has loaded OpenTelemetry. Attribute names follow the GenAI conventions; all others begin
with `guardagent.`. No argument or output goes into a span; the audit log holds them, redacted.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from guardagent.enforcement.approval import Approval
from guardagent.enforcement.calls import HostCall
from guardagent.errors import InputError
from guardagent.types import Decision, Verdict

if TYPE_CHECKING:
    from guardagent.policy.evaluation.monitor_interface import CallStatus
    from guardagent.session.shadow import ShadowDifference
    from guardagent.types import Permit

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
            "facts": call.known_facts,
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

    def difference(self, shadow_difference: ShadowDifference) -> None:
        """Records a call on which the `shadow:` candidate decides differently."""
        self._append(
            lambda: {
                "kind": "shadow",
                "conversation": shadow_difference.session,
                "agent": shadow_difference.agent,
                "tool": shadow_difference.tool,
                "call_id": shadow_difference.call_id,
                "args": shadow_difference.args,
                "decision": shadow_difference.candidate["decision"],
                "rules": shadow_difference.candidate["rules"],
                "undecided": shadow_difference.candidate["undecided"],
                "errors": shadow_difference.errors,
                "live": shadow_difference.live,
                "policy": shadow_difference.policy,
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


# --- spans

TRACE = "opentelemetry.trace"  # the module that a host with OpenTelemetry has loaded; it is never imported here
PREFIX = "guardagent."
_EVENTS = {Decision.DENY: "denied", Decision.HALT: "halted"}


class Span:
    """The span of one check, open while the check runs. A telemetry failure changes no verdict."""

    def __init__(self, scope: Any, span: Any) -> None:
        self._scope, self._span = scope, span

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        with suppress(Exception):
            self._scope.__exit__(*raised)

    def set_verdict(self, verdict: Verdict) -> None:
        """Sets the attributes of a verdict; one that denies or halts is an event, too."""
        with suppress(Exception):
            show_verdict(self._span, verdict)


def verdict_attributes(verdict: Verdict) -> dict[str, Any]:
    """Returns the attributes of a verdict, for a span."""
    values = {
        "decision": str(verdict.decision),
        "label": verdict.label,
        "rules": list(verdict.rules),
        "checked_by": verdict.checked_by,
        "elapsed_ms": verdict.elapsed_ms,
        "model_calls": verdict.model_calls,
    }
    unchecked = {"error.type": "guardagent.unchecked"} if verdict.errors else {}
    return {**{f"{PREFIX}{name}": value for name, value in values.items()}, **unchecked}


def show_verdict(span: Any, verdict: Verdict) -> None:
    """Sets the attributes of a verdict on a span; one that denies or halts is an event, too."""
    span.set_attributes(verdict_attributes(verdict))
    if (name := _EVENTS.get(verdict.decision)) is not None:
        stop = {f"{PREFIX}stop": verdict.details["stop"]} if "stop" in verdict.details else {}
        span.add_event(f"{PREFIX}{name}", {f"{PREFIX}rules": list(verdict.rules), **stop})


def add_event(name: str, values: Mapping[str, str]) -> None:
    """Adds an event to the current span, if OpenTelemetry is loaded. A telemetry failure has no effect."""
    with suppress(Exception):
        if (trace := configured_trace()) is not None:
            attributes = {f"{PREFIX}{key}": value for key, value in values.items()}
            trace.get_current_span().add_event(f"{PREFIX}{name}", attributes)


def configured_trace() -> Any:
    """Returns OpenTelemetry's module of spans; None if the host has not loaded it, or no provider receives them."""
    trace = sys.modules.get(TRACE)
    unset = getattr(trace, "ProxyTracerProvider", None)  # stands for a provider that comes later
    if trace is None or unset is None:
        return trace
    try:
        return None if isinstance(trace.get_tracer_provider(), unset) else trace
    except Exception:  # noqa: BLE001 - whoever opens a span reports it
        return trace


def span(call: HostCall) -> Span | None:
    """Opens the span of a check. Returns None if nothing would receive it, or OpenTelemetry fails."""
    trace = configured_trace()
    if trace is None:
        return None
    names = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.conversation.id": call.conversation,
        "gen_ai.agent.name": call.agent,
    }
    attributes = {name: value for name, value in names.items() if isinstance(value, str)}
    try:
        tracer = trace.get_tracer("guardagent")
        scope = tracer.start_as_current_span(f"check {call.tool}", attributes=attributes)
        return Span(scope, scope.__enter__())
    except Exception:  # noqa: BLE001 - any error of the host's telemetry
        _log.exception("OpenTelemetry fails; this check has no span")
        return None
