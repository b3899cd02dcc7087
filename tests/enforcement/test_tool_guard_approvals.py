"""Approvals: each covers one call and is used once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from guardagent import Decision, InputError, ToolDenied
from guardagent.enforcement import Approval, ApprovalRequest, HostCall, ToolGuard, run
from guardagent.enforcement.approval import with_edits
from tests.enforcement.guards import done, yes
from tests.frameworks.scenarios import APPROVED, guard_of


def call(amount: Any = 500, **more: Any) -> HostCall:
    return HostCall("refund", {"order_id": "W1", "amount": amount}, "c", **more)


@pytest.fixture
def host(tmp_path: Path) -> ToolGuard:
    """A guard whose host requests approvals itself."""
    return guard_of(tmp_path, APPROVED)


def test_an_approved_call_runs_once(host: ToolGuard) -> None:
    """The same call again is denied; a new proposal needs a new approval."""
    first = call(id="1")
    verdict = host.before(first)
    assert verdict.decision is Decision.ESCALATE
    assert host.request(first, verdict).args["amount"] == 500
    assert host.resolve(first, yes(first)).label == 0
    done(host, first)
    assert host.resolve(first, yes(first)).label == 1
    again = host.before(first)
    assert (again.decision, "used already" in again.errors[0]) == (Decision.DENY, True)
    assert host.before(call()).decision is Decision.ESCALATE


def test_a_rejected_call_does_not_run_and_the_agent_gets_the_reason(host: ToolGuard) -> None:
    """It cannot be approved afterwards either."""
    proposed = call()
    host.before(proposed)
    rejected = host.resolve(proposed, {"choice": "reject", "reason": "ask the manager"})
    assert (rejected.decision, "ask the manager" in rejected.feedback()) == (Decision.DENY, True)
    assert host.resolve(proposed, yes(proposed)).label == 1
    with pytest.raises(InputError):
        host.use(proposed)


def test_an_edited_call_is_judged_again(host: ToolGuard) -> None:
    """Small edited amounts run, larger ones need another approval, and the largest are denied."""
    for amount, decision in ((50, Decision.ALLOW), (300, Decision.ESCALATE), (5000, Decision.DENY)):
        host.before(proposed := call())
        edit = Approval("edit", {"order_id": "W1", "amount": amount}, of=proposed.digest)
        assert host.resolve(proposed, edit).decision is decision
        if decision is Decision.ALLOW:
            assert host.use(with_edits(proposed, edit))["amount"] == 50
        if decision is Decision.ESCALATE:
            assert host.resolve(with_edits(proposed, edit), yes(with_edits(proposed, edit))).label == 0


def test_an_answer_that_names_another_call_is_refused(tmp_path: Path) -> None:
    """Whoever gives it; one of the guard's own approver need not name the call, and may."""
    other = call(id="2").digest
    for of, choice, amount in (
        (None, "approve", 500),
        ("own", "approve", 500),
        ("own", "reject", None),
        ("own", "edit", 50),
        (None, "edit", 50),
        (other, "approve", None),
        (other, "edit", None),
        (other, "reject", None),
        (f"{other}.ledger", "approve", None),
        ("", "approve", None),
        ("nonsense", "approve", None),
    ):

        def answers(request: ApprovalRequest, of: Any = of, choice: Any = choice) -> Approval:
            args = {"order_id": "W1", "amount": 50} if choice == "edit" else {}
            return Approval(choice, args, of=request.digest if of == "own" else of)

        guard = guard_of(tmp_path, APPROVED, approver=answers)
        ran: list[Any] = []
        with suppress(ToolDenied):
            run(guard, call(id="1"), ran.append)
        assert [args["amount"] for args in ran] == ([] if amount is None else [amount]), (of, choice)


def test_a_rejection_of_another_call_leaves_the_request_open(host: ToolGuard) -> None:
    host.before(proposed := call(id="1"))
    assert host.resolve(proposed, {"choice": "reject", "of": call(id="2").digest}).label == 1
    assert host.resolve(proposed, yes(proposed)).label == 0


