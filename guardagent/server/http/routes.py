"""Routes for sessions and their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from guardagent.server.access import AccessedOperation
from guardagent.server.http.api_route import NO_FIELDS, ApiRequest, ApiRoute, Schema, shape
from guardagent.server.http.request_options import limit_of, number_of, tenant_of
from guardagent.server.service.guard_service import JSON, GuardService, HostRequest

_STRINGS = {"type": "array", "items": {"type": "string"}}
_PRINCIPAL = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "roles": _STRINGS, "tenant": {"type": "string"}},
    "required": ["id"],
}
CALL = shape(
    {"id": "string", "tool": "string", "args": "object"},
    {
        "agent": {"type": ["string", "null"]},
        "step": {"type": ["string", "null"]},
        "action": {"type": ["string", "null"]},
        "tags": _STRINGS,
        "facts": "object",
        "seen": {"type": ["array", "null"], "items": {"type": "string"}},
        "messages": {"type": ["array", "null"], "items": {"type": "object"}},
        "principal": {"type": ["object", "null"]},
    },
)
OUTCOME = shape(
    {"output": {}, "failed": {"type": ["boolean", "null"]}, "ended": "boolean"}, {"other_outputs": {"type": "array"}}
)


def _open(service: GuardService, request: ApiRequest) -> JSON:
    return service.open_session(request.of_host)


def _list(service: GuardService, request: ApiRequest) -> JSON:
    return service.list_sessions(tenant_of(request), number_of(request, "cursor"), limit_of(request))


def _show(service: GuardService, request: ApiRequest) -> JSON:
    return service.show_session(tenant_of(request), request.path["id"])


def _of_session(operation: Callable[[GuardService, HostRequest, str], JSON]) -> Callable[..., Any]:
    return lambda service, request: operation(service, request.of_host, request.path["id"])


def _call_route(name: str, operation: Callable[[GuardService, HostRequest, str], JSON], body: Schema) -> ApiRoute:
    summary = (operation.__doc__ or "").partition("\n")[0].rstrip(".")
    path = f"/v1/sessions/{{id}}/{name}"
    journaled = name in ("check", "record", "withdraw", "resolve")
    handle = _of_session(operation)
    return ApiRoute("POST", path, AccessedOperation.CALL, handle, summary, body, journaled=journaled)


ROUTES = (
    ApiRoute(
        "POST",
        "/v1/sessions",
        AccessedOperation.CALL,
        _open,
        "Open a session",
        shape({"attachment": "string"}, {"id": {"type": ["string", "null"]}, "on_behalf_of": _PRINCIPAL}),
        status=201,
    ),
    _call_route("check", GuardService.check, shape({"call": CALL}, {"state": {}, "reserve": "boolean"})),
    _call_route("resolve", GuardService.resolve, shape({"call": CALL, "approval": "string"}, {"state": {}})),
    _call_route("record", GuardService.record, shape({"call_id": "string", "outcome": OUTCOME})),
    _call_route("withdraw", GuardService.withdraw, shape({"call_id": "string", "why": "string"})),
    _call_route("refuse", GuardService.refuse, shape({"call": CALL, "problem": "string"})),
    _call_route("turn", GuardService.turn, NO_FIELDS),
    _call_route(
        "answer", GuardService.answer, shape({"input": "string", "output": "string"}, {"facts": {"type": "object"}})
    ),
    _call_route("finish", GuardService.finish, NO_FIELDS),
    ApiRoute(
        "GET",
        "/v1/sessions",
        AccessedOperation.READ_SESSIONS,
        _list,
        "List sessions, the newest first",
        query={"cursor": "of the page before", "limit": "how many, at most 500", "tenant": "for admins of all tenants"},
    ),
    ApiRoute(
        "GET",
        "/v1/sessions/{id}",
        AccessedOperation.READ_SESSIONS,
        _show,
        "Show a session: its calls, its rules and its obligations",
        query={"tenant": "for admins of all tenants"},
    ),
)
