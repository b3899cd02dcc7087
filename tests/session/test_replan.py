"""A denied step goes back to the agent with a remedy, a bounded number of times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from guardagent import Decision, InputError, Session, load_policies
from guardagent.session.replan import ReplanResult, aenforce, enforce

RULES = """
    version: 1
    policies:
      - id: known
        temporal: G(tool:refund -> O tool:find)
        message: Find the customer first.
      - id: small
        temporal: forall(refund(amount=a), a <= 100)
        message: At most 100.
        remedy: Refund less.
      - id: gone
        temporal: G !tool:delete
        message: Nothing is deleted.
        on_violation: halt
      - id: asked
        temporal: G !tool:close
        message: A person closes accounts.
        on_violation: escalate
      - id: once
        temporal: forall(pay(), count(f:pay(), !failed(f)) < 1)
        message: Pay once.
      - id: one_mail
        temporal: forall(mail(), count(mail()) < 1)
        on_violation: escalate
    """
FIND, REFUND = ("find", {"name": "Ann"}), ("refund", {"amount": 50})
TOO_MUCH = ("refund", {"amount": 500})
NOTHING: dict[str, int] = {}
MAIL, CLOSE, DELETE = ("mail", NOTHING), ("close", NOTHING), ("delete", NOTHING)


@pytest.fixture
def session(write: Callable[..., Path]) -> Session:
    """A session of a shop; the customer is not found yet."""
    return load_policies(write("shop.yaml", RULES)).session()


class Agent:
    """Takes its steps from a list, and records the feedback."""

    def __init__(self, steps: Iterable[Any]) -> None:
        self._steps = iter(list(steps))
        self.feedback: list[str | None] = []

    def __call__(self, feedback: str | None) -> Any:
        self.feedback.append(feedback)
        return next(self._steps)


def enforced(session: Session, *steps: Any, max_replans: int = 3) -> tuple[ReplanResult, Agent]:
    agent = Agent(steps)
    return enforce(agent, session, max_replans), agent


def test_an_allowed_call_comes_with_its_permit(session: Session) -> None:
    """It is in flight, and its permit gives the arguments that were judged."""
    result, agent = enforced(session, FIND)
    (call,) = result.calls
    assert (call.tool, dict(call.args), session.use(call.permit)) == ("find", {"name": "Ann"}, {"name": "Ann"})
    assert (result.replans, result.denied, result.gave_up, agent.feedback) == (0, {}, False, [None])
    session.record("Ann", permit=call.permit)
    assert len(session.history) == 1


def test_the_feedback_has_the_reasons_and_the_remedy(session: Session) -> None:
    """The second step is allowed; the denials are counted by rule."""
    result, agent = enforced(session, TOO_MUCH, FIND)
    assert [call.tool for call in result.calls] == ["find"]
    assert (result.replans, result.denied, result.why) == (1, {"known": 1, "small": 1}, "allowed")
    assert agent.feedback[0] is None
    assert "Find the customer first." in str(agent.feedback[1])
    assert "To comply: Refund less." in str(agent.feedback[1])


@pytest.mark.parametrize("max_replans", [0, 1, 3])
def test_after_the_last_replan_control_returns_to_the_user(session: Session, max_replans: int) -> None:
    """The agent takes one step more than its replans, and no call is recorded."""
    result, agent = enforced(session, *[REFUND] * 10, max_replans=max_replans)
    assert (len(agent.feedback), result.replans, result.gave_up) == (max_replans + 1, max_replans, True)
    assert result.denied == {"known": max_replans + 1}
    assert result.verdict is not None
    assert result.verdict.decision is Decision.DENY
    assert "Find the customer first." in result.why
    assert (result.calls, session.history) == ((), ())


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_no_call_gives_control_to_the_user(session: Session, nothing: Any) -> None:
    """The same holds after a denial."""
    result, _ = enforced(session, REFUND, nothing)
    assert (result.calls, result.verdict, result.replans, result.gave_up) == ((), None, 1, False)
    assert result.why == "the agent proposed no call"


@pytest.mark.parametrize(
    "step", [DELETE, [FIND, DELETE], [CLOSE, DELETE], [FIND, REFUND, DELETE], [REFUND, FIND, DELETE]]
)
def test_a_halt_ends_it_at_once(session: Session, step: Any) -> None:
    """The halt persists, whatever was proposed with it; no other proposed call is recorded."""
    result, agent = enforced(session, step, FIND)
    assert (len(agent.feedback), result.calls, result.denied) == (1, (), {"gone": 1})
    assert result.verdict is not None
    assert result.verdict.decision is Decision.HALT
    assert session.halted
    assert session.history == ()


def test_a_session_that_was_halted_ends_it_at_once(session: Session) -> None:
    """The agent gets no other step."""
    session.check("delete")
    result, agent = enforced(session, FIND, FIND)
    assert (len(agent.feedback), result.calls, result.why) == (1, (), "the session is halted")


@pytest.mark.parametrize("step", [CLOSE, [FIND, CLOSE, FIND]])
def test_an_escalated_call_goes_back_to_the_host(session: Session, step: Any) -> None:
    """The host can have it approved."""
    result, agent = enforced(session, step, FIND)
    assert (len(agent.feedback), result.calls, result.gave_up) == (1, (), False)
    assert result.verdict is not None
    assert session.approve(result.verdict).decision is Decision.ALLOW
    assert [event.tool for event in session.history] == ["close"]


def test_a_call_that_escalates_only_with_others_is_denied(session: Session) -> None:
    """There is nothing to approve: the call is allowed by itself."""
    result, agent = enforced(session, [MAIL, MAIL], MAIL)
    assert (len(agent.feedback), result.denied) == (2, {"one_mail": 1})
    assert [call.tool for call in result.calls] == ["mail"]


def test_calls_proposed_together_are_allowed_all_or_none(session: Session) -> None:
    """The feedback names each call."""
    both = [("pay", {"to": "Ann"}), FIND]
    result, agent = enforced(session, [FIND, REFUND], both)
    assert "refund (call 2 of 2)" in str(agent.feedback[1])
    assert "find (call 1 of 2): this call alone would be allowed." in str(agent.feedback[1])
    assert [call.tool for call in result.calls] == ["pay", "find"]
    assert len(session.in_flight) == 2
    assert result.denied == {"known": 1}


@pytest.mark.parametrize(
    "step", ["find", 7, {}, ("find",), ("find", "Ann"), [FIND, "find"], [[FIND]], ("", {}), object()]
)
def test_an_invalid_step_is_denied(session: Session, step: Any) -> None:
    """The feedback says what was expected."""
    result, agent = enforced(session, step, FIND)
    assert (result.replans, result.unchecked, result.denied) == (1, 1, {})
    assert "expected" in str(agent.feedback[1])
    assert len(result.calls) == 1


def test_errors_of_the_agent_propagate(session: Session) -> None:
    """No call is in flight then."""

    def broken(feedback: str | None) -> Any:
        raise ConnectionError("no model")

    with pytest.raises(ConnectionError):
        enforce(broken, session)
    assert session.history == ()


@pytest.mark.parametrize("max_replans", [-1, 1.0, True, None, "3"])
def test_the_number_of_replans_is_checked(session: Session, max_replans: Any) -> None:
    """An invalid number raises before the first step."""
    with pytest.raises(InputError, match="max_replans"):
        enforced(session, max_replans=max_replans)


def test_reserve_is_not_an_option(session: Session) -> None:
    """Allowed calls are always reserved."""
    with pytest.raises(InputError, match="reserve"):
        enforce(Agent([FIND]), session, reserve=False)


def test_async(session: Session) -> None:
    """It works for a coroutine function; each variant rejects functions of the other kind."""

    async def step(feedback: str | None) -> Any:
        await asyncio.sleep(0)
        return FIND if feedback else REFUND

    result = asyncio.run(aenforce(step, session))
    assert ([call.tool for call in result.calls], result.replans) == (["find"], 1)
    with pytest.raises(InputError, match="aenforce"):
        enforce(step, session)
    with pytest.raises(InputError, match="not a coroutine"):
        asyncio.run(aenforce(Agent([FIND]), session))


def test_the_facts_of_the_step_are_the_calls(write: Callable[..., Path]) -> None:
    """Options are passed to the check."""
    rule = "version: 1\npolicies:\n  - id: sure\n    temporal: forall(pay(), fact(confirmed) == true)\n"
    session = load_policies(write("facts.yaml", rule)).session()
    assert enforce(Agent([("pay", {})] * 4), session).unchecked == 4
    assert len(enforce(Agent([("pay", {})]), session, facts={"confirmed": True}).calls) == 1
