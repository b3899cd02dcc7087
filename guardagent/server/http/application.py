"""The ASGI application of a server, with its stream of events, its spans and its metrics.

The stream has the entries of a tenant's log as they are written, by any server. Each request has a span if this process
has loaded OpenTelemetry; it continues the client's trace. Attribute names follow the HTTP conventions; all others begin
with `guardagent.`. No argument, output, token or address goes into a span, since an address may have the id of a
session, or a token by mistake. No label of a metric has text of users.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self
from urllib.parse import parse_qsl

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response, StreamingResponse

from guardagent._support import http
from guardagent._support.http import Head, HttpAdmission, RefusedError, RequestLimits
from guardagent.enforcement.audit_records import PREFIX as SPAN_PREFIX
from guardagent.enforcement.audit_records import configured_trace, show_verdict
from guardagent.enforcement.ledger.staging import StagedOperation
from guardagent.enforcement.wire import dumps, loads, read_verdict
from guardagent.errors import AccessError, GuardError, UnauthenticatedError
from guardagent.server.access import AccessControl, Caller, authorize
from guardagent.server.approvals import MAX_WAIT, ApprovalWatch
from guardagent.server.console import PREFIX as CONSOLE
from guardagent.server.console.application import ConsoleApplication, ConsoleSessions
from guardagent.server.http import NEWCOMER_SECONDS, NEWCOMERS, KnownCallers, Slots, error_answer
from guardagent.server.http.routes import ROUTES, ApiRoute, RouteTable, openapi_document
from guardagent.server.service import RequestConflictError, ServiceRequest
from guardagent.server.service.commits import GatheredWork, GroupCommit
from guardagent.server.service.guard_service import GuardService

MAX_KEY = 200
MAX_STREAMS, MAX_TENANT_STREAMS = 500, 100
MAX_WAITING, MAX_TENANT_WAITING = 10_000, 5_000  # requests that wait for approvals
_MAX_STAGED = 64 * 1024  # bytes of an operation that the event loop carries out
_ALWAYS: Head = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
_SLACK, _SLACK_BYTES = "/v1/slack/interactions", 1024 * 1024  # where members of Slack answer, and how much it takes
_READERS = 2  # threads that read the approvals for these
POLL_SECONDS = 1.0
CHECK_SECONDS = 5.0  # after which the token is looked at again
# of an event
_FIELDS = ("kind", "time", "conversation", "tool", "call_id", "agent", "decision", "rules", "status", "name", "policy")
_log = logging.getLogger("guardagent")


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request for a route.

    Attributes:
        head: its first part.
        parts: the parts of its address that the route names.
        receive: gives its body, as ASGI does.
        key: what only this request has.
    """

    head: http.HttpRequest
    parts: dict[str, str]
    receive: Any
    key: str = field(default_factory=partial(secrets.token_hex, 16))


