"""OpenTelemetry: a span per check, where the host has OpenTelemetry; nothing otherwise.

Names of the GenAI conventions where there are some; all others begin with `guardagent.`. No argument or output goes
into a span: these stand in the audit log, redacted.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Any, Self

from guardagent.enforcement.calls import HostCall
from guardagent.types import Verdict

TRACE = "opentelemetry.trace"
"""Loaded where the host has configured OpenTelemetry; nothing is loaded here."""

PREFIX = "guardagent."
_log = logging.getLogger("guardagent")


class Span:
    """The span of one check, open while that is under way. Telemetry that fails changes no verdict."""

    def __init__(self, scope: Any, span: Any) -> None:
        self._scope, self._span = scope, span

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        with suppress(Exception):
            self._scope.__exit__(*raised)

    def set_verdict(self, verdict: Verdict) -> None:
        """Puts a verdict on the span."""
        values = {
            "decision": str(verdict.decision),
            "label": verdict.label,
            "rules": list(verdict.rules),
            "checked_by": verdict.checked_by,
            "elapsed_ms": verdict.elapsed_ms,
            "model_calls": verdict.model_calls,
        }
        with suppress(Exception):
            for name, value in values.items():
                self._span.set_attribute(f"{PREFIX}{name}", value)
            if verdict.errors:
                self._span.set_attribute("error.type", "guardagent.unchecked")


def span(call: HostCall) -> Span | None:
    """The span of a check in a host that has loaded OpenTelemetry; None where that fails."""
    names = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.conversation.id": call.conversation,
        "gen_ai.agent.name": call.agent,
    }
    attributes = {name: value for name, value in names.items() if isinstance(value, str)}
    try:
        tracer = sys.modules[TRACE].get_tracer("guardagent")
        scope = tracer.start_as_current_span(f"check {call.tool}", attributes=attributes)
        return Span(scope, scope.__enter__())
    except Exception:  # noqa: BLE001 - whatever is configured there
        _log.exception("OpenTelemetry fails; this check has no span")
        return None
