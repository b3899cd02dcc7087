"""Grants in the console, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.console.test_application import Visitor
from tests.server.grants.test_grants import POLICY
from tests.server.servers import LocalServer, local_server, local_settings

HOSTILE = "<b>4711</b> `x"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with local_server(tmp_path, settings=local_settings(tmp_path, POLICY)) as running_server:
        yield running_server


def test_a_reviewer_grants_calls_and_revokes_them(server: LocalServer) -> None:
    agent, visitor = server.client(), Visitor(server).sign_in("shop.approver")
    name = agent.check(agent.session(), "c1", "refund", customer=HOSTILE, amount=300)["approval"]["id"]
    page = visitor.get(f"/approvals/{name}").text
    assert "Approve up to 4 calls like this" in page
    for field, value in {"up_to.amount": "300", "up_to.sum": "1000", "calls": "4", "for": "1h"}.items():
        assert f'name="{field}" value="{value}"' in page
    form = {"csrf": visitor.csrf(), "choice": "grant", "version": "1", "calls": "2", "for": "30m", "up_to.sum": "600"}
    assert "expected a number from 0 to 300" in visitor.post(
        f"/approvals/{name}", {**form, "up_to.amount": "301"}, 422
    ).text.replace("&#39;", "'")
    assert "is not a number" in visitor.post(f"/approvals/{name}", {**form, "up_to.amount": "many"}, 422).text
    visitor.post(f"/approvals/{name}", {**form, "up_to.amount": "300"})
    answered = visitor.get(f"/approvals?answered={name}").text
    assert "You granted `refund` with" in answered
    assert "at most 2 calls within 30 minutes: see <a href=" in answered
    page = visitor.get("/grants").text
    assert "0 of 2 calls, 0 of 600 in all" in page
    assert "<b>4711" not in page
    [grant] = server.client("shop.auditor").get("/v1/grants")["grants"]
    assert f"/grants/{grant['id']}" in visitor.get("/sessions/s1").text
    assert ">Revoke<" in page
    assert ">Revoke<" not in Visitor(server).sign_in("shop.auditor").get(f"/grants/{grant['id']}").text
    visitor.post(f"/grants/{grant['id']}", {"csrf": visitor.csrf()})
    assert "revoked" in visitor.get(f"/grants/{grant['id']}").text


def test_a_call_that_may_only_be_approved_alone_has_no_such_form(server: LocalServer) -> None:
    agent, visitor = server.client(), Visitor(server).sign_in("shop.approver")
    name = agent.check(agent.session(), "c1", "refund", customer="4711", amount=900)["approval"]["id"]
    assert "calls like this" not in visitor.get(f"/approvals/{name}").text
