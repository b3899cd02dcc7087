"""Routes for approvals."""

from __future__ import annotations

from guardagent.server.access import AccessedOperation, CallerRole
from guardagent.server.http.api_route import ApiRequest, ApiRoute, shape
from guardagent.server.http.request_options import limit_of, number_of, tenant_of
from guardagent.server.service.guard_service import JSON, GuardService
from guardagent.server.service.service_errors import UnknownItemError

_FOR_AGENTS = ("id", "version", "status", "deadline")


def _list(service: GuardService, request: ApiRequest) -> JSON:
    found, cursor = service.approvals.page(tenant_of(request), number_of(request, "cursor"), limit_of(request))
    return {"approvals": found, "cursor": None if cursor is None else str(cursor)}


def _show(service: GuardService, request: ApiRequest) -> JSON:
    found = service.show_approval(tenant_of(request), request.path["id"], float(number_of(request, "wait") or 0))
    if CallerRole.AGENT not in request.caller.roles:
        return found
    if found["requested_by"] != request.caller.id:
        raise UnknownItemError(f"there is no approval {request.path['id'][:80]!r}")
    return {name: found[name] for name in _FOR_AGENTS}


def _answer(service: GuardService, request: ApiRequest) -> JSON:
    return service.answer_approval(request.caller, request.path["id"], request.body)


_ANSWER = shape(
    {"choice": {"enum": ["approve", "reject", "edit"]}, "version": "integer"},
    {"args": "object", "reason": "string"},
)
_TENANT = {"tenant": "for admins of all tenants"}
ROUTES = (
    ApiRoute(
        "GET",
        "/v1/approvals",
        AccessedOperation.READ_APPROVALS,
        _list,
        "List approvals, the newest first",
        query={"cursor": "of the page before", "limit": "how many, at most 500", **_TENANT},
    ),
    ApiRoute(
        "GET",
        "/v1/approvals/{id}",
        AccessedOperation.FOLLOW_APPROVALS,
        _show,
        "Show an approval; the agent that waits for it sees its status",
        query={"wait": "seconds for which the answer may wait for a reviewer, at most 20", **_TENANT},
    ),
    ApiRoute(
        "POST",
        "/v1/approvals/{id}/answer",
        AccessedOperation.ANSWER_APPROVALS,
        _answer,
        "Approve, reject or edit a call",
        _ANSWER,
    ),
)
