"""Grants on a server: what they cover, what ends them, and who may make and revoke them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from guardagent.server.approvals import ApprovalRecord
from guardagent.server.service.guard_service import Retention
from guardagent.server.settings import ApprovalRules, PolicySettings, RetentionSettings, ServerSettings
from tests.server.servers import LocalServer, ServerClient, tokens_of

SCOPE = "tool: refund, same: [customer], up_to: {amount: 300, sum: 1000}, any: [note], calls: 4, for: 1h"
POLICY = f"""\
version: 1
failed_output: ^Error
policies:
  - id: small
    temporal: forall(refund(amount=a), a <= 100)
    on_violation: escalate
    message: at most 100
    approvals: {{scope: {{{SCOPE}}}}}
  - id: banned
    temporal: forall(refund(customer=c), c != "mallory")
    message: not to mallory
"""
ALSO = """\
  - id: also
    temporal: forall(refund(amount=a), a <= 200)
    on_violation: escalate
"""
WIDER = SCOPE.replace("300, sum: 1000", "250").replace("4, for: 1h", "9, for: 9h")
WIDE = f"{ALSO}    approvals: {{scope: {{{WIDER}}}}}\n"


class Shop:
    """A server with an agent that wants large refunds."""

    def __init__(self, folder: Path, policy: str = POLICY, **rules: Any) -> None:
        (folder / "policies.yaml").write_text(policy)
        self.folder, self.tokens = folder, tokens_of(folder, "shop", "bank")
        settings = PolicySettings((folder / "policies.yaml",), principal="host", approvals=ApprovalRules(**rules))
        self.settings = ServerSettings({"default": settings}, state=f"sqlite:{folder / 'state'}")
        self.server = self.new()
        self.agent = self.server.client()
        self.session = self.agent.session()
        self._calls = 0

    def new(self) -> LocalServer:
        return LocalServer(self.folder, self.tokens, self.settings)

    def check(self, client: ServerClient | None = None, session: str = "", **args: Any) -> Any:
        self._calls += 1
        return (client or self.agent).check(session or self.session, f"c{self._calls}", "refund", **args)

    def runs(self, **args: Any) -> bool:
        return bool(self.check(**args)["in_flight"])

    def answer(self, approval: Any, status: int = 200, who: str = "shop.approver", **more: Any) -> Any:
        body = {"choice": "approve", "version": approval["version"], **more}
        return self.server.client(who).post(f"/v1/approvals/{approval['id']}/answer", body, status)

    def resolve(self, approval: Any, client: ServerClient | None = None) -> Any:
        self._calls += 1
        call = {name: approval["call"][name] for name in ("id", "tool", "args")}
        body = {"call": call, "approval": approval["id"]}
        path = f"/v1/sessions/{self.session}/resolve"
        return (client or self.agent).post(path, body, idempotency_key=f"r{self._calls}")

    def grants(self) -> Any:
        return self.server.client("shop.auditor").get("/v1/grants")["grants"]

    def granted(self, customer: Any = "4711", amount: Any = 300, **grant: Any) -> Any:
        """Grants calls like one, which runs. Returns the grant."""
        approval = self.check(customer=customer, amount=amount)["approval"]
        self.answer(approval, grant=grant)
        assert self.resolve(approval)["in_flight"]
        return self.grants()[0]

    def revoke(self, grant: Any, who: str = "shop.approver", status: int = 200) -> Any:
        return self.server.client(who).post(f"/v1/grants/{grant['id']}/revoke", {}, status)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_calls_like_the_approved_one_run_up_to_its_bounds(shop: Shop) -> None:
    grant = shop.granted()
    assert (grant["by"], grant["rule"], grant["same"]) == (["approver-1"], "small", {"customer": "4711"})
    for other in ({"customer": "4712"}, {"customer": 4711}, {"amount": 300.5}, {"amount": "150"}, {"order": 1}):
        assert not shop.runs(**{"customer": "4711", "amount": 300, **other}), other
    assert shop.runs(customer="4711", amount=300, note="x")
    assert shop.runs(customer="4711", amount=300)
    assert not shop.runs(customer="4711", amount=101), "1,000 in all"
    assert shop.runs(customer="4711", amount=50), "no rule asks"
    assert (shop.grants()[0]["used"], shop.grants()[0]["left"]) == ({"calls": 3, "sum": 900}, {"calls": 1, "sum": 100})


def test_each_use_is_in_the_log_and_the_time_line(shop: Shop) -> None:
    grant = shop.granted()
    auditor = shop.server.client("shop.auditor")
    steps = [
        (step["kind"], step.get("grant"), step.get("grants")) for step in auditor.get("/v1/sessions/s1")["timeline"]
    ]
    assert ("grant", grant["id"], None) in steps
    assert ("verdict", None, {"small": grant["id"]}) in steps
    shop.revoke(grant)
    [revoked] = auditor.get("/v1/log?kind=grant_revoked")["entries"]
    assert (revoked["grant"], revoked["by"]) == (grant["id"], "approver-1")


def test_a_failed_call_gives_its_use_back(shop: Shop) -> None:
    shop.granted(calls=2)
    for output in ("Error", "Error", "done"):
        checked = shop.check(customer="4711", amount=200)
        assert checked["in_flight"]
        shop.agent.record(shop.session, f"c{shop._calls}", output)
    assert not shop.runs(customer="4711", amount=200)
    assert shop.grants()[0]["status"] == "used up"


def test_it_holds_in_all_sessions_of_the_agent_for_the_user_on_every_server(shop: Shop) -> None:
    shop.granted()
    other, same = shop.server.client("shop.other"), shop.new().client()
    assert shop.check(same, same.session("s2"), customer="4711", amount=200)["in_flight"]
    assert not shop.check(other, other.session("s3"), customer="4711", amount=200)["in_flight"]
    attachment = same.post("/v1/attachments", {"tools": [{"name": "refund"}]}, 201)["id"]
    body = {"attachment": attachment, "id": "s4", "on_behalf_of": {"id": "eve"}}
    same.post("/v1/sessions", body, 201)
    assert not shop.check(same, "s4", customer="4711", amount=200)["in_flight"]


def test_it_ends_with_the_version_of_the_policy(shop: Shop) -> None:
    shop.granted()
    (shop.folder / "policies.yaml").write_text(POLICY.replace("at most 100", "no more"))
    shop.server.client("shop.admin").post("/v1/policies/default/reload", {})
    assert shop.runs(customer="4711", amount=200)
    assert not shop.check(session=shop.agent.session("s2"), customer="4711", amount=200)["in_flight"]


def test_a_revoked_grant_covers_nothing_and_its_approval_neither(shop: Shop) -> None:
    """The spent approval opens another request, which allows the call again."""
    approval = shop.check(customer="4711", amount=300)["approval"]
    shop.answer(approval, grant={})
    [grant] = shop.grants()
    assert shop.revoke(grant, "shop.admin")["status"] == "revoked"
    assert shop.revoke(grant)["revoked"]["by"] == "admin-1", "again changes nothing"
    resolved = shop.resolve(approval, shop.new().client())
    assert (resolved["verdict"]["decision"], resolved["approval"]["status"]) == ("escalate", "pending")
    shop.answer(resolved["approval"])
    assert shop.resolve(resolved["approval"])["in_flight"]
    assert len(shop.grants()) == 1
    for who in ("shop.agent", "shop.auditor"):
        shop.revoke(grant, who, 403)
    shop.revoke(grant, "bank.approver", 404)
    shop.server.client("bank.auditor").get(f"/v1/grants/{grant['id']}", 404)


def test_a_check_that_found_a_grant_before_its_revocation_cannot_use_it_after(shop: Shop) -> None:
    grant, args = shop.granted(), {"customer": "4711", "amount": 100}
    service = shop.server.service
    scope = service.policies.current("default").approval_scopes["small"]
    [live] = service.grants.of(service.sessions.known("shop", shop.session))("small", scope, args)

    def covered() -> bool:
        now, counters = time.time(), service.stores.counters("shop")
        return bool(live.covered("refund", args, now, lambda key: counters.read(key, now).settled))

    assert covered()
    shop.revoke(grant)
    assert not covered()
    assert shop.grants()[0]["used"] == {"calls": 1, "sum": 300}


def test_another_rule_that_denies_or_asks_is_not_lifted(tmp_path: Path) -> None:
    shop = Shop(tmp_path, POLICY + ALSO)
    refused = shop.answer(shop.check(customer="4711", amount=300)["approval"], 422, grant={})
    assert "rule 'also' lets a reviewer approve this one call" in refused["error"]["message"]
    shop.granted(amount=150)
    assert shop.runs(customer="4711", amount=180)
    assert shop.check(customer="4711", amount=250)["verdict"]["decision"] == "escalate"
    denied = shop.check(customer="mallory", amount=150)
    assert (denied["verdict"]["decision"], "approval" in denied) == ("deny", False)


def test_two_rules_each_need_a_grant_of_their_own(tmp_path: Path) -> None:
    shop = Shop(tmp_path, POLICY + WIDE)
    approval = shop.check(customer="4711", amount=250)["approval"]
    shop.answer(approval, grant={"calls": 3})
    assert set(shop.resolve(approval)["verdict"]["details"]["grants"]) == {"small", "also"}
    assert {(grant["rule"], grant["calls"]) for grant in shop.grants()} == {("small", 3), ("also", 3)}
    assert shop.runs(customer="4711", amount=210)
    shop.revoke(next(grant for grant in shop.grants() if grant["rule"] == "also"))
    assert not shop.runs(customer="4711", amount=210)
    assert shop.runs(customer="4711", amount=150), "only the rule 'small' asks"


@pytest.mark.parametrize(
    ("grant", "problem"),
    [
        ({"calls": 5}, "'calls' of 'grant' is 5; expected a number from 0 to 4"),
        ({"calls": 0}, "covers no call"),
        ({"calls": 1.5}, "expected"),
        ({"for": "2h"}, "'for' of 'grant' is 7200.0"),
        ({"for": 0}, "covers no call"),
        ({"for": "soon"}, "expected a duration"),
        ({"up_to": {"amount": 301}}, "'amount' of 'grant' is 301; expected a number from 0 to 300"),
        ({"up_to": {"amount": True}}, "'amount' of 'grant' is True"),
        ({"up_to": {"amount": "9"}}, "'amount' of 'grant' is '9'"),
        ({"up_to": {"amount": 299}}, "the call itself does not fit"),
        ({"up_to": {"sum": 299}}, "the call itself does not fit"),
        ({"up_to": {"amout": 300}}, "did you mean 'amount'?"),
        ({"upto": {}}, "did you mean 'up_to'?"),
        ([], "expected"),
    ],
)
def test_more_than_the_rule_permits_is_refused(shop: Shop, grant: Any, problem: str) -> None:
    approval = shop.check(customer="4711", amount=300)["approval"]
    assert problem in shop.answer(approval, 422, grant=grant)["error"]["message"]
    assert not shop.grants()
    assert shop.answer(approval, grant={"calls": 2, "for": "30m", "up_to": {"sum": 600}})["status"] == "approved"


@pytest.mark.parametrize("choice", ["reject", "edit"])
def test_only_an_approval_grants(shop: Shop, choice: str) -> None:
    approval = shop.check(customer="4711", amount=300)["approval"]
    more: dict[str, Any] = {"args": {"customer": "4711", "amount": 200}} if choice == "edit" else {}
    assert "only beside 'approve'" in shop.answer(approval, 422, choice=choice, grant={}, **more)["error"]["message"]


def test_a_call_that_the_scope_does_not_fit_is_approved_alone(shop: Shop) -> None:
    approval = shop.check(customer="4711", amount=900)["approval"]
    assert "does not fit" in shop.answer(approval, 422, grant={})["error"]["message"]
    shown = shop.server.client("shop.approver").get(f"/v1/approvals/{approval['id']}")
    assert "grantable" not in shown
    shop.answer(approval)
    assert shop.resolve(approval)["in_flight"]
    assert not shop.grants()


def test_the_least_of_what_the_quorum_grants(tmp_path: Path) -> None:
    shop = Shop(tmp_path, quorum=2, four_eyes=False)
    admin = shop.server.client("shop.admin")
    second = admin.post("/v1/tokens", {"principal": "bea", "roles": ["approver"], "days": 1}, 201)
    shop.tokens["second"] = second["token"]
    first = shop.check(customer="4711", amount=300)["approval"]
    pending = shop.answer(first, grant={"calls": 3, "for": "10m"})
    assert (pending["status"], shop.grants()) == ("pending", [])
    shop.answer(pending, who="second", grant={"calls": 4, "for": 60})
    [grant] = shop.grants()
    assert (grant["calls"], grant["until"] - grant["made"], grant["by"]) == (3, 60.0, ["approver-1", "bea"])
    other = shop.check(customer="4712", amount=300)["approval"]
    shop.answer(shop.answer(other, grant={}), who="second")
    assert shop.resolve(other)["verdict"]["details"]["approved"] == ["small"]
    assert len(shop.grants()) == 1, "one of the two approved the call alone"


def test_a_killed_server_leaves_a_grant_that_the_next_one_makes(shop: Shop) -> None:
    """It was killed between the answer and the grant."""
    approval = shop.check(customer="4711", amount=300)["approval"]
    shop.answer(approval, grant={})
    [grant] = shop.grants()
    state = shop.server.service.stores.state
    state.delete("grant", "shop", grant["id"].removeprefix("g_").partition(".")[0])
    assert shop.resolve(approval, shop.new().client())["in_flight"]
    assert [made["id"] for made in shop.grants()] == [grant["id"]]


def test_a_local_preview_uses_nothing(shop: Shop) -> None:
    shop.granted(calls=2)
    body = {"call": {"id": "p", "tool": "refund", "args": {"customer": "4711", "amount": 200}}, "reserve": False}
    for at in range(3):
        preview = shop.agent.post(f"/v1/sessions/{shop.session}/check", body, idempotency_key=f"p{at}")
        assert preview["verdict"]["decision"] == "allow"
    assert shop.grants()[0]["used"]["calls"] == 1


def test_a_check_that_asks_nobody_reads_no_grant(shop: Shop) -> None:
    """A revoked grant of another release's form would fail it."""
    grant = shop.granted()
    state, slot = shop.server.service.stores.state, grant["id"].removeprefix("g_").partition(".")[0]
    item = state.get("grant", "shop", slot)
    assert item is not None
    state.replace("grant", "shop", slot, item.version, {"created": 0, "grants": [{"broken": 1}]})
    assert shop.runs(customer="4711", amount=100)
    assert shop.check(customer="4711", amount=101)["verdict"]["decision"] == "deny", "unreadable is not allowed"


