"""OpenTelemetry: a span per check, where the host has OpenTelemetry; nothing otherwise.

Names of the GenAI conventions where there are some; all others begin with `guardagent.`. No argument or output goes
into a span: these stand in the audit log, redacted.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from guardagent.enforcement.calls import HostCall
from guardagent.types import Verdict

PREFIX = "guardagent."
_log = logging.getLogger("guardagent")


class _Silent:
    def say(self, verdict: Verdict) -> None: ...


class _Spoken:
    def __init__(self, span: Any) -> None:
        self._span = span

    def say(self, verdict: Verdict) -> None:
        """Puts a verdict on the span."""
        said = {
            "decision": str(verdict.decision),
            "label": verdict.label,
            "rules": list(verdict.rules),
            "checked_by": verdict.checked_by,
            "elapsed_ms": verdict.elapsed_ms,
            "model_calls": verdict.model_calls,
        }
        with suppress(Exception):
            for name, value in said.items():
                self._span.set_attribute(f"{PREFIX}{name}", value)
            if verdict.errors:
                self._span.set_attribute("error.type", "guardagent.unchecked")


_SILENT = _Silent()


@contextmanager
def span(call: HostCall) -> Iterator[_Silent | _Spoken]:
    """The span of a check. A host that has configured OpenTelemetry has loaded it: nothing is loaded here.

    Telemetry that fails changes no verdict.
    """
    opened = _opened(call) if "opentelemetry.trace" in sys.modules else None
    if opened is None:
        yield _SILENT
        return
    scope, current = opened
    try:
        yield _Spoken(current)
    finally:
        with suppress(Exception):
            scope.__exit__(*sys.exc_info())


def _opened(call: HostCall) -> tuple[Any, Any] | None:
    names = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.conversation.id": call.conversation,
        "gen_ai.agent.name": call.agent,
    }
    attributes = {name: value for name, value in names.items() if isinstance(value, str)}
    try:
        tracer = sys.modules["opentelemetry.trace"].get_tracer("guardagent")
        scope = tracer.start_as_current_span(f"check {call.tool}", attributes=attributes)
        return scope, scope.__enter__()
    except Exception:  # noqa: BLE001 - whatever is configured there
        _log.exception("OpenTelemetry fails; this check has no span")
        return None
