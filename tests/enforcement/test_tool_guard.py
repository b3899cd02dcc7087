"""The guard of an agent's tools: it decides and never raises, whatever it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guardagent import Decision, InputError, Verdict
from guardagent.enforcement import HostCall, Outcome, ToolGuard
from guardagent.enforcement.tool_guard import gave_up
from guardagent.policy.load import compile_rules
from tests.enforcement.guards import LIMIT, ONCE, done, guard, ran, refund
from tests.frameworks.scenarios import ASKS, HALTED, broken_rules, guard_of


@pytest.mark.parametrize("fault", sorted(broken_rules()))
def test_rules_that_do_not_work_deny(fault: str, tmp_path: Path) -> None:
    """They raise, hang, or answer what is no answer; with await as without."""
    one = guard_of(tmp_path, ASKS, **broken_rules()[fault])
    call = HostCall("refund", {"order_id": "W1"}, "a")
    assert one.before(call).label == 1
    assert asyncio.run(one.abefore(HostCall("refund", {"order_id": "W1"}, "b"))).errors
    with pytest.raises(InputError):
        one.use(call)


class Unspeakable(Exception):  # noqa: N818 - it is none of ours
    """Its text cannot be asked for."""

    def __str__(self) -> str:
        raise self


@pytest.mark.parametrize("error", [RuntimeError, Unspeakable, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_nothing_that_a_rule_raises_gets_out(error: type[BaseException]) -> None:
    """Not even what would end the process, or the task of the host."""

    def state(conversation: str) -> Any:
        raise error

    one = guard("forall(refund(), state.open == true)", state=state)
    assert one.before(refund()).label == 1
    assert asyncio.run(one.abefore(refund())).label == 1


class AnySession:
    """A rule set of somebody else's: it answers what it is told to."""

    requests = rules = ()

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def session(self, *args: Any, **options: Any) -> AnySession:
        return self

    def check(self, *args: Any, **options: Any) -> Any:
        return self.answer


@pytest.mark.parametrize("answer", [None, True, "allow", 0, {"label": 0}, Verdict(Decision.ALLOW), Decision.ALLOW])
def test_what_is_no_verdict_with_a_permit_denies(answer: Any) -> None:
    """A session allows by a permit, and by nothing else."""
    one = ToolGuard(AnySession(answer))  # type: ignore[arg-type]
    assert one.before(refund()).label == 1


def cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


def deep() -> Any:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    return value


class Unreadable(dict[str, Any]):
    """A mapping that cannot be looked at."""

    def keys(self) -> Any:
        raise RuntimeError

    def __iter__(self) -> Any:
        raise RuntimeError


ODD_ARGUMENTS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "number": lambda: 7,
    "text": lambda: "amount",
    "pairs": lambda: [("amount", 5)],
    "other names": lambda: {1: 5},
    "contains itself": lambda: {"amount": cyclic()},
    "is itself": cyclic,
    "without end": lambda: {"amount": deep()},
    "unreadable": lambda: Unreadable(a=1),
    "not a number": lambda: {"amount": float("nan")},
    "too many digits": lambda: {"amount": 10**5000},
    "object": lambda: {"amount": object()},
}


@pytest.mark.parametrize("kind", ODD_ARGUMENTS)
def test_arguments_that_are_none_deny(kind: str) -> None:
    """Of another type, with other names, that hold themselves, without end."""
    one, args = guard(LIMIT), ODD_ARGUMENTS[kind]()
    assert one.before(HostCall("refund", args, "c")).label == 1
    assert one.refuse(HostCall("refund", args, "c"), "odd").label == 1


@pytest.mark.parametrize(
    "more",
    [
        {"tool": None},
        {"tool": ""},
        {"tool": ["refund"]},
        {"action": 7},
        {"tags": "refund"},
        {"tags": 7},
        {"facts": [1]},
        {"facts": None},
        {"facts": ""},
    ],
    ids=repr,
)
def test_a_call_of_the_wrong_types_is_denied(more: dict[str, Any]) -> None:
    """Each part of it may be anything."""
    verdict = guard(LIMIT).before(HostCall(**{"tool": "refund", "args": {"amount": 50}, "conversation": "c", **more}))
    assert verdict.label == 1


def test_facts_come_from_the_host_per_call() -> None:
    """From a function of the call, over which the call's own facts stand; what is no mapping denies."""
    rule = "forall(refund(), fact(vip) == true)"
    one = guard(rule, facts=lambda call: {"vip": call.agent == "desk"})
    assert [one.before(refund(agent=agent)).label for agent in ("desk", "bot")] == [0, 1]
    assert one.before(refund(facts={"vip": True})).label == 0
    assert guard(rule, facts=lambda call: None).before(refund()).errors


@pytest.mark.parametrize("what", ["facts", "state"])
def test_what_a_function_of_the_host_raises_is_not_for_the_model(what: str) -> None:
    """It may be anything of another user; the kind of the error is shown."""

    def broken(_: Any) -> Any:
        raise KeyError("bob_2")

    verdict = guard("forall(refund(amount=a), a <= state.most)", **{what: broken}).before(refund())
    assert (verdict.label, "KeyError" in verdict.feedback()) == (1, True)
    assert "bob_2" not in verdict.to_json() + verdict.feedback()


def test_the_state_is_that_of_the_conversation() -> None:
    """The function that gives it is told which."""
    one = guard("forall(refund(amount=a), a <= state.most)", state=lambda name: {"most": 100 if name == "vip" else 10})
    assert [one.before(refund(50, name)).label for name in ("vip", "any")] == [0, 1]


