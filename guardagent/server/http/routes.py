"""The routes of the interface, with a table for each resource: addresses, who may use them, and what they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from guardagent.enforcement.wire import WireError
from guardagent.server.access import AccessedOperation, Caller, CallerRole
from guardagent.server.access.caller import EVERY_TENANT
from guardagent.server.service.errors import UnknownItemError
from guardagent.server.service.guard_service import JSON, GuardService, HostRequest

Schema = Mapping[str, Any]
NO_FIELDS: Schema = {"type": "object", "additionalProperties": False}
MAX_LIMIT = 500
_TENANT = {"tenant": "for admins of all tenants"}
_PAGE = {"cursor": "of the page before", "limit": "how many, at most 500", **_TENANT}


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request of a known caller.

    Attributes:
        path: the parts of the address.
        query: the options of the address.
        body: the JSON value of the body; an empty mapping without one.
        key: the header `Idempotency-Key`.
        server: the application, with its metrics and its document.
    """

    caller: Caller
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    key: str | None = None
    server: Any = None

    @property
    def of_host(self) -> HostRequest:
        """The request for the operations of agents' hosts."""
        return HostRequest(self.caller, self.body, self.key)


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """A route.

    Attributes:
        path: its address, with parts in braces.
        operation: what it does, which determines the roles that may use it.
        handle: does it; the result is the JSON of the answer.
        summary: a line for the documentation.
        body: the schema of the request's body; None if it has none.
        query: the options of the address, with their descriptions.
        status: the status of the answer.
        journaled: whether the history itself recognizes a repeated request.
        secret: whether the answer is not kept for a repeated request.
        kind: the type of the answer.
    """

    method: str
    path: str
    operation: AccessedOperation
    handle: Callable[[GuardService, ApiRequest], Any]
    summary: str
    body: Schema | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    journaled: bool = False
    secret: bool = False
    kind: str = "application/json"

    @property
    def has_verdict(self) -> bool:
        """Whether the answer has a verdict, so that an error is a denial."""
        judges = self.operation in (AccessedOperation.CALL, AccessedOperation.JUDGE)
        return judges and self.path.rpartition("/")[2] in ("check", "refuse", "resolve", "answer", "finish", "guard")


