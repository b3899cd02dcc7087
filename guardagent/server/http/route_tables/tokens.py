"""Routes for tokens."""

from __future__ import annotations

from guardagent.server.access import AccessedOperation
from guardagent.server.http.api_route import ApiRequest, ApiRoute, shape
from guardagent.server.service.guard_service import JSON, GuardService


def _list(service: GuardService, request: ApiRequest) -> JSON:
    return service.tokens.list(request.caller)


def _create(service: GuardService, request: ApiRequest) -> JSON:
    return service.tokens.create(request.caller, request.body)


def _revoke(service: GuardService, request: ApiRequest) -> JSON:
    return service.tokens.revoke(request.caller, request.path["id"])


_MANAGE = AccessedOperation.MANAGE_TOKENS
_NEW = shape(
    {"principal": "string", "roles": {"type": "array", "items": {"type": "string"}}},
    {"tenant": "string", "days": {"type": "integer", "minimum": 1, "maximum": 3650}},
)
ROUTES = (
    ApiRoute("GET", "/v1/tokens", _MANAGE, _list, "List the tokens, without their secrets"),
    ApiRoute("POST", "/v1/tokens", _MANAGE, _create, "Create a token, and show it once", _NEW, status=201, secret=True),
    ApiRoute("DELETE", "/v1/tokens/{id}", _MANAGE, _revoke, "Revoke a token at once"),
)
