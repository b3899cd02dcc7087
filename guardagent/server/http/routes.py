"""The routes of the interface, and the OpenAPI document made from them.

A route has an address, the operation that determines who may use it, the fields of its body, and a function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from guardagent._support.http import RefusedError
from guardagent._version import __version__
from guardagent.enforcement.wire import WireError
from guardagent.enforcement.wire.values import WireShape
from guardagent.errors import GuardError
from guardagent.server.access import PERMITTED, AccessedOperation, CallerRole
from guardagent.server.http import error_answer
from guardagent.server.service import MAX_LIMIT, ServiceRequest, UnknownItemError
from guardagent.server.service.guard_service import (
    ANSWERS,
    APPROVAL_ANSWER,
    CALLS,
    CHECK,
    FINAL_ANSWER,
    JSON,
    NEW_SESSION,
    NO_FIELDS,
    RECORD,
    REFUSE,
    RELOAD,
    REPLAY,
    RESOLVE,
    SHADOW,
    WITHDRAW,
    GuardService,
)
from guardagent.server.service.guards import ATTACHMENT, FINISHED_RUN
from guardagent.server.service.stores import NEW_TOKEN, ROTATION
from guardagent.server.stops import STOP
from guardagent.types import Decision

_TENANT = {"tenant": "for admins of all tenants"}
_PAGE = {"cursor": "of the page before", "limit": "how many, at most 500", **_TENANT}
Handle = Callable[[GuardService, ServiceRequest], Any]


@dataclass(frozen=True)
class ApiRoute:
    """A route.

    Attributes:
        path: its address, with parts in braces.
        operation: what it does, which determines the roles that may use it.
        handle: does it; the result is the JSON of the answer.
        summary: a line for the documentation.
        body: the fields of the request's body; None if it has none.
        query: the options of the address, with their descriptions.
        status: the status of the answer.
        has_verdict: whether the answer has a verdict, so that an error is a denial.
        journaled: whether the history itself recognizes a repeated request.
        secret: whether the answer is not kept for a repeated request.
        kind: the type of the answer.
        waits: whether the answer may wait for a change of the approval that it shows.
        repeatable: whether carrying it out twice does the same as once.
        staged: whether it can be carried out in memory, and committed with others.
        gathered: whether `handle` carries out several requests at once. It gets functions that read them, and returns
            the result or the error of each; it recognizes a repeated request itself.
    """

    method: str
    path: str
    operation: AccessedOperation
    handle: Handle
    summary: str
    body: WireShape | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    has_verdict: bool = False
    journaled: bool = False
    secret: bool = False
    kind: str = "application/json"
    waits: bool = False
    repeatable: bool = False
    staged: bool = False
    gathered: bool = False

    @cached_property
    def names(self) -> list[str]:
        """The names of the parts in braces."""
        return re.findall(r"{(\w+)}", self.path)

    @cached_property
    def is_operation(self) -> bool:
        """Whether it is an operation on a session."""
        return self.path.startswith("/v1/sessions/{id}/")


_routes: list[ApiRoute] = []
Handler = TypeVar("Handler", bound=Handle)


def _route(
    address: str, operation: AccessedOperation, body: WireShape | None = None, **more: Any
) -> Callable[[Handler], Handler]:
    """Adds a route for the decorated operation, whose docstring begins with the summary."""

    def add(handle: Handler) -> Handler:
        method, path = address.split()
        summary = (handle.__doc__ or "").partition("\n")[0].rstrip(".")
        _routes.append(ApiRoute(method, path, operation, handle, summary, body, **more))
        return handle

    return add


# --- approvals

_FOR_AGENTS = ("id", "version", "status", "deadline")
_WAIT = {"wait": "seconds for which the answer may wait for a reviewer, at most 20"}
_STATUS = {"status": "pending: those that wait, the one that expires first at the top"}


@_route("GET /v1/approvals", AccessedOperation.READ_APPROVALS, query={**_STATUS, **_PAGE})
def _list_approvals(service: GuardService, request: ServiceRequest) -> JSON:
    """List approvals, the newest first."""
    start, status = request.number("cursor"), request.query.get("status")
    if status is None:
        approvals, cursor = service.approvals.page(request.tenant, start, request.limit)
    elif status == "pending":
        waiting, end = service.approvals.waiting(request.tenant), (start or 0) + request.limit
        approvals, cursor = waiting[start or 0 : end], end if end < len(waiting) else None
        approvals = [{**approval, "read": [*service.reports.shown_arguments(approval)]} for approval in approvals]
    else:
        raise WireError("status", f"is {status[:40]!r}; expected 'pending', or none for all approvals")
    return {"approvals": approvals, "cursor": None if cursor is None else str(cursor)}


@_route("GET /v1/approvals/{id}", AccessedOperation.FOLLOW_APPROVALS, query={**_WAIT, **_TENANT}, waits=True)
def _show_approval(service: GuardService, request: ServiceRequest) -> JSON:
    """Show an approval; the agent that waits for it sees its status."""
    request.number("wait")
    approval = service.show_approval(request.tenant, request.path["id"])
    if CallerRole.AGENT not in request.caller.roles:
        return approval
    if approval["requested_by"] != request.caller.id:
        raise UnknownItemError(f"there is no approval {request.path['id'][:80]!r}")
    return {name: approval[name] for name in _FOR_AGENTS}


@_route("GET /v1/approvals/{id}/preview", AccessedOperation.READ_APPROVALS, query=_TENANT)
def _preview_approval(service: GuardService, request: ServiceRequest) -> JSON:
    """Preview the verdict if an approval that waits were approved now."""
    return service.preview_approval(request.tenant, request.path["id"])


@_route("POST /v1/approvals/{id}/answer", AccessedOperation.ANSWER_APPROVALS, APPROVAL_ANSWER)
def _answer_approval(service: GuardService, request: ServiceRequest) -> JSON:
    """Approve, reject or edit a call."""
    return service.answer_approval(request.caller, request.path["id"], request.body)


@_route("POST /v1/approvals/answers", AccessedOperation.ANSWER_APPROVALS, ANSWERS)
def _answer_approvals(service: GuardService, request: ServiceRequest) -> JSON:
    """Approve, reject or edit several calls; each answer has a status of its own."""
    results = []
    for answer in ANSWERS.read(request.body)["answers"]:
        name = answer.pop("id")
        try:
            result = {"status": 200, "approval": service.answer_approval(request.caller, name, answer)}
        except GuardError as error:
            status, body, _ = error_answer(error, has_verdict=False)
            result = {"status": status, **body}
        results.append({"id": name, **result})
    return {"results": results}


# --- grants: what approvers have allowed beyond one call


@_route("GET /v1/grants", AccessedOperation.READ_APPROVALS, query=_PAGE)
def _list_grants(service: GuardService, request: ServiceRequest) -> JSON:
    """List grants, the newest first."""
    grants, cursor = service.grants.page(request.tenant, request.number("cursor"), request.limit)
    return {"grants": grants, "cursor": None if cursor is None else str(cursor)}


@_route("GET /v1/grants/{id}", AccessedOperation.READ_APPROVALS, query=_TENANT)
def _show_grant(service: GuardService, request: ServiceRequest) -> JSON:
    """Show a grant: what it covers, and how much of it is used and left."""
    return service.grants.read(request.tenant, request.path["id"])


@_route("POST /v1/grants/{id}/revoke", AccessedOperation.REVOKE_GRANTS, NO_FIELDS, query=_TENANT, repeatable=True)
def _revoke_grant(service: GuardService, request: ServiceRequest) -> JSON:
    """Revoke a grant at once."""
    return service.grants.revoke(request.tenant, request.path["id"], request.caller.id)


# --- stops


@_route("GET /v1/stops", AccessedOperation.READ_STOPS)
def _list_stops(service: GuardService, request: ServiceRequest) -> JSON:
    """List the stops that are in force."""
    return {"stops": service.stop_desk.page(request.caller.tenant)}


@_route("POST /v1/stops", AccessedOperation.STOP, STOP, status=201)
def _stop(service: GuardService, request: ServiceRequest) -> JSON:
    """Stop the calls of a tenant, an agent, a session or a tool."""
    return service.stop_desk.stop(request.caller, request.body)


@_route("DELETE /v1/stops/{id}", AccessedOperation.LIFT_STOPS)
def _lift_stop(service: GuardService, request: ServiceRequest) -> JSON:
    """Lift a stop."""
    return service.stop_desk.lift(request.caller, request.path["id"])


# --- the log of a tenant

_ENTRIES = {
    "after": "the number of the entry before; without it, the last entries",
    "limit": "how many, at most 500",
    "session": "the id of a session",
    "decision": "allow, warn, deny, escalate or halt",
    "policy": "the digest of a version",
    "tool": "the name of a tool",
    "kind": "verdict, outcome, approval and so on",
    **_TENANT,
}


@_route("GET /v1/log", AccessedOperation.READ_LOG, query=_ENTRIES)
def _list_entries(service: GuardService, request: ServiceRequest) -> JSON:
    """Read entries of the log."""
    criteria = {name: request.query.get(name) for name in ("session", "policy", "tool", "kind")}
    criteria["decision"] = request.choice("decision", [*Decision])
    return {"entries": service.log.entries(request.tenant, request.number("after"), request.limit, criteria)}


@_route("GET /v1/log/verify", AccessedOperation.READ_LOG, query=_TENANT)
def _verify_log(service: GuardService, request: ServiceRequest) -> JSON:
    """Verify that the log is complete and unchanged."""
    return service.log.verify(request.tenant)


# --- for those who run a server


@_route("GET /metrics", AccessedOperation.READ_METRICS, kind="text/plain; version=0.0.4")
def _show_metrics(_service: GuardService, request: ServiceRequest) -> Any:
    """Read the metrics."""
    return request.server.metrics.exposition()


@_route("GET /v1/openapi.json", AccessedOperation.READ_INTERFACE)
def _show_document(_service: GuardService, request: ServiceRequest) -> Any:
    """Read this document."""
    return request.server.document


@_route("GET /v1/events", AccessedOperation.READ_SESSIONS, query=_TENANT, kind="text/event-stream")
def _follow_events(_service: GuardService, request: ServiceRequest) -> str:
    """Follow verdicts, approvals and changes of policies, from 'Last-Event-ID' on."""
    return request.tenant


# --- policies and their versions


@_route("GET /v1/policies", AccessedOperation.READ_POLICIES, query=_TENANT)
def _list_policies(service: GuardService, request: ServiceRequest) -> JSON:
    """List the policies."""
    return service.list_policies(request.tenant)


@_route("GET /v1/policies/{name}", AccessedOperation.READ_POLICIES, query=_TENANT)
def _show_policy(service: GuardService, request: ServiceRequest) -> JSON:
    """Show the rules of a policy."""
    return service.show_policy(request.tenant, request.path["name"])


@_route("GET /v1/policies/{name}/versions", AccessedOperation.READ_POLICIES, query=_TENANT)
def _list_versions(service: GuardService, request: ServiceRequest) -> JSON:
    """List the versions of a policy."""
    return service.list_versions(request.tenant, request.path["name"])


@_route("POST /v1/policies/{name}/reload", AccessedOperation.CHANGE_POLICIES, RELOAD, query=_TENANT, repeatable=True)
def _reload_policy(service: GuardService, request: ServiceRequest) -> JSON:
    """Load the files of a policy again, for new sessions; `running` may stop others (`deny`) or move them (`apply`)."""
    return service.reload_policy(request.caller, request.tenant, request.path["name"], request.body)


@_route("POST /v1/policies/{name}/shadow", AccessedOperation.CHANGE_POLICIES, SHADOW, query=_TENANT, repeatable=True)
def _shadow_policy(service: GuardService, request: ServiceRequest) -> JSON:
    """Let a candidate judge new sessions too, without effect."""
    return service.shadow_policy(request.caller, request.tenant, request.path["name"], request.body)


@_route("POST /v1/policies/{name}/replay", AccessedOperation.CHANGE_POLICIES, REPLAY, query=_TENANT, repeatable=True)
def _replay_policy(service: GuardService, request: ServiceRequest) -> JSON:
    """Replay the log under a candidate."""
    return service.replay_policy(request.tenant, request.path["name"], request.body)


# --- agents: their tools, finished runs, sessions and calls


@_route("POST /v1/attachments", AccessedOperation.CALL, ATTACHMENT, status=201, repeatable=True)
def _attach(service: GuardService, request: ServiceRequest) -> JSON:
    """Attach an agent's tools to a policy."""
    return service.attach(request)


