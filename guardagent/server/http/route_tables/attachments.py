"""Routes for the tools of agents."""

from __future__ import annotations

from guardagent.server.access import AccessedOperation
from guardagent.server.http.api_route import ApiRequest, ApiRoute, shape
from guardagent.server.service.guard_service import JSON, GuardService

_TOOL = shape(
    {"name": "string"},
    {
        "description": "string",
        "parameters": "object",
        "unlisted_arguments": {"type": ["array", "null"], "items": {"type": "string"}},
    },
)


def _attach(service: GuardService, request: ApiRequest) -> JSON:
    return service.attach(request.of_host)


ROUTES = (
    ApiRoute(
        "POST",
        "/v1/attachments",
        AccessedOperation.CALL,
        _attach,
        "Attach an agent's tools to a policy",
        shape(
            {"tools": {"type": "array", "items": _TOOL, "maxItems": 1000}},
            {
                "policy": "string",
                "aliases": {"type": "object", "additionalProperties": {"type": "string"}},
                "absent": {"type": "array", "items": {"type": "string"}},
            },
        ),
        status=201,
    ),
)