@pytest.mark.parametrize(
    "options",
    [
        {"on_log_error": "ignore"},
        {"max_replans": -1},
        {"max_replans": True},
        {"deadline": 0},
        {"deadline": float("nan")},
        {"deadline": float("inf")},
        {"deadline": "10"},
        {"facts": [("vip", True)]},
        {"aliases": ["refund"]},
        {"aliases": {"a": 1}},
        {"absent": "refund"},
        {"approver": "ann"},
        {"log": "audit.db"},
        {"answers": "gpt"},
    ],
    ids=repr,
)
def test_options_of_the_wrong_type_are_errors(options: dict[str, Any]) -> None:
    """At once, not at the first call."""
    with pytest.raises(InputError):
        guard(LIMIT, **options)


def test_functions_that_would_have_to_be_awaited_are_errors() -> None:
    """A check waits for the facts and the state."""

    async def gives(_: Any) -> dict[str, Any]:
        return {}

    for option in ("state", "facts"):
        with pytest.raises(InputError, match="coroutine function"):
            guard(LIMIT, **{option: gives})


@pytest.mark.parametrize("policies", [None, {}, 7, ["p.yaml"]])
def test_rules_of_the_wrong_type_are_errors(policies: Any) -> None:
    """They are a file, or what load_policies gave."""
    with pytest.raises(InputError, match="expected a policy file"):
        ToolGuard(policies)


# --- replans


def test_after_three_replans_control_returns_to_the_user() -> None:
    """The fourth turn that is denied says so, and so does every one after it."""
    one = guard(LIMIT)
    assert [gave_up(one.before(refund(500))) for _ in range(6)] == [False, False, False, True, True, True]


def test_calls_that_are_denied_in_one_turn_are_one_replan() -> None:
    """A model that proposes five calls at once is not given up on for them."""
    one = guard(LIMIT)
    steps = [step for step in "abcd" for _ in range(5)]
    assert [gave_up(one.before(refund(500, step=step))) for step in steps] == [False] * 15 + [True] * 5


def test_an_allowed_call_begins_the_count_anew() -> None:
    """It is replans in a row that count."""
    one = guard(LIMIT, max_replans=1)
    one.before(refund(500))
    one.before(refund(50))
    assert not gave_up(one.before(refund(500)))
    assert gave_up(one.before(refund(500)))


def test_what_could_not_even_be_judged_counts_as_well() -> None:
    """A model that writes no JSON is not asked for ever."""
    one = guard(LIMIT, max_replans=0)
    assert gave_up(one.refuse(HostCall("refund", {}, "c"), "no JSON"))
    assert gave_up(asyncio.run(one.arefuse(HostCall("refund", {}, "d"), "no JSON")))


def test_halt_denies_all_that_follows(tmp_path: Path) -> None:
    """In this conversation, and in no other."""
    one = guard_of(tmp_path, HALTED)
    assert one.before(HostCall("wire", {}, "a")).decision is Decision.HALT
    assert [one.before(HostCall("look", {}, name)).label for name in "ab"] == [1, 0]


# --- outcomes


def test_an_outcome_of_no_call_is_a_complaint(caplog: pytest.LogCaptureFixture) -> None:
    """It never raises, and nothing is recorded."""
    one = guard(LIMIT)
    for outcome in (Outcome(), None, "done"):
        one.after(refund(), outcome)  # type: ignore[arg-type]
        asyncio.run(one.aafter(refund(), outcome))  # type: ignore[arg-type]
    assert "was not recorded" in caplog.text


def test_an_outcome_that_cannot_be_recorded_leaves_its_call_in_flight() -> None:
    """It can be recorded once more, as a text."""
    one = guard(LIMIT)
    call = refund()
    one.before(call)
    done(one, call, deep())
    assert one.session("c").history[0].status is None
    one.after(call, Outcome("done"))
    assert one.session("c").history[0].status == "ok"


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("no"), "failed"), (TimeoutError(), "unknown"), (KeyboardInterrupt(), None), (Unspeakable(), "failed")],
)
def test_what_a_tool_raises_says_how_it_ended(error: BaseException, status: str | None) -> None:
    """What ran out of time may have done its work; what was interrupted is in flight still."""
    one = guard(LIMIT)
    call = refund()
    one.before(call)
    one.after(call, Outcome.of_error(error))
    assert one.session("c").history[0].status == status


def test_two_parallel_refunds_are_one_too_many() -> None:
    """The second is judged while the first is in flight."""
    one = guard(ONCE)
    first, second = refund(), refund()
    assert [one.before(first).label, one.before(second).label] == [0, 1]
    one.after(first, Outcome.of_error(asyncio.CancelledError()))
    assert one.before(refund()).label == 1


# --- answers


class Answers:
    """Judges answers: none may say what is secret."""

    def guard(self, agent_input: str, output: str, facts: Any = None) -> Any:
        if output == "crash":
            raise RuntimeError
        return Verdict(Decision.DENY if "secret" in output else Decision.ALLOW) if output != "odd" else "fine"


def test_final_answers_are_judged() -> None:
    """A judge that crashes or answers oddly denies, and so does a conversation without an id."""
    one = ToolGuard(compile_rules([LIMIT]), answers=Answers())  # type: ignore[arg-type]
    labels = {text: one.answer("c", "question", text).label for text in ("fine", "the secret", "crash", "odd")}
    assert labels == {"fine": 0, "the secret": 1, "crash": 1, "odd": 1}
    assert asyncio.run(one.aanswer("c", "question", "the secret")).label == 1
    assert one.answer("", "question", "fine").label == 1
    assert guard(LIMIT).answer("c", "question", "the secret").label == 0


def test_a_preview_leaves_no_trace() -> None:
    """It only says what would be said."""
    one = guard(ONCE)
    assert [one.preview(refund()).label, one.preview(refund()).label] == [0, 0]
    ran(one, refund())
    assert one.preview(refund()).label == 1
