"""Approvals on a server: quorum, deadlines, stale answers, other tenants, restarts, two servers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from guardagent.server.approvals import APPROVAL
from guardagent.server.settings import ApprovalRules, PolicySettings, ServerSettings
from tests.server.servers import POLICIES, LocalServer, ServerClient, tokens_of

LARGE = {"id": "c2", "tool": "refund", "args": {"order": "W1", "amount": 500}}


class Desk:
    """Servers of one state, with an agent that has logged in and wants a large refund."""

    def __init__(self, folder: Path, **rules: Any) -> None:
        (folder / "policies.yaml").write_text(POLICIES)
        self.folder, self.tokens = folder, tokens_of(folder, "shop", "bank")
        policy = PolicySettings((folder / "policies.yaml",), approvals=ApprovalRules(**rules))
        self.settings = ServerSettings({"default": policy}, state=f"sqlite:{folder / 'state'}")
        self.server = self.new()
        self.agent = self.server.client()
        self.session = self.agent.session()
        self.agent.run(self.session, "c1", "login")

    def new(self) -> LocalServer:
        return LocalServer(self.folder, self.tokens, self.settings)

    def requested(self, facts: Any = None) -> Any:
        call = {**LARGE, "facts": facts} if facts else LARGE
        post = self.agent.post(f"/v1/sessions/{self.session}/check", {"call": call}, idempotency_key="k1")
        assert (post["verdict"]["decision"], post["in_flight"]) == ("escalate", False)
        return post["approval"]

    def answer(self, approval: Any, choice: str, status: int = 200, who: str = "shop.approver", **more: Any) -> Any:
        body = {"choice": choice, "version": approval["version"], **more}
        return self.server.client(who).post(f"/v1/approvals/{approval['id']}/answer", body, status)

    def resolved(
        self, approval: Any, client: ServerClient | None = None, status: int = 200, key: str = "r", facts: Any = None
    ) -> Any:
        body = {"call": {**LARGE, "facts": facts} if facts else LARGE, "approval": approval["id"]}
        path = f"/v1/sessions/{self.session}/resolve"
        return (client or self.agent).post(path, body, status, idempotency_key=key)


def test_an_approved_call_runs_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    approval = desk.requested()
    assert (approval["call"]["args"], approval["rules"]) == (LARGE["args"], ["small_refunds"])
    pending = desk.resolved(approval, key="early")
    assert (pending["verdict"]["decision"], pending["approval"]["id"]) == ("escalate", approval["id"])
    assert desk.answer(approval, "approve")["status"] == "approved"
    other = desk.new().client()  # a server that has just started
    resolved = desk.resolved(approval, other)
    assert (resolved["verdict"]["label"], resolved["in_flight"]) == (0, True)
    assert desk.resolved(approval, other)["in_flight"]  # the same request again: the same call
    desk.agent.record(desk.session, "c2")
    assert desk.resolved(approval, key="again")["verdict"]["label"] == 1
    assert desk.agent.get(f"/v1/approvals/{approval['id']}").keys() == {"id", "version", "status", "deadline"}
    assert desk.agent.get(f"/v1/approvals/{approval['id']}")["status"] == "used"


def test_a_rejected_call_is_denied_with_the_reason(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    approval = desk.requested()
    desk.answer(approval, "reject", reason="<b>too much</b>")
    verdict = desk.resolved(approval)["verdict"]
    assert (verdict["decision"], verdict["reasons"]) == ("deny", ["a reviewer rejected this call: <b>too much</b>"])
    again = desk.answer(desk.server.client("shop.approver").get(f"/v1/approvals/{approval['id']}"), "approve", 409)
    assert again["error"]["message"] == "this approval is rejected; decided by approver-1"


def test_an_edited_call_runs_with_the_new_arguments(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    approval = desk.requested()
    edited = desk.answer(approval, "edit", args={"order": "W1", "amount": 50})
    assert (edited["status"], edited["args"]) == ("edited", {"order": "W1", "amount": 50})
    resolved = desk.resolved(approval)
    assert (resolved["verdict"]["label"], resolved["in_flight"]) == (0, True)
    assert resolved["args"] == {"order": "W1", "amount": 50}
    assert desk.resolved(approval)["args"] == {"order": "W1", "amount": 50}  # as if the first answer was lost
    shown = desk.server.client("shop.auditor").get(f"/v1/sessions/{desk.session}")
    assert shown["calls"][-1]["args"] == {"order": "W1", "amount": 50}


def test_an_edit_that_breaks_a_rule_does_not_run(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    approval = desk.requested()
    desk.answer(approval, "edit", args={"order": "W1", "amount": 5000})
    resolved = desk.resolved(approval)
    assert (resolved["verdict"]["label"], resolved["in_flight"]) == (1, False)


def test_an_edit_that_needs_approval_opens_a_request_of_its_own(tmp_path: Path) -> None:
    """The agent's host goes on with the call that it proposed, and gets the arguments that may run."""
    desk = Desk(tmp_path)
    approval = desk.requested()
    for amount in (400, 300):
        desk.answer(approval, "edit", args={"order": "W1", "amount": amount})
        resolved = desk.resolved(approval, key=f"r{amount}")
        assert (resolved["verdict"]["decision"], resolved["in_flight"]) == ("escalate", False)
        assert resolved["approval"]["call"]["args"] == {"order": "W1", "amount": amount}
        assert resolved["approval"]["id"] != approval["id"]
        assert desk.resolved(approval, key=f"again{amount}")["approval"]["id"] == resolved["approval"]["id"]
        approval = resolved["approval"]
        assert desk.resolved(approval, key=f"early{amount}")["verdict"]["decision"] == "escalate"
    desk.answer(approval, "approve")
    resolved = desk.resolved(approval, desk.new().client())
    assert (resolved["verdict"]["label"], resolved["args"]) == (0, {"order": "W1", "amount": 300})
    assert desk.resolved(approval)["args"] == {"order": "W1", "amount": 300}
    desk.agent.record(desk.session, "c2")
    assert desk.resolved(approval, key="twice")["verdict"]["label"] == 1
    desk.resolved({"id": "a_none"}, status=404)


