"""The rules of approvals: a state machine, against a simple model."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.enforcement.approval import Approval
from guardagent.errors import ForbiddenError
from guardagent.server.approvals import ApprovalRecord
from guardagent.server.service import RequestConflictError


def record(**more: Any) -> ApprovalRecord:
    call = {"id": "c1", "tool": "refund", "args": {"amount": 500}, "agent": None}
    plain = ApprovalRecord("s1", "default", "v1", call, "digest", ("r",), ("why",), "bot", "ann", 100.0, 200.0)
    return replace(plain, **more)


ANSWERS = st.tuples(
    st.sampled_from(["eve", "joe", "kim", "ann", "bot"]),
    st.sampled_from([Approval("approve"), Approval("reject", reason="no"), Approval("edit", {"amount": 1})]),
    st.floats(100, 210),
)


@given(st.lists(ANSWERS, max_size=8), st.integers(1, 3))
def test_answers_follow_a_simple_model(answers: list[tuple[str, Approval, float]], quorum: int) -> None:
    approval_record, status, args = record(quorum=quorum), "pending", None
    agreeing: list[str] = []
    for by, answer, now in sorted(answers, key=lambda answer: answer[2]):
        refused = status != "pending" or now >= 200 or by in ("ann", "bot") or by in agreeing
        if refused:
            with pytest.raises((RequestConflictError, ForbiddenError)):
                approval_record.answered(answer, by, now)
            continue
        approval_record = approval_record.answered(answer, by, now)
        if answer.choice == "reject":
            status = "rejected"
            continue
        if answer.choice == "edit":
            agreeing, args = [], answer.args
        agreeing.append(by)
        if len(agreeing) >= quorum:
            status = "approved" if args is None else "edited"
    assert (approval_record.status, approval_record.args) == (status, args)
    assert approval_record.at(200.0).status == ("rejected" if status == "rejected" else "expired")
    if status in ("approved", "edited"):
        assert approval_record.answer.choice == ("approve" if args is None else "edit")
    else:
        assert approval_record.answer.choice == "reject"


def test_without_four_eyes_the_caller_may_approve() -> None:
    assert record(four_eyes=False).answered(Approval("approve"), "bot", 150.0).status == "approved"


def test_an_edit_keeps_exact_numbers() -> None:
    """As of a host's `Decimal`, or a number in JSON that no float has."""
    edited = record().answered(Approval("edit", {"amount": Decimal("80.10")}), "eve", 150.0)
    stored = ApprovalRecord.of(json.loads(json.dumps(edited.content)))
    assert str(stored.answer.args["amount"]) == "80.10"
