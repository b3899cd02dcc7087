"""Views of calls for the reviewers of a server: after the arguments, and never in place of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guardagent import RemoteGuard
from guardagent.enforcement import HostCall, run
from guardagent.policy.views import MAX_TEXT
from tests.remote_guards import running_server
from tests.server.console.test_application import HOSTILE, Visitor
from tests.server.servers import POLICIES, LocalServer, local_server, local_settings

VIEWS = """\
views:
  refund: "{args.amount} to {outputs.login.account}, {facts.vip}, {args.order}"
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with local_server(tmp_path, settings=local_settings(tmp_path, POLICIES + VIEWS)) as running:
        yield running


def escalated(server: LocalServer, **more: Any) -> str:
    client = server.client()
    client.session()
    client.check("s1", "c1", "login")
    client.record("s1", "c1", '{"account": "A-7"}')
    body = {"id": "c2", "tool": "refund", "args": {"order": HOSTILE, "amount": 900}, "facts": {"vip": True}, **more}
    escalated: str = client.post("/v1/sessions/s1/check", {"call": body}, idempotency_key="k")["approval"]["id"]
    return escalated


def test_a_policy_shows_a_call_after_its_arguments(server: LocalServer) -> None:
    approval = escalated(server)
    visitor = Visitor(server).sign_in("shop.approver")
    for path in ("/approvals", f"/approvals/{approval}"):
        text = visitor.get(path).text
        assert text.index("900") < text.index("As the policy shows it") < text.index("900 to A-7, true, ")
        assert "<script>alert" not in text
    views = server.client("shop.approver").get(f"/v1/approvals/{approval}")["views"]
    assert views == {"policy": f"900 to A-7, true, {HOSTILE}"}
    assert "views" not in server.client("shop.approver").get("/v1/approvals")["approvals"][0]


def test_a_view_of_the_host_is_marked_and_cut_and_ends_with_an_edit(server: LocalServer) -> None:
    approval = escalated(server, view=HOSTILE + "x" * 100_000)
    approver = server.client("shop.approver")
    seen = approver.get(f"/v1/approvals/{approval}")
    assert MAX_TEXT < len(seen["views"]["host"]) < MAX_TEXT + 100
    page = Visitor(server).sign_in("shop.approver").get(f"/approvals/{approval}").text
    assert "As the agent&#39;s host shows it; not checked" in page
    edit = {"choice": "edit", "version": seen["version"], "args": {"order": "W1", "amount": 800}}
    approver.post(f"/v1/approvals/{approval}/answer", edit)
    call = {
        "id": "c2",
        "tool": "refund",
        "args": {"order": HOSTILE, "amount": 900},
        "facts": {"vip": True},
        "view": "old",
    }
    resolved = server.client().post(
        "/v1/sessions/s1/resolve", {"call": call, "approval": approval}, idempotency_key="r"
    )
    again = approver.get(f"/v1/approvals/{resolved.get('approval', {}).get('id', approval)}")
    assert again["views"] == {"policy": "800 to A-7, true, W1"}


def test_a_remote_guard_sends_the_view_of_its_host(tmp_path: Path) -> None:
    """It decides nothing: a view that fails, or that cannot be text, changes no verdict."""
    (tmp_path / "policies.yaml").write_text(POLICIES)
    with running_server(tmp_path / "server", tmp_path / "policies.yaml") as server:
        views = {"refund": lambda args: {"what": "\ud800", "left": 1 / args["left"]}, "login": lambda _: 1 / 0}
        guard: RemoteGuard = server.guard(views=views)
        run(guard, HostCall("login", {}, "c", id="c1"), lambda _: "done")
        for number, left in enumerate((2, 0), 2):
            args = {"order": number, "amount": 900, "left": left}
            assert guard.before(HostCall("refund", args, "c", id=f"c{number}")).decision == "escalate"
        approvals = server.service.approvals.waiting("shop")
    shown = sorted(approval["call"]["view"] for approval in approvals)
    assert shown == ['"name" | "value"\n"what" | "?"\n"left" | 0.5', "(the view failed: ZeroDivisionError)"]
