"""Approvals in stages: who may answer when, against a plain model; and on a server with rules that name groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.enforcement.approval import Approval
from guardagent.errors import ForbiddenError
from guardagent.policy.scope import EscalationStage
from guardagent.server.access import Caller, CallerRole, TokenStore
from guardagent.server.approvals import ApprovalRecord, shown, stages_of
from guardagent.server.service import RequestConflictError
from guardagent.server.settings import ApprovalRules, PolicySettings, ServerSettings
from tests.server.approvals.test_approval_record import record
from tests.server.servers import POLICIES, LocalServer, local_server

# --- against a plain model, in whole seconds

BEGIN, RULES = 100.0, ApprovalRules(quorum=2, seconds=40)
PEOPLE = {"amy": ("lead",), "bob": ("lead", "director"), "cem": ("director",), "dan": (), "eve": ("lead", "legal")}
CHOICES = {
    "approve": Approval("approve"),
    "reject": Approval("reject", reason="no"),
    "edit": Approval("edit", {"a": 1}),
}

STAGES = st.builds(
    EscalationStage,
    st.none() | st.sampled_from([("lead",), ("director",), ("legal", "lead"), ("nobody",)]),
    st.none() | st.integers(1, 2),
    st.none() | st.integers(1, 30),
)
ANSWERS = st.tuples(st.integers(100, 190), st.sampled_from(sorted(PEOPLE)), st.sampled_from([*CHOICES, "approve"]))


@dataclass
class Model:
    """Looks at every second again: a rule is met once enough people who fit its stage of that second agree."""

    asks: dict[str, tuple[EscalationStage, ...]]
    agreeing: list[tuple[int, str]] = field(default_factory=list)
    is_rejected: bool = False

    def stage(self, rule: str, now: float) -> EscalationStage | None:
        """The stage of a rule at a time; None after the last one."""
        left = now - BEGIN
        for stage in self.asks[rule] or (EscalationStage(),):
            left -= RULES.seconds if stage.deadline is None else stage.deadline
            if left < 0:
                return stage
        return None

    def is_met(self, rule: str, now: int) -> bool:
        for second in range(int(BEGIN), now + 1):
            stage = self.stage(rule, second)
            fitting = [who for at, who in self.agreeing if at <= second and stage and fits(stage, who)]
            if stage and len(fitting) >= (stage.quorum or RULES.quorum):
                return True
        return False

    def waiting(self, now: int) -> set[str]:
        return {rule for rule in self.asks if not self.is_met(rule, now)}

    def status(self, now: int) -> str:
        if self.is_rejected:
            return "rejected"
        if any(self.stage(rule, now) is None for rule in self.asks):
            return "expired"
        return "pending" if self.waiting(now) else "approved"

    def answer(self, now: int, who: str, choice: str) -> bool:
        """Whether the answer is taken."""
        stages = [self.stage(rule, now) for rule in self.waiting(now)]
        if self.status(now) != "pending" or who in [by for _, by in self.agreeing]:
            return False
        if not any(stage and fits(stage, who) for stage in stages):
            return False
        self.agreeing = [*([] if choice == "edit" else self.agreeing), (now, who)]
        self.is_rejected = choice == "reject"
        return True


def fits(stage: EscalationStage, who: str) -> bool:
    return stage.roles is None or bool({*stage.roles} & {*PEOPLE[who]})


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.lists(STAGES, max_size=3).map(tuple), min_size=1),
    st.lists(ANSWERS, max_size=7),
)
def test_stages_follow_a_plain_model(asks: dict[str, tuple[EscalationStage, ...]], answers: list[Any]) -> None:
    asks = {**asks, "staged": (EscalationStage(None, 1, 60),)}
    chains = stages_of(asks, RULES, BEGIN)
    end = min(chain[-1]["until"] for chain in chains.values())
    approval, model = record(created=BEGIN, deadline=end, quorum=2, stages=chains), Model(asks)
    for now, who, choice in sorted(answers):
        try:
            approval = approval.answered(CHOICES[choice], who, now, PEOPLE[who])
            is_taken = True
        except (RequestConflictError, ForbiddenError):
            is_taken = False
        assert is_taken == model.answer(now, who, choice), (now, who, choice)
        approval = ApprovalRecord.of(json.loads(json.dumps(approval.content)))
    last = max([100, *(now for now, _, _ in answers)])
    for now in range(last, 200):
        status = approval.at(now).status
        assert status.replace("edited", "approved") == model.status(now), now
        waiting = {entry["rules"][0]: entry for entry in approval.may_answer(now)}
        assert waiting.keys() == (model.waiting(now) if status == "pending" else set())
        assert all(BEGIN <= entry["since"] <= now < entry["until"] for entry in waiting.values())


def test_a_stage_never_lowers_what_another_rule_demands() -> None:
    """Rules without stages keep the server's quorum, and one approver may count for both."""
    asks = {"plain": (), "staged": (EscalationStage(("lead",), 1, 30),)}
    approval = record(created=BEGIN, deadline=130.0, stages=stages_of(asks, RULES, BEGIN))
    approval = approval.answered(Approval("approve"), "amy", 101.0, PEOPLE["amy"])
    assert (approval.status, [entry["rules"] for entry in approval.may_answer(101.0)]) == ("pending", [["plain"]])
    assert approval.answered(Approval("approve"), "dan", 102.0).status == "approved"


