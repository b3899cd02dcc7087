"""The route for finished runs."""

from __future__ import annotations

from guardagent.server.access import AccessedOperation
from guardagent.server.http.api_route import ApiRequest, ApiRoute, shape
from guardagent.server.service.guard_service import JSON, GuardService


def _guard(service: GuardService, request: ApiRequest) -> JSON:
    return service.judge_run(request.of_host)


ROUTES = (
    ApiRoute(
        "POST",
        "/v1/guard",
        AccessedOperation.JUDGE,
        _guard,
        "Judge a finished run of an agent that the settings name",
        shape({"agent": "string", "input": "string", "output_log": "string"}, {"facts": "object"}),
    ),
)
