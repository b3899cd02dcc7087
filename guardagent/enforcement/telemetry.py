"""OpenTelemetry: a span per check if the host has loaded OpenTelemetry.

Attribute names follow the GenAI conventions; all others begin with `guardagent.`. No argument or output goes
into a span; the audit log holds them, redacted.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Any, Self

from guardagent.enforcement.calls import HostCall
from guardagent.types import Verdict

_TRACE = "opentelemetry.trace"  # the module that a host with OpenTelemetry has loaded; it is never imported here
PREFIX = "guardagent."
_log = logging.getLogger("guardagent")


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
        """Sets the attributes of a verdict."""
        with suppress(Exception):
            self._span.set_attributes(verdict_attributes(verdict))


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


def configured_trace() -> Any:
    """Returns OpenTelemetry's module of spans; None if the host has not loaded it, or no provider receives them."""
    trace = sys.modules.get(_TRACE)
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
