"""Routes for those who run a server."""

from __future__ import annotations

from typing import Any

from guardagent.server.access import AccessedOperation
from guardagent.server.http.api_route import ApiRequest, ApiRoute
from guardagent.server.http.request_options import tenant_of
from guardagent.server.service.guard_service import JSON, GuardService


def _metrics(_service: GuardService, request: ApiRequest) -> tuple[str, bytes]:
    found: tuple[str, bytes] = request.server.metrics.exposition()
    return found


def _document(_service: GuardService, request: ApiRequest) -> JSON:
    found: JSON = request.server.document
    return found


def _events(_service: GuardService, request: ApiRequest) -> Any:
    return tenant_of(request)


ROUTES = (
    ApiRoute(
        "GET",
        "/metrics",
        AccessedOperation.READ_METRICS,
        _metrics,
        "Read the metrics",
        kind="text/plain; version=0.0.4",
    ),
    ApiRoute("GET", "/v1/openapi.json", AccessedOperation.READ_INTERFACE, _document, "Read this document"),
    ApiRoute(
        "GET",
        "/v1/events",
        AccessedOperation.READ_SESSIONS,
        _events,
        "Follow verdicts, approvals and changes of policies, from 'Last-Event-ID' on",
        query={"tenant": "for admins of all tenants"},
        kind="text/event-stream",
    ),
)