@_route("POST /v1/guard", AccessedOperation.JUDGE, FINISHED_RUN, has_verdict=True)
def _judge_run(service: GuardService, request: ServiceRequest) -> JSON:
    """Judge a finished run of an agent that the settings name."""
    return service.judge_run(request)


@_route("POST /v1/sessions", AccessedOperation.CALL, NEW_SESSION, status=201, gathered=True)
def _open_sessions(service: GuardService, reads: Any) -> Any:
    """Open a session."""
    return service.open_sessions(reads)


for _operation, _body, _options in (
    (GuardService.check, CHECK, {"has_verdict": True, "journaled": True, "staged": True}),
    (GuardService.resolve, RESOLVE, {"has_verdict": True, "journaled": True}),
    (GuardService.record, RECORD, {"journaled": True, "staged": True}),
    (GuardService.calls, CALLS, {"has_verdict": True, "journaled": True, "staged": True}),
    (GuardService.withdraw, WITHDRAW, {"journaled": True}),
    (GuardService.refuse, REFUSE, {"has_verdict": True, "repeatable": True}),
    (GuardService.turn, NO_FIELDS, {"repeatable": True}),
    (GuardService.answer, FINAL_ANSWER, {"has_verdict": True}),
    (GuardService.finish, NO_FIELDS, {"has_verdict": True, "repeatable": True}),
):
    _address = f"POST /v1/sessions/{{id}}/{_operation.__name__}"
    _route(_address, AccessedOperation.CALL, _body, **_options)(_operation)


