"""OpenTelemetry: a span per request, if this process has loaded OpenTelemetry. It continues the client's trace.

Attribute names follow the HTTP conventions; all others begin with `guardagent.`. No argument, output, token or
address goes into a span, since an address may have the id of a session, or a token by mistake.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

from guardagent.enforcement.telemetry import PREFIX, configured_trace, verdict_attributes
from guardagent.enforcement.wire import read_verdict

_log = logging.getLogger("guardagent")


class RequestSpan:
    """The span of a request, open while it is handled. A telemetry failure changes no answer.

    Args:
        method: the method of the request.
        route: the address of its route, with parts in braces.
        headers: the headers of the request; `traceparent` names the client's span.
    """

    def __init__(self, method: str, route: str, headers: Mapping[str, str]) -> None:
        self._scope = self._span = None
        self._trace = configured_trace()
        if self._trace is None:
            return
        try:
            self._scope = _scope(self._trace, method, route, headers)
            self._span = self._scope.__enter__()
        except Exception:  # noqa: BLE001 - any error of telemetry
            self._scope = None
            _log.exception("OpenTelemetry fails; this request has no span")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._scope is not None:
            with suppress(Exception):
                self._scope.__exit__(*raised)

    def set_caller(self, tenant: str) -> None:
        """Sets the tenant of the caller."""
        self._set({f"{PREFIX}tenant": tenant})

    def set_verdict(self, answer: Any) -> None:
        """Sets the attributes of the verdict in an answer."""
        if self._span is not None:
            with suppress(Exception):
                self._set(verdict_attributes(read_verdict(answer["verdict"])))

    def set_status(self, status: int) -> None:
        """Sets the status of the answer; the span of a failed request is an error."""
        self._set({"http.response.status_code": status})
        if status >= 500 and self._span is not None:
            self._set({"error.type": str(status)})
            with suppress(Exception):
                self._span.set_status(self._trace.StatusCode.ERROR)

    def _set(self, values: Mapping[str, Any]) -> None:
        if self._span is not None:
            with suppress(Exception):
                self._span.set_attributes(values)


def _scope(trace: Any, method: str, route: str, headers: Mapping[str, str]) -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    client = TraceContextTextMapPropagator().extract(headers)
    attributes = {"http.request.method": method, "http.route": route}
    return trace.get_tracer("guardagent").start_as_current_span(
        f"{method} {route}", client, kind=trace.SpanKind.SERVER, attributes=attributes
    )
