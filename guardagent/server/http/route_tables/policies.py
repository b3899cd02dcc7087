"""Routes for policies and their versions."""

from __future__ import annotations

from guardagent.server.access import AccessedOperation
from guardagent.server.http.api_route import NO_FIELDS, ApiRequest, ApiRoute, shape
from guardagent.server.http.request_options import tenant_of
from guardagent.server.service.guard_service import JSON, GuardService

_TENANT = {"tenant": "for admins of all tenants"}


def _list(service: GuardService, request: ApiRequest) -> JSON:
    return service.list_policies(tenant_of(request))


def _show(service: GuardService, request: ApiRequest) -> JSON:
    return service.show_policy(tenant_of(request), request.path["name"])


def _versions(service: GuardService, request: ApiRequest) -> JSON:
    return service.list_versions(tenant_of(request), request.path["name"])


def _reload(service: GuardService, request: ApiRequest) -> JSON:
    return service.reload_policy(request.caller, tenant_of(request), request.path["name"])


def _shadow(service: GuardService, request: ApiRequest) -> JSON:
    return service.shadow_policy(request.caller, tenant_of(request), request.path["name"], request.body)


def _replay(service: GuardService, request: ApiRequest) -> JSON:
    return service.replay_policy(tenant_of(request), request.path["name"], request.body)


_READ, _CHANGE = AccessedOperation.READ_POLICIES, AccessedOperation.CHANGE_POLICIES
ROUTES = (
    ApiRoute("GET", "/v1/policies", _READ, _list, "List the policies", query=_TENANT),
    ApiRoute("GET", "/v1/policies/{name}", _READ, _show, "Show the rules of a policy", query=_TENANT),
    ApiRoute("GET", "/v1/policies/{name}/versions", _READ, _versions, "List the versions of a policy", query=_TENANT),
    ApiRoute(
        "POST",
        "/v1/policies/{name}/reload",
        _CHANGE,
        _reload,
        "Load the files of a policy again, for new sessions",
        NO_FIELDS,
        query=_TENANT,
    ),
    ApiRoute(
        "POST",
        "/v1/policies/{name}/shadow",
        _CHANGE,
        _shadow,
        "Let a candidate judge new sessions too, without effect",
        shape({}, {"text": {"type": ["string", "null"]}}),
        query=_TENANT,
    ),
    ApiRoute(
        "POST",
        "/v1/policies/{name}/replay",
        _CHANGE,
        _replay,
        "Replay the log under a candidate",
        shape({"text": "string"}),
        query=_TENANT,
    ),
)
