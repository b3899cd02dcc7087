"""Webhooks: signed, not lost, sent again, and without effect on calls."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from guardagent.server.access import Caller, CallerRole, TokenStore
from guardagent.server.settings import EVENTS, LogEvent, ServerSettings, WebhookSettings
from tests.server.channels.receivers import channels_at, http_server, send_all
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

    def handle(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        receiver.messages.append(({name.lower(): value for name, value in request.headers.items()}, body))
        status = receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0]
        return status, f"{receiver.url}elsewhere".encode()

    with http_server(handle) as receiver.url:
        yield receiver


@pytest.fixture
def settings(tmp_path: Path, receiver: Receiver) -> ServerSettings:
    lines = [f"whsec_{base64.b64encode(secret).decode()}" for secret in SECRETS]
    (tmp_path / "secret").write_text("\n".join(lines))
    webhook = WebhookSettings(receiver.url, tmp_path / "secret")
    return replace(local_settings(tmp_path), webhooks=(webhook,))


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


@pytest.mark.slow
def test_a_request_and_its_answer_are_sent_with_signatures_by_each_secret(
    server: LocalServer, receiver: Receiver
) -> None:
    with server.service.channels.running():
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
        for secret in SECRETS:
            assert Webhook(secret).verify(body, head) == json.loads(body)
    assert server.client("shop.admin").request("GET", "/metrics").text.count("guardagent_webhooks_total{") == 1


@pytest.mark.slow
@pytest.mark.parametrize("status", [500, 404, 302])
def test_a_message_that_is_not_accepted_is_sent_again_with_the_same_id(
    server: LocalServer, receiver: Receiver, status: int
) -> None:
    receiver.statuses[:] = [status, 200]
    wants(server)
    for seconds in (0, 1, 10, 20):
        send_all(server, seconds)
    assert len(receiver.messages) == 2
    assert len({head["webhook-id"] for head, _ in receiver.messages}) == 1


def test_an_expiry_is_sent_although_nobody_looks(server: LocalServer, receiver: Receiver) -> None:
    wants(server)
    send_all(server, 3700)
    assert "approval.expired" in [body["type"] for body in receiver.bodies()]


def test_what_was_decided_does_not_expire(server: LocalServer, receiver: Receiver) -> None:
    answer(server, wants(server), choice="reject", reason="no")
    send_all(server, 3700)
    assert sorted(body["type"] for body in receiver.bodies()) == ["approval.answered", "approval.requested"]


def test_a_request_ends_with_its_session(server: LocalServer, receiver: Receiver) -> None:
    """Nobody is asked about a call that cannot run any more, and its end is sent once."""
    approval = wants(server)
    server.client().post("/v1/sessions/s1/finish", {})
    assert server.client("shop.approver").get("/v1/approvals?status=pending")["approvals"] == []
    body = {"choice": "approve", "version": 2}
    server.client("shop.approver").post(f"/v1/approvals/{approval}/answer", body, 409)
    for seconds in (0, 3, 3700):
        send_all(server, seconds)
    assert sorted(body["type"] for body in receiver.bodies()) == ["approval.expired", "approval.requested"]


@pytest.fixture
def staged(tmp_path: Path, settings: ServerSettings, receiver: Receiver) -> Iterator[LocalServer]:
    """A server whose rule has two stages of half an hour, and whose webhook asks for them, too."""
    stages = "[{roles: [lead], deadline: 30m}, {roles: [director], deadline: 30m}]"
    path = settings.policies["default"].files[0]
    path.write_text(
        path.read_text().replace("on_violation: escalate", f"on_violation: escalate\n    escalate_to: {stages}")
    )
    webhook = replace(settings.webhooks[0], events=EVENTS)
    with local_server(tmp_path, settings=replace(settings, webhooks=(webhook,))) as running_server:
        yield running_server


def test_the_next_stage_is_announced_as_it_begins(staged: LocalServer, receiver: Receiver) -> None:
    wants(staged)
    send_all(staged, 1790)
    assert [body["type"] for body in receiver.bodies()] == ["approval.requested"]
    send_all(staged, 1810)
    requested, escalated = receiver.bodies()
    assert escalated["type"] == "approval.escalated"
    groups = [[entry["groups"] for entry in body["data"]["may_answer"]] for body in (requested, escalated)]
    assert groups == [[["lead"]], [["director"]]]
    send_all(staged, 3610)
    assert [body["type"] for body in receiver.bodies()[2:]] == ["approval.expired"]


def test_no_stage_of_a_decided_request_is_announced(staged: LocalServer, receiver: Receiver, tmp_path: Path) -> None:
    lead = Caller("lead", frozenset({CallerRole.APPROVER}), "shop", frozenset({"lead"}))
    staged.tokens["shop.approver"] = TokenStore(tmp_path / "tokens.db").create(lead, 60.0)[1]
    answer(staged, wants(staged), choice="reject", reason="no")
    send_all(staged, 3700)
    assert sorted(body["type"] for body in receiver.bodies()) == ["approval.answered", "approval.requested"]
    assert not staged.service.stores.state.page("webhook", "", None, 10)


def test_a_webhook_that_does_not_name_it_hears_of_no_stage(settings: ServerSettings, receiver: Receiver) -> None:
    assert settings.webhooks[0].events == tuple(event for event in EVENTS if event != "approval.escalated")


@pytest.mark.slow
def test_a_change_that_never_took_place_is_not_sent(server: LocalServer, receiver: Receiver) -> None:
    channels_at(server)[0].add("approval.requested", "shop", "a_none", 1.0)  # and then the server was killed
    for seconds in (0, 100):
        send_all(server, seconds)
    send_all(server, 200)
    assert receiver.messages == []
    assert not server.service.stores.state.page("webhook", "", None, 10)


def test_two_servers_send_each_message_once(server: LocalServer, receiver: Receiver) -> None:
    for at in range(5):
        wants(server, f"s{at}")
    pairs = [threading.Thread(target=send_all, args=(server,)) for _ in range(2)]
    for pair in pairs:
        pair.start()
    for pair in pairs:
        pair.join()
    assert len(receiver.messages) == len({head["webhook-id"] for head, _ in receiver.messages}) == 5


def test_a_message_of_a_server_that_was_killed_is_sent_by_another(server: LocalServer, receiver: Receiver) -> None:
    wants(server)
    [channel] = server.service.channels.channels
    assert next(channels_at(server)[0].claim(channel))  # and then it was killed
    send_all(server, 30)
    assert not receiver.messages
    send_all(server, 61)
    assert len(receiver.messages) == 1


def test_a_message_that_an_earlier_release_stored_is_sent(server: LocalServer, receiver: Receiver) -> None:
    approval = wants(server)
    record, _ = server.service.approvals.read("shop", approval)
    send_all(server)
    receiver.messages.clear()
    stored = {
        "url": receiver.url,
        "event": "approval.requested",
        "tenant": "shop",
        "approval": approval,
        "step": 0,
    }
    times = {"requested": record.created, "due": time.time(), "stored": time.time(), "attempts": 3}
    server.service.stores.state.add("webhook", "", "msg_earlier", {**stored, **times})
    send_all(server)
    assert [head["webhook-id"] for head, _ in receiver.messages] == ["msg_earlier"]


@pytest.mark.slow
def test_a_receiver_that_is_down_has_no_effect_on_calls(
    server: LocalServer, receiver: Receiver, tmp_path: Path
) -> None:
    receiver.statuses[:] = [500]
    with server.service.channels.running():
        approval = wants(server)
        answer(server, approval)
        call = {"id": "c2", "tool": "refund", "args": {"order": "a1", "amount": 900}}
        body = {"call": call, "approval": approval}
        assert server.client().post("/v1/sessions/s1/resolve", body)["in_flight"]


@pytest.mark.slow
def test_a_message_is_abandoned_after_days(server: LocalServer, receiver: Receiver) -> None:
    receiver.statuses[:] = [500]
    wants(server)
    [channel] = server.service.channels.channels
    for days in (0, 1, 2, 4, 5):
        outbox, delivery = channels_at(server, days * 86_400)
        for message in outbox.claim(channel):
            if message.event == "approval.requested":
                delivery.send(channel, message)
    assert len(receiver.messages) == 4


@pytest.mark.slow
def test_other_tenants_and_events_are_left_out(tmp_path: Path, receiver: Receiver, settings: ServerSettings) -> None:
    [webhook] = settings.webhooks
    other = replace(webhook, tenants=frozenset({"bank"}))
    with local_server(tmp_path, settings=replace(settings, webhooks=(other,))) as server:
        wants(server)
        send_all(server)
    assert not receiver.messages


@pytest.mark.slow
def test_arguments_are_sent_if_the_operator_wants_it(
    tmp_path: Path, receiver: Receiver, settings: ServerSettings
) -> None:
    [webhook] = settings.webhooks
    with local_server(
        tmp_path, settings=replace(settings, webhooks=(replace(webhook, include_arguments=True),))
    ) as server:
        wants(server)
        send_all(server)
    assert receiver.bodies()[0]["data"]["args"] == {"order": "a1", "amount": 900}


def test_a_card_is_sent_if_the_operator_wants_it(tmp_path: Path, receiver: Receiver, settings: ServerSettings) -> None:
    [webhook] = settings.webhooks
    with local_server(tmp_path, settings=replace(settings, webhooks=(replace(webhook, card=True),))) as server:
        approval = wants(server)
        send_all(server)
    card = receiver.bodies()[0]["data"]["card"]
    assert card["title"] == "Approve refund?"
    assert "amount: 900" in str(card["sections"])
    assert card["url"] == f"/console/approvals/{approval}"


LOG_ONLY: tuple[LogEvent, ...] = (
    "call.denied",
    "call.halted",
    "stop.made",
    "stop.lifted",
    "token.created",
    "token.rotated",
    "token.revoked",
)


@pytest.fixture
def follows(tmp_path: Path, receiver: Receiver, settings: ServerSettings) -> Iterator[LocalServer]:
    """A server whose webhook wants the events of the log."""
    [webhook] = settings.webhooks
    wanted = replace(webhook, events=LOG_ONLY, tenants=frozenset({"shop"}))
    with local_server(tmp_path, "shop", "bank", settings=replace(settings, webhooks=(wanted,))) as server:
        yield server


def test_denials_halts_stops_and_tokens_are_sent_with_their_entries(follows: LocalServer, receiver: Receiver) -> None:
    agent, admin = follows.client(), follows.client("shop.admin")
    session = agent.session()
    agent.check(session, "c1", "refund", order="a1", amount=7)  # not after a login
    agent.run(session, "c2", "login", user="ann")
    stop = follows.client("shop.operator").post("/v1/stops", {"reason": "wrong"}, 201)["id"]
    agent.check(session, "c3", "login", user="ann")
    assert admin.request("DELETE", f"/v1/stops/{stop}").status_code == 200
    token = admin.post("/v1/tokens", {"principal": "bot", "roles": ["agent"]}, 201)["id"]
    later = admin.post(f"/v1/tokens/{token}/rotate", {}, 201)["id"]
    assert admin.request("DELETE", f"/v1/tokens/{later}").status_code == 200
    follows.client("bank.agent").check(follows.client("bank.agent").session("b"), "c1", "refund", amount=7)
    follows.service.log_events.follow()
    send_all(follows)
    bodies = {body["type"]: body["data"] for body in receiver.bodies()}
    assert sorted(body["type"] for body in receiver.bodies()) == sorted(LOG_ONLY)
    denied, made = bodies["call.denied"], bodies["stop.made"]
    assert (denied["tool"], denied["session"], denied["rules"]) == ("refund", "s1", ["login_first"])
    assert "args" not in denied
    assert "reasons" not in denied
    assert bodies["call.halted"]["call_id"] == "c3"
    assert (made["stop"], made["by"], made["why"]) == (stop, "operator-1", "wrong")
    assert (bodies["token.rotated"]["token"], bodies["token.revoked"]["by"]) == (later, "admin-1")


def test_no_event_is_sent_twice_or_lost_by_a_restart(follows: LocalServer, receiver: Receiver) -> None:
    agent = follows.client()
    session = agent.session()
    for name in ("c1", "c2"):
        agent.check(session, name, "refund", order="a1", amount=7)
        with follows.service.log_events.running():  # the place in the log is known, so nothing is skipped
            follows.service.log_events.follow()
            follows.service.log_events.follow()
        send_all(follows)
    messages = receiver.bodies()
    assert [body["data"]["call_id"] for body in messages] in (["c1", "c2"], ["c2"])
    assert len({headers["webhook-id"] for headers, _ in receiver.messages}) == len(messages)


def test_entries_from_before_the_first_start_are_not_sent(follows: LocalServer, receiver: Receiver) -> None:
    agent = follows.client()
    agent.check(agent.session(), "c1", "refund", order="a1", amount=7)
    with follows.service.log_events.running():
        agent.check("s1", "c2", "refund", order="a1", amount=7)
        follows.service.log_events.follow()
    send_all(follows)
    assert [body["data"]["call_id"] for body in receiver.bodies()] == ["c2"]


def test_nothing_is_read_if_no_webhook_wants_it(server: LocalServer) -> None:
    assert not server.service.log_events._channels
    with server.service.log_events.running():
        assert server.service.stores.state.get("followed", "shop", "log") is None