@pytest.mark.parametrize(
    ("choice", "of", "status"),
    [
        ("approve", None, 200),
        ("approve", "own", 200),
        ("reject", "own", 200),
        ("edit", "own", 200),
        ("approve", "call", 200),
        ("approve", "other", 409),
        ("reject", "other", 409),
        ("edit", "other", 409),
        ("approve", "", 409),
        ("approve", "other facts", 409),
    ],
)
def test_an_answer_that_names_another_call_is_refused(tmp_path: Path, choice: str, of: Any, status: int) -> None:
    desk = Desk(tmp_path)
    approval = desk.requested({"balance": 3})
    call = approval["digest"].partition(".")[0]
    names = {"own": approval["digest"], "call": call, "other": "0" * 64, "other facts": f"{call}.+{'0' * 64}"}
    args: dict[str, Any] = {"args": {"order": "W1", "amount": 50}} if choice == "edit" else {}
    answered = desk.answer(approval, choice, status, of=names.get(of, of), **args)
    assert status == 200 or "names another call, or other facts" in answered["error"]["message"]


@pytest.mark.parametrize("later", [{}, {"balance": -1}, {"balance": 3.5}, {"balance": 3, "vip": True}])
def test_an_answer_is_for_the_facts_that_were_shown(tmp_path: Path, later: Any) -> None:
    """With other facts a new request opens, and the old answer stays one for the old facts."""
    desk = Desk(tmp_path)
    approval = desk.requested({"balance": 3})
    desk.answer(approval, "approve")
    for key in ("one", "two"):
        resolved = desk.resolved(approval, key=key, facts=later)
        assert (resolved["verdict"]["decision"], resolved["in_flight"]) == ("escalate", False)
        assert "other ones than a reviewer saw" in resolved["verdict"]["reasons"][-1]
        assert (resolved["approval"]["status"], resolved["approval"]["call"].get("facts", {})) == ("pending", later)
    desk.answer(resolved["approval"], "approve")
    assert desk.resolved(resolved["approval"], facts=later)["verdict"]["label"] == 0


def test_a_late_approval_denies(tmp_path: Path) -> None:
    desk = Desk(tmp_path, seconds=0.05)
    approval = desk.requested()
    threading.Event().wait(0.1)
    assert "expired" in desk.answer(approval, "approve", 409)["error"]["message"]
    assert "the approval is expired" in desk.resolved(approval)["verdict"]["reasons"][0]
    assert desk.requested()["version"] == 2  # proposed again, it may wait again


def test_two_approvers_and_a_stale_answer(tmp_path: Path) -> None:
    desk = Desk(tmp_path, quorum=2)
    approval = desk.requested()
    first = desk.answer(approval, "approve")
    assert (first["status"], first["agreeing"]) == ("pending", ["approver-1"])
    assert "has answered" in desk.answer(first, "approve", 409)["error"]["message"]
    assert "has answered" in desk.answer(approval, "approve", 409)["error"]["message"]
    assert desk.resolved(approval)["verdict"]["decision"] == "escalate"


def test_who_may_do_what(tmp_path: Path) -> None:
    """Neither an agent nor another tenant approves; another call has no use for an approval."""
    desk = Desk(tmp_path)
    approval = desk.requested()
    for who in ("shop.agent", "shop.other", "shop.auditor", "shop.admin", "bank.agent"):
        desk.answer(approval, "approve", 403, who)
    desk.answer(approval, "approve", 404, "bank.approver")
    desk.server.client("shop.other").get(f"/v1/approvals/{approval['id']}", 404)
    desk.server.client("bank.approver").get(f"/v1/approvals/{approval['id']}", 404)
    assert desk.server.client("bank.approver").get("/v1/approvals")["approvals"] == []
    assert [approval["id"] for approval in desk.server.client("shop.approver").get("/v1/approvals")["approvals"]] == [
        approval["id"]
    ]
    desk.answer(approval, "approve")
    other = {**LARGE, "args": {"order": "W1", "amount": 501}}
    body = {"call": other, "approval": approval["id"]}
    desk.agent.post(f"/v1/sessions/{desk.session}/resolve", body, 404)