FACTS: list[Any] = [
    {},
    {"balance": 10},
    {"balance": 10.5},
    {"balance": "10"},
    {"balance": 10, "vip": True},
    {"b": [1, {}]},
]


@pytest.mark.parametrize("facts", FACTS)
@pytest.mark.parametrize("later", FACTS)
def test_an_approval_covers_the_facts_that_were_shown(host: ToolGuard, facts: Any, later: Any) -> None:
    """With other facts the answer is refused with the reason, and a new request opens, which can be answered."""
    shown, now = call(id="1", facts=facts), call(id="1", facts=later)
    request = host.request(shown, host.before(shown))
    assert all(f"The host knows: {name} = " in request.text() for name in facts)
    verdict = host.resolve(now, Approval("approve", of=shown.digest))
    if facts == later:
        assert verdict.label == 0
        return
    if later:
        assert verdict.decision is Decision.ESCALATE
        assert "the facts are other ones" in verdict.feedback()
    host.before(now)
    if facts:
        assert host.resolve(now, Approval("approve", of=request.digest)).label == 1
    assert host.resolve(now, Approval("approve", of=host.request(now, verdict).digest)).label == 0


def test_an_approval_covers_only_the_shown_arguments(host: ToolGuard) -> None:
    """A call with another amount, order, type or id is not covered."""
    host.before(call(id="1"))
    others = [call(501, id="1"), call(500.0, id="1"), call("500", id="1"), call(id="2")]
    others.append(HostCall("refund", {"order_id": "W2", "amount": 500}, "c", id="1"))
    others.append(HostCall("refund", {"order_id": "W1", "amount": 500}, "other", id="1"))
    assert [host.resolve(proposed, yes(proposed)).label for proposed in others] == [1] * 6
    assert host.resolve(call(id="1"), yes(call(id="1"))).label == 0


def test_later_changes_to_shown_arguments_have_no_effect(host: ToolGuard) -> None:
    """The call runs with the copy that the reviewer saw."""
    args = {"order_id": "W1", "amount": 500}
    proposed = HostCall("refund", args, "c")
    host.before(proposed)
    args["amount"] = 900
    host.resolve(proposed, yes(proposed))
    assert host.use(proposed)["amount"] == 500


def test_an_approval_survives_another_call_in_between(host: ToolGuard) -> None:
    """Other agents of the conversation may continue while the reviewer decides."""
    proposed, other = call(), HostCall("look", {}, "c")
    host.before(proposed)
    assert host.before(other).label == 0
    done(host, other)
    assert host.resolve(proposed, yes(proposed)).label == 0


def test_an_approval_lifts_only_the_shown_rules(tmp_path: Path) -> None:
    """If another rule blocks the call by now, it stays denied."""
    more = "  - {id: look, temporal: G(tool:look -> H !tool:look), on_violation: escalate}\n"
    host = guard_of(tmp_path, APPROVED + "  - {id: closed, temporal: 'forall(refund(), fact(open) == true)'}\n" + more)
    proposed = call(facts={"open": True})
    assert host.before(proposed).decision is Decision.ESCALATE
    closed = HostCall("refund", {"order_id": "W1", "amount": 500}, "c", id=proposed.id, facts={"open": False})
    assert host.resolve(closed, yes(closed)).label == 1


def test_no_approval_is_requested_where_it_would_not_help(tmp_path: Path) -> None:
    """Another rule denies the call regardless of the approval."""
    requests: list[ApprovalRequest] = []
    tool_guard = guard_of(tmp_path, APPROVED, approver=requests.append)
    assert tool_guard.before(call(5000)).decision is Decision.DENY
    assert requests == []


@pytest.mark.parametrize("reply", [None, "yes", 1, RuntimeError(), {"choice": "approve", "args": {}}])
def test_invalid_replies_reject(host: ToolGuard, reply: Any) -> None:
    """Any invalid reply of the host rejects the call."""
    proposed = call()
    host.before(proposed)
    assert host.resolve(proposed, reply).decision is Decision.DENY


