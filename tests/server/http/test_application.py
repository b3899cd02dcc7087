"""The roles of each route, and requests that no client of ours sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from guardagent.server.access import PERMITTED, TokenStore
from guardagent.server.http.application import MAX_TENANT_STREAMS
from guardagent.server.http.routes import ROUTES, ApiRoute
from tests.enforcement.test_audit_records_telemetry import SPANS, run
from tests.server.servers import ROLES, LocalServer, local_server
from tests.tiers import examples

NAMES = [f"{route.method} {route.path}" for route in ROUTES]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with local_server(tmp_path_factory.mktemp("server"), "shop", "bank", body=100_000) as server:
        server.client().session()
        yield server


def address(route: ApiRoute, name: str = "s1") -> str:
    return route.path.replace("{id}", name).replace("{name}", name)


def body_of(route: ApiRoute) -> Any:
    return None if route.body is None else {}


# --- roles


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
@pytest.mark.parametrize("role", ["nobody", *ROLES])
def test_each_route_admits_its_roles_alone(route: ApiRoute, role: str, server: LocalServer) -> None:
    permitted = PERMITTED.get(route.operation)
    assert permitted, "a route without a role is nobody's"
    if route.kind == "text/event-stream" and role in permitted:
        return  # it has no end
    answer = server.client(f"shop.{role}").request(route.method, address(route, "unknown"), body_of(route))
    if role == "nobody":
        assert answer.status_code == 401
    elif role in permitted:
        assert answer.status_code not in (401, 403, 500, 503), answer.text
    else:
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


def test_no_two_routes_are_alike() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("path", ["/v1/unknown", "/v1/sessions/s1/approve", "/docs", "//v1/sessions", "/v1/sessions/"])
def test_other_addresses_are_unknown_to_everybody(path: str, server: LocalServer) -> None:
    for who in ("shop.nobody", "shop.admin"):
        assert server.client(who).request("GET", path).status_code == 404


def test_other_methods_are_refused(server: LocalServer) -> None:
    for method in ("PUT", "PATCH", "OPTIONS", "TRACE", "DELETE"):
        assert server.client().request(method, "/v1/sessions").status_code == 405


# --- other tenants


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if "/sessions/{id}" in route.path], ids=lambda route: route.path
)
@pytest.mark.parametrize("tenant", ["bank", "shop"])
def test_sessions_of_others_are_as_unknown_as_those_that_do_not_exist(
    route: ApiRoute, tenant: str, server: LocalServer
) -> None:
    role = "agent" if route.method == "POST" else "auditor"
    if tenant == "shop" and role == "auditor":
        return  # it may read the sessions of its tenant
    client = server.client(f"{tenant}.{'other' if role == 'agent' else role}")
    call = {"id": "c1", "tool": "login", "args": {}}
    bodies = {
        "check": {"call": call},
        "record": {"call_id": "c1", "outcome": {"output": 1, "failed": False, "ended": True}},
        "withdraw": {"call_id": "c1", "why": "x"},
        "refuse": {"call": call, "problem": "x"},
        "answer": {"input": "x", "output": "x"},
    }
    body = None if route.body is None else bodies.get(route.path.rpartition("/")[2], {})
    existing, missing = (client.request(route.method, address(route, name), body) for name in ("s1", "s2"))
    assert (existing.status_code, missing.status_code) == (404, 404)
    assert existing.text.replace("s1", "s2") == missing.text


def test_an_attachment_of_another_tenant_opens_no_session(server: LocalServer) -> None:
    attachment = server.client().post("/v1/attachments", {"tools": []}, 201)["id"]
    answer = server.client("bank.agent").request("POST", "/v1/sessions", {"attachment": attachment})
    assert answer.status_code == 404


def test_a_reader_sees_its_tenant_alone(server: LocalServer) -> None:
    assert [session["id"] for session in server.client("shop.auditor").get("/v1/sessions")["sessions"]] == ["s1"]
    assert server.client("bank.auditor").get("/v1/sessions")["sessions"] == []
    assert server.client("bank.admin").request("GET", "/v1/sessions?tenant=shop").status_code == 404
    assert server.client("bank.auditor").get("/v1/log")["entries"] == []


def test_an_admin_manages_the_tokens_of_its_tenant(server: LocalServer) -> None:
    admin, foreign = server.client("shop.admin"), server.client("bank.admin")
    auditor = {"principal": "new", "roles": ["auditor"]}
    created = admin.post("/v1/tokens", auditor, 201, idempotency_key="t1")
    assert admin.request("POST", "/v1/tokens", auditor, idempotency_key="t1").status_code == 409
    for tenant in ("bank", "*"):
        body = {"principal": "new", "roles": ["admin"], "tenant": tenant}
        assert admin.request("POST", "/v1/tokens", body).status_code == 422
    assert created["id"] not in json.dumps(foreign.get("/v1/tokens"))
    assert foreign.request("DELETE", f"/v1/tokens/{created['id']}").status_code == 404
    server.tokens["shop.new"] = created["token"]
    server.client("shop.new").get("/v1/sessions")
    assert admin.request("DELETE", f"/v1/tokens/{created['id']}").status_code == 200
    server.client("shop.new").get("/v1/sessions", 401)


# --- malformed requests


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"[]", 422),
        (b"null", 422),
        (b'{"attachment": "a", "attachment": "b"}', 422),
        (b'{"attachment": "a", "unknown": 1}', 422),
        (b'{"attachment": NaN}', 422),
        (b'{"attachment": "\\ud800"}', 422),
        (b"\xff\xfe", 422),
        (b"[" * 10_000, 422),
        (b'{"attachment": "' + b"x" * 200_000 + b'"}', 413),
    ],
)
def test_a_malformed_body_is_refused(content: bytes, status: int, server: LocalServer) -> None:
    client = server.client()
    headers = {**client.headers, "content-type": "application/json"}
    answer = client.client.post("/v1/sessions", content=content, headers=headers)
    assert (answer.status_code, set(answer.json())) == (status, {"error"})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"host": "evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"idempotency-key": "x" * 201}, 400),
        ({"content-length": "2", "transfer-encoding": "chunked"}, 400),
    ],
)
def test_a_request_with_unusual_headers_is_refused(headers: dict[str, str], status: int, server: LocalServer) -> None:
    client = server.client()
    sent = {**client.headers, "content-type": "application/json", **headers}
    assert client.client.post("/v1/sessions", content=b"{}", headers=sent).status_code == status


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/sessions?limit=0", 422),
        ("/v1/sessions?limit=501", 422),
        ("/v1/sessions?cursor=-1", 422),
        ("/v1/sessions?unknown=1", 400),
        ("/v1/sessions?limit=1&limit=2", 400),
        ("/v1/sessions?access_token=1", 400),
    ],
)
def test_invalid_options_of_an_address_are_refused(path: str, status: int, server: LocalServer) -> None:
    server.client("shop.auditor").get(path, status)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/sessions?limit=-1", "is '-1'; expected 1 to 500"),
        ("/v1/log?decision=foo", "is 'foo'; expected allow, warn, deny, escalate, halt"),
    ],
)
def test_an_invalid_option_names_what_is_expected(path: str, expected: str, server: LocalServer) -> None:
    assert server.client("shop.auditor").get(path, 422)["error"]["message"] == expected


def values_of(schema: Any) -> SearchStrategy[Any]:
    """Returns values of a schema, and others that nearly fit it."""
    kinds = schema.get("type") if isinstance(schema, dict) else None
    kinds = kinds if isinstance(kinds, list) else [kinds]
    simple: dict[Any, SearchStrategy[Any]] = {
        "string": st.text(max_size=8) | st.sampled_from(["s1", "login", "default"]),
        "integer": st.integers(),
        "boolean": st.booleans(),
        "null": st.none(),
        "array": st.lists(values_of(schema.get("items", {})), max_size=2) if "items" in schema else st.just([]),
    }
    anything = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just({"$object": ["decimal", "x"]})
    choices = [simple.get(kind, anything) for kind in kinds if kind != "object"]
    if "object" in kinds:
        fields = schema.get("properties", {})
        needed = {name: values_of(fields[name]) for name in schema.get("required", ())}
        more = {name: values_of(field) for name, field in fields.items() if name not in needed}
        choices.append(st.fixed_dictionaries(needed, optional=more))
    return st.one_of(*choices, anything) if choices else anything


@pytest.mark.parametrize("route", [route for route in ROUTES if route.body is not None], ids=lambda route: route.path)
@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_body_makes_the_server_fail(route: ApiRoute, data: st.DataObject, server: LocalServer) -> None:
    role = min(PERMITTED[route.operation])
    assert route.body is not None
    body = data.draw(values_of(route.body.schema))
    answer = server.client(f"shop.{role}").request(route.method, address(route), body)
    assert answer.status_code < 500, answer.text
    assert ("error" in answer.json()) == (answer.status_code >= 400)


def test_the_document_has_every_route(server: LocalServer) -> None:
    document = server.client().get("/v1/openapi.json")
    documented = {f"{method.upper()} {path}" for path, operations in document["paths"].items() for method in operations}
    assert documented == set(NAMES)
    ids = {operation["operationId"] for path in document["paths"].values() for operation in path.values()}
    assert len(ids) == len(NAMES)


def test_metrics_have_no_text_of_users(server: LocalServer) -> None:
    client = server.client()
    client.session("metrics")
    client.check("metrics", "c1", "login", word="hunter2")
    text = server.client("shop.auditor").request("GET", "/metrics").text
    assert 'guardagent_verdicts_total{decision="allow",policy="default"}' in text
    assert "hunter2" not in text
    assert "metrics" not in [line.split('"')[1] for line in text.splitlines() if '"' in line]


def test_health_needs_no_token(server: LocalServer, tmp_path: Path) -> None:
    for path, status in (("/healthz", "ok"), ("/readyz", "ready")):
        assert server.client("nobody").get(path) == {"status": status}


# --- many clients at once


CHECK = "/v1/sessions/s1/check"


async def sent(
    server: LocalServer, token: str, receive: Callable[[], Awaitable[dict[str, Any]]], path: str = CHECK, **more: str
) -> tuple[int, dict[str, str]]:
    """Sends the head of a request; `receive` gives its body. Returns the status and the headers of the answer."""
    headers = {"host": "testserver", "content-type": "application/json", "authorization": token, **more}
    head = [(name.encode(), value.encode()) for name, value in headers.items() if value]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": head, "client": None}
    answer: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        answer.append(message)

    await server.application(scope, receive, send)
    return answer[0]["status"], {name.decode(): value.decode() for name, value in answer[0]["headers"]}


async def never() -> dict[str, Any]:
    raise AssertionError("the body is read")


@pytest.mark.parametrize(
    ("token", "status"),
    [
        ("", 401),
        ("Bearer", 401),
        ("Bearer x", 401),
        ("Basic YTpi", 401),
        (f"Bearer ga_{'0' * 12}_{'0' * 64}", 401),
        (f"Bearer ga_{'0' * 12}_{'0' * 64}x", 401),
        ("shop.agent bank", 401),
        ("shop.approver", 403),
        ("shop.auditor", 403),
        ("shop.admin", 403),
    ],
)
@pytest.mark.parametrize("length", ["2", "99999", "100000000", ""])
def test_no_byte_of_a_strangers_body_is_read(token: str, status: int, length: str, server: LocalServer) -> None:
    name, *rest = token.split(" ")
    if name in server.tokens:
        token = " ".join([f"Bearer {server.tokens[name]}", *rest])
    more = {"content-length": length} if length else {"transfer-encoding": "chunked"}
    answered, headers = asyncio.run(sent(server, token, never, **more))
    assert (answered, headers["connection"]) == (status, "close")


def test_strangers_take_no_place_of_a_known_caller(tmp_path: Path) -> None:
    """Slow bodies of strangers, and of one that knew a token, which was revoked."""

    async def attacked(server: LocalServer) -> list[int]:
        slow = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await slow.wait()
            return {"type": "http.disconnect"}

        strangers = [asyncio.create_task(sent(server, f"Bearer x{at}", receive)) for at in range(60)]
        async with httpx.AsyncClient(transport=httpx.ASGITransport(server.application)) as client:
            agent = {"authorization": f"Bearer {server.tokens['shop.agent']}", "host": "testserver"}
            answers = [
                await client.post("http://testserver/v1/sessions/s1/turn", json={}, headers=agent) for _ in range(3)
            ]
            answers += [await client.get("http://testserver/readyz", headers={"host": "testserver"})]
        assert {task.result()[0] for task in strangers if task.done()} == {401}
        assert {(await task)[0] for task in strangers} == {401}
        return [answer.status_code for answer in answers]

    with local_server(tmp_path, requests=2) as server:
        server.client().session()
        assert asyncio.run(attacked(server)) == [200] * 4
        TokenStore(tmp_path / "tokens.db").revoke(server.tokens["shop.agent"])
        for _ in range(2):
            server.client().post("/v1/sessions/s1/turn", {}, 401)


def test_a_burst_of_a_new_caller_is_one_newcomer(tmp_path: Path) -> None:
    async def burst(server: LocalServer) -> set[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(server.application)) as client:
            agent = {"authorization": f"Bearer {server.tokens['shop.agent']}", "host": "testserver"}
            posts = [client.post("http://testserver/v1/sessions/s1/turn", json={}, headers=agent) for _ in range(100)]
            return {answer.status_code for answer in await asyncio.gather(*posts)}

    with local_server(tmp_path) as server:
        server.client().session()
        assert asyncio.run(burst(server)) == {200}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("host", "testserver"), ("host", "testserver")], 400),
        ([("host", "testserver"), ("host", "evil.example")], 400),
        ([("host", "evil.example"), ("Host", "testserver")], 400),
        ([("HOST", "testserver"), ("hOsT", "testserver"), ("host", "testserver")], 400),
        ([("host", "testserver"), ("origin", "http://evil.example"), ("origin", "http://testserver")], 400),
        ([("host", "testserver"), ("content-length", "2"), ("content-length", "2")], 400),
        ([("host", "testserver"), ("transfer-encoding", "chunked"), ("transfer-encoding", "identity")], 400),
        ([], 421),
        ([("host", "testserver")], 200),
        ([("Host", "TESTSERVER")], 200),
        ([("host", "testserver"), ("origin", "http://testserver")], 200),
        ([("host", "testserver"), ("accept", "a"), ("accept", "b")], 200),
        ([("host", "testserver"), ("cookie", "a=1"), ("cookie", "b=2")], 200),
    ],
)
def test_two_readers_of_a_request_see_the_same_one(
    headers: list[tuple[str, str]], status: int, server: LocalServer
) -> None:
    head = [(name.encode(), value.encode()) for name, value in headers]
    scope = {"type": "http", "method": "GET", "path": "/healthz", "query_string": b"", "headers": head, "client": None}
    answer: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        answer.append(message)

    asyncio.run(server.application(scope, never, send))
    assert answer[0]["status"] == status


def test_a_tenant_has_a_share_of_the_streams(server: LocalServer) -> None:
    async def opened() -> list[int]:
        begun: list[int] = []
        over = asyncio.Event()

        async def follow(who: str) -> None:
            body = [{"type": "http.request"}]

            async def receive() -> dict[str, Any]:
                if not body:
                    await over.wait()
                return body.pop() if body else {"type": "http.disconnect"}

            async def send(message: dict[str, Any]) -> None:
                if message["type"] == "http.response.start":
                    begun.append(message["status"])

            head = [(b"host", b"testserver"), (b"authorization", f"Bearer {server.tokens[who]}".encode())]
            request = {"method": "GET", "path": "/v1/events", "query_string": b"", "headers": head, "client": None}
            await server.application({"type": "http", **request}, receive, send)

        async def answers(number: int) -> list[int]:
            while len(begun) < number:  # noqa: ASYNC110 - requests of this test alone
                await asyncio.sleep(0.01)
            return begun[-1:]

        running = [asyncio.create_task(follow("shop.auditor")) for _ in range(MAX_TENANT_STREAMS)]
        await answers(MAX_TENANT_STREAMS)
        assert set(begun) == {200}
        seen = []
        for who in ("shop.auditor", "bank.auditor"):
            running.append(asyncio.create_task(follow(who)))
            seen += await answers(len(begun) + 1)
        over.set()
        await asyncio.gather(*running)
        over.clear()
        last = asyncio.create_task(follow("shop.auditor"))
        seen += await answers(len(begun) + 1)
        over.set()
        await last
        return seen

    assert asyncio.run(opened()) == [503, 200, 200]


# --- OpenTelemetry in a server: a span per request. Each test runs in its own process


CLIENT = f"00-{'a1' * 16}-{'b2' * 8}-01"
REQUESTS = """
import json, sys
from pathlib import Path
from tests.server.servers import local_server