@_route("GET /v1/sessions", AccessedOperation.READ_SESSIONS, query=_PAGE)
def _list_sessions(service: GuardService, request: ServiceRequest) -> JSON:
    """List sessions, the newest first."""
    return service.list_sessions(request.tenant, request.number("cursor"), request.limit)


@_route("GET /v1/sessions/{id}", AccessedOperation.READ_SESSIONS, query=_TENANT)
def _show_session(service: GuardService, request: ServiceRequest) -> JSON:
    """Show a session: its calls, its rules and its obligations."""
    return service.show_session(request.tenant, request.path["id"])


# --- tokens


@_route("GET /v1/tokens", AccessedOperation.MANAGE_TOKENS)
def _list_tokens(service: GuardService, request: ServiceRequest) -> JSON:
    """List the tokens, without their secrets."""
    return service.tokens.list(request.caller)


@_route("POST /v1/tokens", AccessedOperation.MANAGE_TOKENS, NEW_TOKEN, status=201, secret=True)
def _create_token(service: GuardService, request: ServiceRequest) -> JSON:
    """Create a token, and show it once."""
    return service.tokens.create(request.caller, request.body)


@_route("POST /v1/tokens/{id}/rotate", AccessedOperation.MANAGE_TOKENS, ROTATION, status=201, secret=True)
def _rotate_token(service: GuardService, request: ServiceRequest) -> JSON:
    """Replace a token by a new one, which is shown once; the old one ends."""
    return service.tokens.rotate(request.caller, request.path["id"], request.body)