class ServerApplication:
    """Serves the routes of the interface.

    Args:
        service: does what they say.
        access: finds out the callers.
        hosts: the accepted values of the header `Host`; None for any.
        limits: the limits on clients.
    """

    def __init__(
        self,
        service: GuardService,
        access: AccessControl,
        hosts: frozenset[str] | None = None,
        limits: RequestLimits | None = None,
    ) -> None:
        self.service, self._access = service, access
        self._admission = HttpAdmission(hosts)
        self._limits = limits or RequestLimits()
        self._requests = Slots("requests are in flight", self._limits.requests)
        self._waiting = Slots("requests wait for approvals", MAX_WAITING, MAX_TENANT_WAITING)
        self._streams = Slots("streams of events are open", MAX_STREAMS, MAX_TENANT_STREAMS)
        self._callers, self._watch = KnownCallers(access), ApprovalWatch(service.approvals)
        self._strangers = Slots("interactions of Slack are read", NEWCOMERS)
        self._readers = ThreadPoolExecutor(_READERS, "approvals")
        self._routes = RouteTable(ROUTES)
        self._commits = GroupCommit(service.stores.ledger, service.count)
        self._gathered = {
            route.path: GatheredWork(partial(route.handle, service), route.path) for route in ROUTES if route.gathered
        }
        self.document = openapi_document()
        self._console = self._console_of(service)
        self.metrics = ServerMetrics(
            lambda: dict(service.verdicts), lambda: self._requests.count, lambda: dict(service.channels.counts)
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handles one HTTP request."""
        if scope["type"] != "http":
            return
        send = http.timed(send, self._limits.receive_seconds)
        try:
            await self._answer(scope, receive, send)
        except TimeoutError:
            _log.warning("a client does not read its answer; its connection is closed")

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            request = http.request_of(scope)
            self._admission.require_one_length(request)
            self._admission.require_known_host(request)
            if request.path == "/healthz" and request.method == "GET":
                response: Any = _json({"status": "ok"})
            elif request.path == "/readyz" and request.method == "GET":
                response = await self._readiness()
            elif self._console is not None and (request.path == "/" or (request.path + "/").startswith(f"{CONSOLE}/")):
                response = RedirectResponse(CONSOLE, 303) if request.path == "/" else self._console
            elif (request.method, request.path) == ("POST", _SLACK) and self.service.settings.slack:
                response = await self._interaction(request.headers, receive)
            else:
                route, parts = self._routes.find(request.method, request.path)
                response = await self._respond(route, ApiRequest(request, parts, receive))
        except RefusedError as error:
            status, body, head = error_answer(error, has_verdict=False)
            response = _json(body, status, head)
        await response(scope, receive, send)

    async def _interaction(self, headers: Mapping[str, str], receive: Any) -> Response | _JsonResponse:
        """Takes what a member of Slack does with a card, and answers Slack before anything else."""
        from guardagent.server.channels.slack import interact

        try:
            with self._strangers.taken():
                seconds = min(NEWCOMER_SECONDS, self._limits.receive_seconds)
                body = await http.body_of(receive, min(_SLACK_BYTES, self._limits.body), seconds)
                task = await run_in_threadpool(interact, self.service, body, headers)
        except Exception as error:  # noqa: BLE001 - every error is an answer
            return _failed(error, has_verdict=False)
        return Response(status_code=200, background=None if task is None else BackgroundTask(task))

    def _console_of(self, service: GuardService) -> ConsoleApplication | None:
        settings = service.settings.console
        if not settings.is_served:
            return None
        return ConsoleApplication(service, self._access, ConsoleSessions(service.stores.state, settings), self._limits)

    async def _readiness(self) -> _JsonResponse:
        try:
            await run_in_threadpool(self.service.require_ready)
        except GuardError as error:
            _log.error("the server is not ready: %s", error)
            return _json({"status": "unavailable"}, 503)
        return _json({"status": "ready"})

    async def _respond(self, route: ApiRoute, request: ApiRequest) -> Any:
        started = time.perf_counter()
        with RequestSpan(route.method, route.path, request.head.headers) as span:
            response = await self._handle(route, request, span)
            span.set_status(response.status_code)
        self.metrics.count(route.method, route.path, response.status_code, time.perf_counter() - started)
        return response

    async def _handle(self, route: ApiRoute, request: ApiRequest, span: RequestSpan) -> Any:
        authorization = request.head.authorization
        try:
            caller = await self._callers.admit(authorization)
            _require_permission(route, request, caller)
        except Exception as error:  # noqa: BLE001 - every error is an answer
            return _failed(error, [(b"connection", b"close")], has_verdict=route.has_verdict)  # nobody reads its body
        try:
            with (self._waiting if route.waits else self._requests).taken(caller.tenant):
                text = await http.body_of(request.receive, self._limits.body, self._limits.receive_seconds)
                work = partial(self._result, route, request, text, span)
                if route.gathered:
                    result = await self._gathered[route.path].run(
                        partial(self._authenticated, route, request, text, span)
                    )
                elif route.is_operation:
                    stage = partial(self._staged, route, request, text, span)
                    session = f"{caller.tenant}/{request.parts['id']}"
                    is_only = self._requests.count == 1
                    result = await self._commits.run(session, stage, work, is_only=is_only)
                else:
                    result = await (self._read_by_few(work) if route.waits else run_in_threadpool(work))
                if route.waits and await self._has_changed(request, caller.tenant, result):
                    result = await self._read_by_few(work)
            self._callers.note(authorization, caller)
            if route.has_verdict:
                span.set_verdict(result)
            return self._response(route, request, caller.tenant, result)
        except Exception as error:  # noqa: BLE001 - every error is an answer
            if isinstance(error, UnauthenticatedError):
                self._callers.forget(authorization)
            return _failed(error, has_verdict=route.has_verdict)

    async def _read_by_few(self, work: Callable[[], Any]) -> Any:
        """Reads an approval in one of few threads, so that thousands that wait leave the others to checks."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def _has_changed(self, request: ApiRequest, tenant: str, approval: Mapping[str, Any]) -> bool:
        """Waits for a change of an approval, as long as the request allows and its client is there."""
        query = dict(parse_qsl(request.head.query.decode("latin-1")))
        wait, left = min(float(query.get("wait", 0)), MAX_WAIT), approval["deadline"] - time.time()
        wait *= random.uniform(0.75, 1)  # noqa: S311 - those that came together need not come together again
        if approval["status"] != "pending" or not wait:
            return False
        about = query.get("tenant", tenant), request.parts["id"], approval["version"]
        changed = asyncio.ensure_future(self._watch.changed(*about, min(wait, left)))
        gone = asyncio.ensure_future(http.gone(request.receive))
        try:
            await asyncio.wait((changed, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not changed.done():
                changed.cancel()
        return changed.done() and not changed.cancelled() and (changed.result() or left <= wait)

    def _response(self, route: ApiRoute, request: ApiRequest, tenant: str, result: Any) -> Response | _JsonResponse:
        if route.kind.startswith("text/event-stream"):
            last = request.head.headers.get("last-event-id", "")
            after = int(last) if last.isascii() and last.isdecimal() and len(last) <= 18 else None
            self._streams.take(tenant)
            return _EventResponse(self._events(route, request, result, after), partial(self._streams.free, tenant))
        if route.kind != "application/json":
            return Response(result[1], media_type=result[0])
        return _json(result, route.status)

    async def _events(
        self, route: ApiRoute, request: ApiRequest, tenant: str, after: int | None
    ) -> AsyncIterator[bytes]:
        if after is None:
            after = await run_in_threadpool(self.service.log.last, tenant)

        def still_admitted() -> bool:
            try:
                self._admitted(route, request)
            except AccessError:
                return False
            return True

        async for event in event_stream(self.service, tenant, after, still_admitted):
            yield event

    def _staged(self, route: ApiRoute, request: ApiRequest, text: bytes, span: RequestSpan) -> StagedOperation | None:
        if not route.staged or len(text) > _MAX_STAGED:
            return None
        caller = self._access.at_once(request.head.authorization)
        return (
            None if caller is None else self.service.stage(route.handle, self._read(route, request, text, span, caller))
        )

    def _read(
        self, route: ApiRoute, request: ApiRequest, text: bytes, span: RequestSpan, caller: Caller
    ) -> ServiceRequest:
        _require_permission(route, request, caller)
        span.set_caller(caller.tenant)
        body, query, key = self._body(route, request, text), _options(route, request), _key(request)
        if key is None and route.journaled:
            key = request.key
        return ServiceRequest(caller, body, key, request.parts, query, self)

    def _authenticated(self, route: ApiRoute, request: ApiRequest, text: bytes, span: RequestSpan) -> ServiceRequest:
        return self._read(route, request, text, span, self._access.authenticate(request.head.authorization))

    def _result(self, route: ApiRoute, request: ApiRequest, text: bytes, span: RequestSpan) -> Any:
        service_request = self._authenticated(route, request, text, span)
        caller, body, key = service_request.caller, service_request.body, service_request.key
        run = partial(route.handle, self.service, service_request)
        if route.body is None or route.journaled:
            return run()
        full: list[Any] = []

        def run_once() -> Any:
            full.append(run())
            return {"repeated": True} if route.secret else full[0]

        identity = [route.method, route.path, request.parts, body]
        earlier = self.service.repeated.once(
            caller.tenant, caller.id, key, identity, run_once, takes_over=route.repeatable
        )
        if route.secret and not full:
            raise RequestConflictError("the request was carried out; its answer had a secret, and is not shown again")
        return full[0] if full else earlier

    def _admitted(self, route: ApiRoute, request: ApiRequest) -> Caller:
        caller = self._access.authenticate(request.head.authorization)
        _require_permission(route, request, caller)
        return caller

    def _body(self, route: ApiRoute, request: ApiRequest, text: bytes) -> Any:
        if route.body is None:
            if text:
                raise RefusedError(400, "the request has a body; expected none")
            return {}
        kind = request.head.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RefusedError(415, "the body has another type; expected Content-Type: application/json")
        return loads(text, self._limits.body)


def _require_permission(route: ApiRoute, request: ApiRequest, caller: Caller) -> None:
    query = request.head.query
    if b"ga_" in query or b"access_token" in query:
        raise RefusedError(400, "the URL has a token, which logs may keep; expected it in Authorization: Bearer")
    authorize(caller, route.operation, caller.tenant)


def _options(route: ApiRoute, request: ApiRequest) -> dict[str, str]:
    """Returns the options of the address.

    Raises:
        RefusedError: one is unknown or occurs twice.
    """
    pairs = parse_qsl(request.head.query.decode("latin-1"), keep_blank_values=True)
    query = dict(pairs)
    if len(query) < len(pairs):
        raise RefusedError(400, "an option of the address occurs twice; expected it once")
    for name in query:
        if name not in route.query:
            raise RefusedError(400, f"the option {name[:40]!r} is unknown; known: {', '.join(route.query) or 'none'}")
    return query


def _key(request: ApiRequest) -> str | None:
    key, name = request.head.headers.get("idempotency-key"), "idempotency-key"
    if name in request.head.repeated or (key is not None and not (0 < len(key) <= MAX_KEY and key.isprintable())):
        raise RefusedError(400, f"the header Idempotency-Key is invalid; expected one, of up to {MAX_KEY} characters")
    return key


@dataclass(frozen=True, slots=True)
class _JsonResponse:
    """An answer in JSON, as an ASGI application."""

    content: bytes
    status_code: int
    head: Head

    async def __call__(self, scope: Any, _receive: Any, send: Any) -> None:
        content = b"" if scope["method"] == "HEAD" else self.content
        size = [(b"content-length", str(len(self.content)).encode()), (b"content-type", http.JSON)]
        await http.begin(send, self.status_code, [*size, *self.head])
        await http.more(send, content, last=True)


def _failed(error: Exception, more: Head | None = None, *, has_verdict: bool) -> _JsonResponse:
    status, body, head = error_answer(error, has_verdict=has_verdict)
    return _json(body, status, [*head, *(more or [])])


def _json(value: Any, status: int = 200, head: Head | None = None) -> _JsonResponse:
    content = dumps(value) if status < 400 else json.dumps(value, default=str).encode()
    return _JsonResponse(content, status, [*(head or []), *_ALWAYS])


# --- events, as Server-Sent Events


class _EventResponse(StreamingResponse):
    """A stream of events; `end` is called once nobody follows it any more."""

    def __init__(self, events: AsyncIterator[bytes], end: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"cache-control": "no-store"})
        self._end = end

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()


async def event_stream(
    service: GuardService, tenant: str, after: int, still_admitted: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Yields events until the token of the client is no longer valid, or the log cannot be read.

    Args:
        service: has the log.
        tenant: the tenant.
        after: the number of the last event that the client has.
        still_admitted: whether the client's token is valid; it may block.
    """
    yield b": events follow\n\n"
    loop = asyncio.get_running_loop()
    checked = loop.time()
    while True:
        entries = await run_in_threadpool(service.log.entries, tenant, after, 500)
        for entry in entries:
            after = entry["seq"]
            yield _event(entry)
        if loop.time() - checked >= CHECK_SECONDS:
            if not await run_in_threadpool(still_admitted):
                return
            checked = loop.time()
            yield b": still there\n\n"
        await asyncio.sleep(POLL_SECONDS)


def _event(entry: dict[str, Any]) -> bytes:
    data = {name: entry[name] for name in _FIELDS if entry.get(name) is not None}
    text = json.dumps(data, ensure_ascii=True, default=str)
    return f"id: {entry['seq']}\nevent: {entry['kind']}\ndata: {text}\n\n".encode()


# --- spans


class RequestSpan:
    """The span of a request, open while it is handled. A telemetry failure changes no answer.

    Args:
        method: the method of the request.
        route: the address of its route, with parts in braces.
        headers: the headers of the request; `traceparent` names the client's span.
    """

    def __init__(self, method: str, route: str, headers: Mapping[str, str]) -> None:
        self._scope = self._span = None
        self._trace = configured_trace()
        if self._trace is None:
            return
        try:
            self._scope = _span_scope(self._trace, method, route, headers)
            self._span = self._scope.__enter__()
        except Exception:  # noqa: BLE001 - any error of telemetry
            self._scope = None
            _log.exception("OpenTelemetry fails; this request has no span")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._scope is not None:
            with suppress(Exception):
                self._scope.__exit__(*raised)

    def set_caller(self, tenant: str) -> None:
        """Sets the tenant of the caller."""
        self._set({f"{SPAN_PREFIX}tenant": tenant})

    def set_verdict(self, answer: Any) -> None:
        """Sets the attributes of the verdict in an answer."""
        if self._span is not None:
            with suppress(Exception):
                show_verdict(self._span, read_verdict(answer["verdict"]))

    def set_status(self, status: int) -> None:
        """Sets the status of the answer; the span of a failed request is an error."""
        self._set({"http.response.status_code": status})
        if status >= 500 and self._span is not None:
            self._set({"error.type": str(status)})
            with suppress(Exception):
                self._span.set_status(self._trace.StatusCode.ERROR)

    def _set(self, values: Mapping[str, Any]) -> None:
        if self._span is not None:
            with suppress(Exception):
                self._span.set_attributes(values)


def _span_scope(trace: Any, method: str, route: str, headers: Mapping[str, str]) -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    client = TraceContextTextMapPropagator().extract(headers)
    attributes = {"http.request.method": method, "http.route": route}
    return trace.get_tracer("guardagent").start_as_current_span(
        f"{method} {route}", client, kind=trace.SpanKind.SERVER, attributes=attributes
    )


# --- metrics, in the format of Prometheus


class ServerMetrics:
    """Counts and times requests.

    Args:
        verdicts: returns the numbers of verdicts by policy and decision.
        requests: returns the number of requests in flight.
        webhooks: returns the numbers of webhooks by host and result.
    """

    def __init__(
        self,
        verdicts: Callable[[], Mapping[tuple[str, str], int]],
        requests: Callable[[], int],
        webhooks: Callable[[], Mapping[tuple[str, str], int]],
    ) -> None:
        from prometheus_client import CollectorRegistry, Histogram

        self._verdicts, self._requests, self._webhooks = verdicts, requests, webhooks
        self._answers = Counter[tuple[str, str, int]]()
        self._of_routes: dict[tuple[str, str], Any] = {}
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "guardagent_request_seconds", "The time of requests.", ["method", "route"], registry=self._registry
        )
        self._registry.register(self)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts an answered request."""
        self._answers[method, route, status] += 1
        if (of_route := self._of_routes.get((method, route))) is None:
            of_route = self._of_routes[method, route] = self._seconds.labels(method, route)
        of_route.observe(seconds)

    def exposition(self) -> tuple[str, bytes]:
        """Returns the content type and the text."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        return CONTENT_TYPE_LATEST, generate_latest(self._registry)

    def collect(self) -> Iterator[Any]:
        """Yields the metrics, as a collector of prometheus-client."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        yield GaugeMetricFamily("guardagent_requests_in_flight", "Requests in flight.", self._requests())
        verdicts = CounterMetricFamily("guardagent_verdicts", "Verdicts.", labels=["policy", "decision"])
        for (policy, decision), count in sorted(self._verdicts().items()):
            verdicts.add_metric([policy, decision], count)
        yield verdicts
        webhooks = CounterMetricFamily("guardagent_webhooks", "Webhooks.", labels=["host", "result"])
        for (host, result), count in sorted(self._webhooks().items()):
            webhooks.add_metric([host, result], count)
        yield webhooks
        answers = CounterMetricFamily("guardagent_requests", "Answers.", labels=["method", "route", "status"])
        failures = 0
        for (method, route, status), count in sorted(self._answers.items()):
            answers.add_metric([method, route, str(status)], count)
            failures += count if status == 503 else 0
        yield answers
        yield CounterMetricFamily("guardagent_unavailable", "Requests that no store or limit admitted.", failures)