with local_server(Path(sys.argv[1])) as server:
    client = server.client()
    name = client.session()
    client.headers["traceparent"] = {client!r}
    path = f"/v1/sessions/{{name}}/check"
    statuses = [
        client.request("POST", path, {{"call": {{"id": id, "tool": tool, "args": args}}}}).status_code
        for id, tool, args in (
            ("c1", "login", {{"word": "hunter2"}}),
            ("c2", "refund", {{"order": "W1", "amount": 500}}),
        )
    ]
    statuses.append(client.request("GET", "/v1/sessions/s1").status_code)
"""
SHOWN = """
def shown(span):
    ids = {"trace": f"{span.context.trace_id:032x}", "id": f"{span.context.span_id:016x}"}
    parent = span.parent and f"{span.parent.span_id:016x}"
    about = {"name": span.name, "kind": span.kind.name, "ok": span.status.is_ok}
    return {**ids, "parent": parent, **about, **span.attributes}

print(json.dumps([shown(one) for one in exporter.get_finished_spans()], default=list))
"""


def program(*parts: str, folder: Path) -> str:
    return "\n".join([f"import sys; sys.argv = ['', {str(folder)!r}]", *parts])


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    spans: list[dict[str, Any]] = run(
        program(SPANS, REQUESTS.format(client=CLIENT), SHOWN, folder=tmp_path_factory.mktemp("server"))
    )
    return spans


def test_each_request_has_a_span_in_the_clients_trace(spans: list[dict[str, Any]]) -> None:
    requests = [span for span in spans if span["kind"] == "SERVER"]
    assert [request["name"] for request in requests] == [
        "POST /v1/attachments",
        "POST /v1/sessions",
        "POST /v1/sessions/{id}/check",
        "POST /v1/sessions/{id}/check",
        "GET /v1/sessions/{id}",
    ]
    assert [request["parent"] for request in requests] == [None, None, "b2" * 8, "b2" * 8, "b2" * 8]
    assert {request["trace"] for request in requests[2:]} == {"a1" * 16}
    assert [request["http.response.status_code"] for request in requests] == [201, 201, 200, 200, 403]


def test_the_span_of_a_check_has_its_verdict_and_the_guards_own_span(spans: list[dict[str, Any]]) -> None:
    allowed, denied = (span for span in spans if span["name"].endswith("/check"))
    assert (allowed["guardagent.decision"], allowed["guardagent.label"], allowed["ok"]) == ("allow", 0, True)
    assert (denied["guardagent.decision"], denied["guardagent.label"]) == ("deny", 1)
    assert "login_first" in denied["guardagent.rules"]
    assert allowed["guardagent.tenant"] == "shop"
    assert [span["parent"] for span in spans if span["name"] == "check login"] == [allowed["id"]]
    assert "hunter2" not in json.dumps(spans)
    assert "s1" not in json.dumps([span for span in spans if span["kind"] == "SERVER"])


@pytest.mark.parametrize("fails", ["on_start", "on_end"])
def test_a_telemetry_failure_changes_no_answer(fails: str, tmp_path: Path) -> None:
    broken = f"""
from opentelemetry.sdk.trace import SpanProcessor

class Broken(SpanProcessor):
    def {fails}(self, *args, **options):
        raise RuntimeError("no collector")

provider.add_span_processor(Broken())
"""
    requests = REQUESTS.format(client=CLIENT)
    assert run(program(SPANS, broken, requests, "print(statuses)", folder=tmp_path)) == [200, 200, 403]


@pytest.mark.slow
def test_a_server_without_a_configured_sdk_neither_loads_nor_uses_it(tmp_path: Path) -> None:
    loaded = 'print(json.dumps([statuses, [one for one in sys.modules if "opentelemetry" in one]]))'
    assert run(program(REQUESTS.format(client=CLIENT), loaded, folder=tmp_path)) == [[200, 200, 403], []]
    api = "from opentelemetry import trace"
    shown = "print(json.dumps([statuses, 'opentelemetry.sdk.trace' in sys.modules]))"
    assert run(program(api, REQUESTS.format(client=CLIENT), shown, folder=tmp_path)) == [[200, 200, 403], False]