@_route("DELETE /v1/tokens/{id}", AccessedOperation.MANAGE_TOKENS)
def _revoke_token(service: GuardService, request: ServiceRequest) -> JSON:
    """Revoke a token at once."""
    return service.tokens.revoke(request.caller, request.path["id"])


ROUTES = tuple(_routes)
"""All routes of the interface."""


class RouteTable:
    """Finds the route of a request.

    Args:
        routes: the routes.
    """

    def __init__(self, routes: Iterable[ApiRoute]) -> None:
        self._root: dict[str | None, Any] = {}  # a part of an address, `{}` for any -> the rest; None -> the methods
        for route in routes:
            place = self._root
            for part in route.path.split("/"):
                place = place.setdefault("{}" if part.startswith("{") else part, {})
            for method in (route.method, *(("HEAD",) if route.method == "GET" else ())):
                place.setdefault(None, {})[method] = route

    def find(self, method: str, path: str) -> tuple[ApiRoute, dict[str, str]]:
        """Returns the route of a request and the parts of its address that the route names.

        Raises:
            RefusedError: there is no such route.
        """
        place, named = self._root, list[str]()
        for part in path.split("/"):
            if part in place and part != "{}":
                place = place[part]
            elif "{}" in place and part:
                place = place["{}"]
                named.append(part)
            else:
                raise RefusedError(404, "there is no such address")
        methods = place.get(None)
        if methods is None:
            raise RefusedError(404, "there is no such address")
        route = methods.get(method)
        if route is None:
            raise RefusedError(405, "expected another method")
        return route, dict(zip(route.names, named, strict=True))