def test_an_approver_decides_within_the_check(tmp_path: Path) -> None:
    """It approves, rejects or edits, and edits are judged again, in `before` and in `abefore`."""
    for reply, amount in ((True, 500), (False, None), ({"choice": "edit", "args": {"amount": 60}}, 60)):
        tool_guard = guard_of(tmp_path, APPROVED, approver=lambda request, reply=reply: reply)
        for proposed, verdict in (
            (a := call(), tool_guard.before(a)),
            (b := call(), asyncio.run(tool_guard.abefore(b))),
        ):
            assert (verdict.label == 0) is (amount is not None)
            if amount is not None:
                assert tool_guard.use(proposed)["amount"] == amount


def test_a_reviewer_who_keeps_editing_gets_three_requests(tmp_path: Path) -> None:
    """After that the call is not approved."""
    requests: list[Any] = []

    def more(request: ApprovalRequest) -> Approval:
        requests.append(request.args["amount"])
        return Approval("edit", {"amount": request.args["amount"] + 1})

    verdict = guard_of(tmp_path, APPROVED, approver=more).before(call())
    assert (verdict.label, requests) == (1, [500, 501, 502])


def test_edited_arguments_are_completed_by_the_host(tmp_path: Path) -> None:
    """Missing arguments get the tool's defaults before the call is judged again."""
    edit = Approval("edit", {"order_id": "W2"})
    tool_guard = guard_of(tmp_path, APPROVED, approver=lambda request: edit)
    verdict = tool_guard.before(call(validate_edit=lambda args: {"amount": 5000, **args}))
    assert (verdict.decision, verdict.rules) == (Decision.DENY, ("large", "never"))


def test_an_approval_of_a_previewed_call_counts(host: ToolGuard) -> None:
    """Some hosts request approval before they call the tool."""
    proposed = call()
    assert host.preview(proposed).decision is Decision.ESCALATE
    assert host.resolve(proposed, yes(proposed)).label == 0
    done(host, proposed)


VIEWED = """\
version: 1
views: {refund: "{args.amount} for {args.order}, {facts.vip}, {outputs.look.total}"}
policies: [{id: person, temporal: 'forall(refund(), false)', on_violation: escalate}]
"""


def test_a_view_stands_after_the_arguments(tmp_path: Path) -> None:
    """The policy's over arguments, facts and outputs, then the host's; none can imitate a line."""
    (tmp_path / "views.yaml").write_text(VIEWED)
    texts: list[str] = []

    def approver(request: ApprovalRequest) -> bool:
        texts.append(request.text())
        return False

    views = {"refund": lambda args: f"ask {args['who']}\nWhy you are asked: no\u202e reason"}
    guard = ToolGuard(tmp_path / "views.yaml", approver=approver, views=views, facts={"vip": True})
    run(guard, HostCall("look", {}, "c"), lambda _: {"total": 7})
    for who in ({"who": "ann"}, {}):
        assert guard.before(HostCall("refund", {"amount": 5, "order": "W1", **who}, "c")).decision is Decision.DENY
    assert texts[0].splitlines()[1:-1] == [
        "  amount = 5",
        '  order = "W1"',
        '  who = "ann"',
        "The policy shows it as:",
        "  | 5 for W1, true, 7",
        "The agent's host shows it, unchecked, as:",
        "  | ask ann",
        "  | Why you are asked: no\\u202e reason",
    ]
    assert "  | (the view failed: KeyError)" in texts[1]


@pytest.mark.parametrize("views", [{"refund": "text"}, ["refund"], None])
def test_views_of_the_host_are_functions(tmp_path: Path, views: Any) -> None:
    with pytest.raises(InputError, match=r"views is .* expected a mapping of tools to functions"):
        guard_of(tmp_path, APPROVED, views=views)
