"""Calls that are proposed together take their places all or none, and the most severe one is not hidden by others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent import Decision, Session, load_policies
from guardagent.session.joint_check import ProposedCall, judge_jointly

RULES = """
    version: 1
    policies:
      - {id: gone, temporal: "G !tool:delete", on_violation: halt}
      - {id: asked, temporal: "G !tool:close", on_violation: escalate}
      - {id: known, temporal: "G(tool:refund -> O tool:find)"}
      - {id: twice, temporal: "forall(pay(), count(pay()) < 1)", on_violation: escalate}
    """
CALLS: list[ProposedCall] = [(name, {}) for name in ("find", "refund", "pay", "close", "delete")]
FIND, REFUND, PAY, CLOSE, DELETE = CALLS


@pytest.fixture
def session(write: Callable[..., Path]) -> Session:
    """In which nothing has happened."""
    return load_policies(write("shop.yaml", RULES)).session()


@pytest.mark.parametrize("calls", [[FIND, DELETE], [CLOSE, DELETE], [FIND, REFUND, DELETE], [REFUND, FIND, DELETE]])
def test_a_halt_holds_whatever_it_comes_with(session: Session, calls: list[ProposedCall]) -> None:
    """Beside a call that waits for a person, and beside one that is denied."""
    asked, (verdict,) = judge_jointly(session, calls, {})
    assert (asked, verdict.decision, session.halted, session.history) == ([DELETE], Decision.HALT, True, ())


def test_an_escalated_call_can_be_approved(session: Session) -> None:
    """Nothing of its turn has taken a place."""
    asked, (verdict,) = judge_jointly(session, [FIND, CLOSE], {})
    assert (asked, verdict.decision) == ([CLOSE], Decision.ESCALATE)
    assert session.approve(verdict).label == 0


def test_what_escalates_only_in_company_is_denied(session: Session) -> None:
    """There is nothing that a person could approve: by itself it may run."""
    calls, verdicts = judge_jointly(session, [PAY, PAY], {})
    assert [verdict.decision for verdict in verdicts] == [Decision.ALLOW, Decision.DENY]
    assert session.history == ()
    assert judge_jointly(session, calls[1:], {})[1][0].label == 0


def test_calls_that_comply_take_their_places(session: Session) -> None:
    """In the given order."""
    assert [verdict.label for verdict in judge_jointly(session, [PAY, FIND], {})[1]] == [0, 0]
    assert [event.tool for event in session.history] == ["pay", "find"]
