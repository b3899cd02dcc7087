"""OpenTelemetry in a server: a span per request. Each test runs in its own process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.enforcement.test_audit_records_telemetry import SPANS, run

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