def test_an_approver_of_another_group_reads_who_may_answer_and_from_when() -> None:
    stages = (EscalationStage(("finance-lead",), None, 1800), EscalationStage(("director", "ceo"), None, 86_400))
    approval = record(created=0.0, deadline=9e9, stages=stages_of({"r": stages}, ApprovalRules(), 43_200.0))
    with pytest.raises(ForbiddenError) as refused:
        approval.require_open("dan", 43_300.0)
    assert str(refused.value) == (
        "this approver is in no group that may answer now; expected an approver of the group 'finance-lead'; "
        "from 12:30 UTC on an approver of the group 'director' or 'ceo'"
    )


def test_four_eyes_hold_for_every_stage() -> None:
    approval = record(deadline=130.0, stages=stages_of({"r": (EscalationStage(("lead",)),)}, ApprovalRules(), BEGIN))
    with pytest.raises(ForbiddenError, match="their own call"):
        approval.answered(Approval("approve"), "bot", 101.0, ("lead",))


def test_a_record_of_the_last_release_is_read() -> None:
    """Without the field, all approvers may answer; a record without stages is stored as it was."""
    content = {name: value for name, value in record(quorum=2).content.items() if name != "stages"}
    old = ApprovalRecord.of(json.loads(json.dumps(content)))
    assert old.content.keys() == content.keys()
    (entry,) = shown("a_1", 1, old, 150.0)["may_answer"]
    assert (entry["groups"], entry["quorum"], entry["until"], entry["next"]) == (None, 2, 200.0, None)
    once = old.answered(Approval("approve"), "eve", 150.0)
    assert "groups" not in once.steps[0]
    assert once.answered(Approval("approve"), "joe", 151.0).status == "approved"


# --- on a server

STAGED = POLICIES.replace(
    "    message: at most 100\n",
    "    message: at most 100\n    escalate_to: FIRST\n",
) + (
    "  - id: large\n    temporal: forall(refund(amount=a), a <= 1000)\n    on_violation: escalate\n"
    "    message: at most 1000\n    escalate_to: {roles: [director]}\n"
)


def staged_server(folder: Path, first: str, **rules: Any) -> Any:
    """A server whose small rule has these stages, with approvers `lead` and `boss` (of both groups)."""
    (folder / "policies.yaml").write_text(STAGED.replace("FIRST", first))
    policy = PolicySettings((folder / "policies.yaml",), approvals=ApprovalRules(**rules))
    return local_server(folder, settings=ServerSettings({"default": policy}, state=f"sqlite:{folder / 'state'}"))


def with_groups(server: LocalServer, folder: Path) -> LocalServer:
    store = TokenStore(folder / "tokens.db")
    for name, groups in {"lead": {"finance-lead"}, "boss": {"director", "finance-lead"}}.items():
        caller = Caller(name, frozenset({CallerRole.APPROVER}), "shop", frozenset(groups))
        server.tokens[name] = store.create(caller, 60.0)[1]
    return server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    first = "[{roles: [finance-lead], deadline: 30m}, {roles: [director], deadline: 30m}]"
    with staged_server(tmp_path, first) as running:
        yield with_groups(running, tmp_path)


def wanted(server: LocalServer, *amounts: int) -> list[Any]:
    """Requests for the refunds of one session."""
    agent = server.client()
    agent.session("s1")
    agent.run("s1", "c1", "login", user="ann")
    calls = [agent.check("s1", f"r{at}", "refund", order=f"w{at}", amount=amount) for at, amount in enumerate(amounts)]
    return [call["approval"] for call in calls]


def answered(server: LocalServer, approval: Any, who: str, status: int = 200, **more: Any) -> Any:
    body = {"choice": "approve", "version": approval["version"], **more}
    return server.client(who).post(f"/v1/approvals/{approval['id']}/answer", body, status)


