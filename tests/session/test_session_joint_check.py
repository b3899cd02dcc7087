"""Calls proposed together are all in flight or none is, and the most severe verdict is not hidden by others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent import Decision, Session, load_policies
from guardagent.session.replan import ProposedCall, judge_jointly

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
    """A new session."""
    return load_policies(write("shop.yaml", RULES)).session()


@pytest.mark.parametrize("calls", [[FIND, DELETE], [CLOSE, DELETE], [FIND, REFUND, DELETE], [REFUND, FIND, DELETE]])
def test_a_halt_holds_whatever_it_comes_with(session: Session, calls: list[ProposedCall]) -> None:
    """It does so next to a call that escalates, and next to one that is denied."""
    judged, (verdict,) = judge_jointly(session, calls, {})
    assert (judged, verdict.decision, session.halted, session.history) == ([DELETE], Decision.HALT, True, ())


def test_an_escalated_call_can_be_approved(session: Session) -> None:
    """No other call of the turn is recorded."""
    judged, (verdict,) = judge_jointly(session, [FIND, CLOSE], {})
    assert (judged, verdict.decision) == ([CLOSE], Decision.ESCALATE)
    assert session.approve(verdict).label == 0


def test_a_call_that_escalates_only_with_others_is_denied(session: Session) -> None:
    """There is nothing to approve: the call is allowed by itself."""
    calls, verdicts = judge_jointly(session, [PAY, PAY], {})
    assert [verdict.decision for verdict in verdicts] == [Decision.ALLOW, Decision.DENY]
    assert session.history == ()
    assert judge_jointly(session, calls[1:], {})[1][0].label == 0


def test_calls_that_comply_are_recorded(session: Session) -> None:
    """They are recorded in the given order."""
    assert [verdict.label for verdict in judge_jointly(session, [PAY, FIND], {})[1]] == [0, 0]
    assert [event.tool for event in session.history] == ["pay", "find"]