@pytest.mark.parametrize("choices", [("approve", "reject"), ("approve", "edit"), ("reject", "edit")])
def test_two_answers_at_once(tmp_path: Path, choices: tuple[str, str]) -> None:
    desk = Desk(tmp_path)
    approval = desk.requested()
    servers = [desk.new(), desk.new()]

    def answer(at: int) -> int:
        more = {"args": {"order": "W1", "amount": 1}} if choices[at] == "edit" else {}
        body = {"choice": choices[at], "version": approval["version"], **more}
        path = f"/v1/approvals/{approval['id']}/answer"
        return servers[at].client("shop.approver").request("POST", path, body).status_code

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(answer, (0, 1))) == [200, 409]


# --- waiting


def waiting(desk: Desk, number: int, query: str, meanwhile: Callable[[], object]) -> tuple[int, list[Any]]:
    """Lets requests wait for an approval. Returns how many have ended once `meanwhile` was done, and their answers."""

    async def run() -> tuple[int, list[Any]]:
        headers = {"authorization": f"Bearer {desk.tokens['shop.agent']}", "host": "testserver"}
        transport = httpx.ASGITransport(desk.server.application)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=headers) as client:
            tasks = [asyncio.create_task(client.get(f"/v1/approvals/{query}", timeout=60)) for _ in range(number)]
            await asyncio.sleep(max(0.1, number / 400))  # they begin to wait
            await asyncio.to_thread(meanwhile)
            ended = sum(task.done() for task in tasks)
            return ended, [(answer.status_code, answer.json()) for answer in await asyncio.gather(*tasks)]

    return asyncio.run(run())


def test_waiting_requests_hold_up_no_other_one(tmp_path: Path) -> None:
    desk = Desk(tmp_path, seconds=3.0)
    approval = desk.requested()

    def meanwhile() -> None:
        desk.server.client("nobody").get("/readyz")
        assert desk.agent.check(desk.session, "c3", "refund", order="W2", amount=1)["in_flight"]

    ended, answers = waiting(desk, 200, f"{approval['id']}?wait=20", meanwhile)
    assert ended == 0
    assert {(status, answer["status"]) for status, answer in answers} == {(200, "expired")}


@pytest.mark.parametrize("is_same", [True, False], ids=["the same server", "another server"])
@pytest.mark.parametrize(("choice", "status"), [("approve", "approved"), ("reject", "rejected")])
def test_an_answer_ends_the_waiting(is_same: bool, choice: str, status: str, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    approval = desk.requested()
    answering = desk.server if is_same else desk.new()
    body = {"choice": choice, "version": approval["version"], "reason": "because"}

    def answer() -> None:
        answering.client("shop.approver").post(f"/v1/approvals/{approval['id']}/answer", body)

    _, answers = waiting(desk, 20, f"{approval['id']}?wait=20", answer)
    assert {(code, shown["status"]) for code, shown in answers} == {(200, status)}


@pytest.mark.parametrize(
    ("query", "status"),
    [("{}", 200), ("{}?wait=0", 200), ("{}?wait=x", 422), ("{}?wait=-1", 422), ("a_unknown?wait=20", 404)],
)
def test_nothing_to_wait_for(query: str, status: int, tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    ended, answers = waiting(desk, 3, query.format(desk.requested()["id"]), lambda: None)
    assert (ended, {code for code, _ in answers}) == (3, {status})


def test_readers_share_a_look_at_what_waits_and_see_answers_at_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    server, other = desk.server.service.approvals, desk.new().service.approvals
    assert (server.waiting("shop"), other.waiting("shop")) == ([], [])
    approval = desk.requested()
    assert [json["id"] for json in server.waiting("shop")] == [approval["id"]]
    assert other.waiting("shop") == [], "the look of a second ago"
    desk.answer(approval, "approve")
    assert server.waiting("shop") == []


def test_the_next_look_has_what_another_server_changed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    other = desk.new().service
    many = [desk.agent.check(desk.session, f"m{at}", "refund", order="o1", amount=901 + at) for at in range(60)]
    names = [answer["approval"]["id"] for answer in many]
    assert [json["id"] for json in other.approvals.waiting("shop")] == names
    desk.answer(many[0]["approval"], "approve")
    desk.answer(many[1]["approval"], "edit", args={"order": "o1", "amount": 1})
    other.stores.state.delete(APPROVAL, "shop", names[2])
    new = desk.requested()["id"]
    for _ in range(100):  # a look is shared for a second at least, and for 100 times as long as it took
        time.sleep(0.2)
        ids = [json["id"] for json in other.approvals.waiting("shop")]
        if new in ids:
            break
    assert ids == [*names[3:], new]
