"""The text of a denial: made when somebody reads it, as if it had been made at the verdict."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent import Session, Verdict, load_policies
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.monitors.remedies import FixedRemedies, Remedies, earlier_calls
from guardagent.types import Event

POLICIES = load_policies(
    data={
        "version": 1,
        "policies": [
            {"id": "order", "temporal": "G(tool:refund -> O (tool:login || tool:sso))"},
            {"id": "seen", "temporal": "before(refund(order=o), True, f:get_order(order=o), True)"},
            {"id": "limit", "temporal": "forall(refund(amount=a), a <= 100)"},
            {"id": "lines", "temporal": "forall(refund(lines=l), len(l) < 2)"},
            {"id": "owner", "temporal": "forall(refund(order=o), state.owner == fact(user))"},
            {"id": "named", "temporal": "G(tool:pay -> O tool:login)", "remedy": "Call login, then pay."},
            {"id": "warned", "temporal": 'forall(ship(order=o), o != "W9")', "on_violation": "warn"},
            {"id": "asked", "temporal": 'forall(ship(order=o), o != "W8")', "on_violation": "escalate"},
        ],
    }
)
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("refund", {"order": "W1", "amount": 500, "lines": ["a"]}),
    ("refund", {"order": "W2", "amount": 5, "lines": ["a", "b"]}),
    ("pay", {}),
    ("ship", {"order": "W8"}),
    ("ship", {"order": "W9"}),
]
EVENTS = st.lists(
    st.builds(
        Event,
        st.sampled_from(["login", "sso", "get_order"]),
        st.fixed_dictionaries({"order": st.sampled_from(["W1", "W2"])}),
        st.just("done"),
        st.sampled_from(["ok", "failed", "unknown"]),
    ),
    max_size=6,
)


def begun(events: list[Event], state: dict[str, Any]) -> Session:
    session = POLICIES.session(state=state, facts={"user": "mia"})
    for event in events:
        session.observe(event, judge=False)
    return session


def denied(**options: Any) -> Verdict:
    return begun([], {"owner": "bob"}).check(*CALLS[0], **options)


def shown(verdict: Verdict) -> dict[str, Any]:
    return {**verdict.to_dict(explain=True), "elapsed_ms": 0, "feedback": verdict.feedback()}


@given(EVENTS, st.sampled_from(CALLS), st.booleans())
def test_later_changes_have_no_effect(events: list[Event], call: tuple[str, dict[str, Any]], reserve: bool) -> None:
    """Of the session, the state and the arguments."""
    at_once = shown(begun(events, {"owner": "bob"}).check(*call, reserve=reserve))
    tool, args, state = call[0], copy.deepcopy(call[1]), {"owner": "bob"}
    session = begun(events, state)
    verdict = session.check(tool, args, reserve=reserve)
    state["owner"] = "mia"
    args.get("lines", []).append("b")
    for event in (Event("login", {}, "done", "ok"), Event("get_order", {"order": "W1"}, "done", "failed")):
        session.observe(event)
    assert shown(verdict) == at_once


@given(EVENTS, st.sampled_from(CALLS))
def test_a_later_remedy_is_that_of_the_session(events: list[Event], proposed: tuple[str, dict[str, Any]]) -> None:
    """Its few kept values suffice."""
    session = begun(events, {"owner": "bob"})
    conversation, call = session._conversation, SessionCall(*proposed)
    call.facts = {"user": "mia"}
    call.applicability = POLICIES.applicability(call)
    judgement = conversation.judge(call, call.applicability)
    for source, result in judgement.broken if judgement else ():
        earlier = earlier_calls(conversation, call.tool, ((source, result),))
        if earlier is not None:
            fixed = FixedRemedies(POLICIES, call.tool, earlier, halted=False)
            remedies = Remedies(conversation, call, call.facts, halted=False)
            assert fixed.remedy(source, result.explain()) == remedies.remedy(source, result.explain())


def test_the_decision_needs_no_text() -> None:
    """Neither do the rules and the permit."""
    verdict = denied()
    assert (verdict.label, verdict.rules, verdict.permit) == (1, ("limit", "order", "owner", "seen"), None)
    assert verdict.denial is not None
    assert verdict.denial.text is not None
    assert verdict.rules == tuple(sorted(violation.policy for violation in verdict.violations))
    assert verdict.denial.text is None


def _pickled(verdict: Verdict) -> Any:
    return pickle.loads(pickle.dumps(verdict))  # noqa: S301 - from here


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, _pickled, replace, Verdict.changed])
def test_a_copy_has_the_text(again: Any) -> None:
    """Also one in another process."""
    verdict = denied()
    assert shown(again(verdict)) == shown(verdict)
    assert again(verdict) == verdict == again(denied().timed(verdict.elapsed_ms))


def test_an_unread_verdict_keeps_no_session() -> None:
    """It holds the values that its text shows."""
    session = begun([], {"owner": "bob"})
    verdict, conversation = session.check(*CALLS[0]), weakref.ref(session._conversation.context)
    del session
    gc.collect()
    assert conversation() is None
    assert "login" in verdict.feedback()


def test_threads_read_the_same() -> None:
    """At the same moment too."""
    for _ in range(20):
        verdict, texts, barrier = denied(), list[Any](), threading.Barrier(4)

        def read(verdict: Verdict = verdict, texts: list[Any] = texts, barrier: Any = barrier) -> None:
            barrier.wait()
            texts.append((verdict.violations, verdict.reasons, verdict.withheld))

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert texts == [texts[0]] * 4


def test_other_names_are_no_attributes() -> None:
    """A misspelled field is an error."""
    with pytest.raises(AttributeError, match="'Verdict' object has no attribute 'reason'"):
        _ = denied().reason  # type: ignore[attr-defined]