def test_only_the_group_of_the_rule_answers(server: LocalServer) -> None:
    (approval,) = wanted(server, 500)
    assert list(approval["stages"]) == ["small_refunds"]
    (entry,) = approval["may_answer"]
    assert (entry["groups"], entry["next"]["groups"]) == (["finance-lead"], ["director"])
    assert entry["until"] == entry["since"] + 1800 == entry["next"]["since"]
    problem = answered(server, approval, "shop.approver", 403)["error"]["message"]
    assert "expected an approver of the group 'finance-lead'" in problem
    assert answered(server, approval, "shop.approver", 403, choice="reject", reason="no")
    done = answered(server, approval, "lead")
    assert (done["status"], done["may_answer"]) == ("approved", [])
    call = {"id": "r0", "tool": "refund", "args": {"order": "w0", "amount": 500}}
    assert server.client().post("/v1/sessions/s1/resolve", {"call": call, "approval": approval["id"]})["in_flight"]


def test_each_rule_needs_its_own_group_and_an_edit_begins_anew(server: LocalServer) -> None:
    approval, other = wanted(server, 5000, 5000 + 1)
    once = answered(server, approval, "lead")
    assert (once["status"], [entry["rules"] for entry in once["may_answer"]]) == ("pending", [["large"]])
    assert answered(server, once, "boss")["status"] == "approved"
    edited = answered(server, other, "lead", choice="edit", args={"order": "w1", "amount": 4000})
    assert edited["status"] == "pending"
    assert answered(server, edited, "boss")["status"] == "edited"


def test_the_next_takes_over_when_a_deadline_passes(tmp_path: Path) -> None:
    with staged_server(tmp_path, "[{roles: [finance-lead], deadline: 1ms}, {roles: [director]}]") as running:
        server = with_groups(running, tmp_path)
        (approval,) = wanted(server, 500)
        assert "the group 'director'" in answered(server, approval, "lead", 403)["error"]["message"]
        assert answered(server, approval, "boss")["status"] == "approved"


def test_what_a_stage_leaves_out_is_the_setting_of_the_server(tmp_path: Path) -> None:
    with staged_server(tmp_path, "[{roles: [finance-lead]}, {deadline: 5m}]", quorum=2, seconds=60.0) as running:
        server = with_groups(running, tmp_path)
        (approval,) = wanted(server, 500)
        first, last = approval["stages"]["small_refunds"]
        assert (first["quorum"], first["until"] - first["since"], last["groups"]) == (2, 60, None)
        assert approval["deadline"] == last["until"] == first["since"] + 360
        assert answered(server, answered(server, approval, "lead"), "boss")["status"] == "approved"


# --- several answers in one request


def test_several_answers_are_taken_each_on_its_own(server: LocalServer) -> None:
    small, large, decided, changed = wanted(server, 500, 5000, 501, 502)
    answered(server, decided, "boss", choice="reject", reason="no")
    unknown = {"id": "a_none", "choice": "approve", "version": 1}
    answers = [{"id": item["id"], "choice": "approve", "version": item["version"]} for item in (small, large, decided)]
    answers += [{"id": changed["id"], "choice": "approve", "version": 1, "of": "0" * 64}, unknown]
    path, client = "/v1/approvals/answers", server.client("lead")
    results = client.post(path, {"answers": answers}, idempotency_key="k")["results"]
    assert [result["id"] for result in results] == [answer["id"] for answer in answers]
    assert [result["status"] for result in results] == [200, 200, 409, 409, 404]
    assert [result["approval"]["status"] for result in results[:2]] == ["approved", "pending"]
    assert results[2]["error"]["message"] == "this approval is rejected; decided by boss"
    assert client.post(path, {"answers": answers}, idempotency_key="k")["results"] == results
    entries = server.client("shop.auditor").get("/v1/log?kind=approval_answer")["entries"]
    assert [(entry["by"], entry["choice"]) for entry in entries] == [
        ("boss", "reject"),
        ("lead", "approve"),
        ("lead", "approve"),
    ]


@pytest.mark.parametrize(
    "answers",
    [[], {}, None, [1], [{"choice": "approve", "version": 1}], "TWICE", [{"id": "a", "choice": "yes", "version": 1}]],
)
def test_an_invalid_list_of_answers_does_nothing(server: LocalServer, answers: Any) -> None:
    (approval,) = wanted(server, 500)
    good = {"id": approval["id"], "choice": "approve", "version": 1}
    body = {"answers": [good, *answers] if isinstance(answers, list) and answers else answers}
    if answers == "TWICE":
        body = {"answers": [good] * 101}
    server.client("lead").post("/v1/approvals/answers", body, 422)
    server.client("shop.admin").post("/v1/approvals/answers", {"answers": [good]}, 403)
    assert server.client("lead").get(f"/v1/approvals/{approval['id']}")["status"] == "pending"
