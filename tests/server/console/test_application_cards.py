"""The cards of the approvals page without a browser: the calls of a turn, answered together or one by one."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.approvals.test_approval_stages import staged_server, wanted, with_groups
from tests.server.console.test_application import Visitor
from tests.server.servers import LocalServer, local_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with local_server(tmp_path, "shop", "bank") as running_server:
        yield running_server


def other_session(server: LocalServer, name: str) -> str:
    agent = server.client("shop.other")
    agent.session(name)
    agent.run(name, "c1", "login", user="ann")
    approval: str = agent.check(name, "c2", "refund", order="w9", amount=500)["approval"]["id"]
    return approval


def cards_of(page: str) -> list[list[str]]:
    """The ids of the calls of each card."""
    return [re.findall(r'data-key="(\w+)"', card) for card in page.split('<li class="card"')[1:]]


def form_of(page: str, button: str) -> dict[str, str]:
    """The fields of the form with a button."""
    form = next(form for form in re.findall(r"<form method=\"post\".*?</form>", page, re.DOTALL) if button in form)
    choice = re.search(r'name="choice" value="(\w+)"', form)
    assert choice
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)
    return {**{name: html.unescape(value) for name, value in fields}, "choice": choice[1]}


def answered(visitor: Visitor, fields: dict[str, str]) -> str:
    target = visitor.post("/approvals/answers", fields).headers["location"]
    page: str = visitor.get(target.removeprefix("/console")).text
    return page


def statuses(server: LocalServer, approvals: list[Any]) -> list[str]:
    reader = server.client("shop.approver")
    return [reader.get(f"/v1/approvals/{approval['id']}")["status"] for approval in approvals]


def test_the_calls_of_a_session_are_one_card_as_urgent_as_its_most_urgent_call(server: LocalServer) -> None:
    first, *_ = approvals = wanted(server, 500)
    alone = other_session(server, "s2")
    approvals += [server.client().check("s1", "late", "refund", order="w7", amount=700)["approval"]]
    visitor = Visitor(server).sign_in("shop.approver")
    page = visitor.get("/approvals").text
    assert cards_of(page) == [[approval["id"] for approval in approvals], [alone]]
    assert "Waiting: 3" in page
    assert "2 calls of session s1" in page
    assert cards_of(visitor.get("/approvals?agent=other-1").text) == [[alone]]
    shown = visitor.get(f"/approvals/{first['id']}").text
    assert f'href="/console/approvals/{approvals[1]["id"]}"' in shown
    assert alone not in shown
    assert "Others of the same turn" not in visitor.get(f"/approvals/{alone}").text


def test_all_calls_of_a_card_are_approved_together(server: LocalServer) -> None:
    approvals = wanted(server, 500, 600, 700)
    visitor = Visitor(server).sign_in("shop.approver")
    page = answered(visitor, form_of(visitor.get("/approvals").text, "Approve all 3"))
    assert "<b>3 approved.</b>" in page
    assert statuses(server, approvals) == ["approved"] * 3
    call = {"id": "r1", "tool": "refund", "args": {"order": "w1", "amount": 600}}
    resolved = server.client().post("/v1/sessions/s1/resolve", {"call": call, "approval": approvals[1]["id"]})
    assert resolved["in_flight"], "each is judged again, as it is resolved"
    assert "3 approved" not in Visitor(server).sign_in("shop.auditor").get("/approvals").text


def test_all_calls_of_a_card_are_rejected_with_one_reason(server: LocalServer) -> None:
    approvals = wanted(server, 500, 600)
    visitor = Visitor(server).sign_in("shop.approver")
    fields = form_of(visitor.get("/approvals").text, "Reject all 2")
    visitor.post("/approvals/answers", fields, 422)
    assert statuses(server, approvals) == ["pending"] * 2
    page = answered(visitor, {**fields, "reason": "ask <b>first</b>"})
    assert "<b>2 rejected.</b>" in page
    assert page.count("ask &lt;b&gt;first") == 2
    assert statuses(server, approvals) == ["rejected"] * 2


def test_what_was_answered_meanwhile_is_named_and_the_others_are_taken(server: LocalServer, tmp_path: Path) -> None:
    approvals = wanted(server, 500, 600, 700)
    with_groups(server, tmp_path)
    visitor = Visitor(server).sign_in("shop.approver")
    fields = form_of(visitor.get("/approvals").text, "Approve all 3")
    body = {"choice": "reject", "version": 1, "reason": "no"}
    server.client("boss").post(f"/v1/approvals/{approvals[1]['id']}/answer", body)
    page = " ".join(answered(visitor, fields).split())
    assert "<b>2 approved; 1 not taken.</b>" in page
    assert "not taken; answered by boss meanwhile, it is rejected." in page
    assert statuses(server, approvals) == ["approved", "rejected", "approved"]


@pytest.mark.parametrize("calls", ["", "a", "a 1", "a x c", "a 1 b c", ",", "a_none 1 b", "a 1 b," * 40])
def test_a_form_without_calls_answers_nothing(server: LocalServer, calls: str) -> None:
    approvals = wanted(server, 500, 600)
    visitor = Visitor(server).sign_in("shop.approver")
    status = 303 if calls == "a_none 1 b" else 422
    visitor.post("/approvals/answers", {"csrf": visitor.csrf(), "choice": "approve", "calls": calls}, status)
    assert statuses(server, approvals) == ["pending"] * 2


def test_an_answer_to_a_card_is_of_an_approver_of_the_tenant_and_of_its_page(server: LocalServer) -> None:
    approvals = wanted(server, 500, 600)
    fields = form_of(Visitor(server).sign_in("shop.approver").get("/approvals").text, "Approve all 2")
    for who, status in {"shop.auditor": 403, "shop.admin": 403, "bank.approver": 303, "shop.approver": 422}.items():
        visitor = Visitor(server).sign_in(who)
        token = "0" * 64 if who == "shop.approver" else visitor.csrf()
        visitor.post("/approvals/answers", {**fields, "csrf": token}, status)
    assert statuses(server, approvals) == ["pending"] * 2
    assert "Approve all" not in Visitor(server).sign_in("shop.auditor").get("/approvals").text


# --- stages


def test_a_card_says_for_whom_it_waits_and_only_they_have_buttons(tmp_path: Path) -> None:
    first = "[{roles: [finance-lead], deadline: 30m}, {roles: [director, ceo]}]"
    with staged_server(tmp_path, first) as running:
        server = with_groups(running, tmp_path)
        approvals = wanted(server, 500, 5000)
        waits = r"Waits for <b>finance-lead</b> until <time[^>]*>(\d{4}-\d\d-\d\d )?\d\d:\d\d UTC</time>"
        later = "; then for <b>director</b> or <b>ceo</b>"
        stranger = Visitor(server).sign_in("shop.approver")
        for path in ("/approvals", f"/approvals/{approvals[0]['id']}"):
            page = stranger.get(path).text
            assert re.search(waits + later, page)
            assert "You are in no group that may answer now" in page
            assert "data-approve" not in page
        lead = Visitor(server).sign_in("lead")
        page = lead.get("/approvals").text
        assert "(finance-lead)" in page, "whose groups are shown at the side"
        assert "Waits for <b>director</b>" in page, "the other rule of the large call"
        page = " ".join(answered(lead, form_of(page, "Approve all 2")).split())
        assert "<b>2 approved.</b>" in page
        assert statuses(server, approvals) == ["approved", "pending"]
        refused = stranger.post(
            f"/approvals/{approvals[1]['id']}", {"csrf": stranger.csrf(), "choice": "approve", "version": "2"}, 403
        )
        assert "expected an approver of the group &#39;director&#39;" in refused.text


def test_what_waits_for_others_comes_after_what_an_approver_may_answer(tmp_path: Path) -> None:
    with staged_server(tmp_path, "[{roles: [finance-lead]}]") as running:
        server = with_groups(running, tmp_path)
        [large] = wanted(server, 5000)
        server.client("lead").post(f"/v1/approvals/{large['id']}/answer", {"choice": "approve", "version": 1})
        urgent, small = [large["id"]], [other_session(server, "s2")]
        for who, cards in (("lead", [small, urgent]), ("boss", [urgent, small]), ("shop.auditor", [urgent, small])):
            assert cards_of(Visitor(server).sign_in(who).get("/approvals").text) == cards
