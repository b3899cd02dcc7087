"""E-mails: links of one's own that answer once, and pages that change nothing by being opened."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest

from guardagent.server.settings import read_server_settings
from tests.server.channels.receivers import MailServer, links, mail_server, send_all, settings_text
from tests.server.servers import POLICIES, LocalServer, local_server

RULES = "policies: {default: {files: policies.yaml, approvals: {quorum: QUORUM}}}\nstate: 'sqlite:FOLDER/state'\n"
ANN, BOB, SELF = "ann@example.com", "bob@example.com", "self@example.com"
HOSTILE = '"><script>alert(1)</script> <b>x</b>\n\nBcc: eve@example.com\r\nX: y\u202e'


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with mail_server() as mail:
        yield mail


def server_of(folder: Path, mail: MailServer, quorum: int = 1) -> Any:
    (folder / "policies.yaml").write_text(POLICIES)
    rules = RULES.replace("QUORUM", str(quorum)).replace("FOLDER", str(folder))
    (folder / "server.yaml").write_text(rules + settings_text(folder, mail=mail))
    return local_server(folder, "shop", "bank", settings=read_server_settings(folder / "server.yaml"))


@pytest.fixture
def server(tmp_path: Path, mail: MailServer) -> Iterator[LocalServer]:
    with server_of(tmp_path, mail) as running_server:
        yield running_server


def wants(server: LocalServer, order: str = "a1", session: str = "s1") -> str:
    agent = server.client()
    agent.session(session)
    agent.run(session, "c1", "login", user="ann")
    wants: str = agent.check(session, "c2", "refund", order=order, amount=900)["approval"]["id"]
    return wants


def status(server: LocalServer, approval: str) -> Any:
    return server.client("shop.approver").get(f"/v1/approvals/{approval}")


def visit(server: LocalServer, path: str, status: int = 200) -> str:
    answer = server.client().client.get(path)
    assert answer.status_code == status, answer.text
    return html.unescape(answer.text)


def submit(server: LocalServer, token: str, status: int = 200, **fields: str) -> str:
    answer = server.client().client.post("/console/answer", data={"token": token, **fields})
    assert answer.status_code == status, answer.text
    return html.unescape(answer.text)


def tokens_on(page: str) -> list[str]:
    return re.findall(r'name="token" value="([^"]+)"', page)


def token_of(link: str) -> str:
    return link.partition("token=")[2]


def test_a_link_shows_the_call_and_its_form_answers_once(server: LocalServer, mail: MailServer) -> None:
    approval = wants(server)
    send_all(server)
    [to_ann] = mail.to(ANN)
    assert to_ann["subject"] == "Approve refund?"
    for _ in range(2):  # such as by a mail scanner
        page = visit(server, links(to_ann)[0])
    assert status(server, approval)["status"] == "pending"
    assert "amount: 900" in page
    assert "You answer as approver-1." in page
    assert "Your answer was taken." in submit(server, tokens_on(page)[0])
    assert "decided by approver-1" in submit(server, tokens_on(page)[0], 409)
    assert [step["by"] for step in status(server, approval)["steps"]] == ["approver-1"]
    entries = server.client("shop.auditor").get("/v1/log?kind=approval_answer")["entries"]
    assert [(entry["by"], entry["via"]) for entry in entries] == [("approver-1", "email")]


def test_an_answer_from_elsewhere_shows_on_the_page_and_in_a_message(server: LocalServer, mail: MailServer) -> None:
    approval = wants(server)
    send_all(server)
    page = visit(server, links(mail.to(BOB)[0])[1])
    answer = {"choice": "reject", "reason": "no", "version": 1}
    server.client("shop.approver").post(f"/v1/approvals/{approval}/answer", answer)
    assert "rejected; decided by approver-1" in submit(server, tokens_on(page)[0], 409)
    page = visit(server, links(mail.to(BOB)[0])[1])
    assert "This is decided already." in page
    assert "refund: rejected by approver-1, " in page
    assert tokens_on(page) == []
    send_all(server)
    assert mail.to(BOB)[1]["subject"].startswith("refund: rejected by approver-1, ")
    assert links(mail.to(BOB)[1]) == []


def test_a_rejection_needs_a_reason(server: LocalServer, mail: MailServer) -> None:
    approval = wants(server)
    send_all(server)
    page = visit(server, links(mail.to(ANN)[0])[1])
    assert "the reason is empty" in submit(server, tokens_on(page)[1], 422, reason=" ").lower()
    submit(server, tokens_on(page)[1], reason="not this customer")
    assert status(server, approval)["steps"][0]["reason"] == "not this customer"


def test_nobody_gets_links_for_a_call_of_their_own(server: LocalServer, mail: MailServer) -> None:
    wants(server)
    send_all(server)
    assert [len(links(mail.to(address)[0])) for address in (ANN, BOB, SELF)] == [2, 2, 0]


def claims_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims


def test_only_tokens_of_this_server_for_e_mails_are_accepted(server: LocalServer, mail: MailServer) -> None:
    approval = wants(server)
    send_all(server)
    token = token_of(links(mail.to(ANN)[0])[0])
    claims, (head, body, signature) = claims_of(token), token.split(".")
    unsigned = jwt.encode(claims, "", "none")
    other = jwt.encode(claims, "c" * 32, "HS256")
    for bad in ("", "x", "a.b.c", "\x00", token[:-4], f"{head}.{body}x.{signature}", unsigned, other, token * 9):
        submit(server, bad, 403)
        visit(server, f"/console/answer?token={bad.encode().hex() if bad == chr(0) else bad}", 403)
    for change in (
        {"aud": "slack", "via": "slack"},
        {"exp": 1},
        {"tenant": "bank"},
        {"by": "eve"},
        {"more": 1},
        {"version": 0},
        {"digest": "0" * 64},
        {"requested": 1.0},
    ):
        submit(
            server,
            jwt.encode({**claims, **change}, "a" * 32, "HS256"),
            409 if len(change) == 1 and set(change) & {"version", "digest", "requested"} else 403,
        )
    for missing in ("exp", "aud", "by"):
        part = {name: value for name, value in claims.items() if name != missing}
        submit(server, jwt.encode(part, "a" * 32, "HS256"), 403)
    assert status(server, approval)["status"] == "pending"
    submit(server, jwt.encode(claims, "b" * 40, "HS256"))  # the other secret of the file
    assert status(server, approval)["status"] == "approved"


def test_whoever_is_taken_off_the_settings_answers_no_more(tmp_path: Path, mail: MailServer) -> None:
    with server_of(tmp_path, mail) as server:
        approval = wants(server)
        send_all(server)
        settings = server.service.settings
    link = links(mail.to(ANN)[0])[0]
    left = replace(settings.email[0], to={BOB: "bob"})
    with local_server(tmp_path, settings=replace(settings, email=(left,))) as server:
        submit(server, token_of(link), 403)
        assert status(server, approval)["status"] == "pending"


def test_a_form_of_another_site_is_refused(server: LocalServer, mail: MailServer) -> None:
    approval = wants(server)
    send_all(server)
    token = token_of(links(mail.to(ANN)[0])[0])
    headers = {"sec-fetch-site": "cross-site"}
    assert server.client().client.post("/console/answer", data={"token": token}, headers=headers).status_code == 403
    assert status(server, approval)["status"] == "pending"


def test_a_quorum_gets_new_links_after_each_answer(tmp_path: Path, mail: MailServer) -> None:
    with server_of(tmp_path, mail, quorum=2) as server:
        approval = wants(server)
        send_all(server)
        assert "Others have to agree, too." in submit(server, token_of(links(mail.to(ANN)[0])[0]))
        assert "earlier state" in visit(server, links(mail.to(BOB)[0])[0])
        submit(server, token_of(links(mail.to(BOB)[0])[0]), 409)
        send_all(server)
        assert links(mail.to(ANN)[1]) == []
        submit(server, token_of(links(mail.to(BOB)[1])[0]))
        assert status(server, approval)["agreeing"] == ["approver-1", "bob"]


def test_strings_of_an_agent_are_text(server: LocalServer, mail: MailServer) -> None:
    wants(server, order=HOSTILE)
    send_all(server)
    [sent] = mail.to(ANN)
    assert sent["bcc"] is None
    assert sent["x"] is None
    markup = sent.get_body(("html",)).get_content()  # type: ignore[union-attr]
    plain = sent.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    for text in (markup, server.client().client.get(links(sent)[0]).text):
        assert "<script>" not in text
        assert "&lt;script&gt;" in text
    assert "\u202e" not in markup + plain
    assert not re.search(r"^Bcc", plain, re.MULTILINE)


def test_an_e_mail_that_is_not_accepted_is_sent_again_to_that_receiver_alone(
    server: LocalServer, mail: MailServer
) -> None:
    mail.refusals = 1
    wants(server)
    send_all(server)
    assert len(mail.mails) == 2
    send_all(server, 10)
    assert sorted(to for [to], _ in mail.mails) == [ANN, BOB, SELF]
    assert len({sent["message-id"] for _, sent in mail.mails}) == 3


def test_beyond_this_machine_no_e_mail_goes_without_tls(tmp_path: Path, mail: MailServer) -> None:
    mail.url = mail.url.replace("127.0.0.1", "127.1")  # the same machine by a name that does not say so
    with server_of(tmp_path, mail) as server:
        wants(server)
        send_all(server)
    assert mail.mails == []


def test_each_stage_gets_links_as_it_begins(tmp_path: Path, mail: MailServer) -> None:
    stages = "[{roles: [lead], deadline: 30m}, {roles: [director], deadline: 30m}]"
    with server_of(tmp_path, mail) as server:
        settings = server.service.settings
    path = settings.policies["default"].files[0]
    path.write_text(POLICIES.replace("on_violation: escalate", f"on_violation: escalate\n    escalate_to: {stages}"))
    assert settings.answers is not None
    answers = replace(settings.answers, groups={"lead": ("approver-1",), "director": ("bob",)})
    with local_server(tmp_path, settings=replace(settings, answers=answers)) as server:
        approval = wants(server)
        send_all(server)
        assert [len(links(mail.to(address)[0])) for address in (ANN, BOB)] == [2, 0]
        plain = mail.to(BOB)[0].get_body(("plain",))
        assert plain is not None
        assert "waits for lead until" in plain.get_content()
        send_all(server, 1801)
        assert len(mail.to(BOB)) == 2
        submit(server, token_of(links(mail.to(ANN)[0])[0]))
        assert status(server, approval)["status"] == "approved"
