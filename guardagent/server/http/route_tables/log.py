"""Routes for the log of a tenant."""

from __future__ import annotations

from guardagent.server.access import AccessedOperation
from guardagent.server.http.api_route import ApiRequest, ApiRoute
from guardagent.server.http.request_options import limit_of, number_of, tenant_of
from guardagent.server.service.guard_service import JSON, GuardService


def _entries(service: GuardService, request: ApiRequest) -> JSON:
    query, tenant = request.query, tenant_of(request)
    session = query.get("session")
    found = service.log.entries(
        tenant,
        number_of(request, "after"),
        limit_of(request),
        conversation=None if session is None else f"{tenant}/{session}",
        decision=query.get("decision"),
        policy=query.get("policy"),
        tool=query.get("tool"),
        kind=query.get("kind"),
    )
    return {"entries": found}


def _verify(service: GuardService, request: ApiRequest) -> JSON:
    return service.log.verify(tenant_of(request))


ROUTES = (
    ApiRoute(
        "GET",
        "/v1/log",
        AccessedOperation.READ_LOG,
        _entries,
        "Read entries of the log",
        query={
            "after": "the number of the entry before; without it, the last entries",
            "limit": "how many, at most 500",
            "session": "the id of a session",
            "decision": "allow, warn, deny, escalate or halt",
            "policy": "the digest of a version",
            "tool": "the name of a tool",
            "kind": "verdict, outcome, approval and so on",
            "tenant": "for admins of all tenants",
        },
    ),
    ApiRoute(
        "GET",
        "/v1/log/verify",
        AccessedOperation.READ_LOG,
        _verify,
        "Verify that the log is complete and unchanged",
        query={"tenant": "for admins of all tenants"},
    ),
)