def shape(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> Schema:
    """Returns the schema of an object with these fields and no others."""
    fields = {**required, **(optional or {})}
    return {
        "type": "object",
        "properties": {name: {"type": one} if isinstance(one, str) else one for name, one in fields.items()},
        "required": list(required),
        "additionalProperties": False,
    }


# --- options of addresses


def tenant_of(request: ApiRequest) -> str:
    """Returns the tenant that a request of a reader concerns: the caller's own, unless an admin of all names one.

    Raises:
        WireError: the admin names none.
        UnknownItemError: the caller names another tenant.
    """
    named = request.query.get("tenant")
    if named is None and request.caller.tenant == EVERY_TENANT:
        raise WireError("tenant", "is missing; an admin of all tenants names one, such as '?tenant=shop'")
    if named is not None and not request.caller.can_see(named):
        raise UnknownItemError("there is no such tenant")
    return request.caller.tenant if named is None else named


def number_of(request: ApiRequest, name: str) -> int | None:
    """Returns an option that is a whole number; None if it is missing.

    Raises:
        WireError: it is something else.
    """
    text = request.query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise WireError(name, f"is {text[:40]!r}; expected a whole number")
    return int(text)


def limit_of(request: ApiRequest, default: int = 50) -> int:
    """Returns the option `limit`.

    Raises:
        WireError: it is not between 1 and 500.
    """
    found = number_of(request, "limit")
    if found is not None and not 0 < found <= MAX_LIMIT:
        raise WireError("limit", f"is {found}; expected 1 to {MAX_LIMIT}")
    return default if found is None else found


# --- approvals

_FOR_AGENTS = ("id", "version", "status", "deadline")
_APPROVAL_ANSWER = shape(
    {"choice": {"enum": ["approve", "reject", "edit"]}, "version": "integer"},
    {"args": "object", "reason": "string"},
)


def _list_approvals(service: GuardService, request: ApiRequest) -> JSON:
    found, cursor = service.approvals.page(tenant_of(request), number_of(request, "cursor"), limit_of(request))
    return {"approvals": found, "cursor": None if cursor is None else str(cursor)}


def _show_approval(service: GuardService, request: ApiRequest) -> JSON:
    found = service.show_approval(tenant_of(request), request.path["id"], float(number_of(request, "wait") or 0))
    if CallerRole.AGENT not in request.caller.roles:
        return found
    if found["requested_by"] != request.caller.id:
        raise UnknownItemError(f"there is no approval {request.path['id'][:80]!r}")
    return {name: found[name] for name in _FOR_AGENTS}


def _answer_approval(service: GuardService, request: ApiRequest) -> JSON:
    return service.answer_approval(request.caller, request.path["id"], request.body)


_APPROVALS = (
    ApiRoute(
        "GET",
        "/v1/approvals",
        AccessedOperation.READ_APPROVALS,
        _list_approvals,
        "List approvals, the newest first",
        query=_PAGE,
    ),
    ApiRoute(
        "GET",
        "/v1/approvals/{id}",
        AccessedOperation.FOLLOW_APPROVALS,
        _show_approval,
        "Show an approval; the agent that waits for it sees its status",
        query={"wait": "seconds for which the answer may wait for a reviewer, at most 20", **_TENANT},
    ),
    ApiRoute(
        "POST",
        "/v1/approvals/{id}/answer",
        AccessedOperation.ANSWER_APPROVALS,
        _answer_approval,
        "Approve, reject or edit a call",
        _APPROVAL_ANSWER,
    ),
)


# --- the tools of agents

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


_ATTACHMENTS = (
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


# --- the log of a tenant


def _list_entries(service: GuardService, request: ApiRequest) -> JSON:
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


def _verify_log(service: GuardService, request: ApiRequest) -> JSON:
    return service.log.verify(tenant_of(request))


_LOG = (
    ApiRoute(
        "GET",
        "/v1/log",
        AccessedOperation.READ_LOG,
        _list_entries,
        "Read entries of the log",
        query={
            "after": "the number of the entry before; without it, the last entries",
            "limit": "how many, at most 500",
            "session": "the id of a session",
            "decision": "allow, warn, deny, escalate or halt",
            "policy": "the digest of a version",
            "tool": "the name of a tool",
            "kind": "verdict, outcome, approval and so on",
            **_TENANT,
        },
    ),
    ApiRoute(
        "GET",
        "/v1/log/verify",
        AccessedOperation.READ_LOG,
        _verify_log,
        "Verify that the log is complete and unchanged",
        query=_TENANT,
    ),
)


# --- for those who run a server


def _show_metrics(_service: GuardService, request: ApiRequest) -> tuple[str, bytes]:
    found: tuple[str, bytes] = request.server.metrics.exposition()
    return found


def _show_document(_service: GuardService, request: ApiRequest) -> JSON:
    found: JSON = request.server.document
    return found


def _follow_events(_service: GuardService, request: ApiRequest) -> Any:
    return tenant_of(request)


_OPERATIONS = (
    ApiRoute(
        "GET",
        "/metrics",
        AccessedOperation.READ_METRICS,
        _show_metrics,
        "Read the metrics",
        kind="text/plain; version=0.0.4",
    ),
    ApiRoute("GET", "/v1/openapi.json", AccessedOperation.READ_INTERFACE, _show_document, "Read this document"),
    ApiRoute(
        "GET",
        "/v1/events",
        AccessedOperation.READ_SESSIONS,
        _follow_events,
        "Follow verdicts, approvals and changes of policies, from 'Last-Event-ID' on",
        query=_TENANT,
        kind="text/event-stream",
    ),
)


# --- policies and their versions


def _list_policies(service: GuardService, request: ApiRequest) -> JSON:
    return service.list_policies(tenant_of(request))


def _show_policy(service: GuardService, request: ApiRequest) -> JSON:
    return service.show_policy(tenant_of(request), request.path["name"])


def _list_versions(service: GuardService, request: ApiRequest) -> JSON:
    return service.list_versions(tenant_of(request), request.path["name"])


def _reload_policy(service: GuardService, request: ApiRequest) -> JSON:
    return service.reload_policy(request.caller, tenant_of(request), request.path["name"])


def _shadow_policy(service: GuardService, request: ApiRequest) -> JSON:
    return service.shadow_policy(request.caller, tenant_of(request), request.path["name"], request.body)


def _replay_policy(service: GuardService, request: ApiRequest) -> JSON:
    return service.replay_policy(tenant_of(request), request.path["name"], request.body)


_READ, _CHANGE = AccessedOperation.READ_POLICIES, AccessedOperation.CHANGE_POLICIES
_POLICIES = (
    ApiRoute("GET", "/v1/policies", _READ, _list_policies, "List the policies", query=_TENANT),
    ApiRoute("GET", "/v1/policies/{name}", _READ, _show_policy, "Show the rules of a policy", query=_TENANT),
    ApiRoute(
        "GET", "/v1/policies/{name}/versions", _READ, _list_versions, "List the versions of a policy", query=_TENANT
    ),
    ApiRoute(
        "POST",
        "/v1/policies/{name}/reload",
        _CHANGE,
        _reload_policy,
        "Load the files of a policy again, for new sessions",
        NO_FIELDS,
        query=_TENANT,
    ),
    ApiRoute(
        "POST",
        "/v1/policies/{name}/shadow",
        _CHANGE,
        _shadow_policy,
        "Let a candidate judge new sessions too, without effect",
        shape({}, {"text": {"type": ["string", "null"]}}),
        query=_TENANT,
    ),
    ApiRoute(
        "POST",
        "/v1/policies/{name}/replay",
        _CHANGE,
        _replay_policy,
        "Replay the log under a candidate",
        shape({"text": "string"}),
        query=_TENANT,
    ),
)


# --- finished runs


def _judge_run(service: GuardService, request: ApiRequest) -> JSON:
    return service.judge_run(request.of_host)


_RUNS = (
    ApiRoute(
        "POST",
        "/v1/guard",
        AccessedOperation.JUDGE,
        _judge_run,
        "Judge a finished run of an agent that the settings name",
        shape({"agent": "string", "input": "string", "output_log": "string"}, {"facts": "object"}),
    ),
)


# --- sessions and their calls

_STRINGS = {"type": "array", "items": {"type": "string"}}
_PRINCIPAL = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "roles": _STRINGS, "tenant": {"type": "string"}},
    "required": ["id"],
}
_CALL = shape(
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
_OUTCOME = shape(
    {"output": {}, "failed": {"type": ["boolean", "null"]}, "ended": "boolean"}, {"other_outputs": {"type": "array"}}
)


def _open_session(service: GuardService, request: ApiRequest) -> JSON:
    return service.open_session(request.of_host)


def _list_sessions(service: GuardService, request: ApiRequest) -> JSON:
    return service.list_sessions(tenant_of(request), number_of(request, "cursor"), limit_of(request))


def _show_session(service: GuardService, request: ApiRequest) -> JSON:
    return service.show_session(tenant_of(request), request.path["id"])


def _of_session(operation: Callable[[GuardService, HostRequest, str], JSON]) -> Callable[..., Any]:
    return lambda service, request: operation(service, request.of_host, request.path["id"])


def _call_route(name: str, operation: Callable[[GuardService, HostRequest, str], JSON], body: Schema) -> ApiRoute:
    summary = (operation.__doc__ or "").partition("\n")[0].rstrip(".")
    path = f"/v1/sessions/{{id}}/{name}"
    journaled = name in ("check", "record", "withdraw", "resolve")
    handle = _of_session(operation)
    return ApiRoute("POST", path, AccessedOperation.CALL, handle, summary, body, journaled=journaled)


_SESSIONS = (
    ApiRoute(
        "POST",
        "/v1/sessions",
        AccessedOperation.CALL,
        _open_session,
        "Open a session",
        shape({"attachment": "string"}, {"id": {"type": ["string", "null"]}, "on_behalf_of": _PRINCIPAL}),
        status=201,
    ),
    _call_route("check", GuardService.check, shape({"call": _CALL}, {"state": {}, "reserve": "boolean"})),
    _call_route("resolve", GuardService.resolve, shape({"call": _CALL, "approval": "string"}, {"state": {}})),
    _call_route("record", GuardService.record, shape({"call_id": "string", "outcome": _OUTCOME})),
    _call_route("withdraw", GuardService.withdraw, shape({"call_id": "string", "why": "string"})),
    _call_route("refuse", GuardService.refuse, shape({"call": _CALL, "problem": "string"})),
    _call_route("turn", GuardService.turn, NO_FIELDS),
    _call_route(
        "answer", GuardService.answer, shape({"input": "string", "output": "string"}, {"facts": {"type": "object"}})
    ),
    _call_route("finish", GuardService.finish, NO_FIELDS),
    ApiRoute(
        "GET",
        "/v1/sessions",
        AccessedOperation.READ_SESSIONS,
        _list_sessions,
        "List sessions, the newest first",
        query=_PAGE,
    ),
    ApiRoute(
        "GET",
        "/v1/sessions/{id}",
        AccessedOperation.READ_SESSIONS,
        _show_session,
        "Show a session: its calls, its rules and its obligations",
        query=_TENANT,
    ),
)


# --- tokens


def _list_tokens(service: GuardService, request: ApiRequest) -> JSON:
    return service.tokens.list(request.caller)


def _create_token(service: GuardService, request: ApiRequest) -> JSON:
    return service.tokens.create(request.caller, request.body)


def _revoke_token(service: GuardService, request: ApiRequest) -> JSON:
    return service.tokens.revoke(request.caller, request.path["id"])


_MANAGE = AccessedOperation.MANAGE_TOKENS
_NEW_TOKEN = shape(
    {"principal": "string", "roles": {"type": "array", "items": {"type": "string"}}},
    {"tenant": "string", "days": {"type": "integer", "minimum": 1, "maximum": 3650}},
)
_TOKENS = (
    ApiRoute("GET", "/v1/tokens", _MANAGE, _list_tokens, "List the tokens, without their secrets"),
    ApiRoute(
        "POST",
        "/v1/tokens",
        _MANAGE,
        _create_token,
        "Create a token, and show it once",
        _NEW_TOKEN,
        status=201,
        secret=True,
    ),
    ApiRoute("DELETE", "/v1/tokens/{id}", _MANAGE, _revoke_token, "Revoke a token at once"),
)


ROUTES = (
    *_APPROVALS, *_ATTACHMENTS, *_LOG, *_OPERATIONS, *_POLICIES, *_RUNS, *_SESSIONS, *_TOKENS,
)  # fmt: skip
"""All routes of the interface."""
