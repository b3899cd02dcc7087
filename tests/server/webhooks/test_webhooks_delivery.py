"""Webhooks: signed, not lost, sent again, and without effect on calls."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from guardagent.server.approvals import ApprovalDesk
from guardagent.server.settings import ServerSettings, read_webhook
from guardagent.server.webhooks import WebhookDelivery, WebhookOutbox
from tests.server.servers import LocalServer, local_server, local_settings

SECRETS = [b"an old secret of 24 bytes", b"another secret, longer than that one"]


@dataclass
class Receiver:
    """Answers each message with the next status, the last one again and again."""

    statuses: list[int] = field(default_factory=lambda: [200])
    messages: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, body in self.messages]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.messages.append(({name.lower(): value for name, value in self.headers.items()}, body))
            status = receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0]
            self.send_response(status)
            self.send_header("Location", f"{receiver.url}elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield receiver
    server.shutdown()
    server.server_close()


@pytest.fixture
def settings(tmp_path: Path, receiver: Receiver) -> ServerSettings:
    lines = [f"whsec_{base64.b64encode(secret).decode()}" for secret in SECRETS]
    (tmp_path / "secret").write_text("\n".join(lines))
    webhook = read_webhook({"url": receiver.url, "secret_file": "secret"}, "webhook 1", tmp_path)
    return replace(local_settings(tmp_path), webhooks={receiver.url: webhook})


@pytest.fixture
def server(tmp_path: Path, settings: ServerSettings) -> Iterator[LocalServer]:
    with local_server(tmp_path, settings=settings) as running_server:
        yield running_server


def wants(server: LocalServer, session: str = "s1") -> str:
    agent = server.client()
    agent.session(session)
    agent.run(session, "c1", "login", user="ann")
    wants: str = agent.check(session, "c2", "refund", order="a1", amount=900)["approval"]["id"]
    return wants


def answer(server: LocalServer, approval: str, **more: Any) -> None:
    body = {"choice": "approve", "version": 1, **more}
    server.client("shop.approver").post(f"/v1/approvals/{approval}/answer", body)


def until(count: int, receiver: Receiver, seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while len(receiver.messages) < count and time.monotonic() < end:
        time.sleep(0.05)
    assert len(receiver.messages) >= count


def outbox_at(server: LocalServer, receiver: Receiver, seconds: float) -> tuple[WebhookOutbox, WebhookDelivery]:
    """The outbox of another server, whose clock is ahead."""
    webhooks = server.service.settings.webhooks
    state = server.service.stores.state

    def clock() -> float:
        return time.time() + seconds

    webhook_outbox = WebhookOutbox(state, webhooks, clock)
    return webhook_outbox, WebhookDelivery(webhook_outbox, ApprovalDesk(state, clock=clock), webhooks, clock)


def send_all(outbox: WebhookOutbox, delivery: WebhookDelivery, url: str) -> None:
    for message in outbox.claim(url):
        delivery.send(message)


@pytest.mark.slow
def test_a_request_and_its_answer_are_sent_with_signatures_by_each_secret(
    server: LocalServer, receiver: Receiver
) -> None:
    with server.service.webhooks.running():
        approval = wants(server)
        until(1, receiver)
        answer(server, approval)
        until(2, receiver)
    requested, answered = receiver.bodies()
    assert (requested["type"], answered["type"]) == ("approval.requested", "approval.answered")
    assert answered["data"]["status"] == "approved"
    assert answered["data"]["answer"]["by"] == "approver-1"
    assert "args" not in requested["data"]
    for head, body in receiver.messages:
        signed = f"{head['webhook-id']}.{head['webhook-timestamp']}.".encode() + body
        expected = [base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode() for secret in SECRETS]
        assert head["webhook-signature"].split() == [f"v1,{signature}" for signature in expected]
    assert server.client("shop.admin").request("GET", "/metrics").text.count("guardagent_webhooks_total{") == 1


@pytest.mark.slow
@pytest.mark.parametrize("status", [500, 404, 302])
def test_a_message_that_is_not_accepted_is_sent_again_with_the_same_id(
    server: LocalServer, receiver: Receiver, status: int
) -> None:
    receiver.statuses[:] = [status, 200]
    wants(server)
    for seconds in (0, 1, 10, 20):
        send_all(*outbox_at(server, receiver, seconds), receiver.url)
    assert len(receiver.messages) == 2
    assert len({head["webhook-id"] for head, _ in receiver.messages}) == 1


def test_an_expiry_is_sent_although_nobody_looks(server: LocalServer, receiver: Receiver) -> None:
    wants(server)
    send_all(*outbox_at(server, receiver, 3700), receiver.url)
    assert "approval.expired" in [body["type"] for body in receiver.bodies()]


def test_what_was_decided_does_not_expire(server: LocalServer, receiver: Receiver) -> None:
    answer(server, wants(server), choice="reject", reason="no")
    send_all(*outbox_at(server, receiver, 3700), receiver.url)
    assert sorted(body["type"] for body in receiver.bodies()) == ["approval.answered", "approval.requested"]


@pytest.mark.slow
def test_a_change_that_never_took_place_is_not_sent(server: LocalServer, receiver: Receiver) -> None:
    outbox, delivery = outbox_at(server, receiver, 0)
    outbox.add("approval.requested", "shop", "a_none", 1.0)  # and then the server was killed
    send_all(outbox, delivery, receiver.url)
    send_all(*outbox_at(server, receiver, 100), receiver.url)
    send_all(*outbox_at(server, receiver, 200), receiver.url)
    assert receiver.messages == []
    assert not server.service.stores.state.page("webhook", "", None, 10)


def test_two_servers_send_each_message_once(server: LocalServer, receiver: Receiver) -> None:
    for at in range(5):
        wants(server, f"s{at}")
    first, second = (outbox_at(server, receiver, 0) for _ in range(2))
    pairs = [threading.Thread(target=send_all, args=(*outbox, receiver.url)) for outbox in (first, second)]
    for pair in pairs:
        pair.start()
    for pair in pairs:
        pair.join()
    assert len(receiver.messages) == len({head["webhook-id"] for head, _ in receiver.messages}) == 5


def test_a_message_of_a_server_that_was_killed_is_sent_by_another(server: LocalServer, receiver: Receiver) -> None:
    wants(server)
    outbox, _ = outbox_at(server, receiver, 0)
    assert next(outbox.claim(receiver.url))  # and then it was killed
    send_all(*outbox_at(server, receiver, 30), receiver.url)
    assert not receiver.messages
    send_all(*outbox_at(server, receiver, 61), receiver.url)
    assert len(receiver.messages) == 1


@pytest.mark.slow
def test_a_receiver_that_is_down_has_no_effect_on_calls(
    server: LocalServer, receiver: Receiver, tmp_path: Path
) -> None:
    receiver.statuses[:] = [500]
    with server.service.webhooks.running():
        approval = wants(server)
        answer(server, approval)
        call = {"id": "c2", "tool": "refund", "args": {"order": "a1", "amount": 900}}
        body = {"call": call, "approval": approval}
        assert server.client().post("/v1/sessions/s1/resolve", body)["in_flight"]


@pytest.mark.slow
def test_a_message_is_abandoned_after_days(server: LocalServer, receiver: Receiver) -> None:
    receiver.statuses[:] = [500]
    wants(server)
    delivery = None
    for days in (0, 1, 2, 4, 5):
        outbox, delivery = outbox_at(server, receiver, days * 86_400)
        with contextlib.suppress(StopIteration):
            delivery.send(
                next(
                    webhook_message
                    for webhook_message in outbox.claim(receiver.url)
                    if webhook_message.event == "approval.requested"
                )
            )
    assert delivery is not None
    assert len(receiver.messages) == 4


@pytest.mark.slow
def test_other_tenants_and_events_are_left_out(tmp_path: Path, receiver: Receiver, settings: ServerSettings) -> None:
    [webhook] = settings.webhooks.values()
    other = replace(webhook, tenants=frozenset({"bank"}))
    with local_server(tmp_path, settings=replace(settings, webhooks={receiver.url: other})) as server:
        wants(server)
        send_all(*outbox_at(server, receiver, 0), receiver.url)
    assert not receiver.messages


@pytest.mark.slow
def test_arguments_are_sent_if_the_operator_wants_it(
    tmp_path: Path, receiver: Receiver, settings: ServerSettings
) -> None:
    [webhook] = settings.webhooks.values()
    with local_server(
        tmp_path, settings=replace(settings, webhooks={receiver.url: replace(webhook, include_arguments=True)})
    ) as server:
        wants(server)
        send_all(*outbox_at(server, receiver, 0), receiver.url)
    assert receiver.bodies()[0]["data"]["args"] == {"order": "a1", "amount": 900}