def test_uses_count_beside_the_counters_of_the_policy(tmp_path: Path) -> None:
    counters = "counters:\n  spent: {on: refund(customer=c, amount=a), key: c, sum: a, window: 24h}\npolicies:\n"
    budget = "forall(refund(customer=c, amount=a), counter(spent, c) + a <= 700)"
    shop = Shop(tmp_path, POLICY.replace("policies:\n", counters) + f"  - id: budget\n    temporal: {budget}\n")
    shop.granted(amount=300)
    assert shop.runs(customer="4711", amount=300)
    assert shop.check(customer="4711", amount=200)["verdict"]["decision"] == "deny"
    assert shop.runs(customer="4711", amount=100), "what was denied used nothing"
    assert shop.grants()[0]["used"] == {"calls": 2, "sum": 600}


def test_a_replay_knows_what_grants_allowed(shop: Shop) -> None:
    shop.granted()
    assert shop.runs(customer="4711", amount=200)
    replayed = shop.server.client("shop.admin").post("/v1/policies/default/replay", {"text": POLICY})
    assert (replayed["same"], replayed["differs"]) == (3, 0)


def test_the_state_forgets_grants_that_ended_long_ago(shop: Shop) -> None:
    shop.granted()
    state = shop.server.service.stores.state

    def left(days: int) -> int:
        Retention(state, RetentionSettings(), finish=print, clock=lambda: time.time() + days * 86_400.0).sweep()
        return len(state.page("grant", "shop", None, 9))

    assert (left(days=89), left(days=91)) == (1, 0)


