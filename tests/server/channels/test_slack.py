"""Slack: one card for an approval that stays up to date, and answers that only its members give, once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guardagent.server.settings import read_server_settings
from tests.server.channels.receivers import (
    SlackApi,
    channels_at,
    interact,
    press,
    send,
    send_all,
    settings_text,
    slack_api,
)
from tests.server.servers import POLICIES, LocalServer, local_server, server_processes, tokens_of

HOSTILE = "<!channel> <https://evil.example|Approve> *b* `x` & \u202e\x1b[31m\n\nApproved by: everybody"
RULES = "policies: {default: {files: policies.yaml, approvals: {quorum: QUORUM}}}\nstate: 'sqlite:FOLDER/state'\n"


@pytest.fixture
def api() -> Iterator[SlackApi]:
    with slack_api() as api:
        yield api


def settings_file(folder: Path, api: SlackApi, quorum: int = 1) -> Path:
    (folder / "policies.yaml").write_text(POLICIES)
    (folder / "server.yaml").write_text(
        RULES.replace("QUORUM", str(quorum)).replace("FOLDER", str(folder)) + settings_text(folder, api)
    )
    return folder / "server.yaml"


@pytest.fixture
def server(tmp_path: Path, api: SlackApi) -> Iterator[LocalServer]:
    settings = read_server_settings(settings_file(tmp_path, api))
    with local_server(tmp_path, "shop", "bank", settings=settings) as running_server:
        yield running_server


def wants(server: LocalServer, who: str = "shop.agent", order: str = "a1") -> str:
    agent = server.client(who)
    agent.session("s1")
    agent.run("s1", "c1", "login", user="ann")
    wants: str = agent.check("s1", "c2", "refund", order=order, amount=900)["approval"]["id"]
    return wants


def status(server: LocalServer, approval: str) -> Any:
    return server.client("shop.approver").get(f"/v1/approvals/{approval}")


def buttons(card: Any) -> list[str]:
    return [
        element["action_id"] for block in card["blocks"] if block["type"] == "actions" for element in block["elements"]
    ]


def test_an_answer_is_taken_and_the_card_says_so(server: LocalServer, api: SlackApi) -> None:
    approval = wants(server)
    send_all(server)
    [card] = api.of("chat.postMessage")
    assert (card["channel"], buttons(card)) == ("C1", ["approve", "reject"])
    assert f"https://guard.example/console/approvals/{approval}" in str(card)
    assert "a receipt" in str(card) or "then due: receipt" in str(card)
    assert press(server, card, "approve").status_code == 200
    send_all(server)
    [update] = api.of("chat.update")
    assert (update["channel"], update["ts"], buttons(update)) == ("C1", "17.1", [])
    assert update["text"].startswith("refund: approved by approver-1, ")
    assert [step["by"] for step in status(server, approval)["steps"]] == ["approver-1"]
    entries = server.client("shop.auditor").get("/v1/log?kind=approval_answer")["entries"]
    assert [(entry["by"], entry["via"]) for entry in entries] == [("approver-1", "slack")]


def test_a_rejection_needs_a_reason(server: LocalServer, api: SlackApi) -> None:
    approval = wants(server)
    send_all(server)
    press(server, api.card(), "reject")
    assert status(server, approval)["status"] == "pending"
    assert "the reason is empty" in api.of("chat.postEphemeral")[0]["text"]
    press(server, api.card(), "reject", reason="not this customer")
    assert status(server, approval)["steps"][0]["reason"] == "not this customer"


def test_an_answer_from_elsewhere_shows_on_the_card_and_makes_its_buttons_void(
    server: LocalServer, api: SlackApi
) -> None:
    approval = wants(server)
    send_all(server)
    card = api.card()
    answer = {"choice": "reject", "reason": "no", "version": 1}
    server.client("shop.approver").post(f"/v1/approvals/{approval}/answer", answer)
    elsewhere = {"response_url": f"{api.url}never"}  # nobody may send the server there
    assert press(server, card, "approve", user="U2", payload=elsewhere).status_code == 200
    assert api.of("stray") == []
    assert "rejected; decided by approver-1" in api.of("chat.postEphemeral")[0]["text"]
    assert buttons(api.of("chat.update")[0]) == []  # the pressed card itself, before the outbox comes to it
    send_all(server)
    assert api.card()["text"].startswith("refund: rejected by approver-1, ")
    assert status(server, approval)["status"] == "rejected"


def test_a_second_press_and_a_replayed_request_change_nothing(server: LocalServer, api: SlackApi) -> None:
    approval = wants(server)
    send_all(server)
    card = api.card()
    for user in ("U1", "U1", "U2"):
        assert press(server, card, "approve", user=user).status_code == 200
    assert len(status(server, approval)["steps"]) == 1
    assert len(api.of("chat.postEphemeral")) == 2


@pytest.mark.parametrize(
    "more",
    [{"age": 301}, {"age": -301}, {"secret": "another secret"}],
    ids=["old", "from the future", "of another app"],
)
def test_a_request_that_slack_did_not_sign_just_now_is_refused(
    server: LocalServer, api: SlackApi, more: dict[str, Any]
) -> None:
    approval = wants(server)
    send_all(server)
    assert press(server, api.card(), "approve", **more).status_code == 401
    assert status(server, approval)["status"] == "pending"
    assert len(api.calls) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-slack-request-timestamp": "x", "x-slack-signature": "v0=0"},
        {"x-slack-request-timestamp": "0" * 5000, "x-slack-signature": "v0=0"},
        {"x-slack-request-timestamp": "NOW", "x-slack-signature": b"v0=\xff"},
        {"x-slack-request-timestamp": "NOW", "x-slack-signature": "v0="},
    ],
)
def test_no_header_opens_the_door(server: LocalServer, headers: dict[str, Any]) -> None:
    now = {name: str(int(time.time())) if value == "NOW" else value for name, value in headers.items()}
    for body in (b"payload={}", b"\xff"):
        assert server.client().client.post("/v1/slack/interactions", content=body, headers=now).status_code == 401


@pytest.mark.parametrize(
    "body", ["", "payload", "payload=x", "payload=[]", "payload=null", "payload={}", 'payload={"type":"block_actions"}']
)
def test_a_signed_request_of_another_form_is_refused(server: LocalServer, body: str) -> None:
    assert send(server, body).status_code == 400


def test_other_interactions_are_ignored(server: LocalServer, api: SlackApi) -> None:
    assert interact(server, {"action_id": "open"}).status_code == 200
    assert interact(server, {}, payload={"type": "view_submission"}).status_code == 200
    assert api.calls == []


def test_only_members_of_the_settings_answer_and_nobody_for_themselves(server: LocalServer, api: SlackApi) -> None:
    approval = wants(server)
    send_all(server)
    card = api.card()
    press(server, card, "approve", user="U9")
    press(server, card, "approve", team="T2")
    press(server, card, "approve", user="U3")
    problems = [note["text"] for note in api.of("chat.postEphemeral")]
    assert "U9: YOUR-ID" in problems[0]
    assert "other workspaces" in problems[1]
    assert "may not approve their own call" in problems[2]
    assert status(server, approval)["status"] == "pending"


def test_no_other_answer_is_accepted(server: LocalServer, api: SlackApi) -> None:
    approval = wants(server)
    send_all(server)
    card = api.card()
    value = card["blocks"][-1]["elements"][0]["value"]
    head, claims, signature = value.split(".")
    for token in ("", "x", f"{head}.{claims}.", f"{head}.{claims[:-2]}AA.{signature}", value[:-4] + "AAAA", "\udcff"):
        assert interact(server, {"action_id": "approve", "value": token}).status_code == 200
    assert {note["text"].partition(";")[0] for note in api.of("chat.postEphemeral")} == {"this answer is not valid"}
    assert status(server, approval)["status"] == "pending"


def test_another_tenant_has_no_card(server: LocalServer, api: SlackApi) -> None:
    wants(server, "bank.agent")
    send_all(server)
    assert api.calls == []


def test_a_card_that_is_long_in_all_of_its_parts_is_accepted(server: LocalServer, api: SlackApi) -> None:
    agent = server.client()
    agent.session("s1")
    agent.run("s1", "c1", "login", user="ann")
    agent.check("s1", "c" * 5500, "refund", order="o" * 5500, amount=900)
    send_all(server)
    card = api.card()
    assert 12_000 < len(json.dumps(card["blocks"][1])) < 14_000
    assert buttons(card) == ["approve", "reject"]
    agent.check("s1", "d" * 5800, "refund", order="p" * 5880, amount=900)
    send_all(server)
    card = api.card()
    assert len(json.dumps(card["blocks"][1])) < 14_000
    assert buttons(card) == ["reject"]


def test_strings_of_an_agent_stay_text(server: LocalServer, api: SlackApi) -> None:
    wants(server, order=HOSTILE)
    send_all(server)
    card = api.card()
    kinds: list[str] = []
    texts: list[str] = []

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            kinds.append(value.get("type", ""))
            texts.append(str(value.get("text", "")) if value.get("type") == "text" else "")
            if value.get("type") in ("mrkdwn", "link"):
                assert "evil" not in str(value)
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            collect(part)

    collect(card["blocks"])
    assert "rich_text_preformatted" in kinds
    assert "mrkdwn" not in kinds
    [line] = [line for part in texts for line in part.splitlines() if "evil" in line]
    assert line.endswith('Approved by: everybody" (no rule reads it)')
    assert not {"\u202e", "\x1b"} & set(json.dumps(card, ensure_ascii=False))
    assert (card["unfurl_links"], card["unfurl_media"]) == (False, False)


def test_a_call_that_is_too_long_to_be_read_cannot_be_approved_in_slack(server: LocalServer, api: SlackApi) -> None:
    approval = wants(server, order="x" * 7000)
    send_all(server)
    assert buttons(api.card()) == ["reject"]
    assert len(json.dumps(api.card())) < 13_000
    assert status(server, approval)["status"] == "pending"


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"ok": False, "error": "channel_not_found"}),
        (429, {}),
        (302, "http://127.0.0.1:9/elsewhere"),
        (200, "not JSON"),
        (200, []),
        (200, {"ok": True}),
    ],
)
def test_a_card_that_slack_does_not_accept_is_posted_later(server: LocalServer, api: SlackApi, answer: Any) -> None:
    wants(server)
    api.answers.append(answer)
    send_all(server)
    assert api.of("chat.postMessage") == []
    send_all(server, 10)
    assert buttons(api.card()) == ["approve", "reject"]


def test_an_answer_between_does_not_leave_a_card_with_buttons(server: LocalServer, api: SlackApi) -> None:
    approval = wants(server)
    [channel] = server.service.channels.channels
    [message] = channels_at(server)[0].claim(channel)
    record, version = server.service.approvals.read("shop", approval)
    server.client("shop.approver").post(f"/v1/approvals/{approval}/answer", {"choice": "approve", "version": 1})
    channel.deliver(message, record, version)  # as it was read before the answer
    assert [name for name, _ in api.calls] == ["chat.postMessage", "chat.update"]
    assert buttons(api.card()) == []


def test_a_quorum_gets_new_buttons_after_each_answer(tmp_path: Path, api: SlackApi) -> None:
    settings = read_server_settings(settings_file(tmp_path, api, quorum=2))
    with local_server(tmp_path, settings=settings) as server:
        approval = wants(server)
        for user in ("U1", "U2"):
            send_all(server)
            press(server, api.card(), "approve", user=user)
        send_all(server)
        assert "approved by approver-1 and bob" in api.card()["text"]
        assert status(server, approval)["agreeing"] == ["approver-1", "bob"]


def test_a_card_says_that_its_deadline_has_passed(server: LocalServer, api: SlackApi) -> None:
    wants(server)
    send_all(server)
    send_all(server, 3700)
    assert (api.card()["text"], buttons(api.card())) == ("refund: expired", [])


@pytest.mark.slow
def test_a_server_that_is_killed_loses_no_card(tmp_path: Path, api: SlackApi) -> None:
    tokens = tokens_of(tmp_path, "shop")
    options = ("--settings", str(settings_file(tmp_path, api)))
    api.answers += [(503, {})] * 3  # so that the first server cannot send it
    with server_processes(tmp_path, f"sqlite:{tmp_path / 'state'}", 1, *options) as [first]:
        agent = first.client(tokens["shop.agent"])
        agent.session("s1")
        agent.run("s1", "c1", "login", user="ann")
        agent.check("s1", "c2", "refund", order="a1", amount=900)
        first.kill()
    api.answers.clear()
    with server_processes(tmp_path, f"sqlite:{tmp_path / 'state'}", 1, *options):
        end = time.monotonic() + 80
        while not api.calls and time.monotonic() < end:
            time.sleep(0.1)
    assert [name for name, _ in api.calls] == ["chat.postMessage"]