# --- the OpenAPI document

_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "where": {"type": "string"}},
            "required": ["code", "message", "where"],
        },
        "verdict": {"$ref": "#/components/schemas/Verdict"},
    },
    "required": ["error"],
}
_VERDICT = {
    "type": "object",
    "properties": {
        "label": {"enum": [0, 1]},
        "decision": {"enum": ["allow", "warn", "deny", "escalate", "halt"]},
        "reasons": {"type": "array", "items": {"type": "string"}},
        "violations": {"type": "array", "items": {"type": "object"}},
        "errors": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["label", "decision", "reasons", "violations", "errors"],
}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
_SCHEMAS = {
    **dict.fromkeys(("after", "cursor", "wait"), _NUMBER),
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
    "status": {"enum": ["pending"]},
}
_HEADER = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
    "description": "A repeated request with the same key gets the same answer, and does nothing more.",
}


def openapi_document() -> dict[str, Any]:
    """Returns the OpenAPI document of the interface."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _described_route(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "GuardAgent", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR, "Verdict": _VERDICT},
        },
    }


def _described_route(route: ApiRoute) -> dict[str, Any]:
    roles = ", ".join(sorted(PERMITTED.get(route.operation, ()))) or "nobody"
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in route.names]
    parameters += [
        {"name": name, "in": "query", "description": text, "schema": _SCHEMAS.get(name, {"type": "string"})}
        for name, text in route.query.items()
    ]
    described_route: dict[str, Any] = {
        "summary": route.summary,
        "description": f"Roles: {roles}.",
        "operationId": _name(route),
        "parameters": [*parameters, *([] if route.body is None else [_HEADER])],
        "responses": {str(route.status): _success(route), "default": _described("An error.", "Error")},
    }
    if route.body is not None:
        described_route["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": route.body.schema}},
        }
    return described_route


def _success(route: ApiRoute) -> dict[str, Any]:
    if route.kind != "application/json":
        return {"description": route.summary, "content": {route.kind: {"schema": {"type": "string"}}}}
    schema: dict[str, Any] = {"type": "object"}
    if route.has_verdict:
        schema |= {"properties": {"verdict": {"$ref": "#/components/schemas/Verdict"}}}
        schema |= {} if route.body is CALLS else {"required": ["verdict"]}  # without a call, it has none
    return {"description": route.summary, "content": {"application/json": {"schema": schema}}}


def _described(text: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": text, "content": content}


def _name(route: ApiRoute) -> str:
    parts = [part.strip("{}").replace(".json", "") for part in route.path.split("/")[1:] if part != "v1"]
    return "_".join([route.method.lower(), *parts])