def test_an_old_approval_grants_nothing() -> None:
    """Records of the last release have steps without grants."""
    step = {"by": "ann", "choice": "approve", "reason": "", "at": 1.0}
    call = {"id": "c", "tool": "refund", "args": {}}
    about: dict[str, Any] = {
        "session": "s",
        "policy": "default",
        "policy_version": "d",
        "call": call,
        "digest": "d",
        "user": None,
    }
    about |= {"rules": ["small"], "reasons": [], "requested_by": "agent-1", "created": 0.0, "deadline": 9.0}
    record = ApprovalRecord.of({**about, "status": "approved", "steps": [step]})
    assert record.grants == {}
    assert record.answer.grant is None


def test_the_quorum_of_a_stage_is_enough_for_a_grant(tmp_path: Path) -> None:
    stage = "    escalate_to: {quorum: 1}\n    message: at most 100\n"
    shop = Shop(tmp_path, POLICY.replace("    message: at most 100\n", stage), quorum=2)
    assert shop.granted(calls=2)["calls"] == 2


def test_what_is_left_is_exact(tmp_path: Path) -> None:
    scope = POLICY.replace("a <= 100", "a <= 0.01").replace("300, sum: 1000", "0.3, sum: 0.3")
    assert Shop(tmp_path, scope).granted(amount=0.1)["left"] == {"calls": 3, "sum": 0.2}


def test_an_answer_to_a_call_of_a_session_that_is_gone_is_taken(shop: Shop) -> None:
    """Its session had ended, and its data is deleted; another server has never read it."""
    approval = shop.check(customer="4711", amount=300)["approval"]
    shop.server.service.stores.state.delete("session", "shop", shop.session)
    shop.server = shop.new()
    assert shop.answer(approval, 404, grant={})["error"]["code"] == "not_found"
    assert shop.answer(approval)["status"] == "approved"
