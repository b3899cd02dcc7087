"""Runs that every host's adapter must pass: each stands once, and a host only says how it runs an agent.

    def run(guard, shop, *turns, named="c1", awaited=False) -> Ran: ...
    test_guarded_run = guarded_run_test({"agent": run}, WorkflowHalted)

The tools are `refund`, `wire` and `authenticate` of the shop. See also the scenarios of the conformance suite.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from guardagent.enforcement import Approval, ApprovalRequest
from guardagent.errors import InputError
from tests.frameworks.scenarios import (
    APPROVED,
    ASKS,
    AT_MOST_ONE,
    AUTHENTICATED,
    HALTED,
    LIMIT,
    MISSPELT,
    OVER_LIMIT,
    PENDING,
    Shop,
    broken_rules,
    guard_of,
)


@dataclass(frozen=True)
class Ran:
    """The outcome of a run.

    Attributes:
        answer: what the user gets.
        read: what the model has read, request by request.
        failed: whether each result that the model has read last was marked as an error; None if the host has no mark.
    """

    answer: Any
    read: list[str]
    failed: list[bool] | None = None


Run = Callable[..., Ran]
"""Runs a guarded agent with the tools of a shop: `run(guard, shop, *turns, named="c1", awaited=False)`.

A turn is a text or a list of (tool, arguments); `named` is the conversation, or None; with `awaited` the tool `refund`
is `shop.arefund`.
"""


@dataclass(frozen=True)
class Stage:
    """A host on which a run takes place.

    Attributes:
        run: runs an agent.
        halted: the error with which a halt ends a run.
        folder: for the policies.
        written: whether a model's arguments are JSON text, which may be malformed.
        strict: whether a call with an unknown argument is refused; otherwise the host leaves the argument out.
    """

    run: Run
    halted: type[Exception]
    folder: Path
    written: bool
    strict: bool


GuardedRun = Callable[[Stage], None]
RUNS: dict[str, GuardedRun] = {}


def guarded_run_test(
    forms: Mapping[str, Run],
    halted: type[Exception],
    *,
    written: bool = False,
    strict: bool = True,
    without: Sequence[str] = (),
) -> Callable[..., None]:
    """Returns a test of a host in all its forms, by all runs here but those that it tests itself."""

    @pytest.mark.parametrize("form", forms)
    @pytest.mark.parametrize("name", [name for name in RUNS if name not in without])
    def test_guarded_run(name: str, form: str, tmp_path: Path) -> None:
        """The tools, the model and the user get what the rules allow."""
        RUNS[name](Stage(forms[form], halted, tmp_path, written, strict))

    return test_guarded_run


def guarded_run(function: GuardedRun) -> GuardedRun:
    """Adds a run to the list."""
    RUNS[function.__name__.replace("_", " ")] = function
    return function


def refund(amount: Any, order_id: str = "W1") -> list[tuple[str, Any]]:
    """A turn with one refund."""
    return [("refund", {"order_id": order_id, "amount": amount})]


def login(code: str) -> list[tuple[str, Any]]:
    """A turn with one login."""
    return [("authenticate", {"email": "a@b.c", "code": code})]


@guarded_run
def a_denied_refund_is_replanned(stage: Stage) -> None:
    """500 is denied as the tool's error, with the reason and the remedy; 50 is paid."""
    shop = Shop()
    ran = stage.run(guard_of(stage.folder, LIMIT), shop, refund(500), refund(50), "paid")
    assert (shop.refunds, ran.answer) == ([("W1", 50)], "paid")
    assert "refund 100 or less" in ran.read[1]
    assert ran.failed in (None, [True, False])


@guarded_run
def after_three_replans_control_returns_to_the_user(stage: Stage) -> None:
    """The fourth denied turn ends the run with the reason as its answer; the next run starts from zero."""
    shop, guard = Shop(), guard_of(stage.folder, LIMIT)
    tired = stage.run(guard, shop, *[refund(500 + n) for n in range(6)])
    assert "control returns to the user" in tired.answer
    assert (len(tired.read), shop.refunds) == (4, [])
    assert stage.run(guard, shop, refund(500), refund(50), "paid").answer == "paid"
    assert shop.refunds == [("W1", 50)]


@guarded_run
def a_halt_ends_the_run(stage: Stage) -> None:
    """The run raises the verdict; afterwards nothing runs in this conversation, and the model reads why."""
    shop, guard = Shop(), guard_of(stage.folder, HALTED)
    with pytest.raises(stage.halted, match="No money leaves the bank") as halted:
        stage.run(guard, shop, [("wire", {"amount": 5})], refund(50), "paid")
    verdict: Any = getattr(halted.value, "verdict", None)
    assert (verdict.decision, verdict.rules) == ("halt", ("no_wire",))
    assert guard.session("c1").halted
    assert "halted" in stage.run(guard, shop, refund(50), "sorry").read[1]
    assert (shop.wired, shop.refunds) == ([], [])


@guarded_run
def broken_rules_deny(stage: Stage) -> None:
    """A rule that raises, hangs or returns an invalid result is a denial; the run goes on."""
    for fault, options in broken_rules().items():
        shop = Shop()
        ran = stage.run(guard_of(stage.folder, ASKS, **options), shop, refund(50), "sorry")
        assert (shop.refunds, ran.answer) == ([], "sorry"), fault
        assert "could not be checked" in ran.read[1], fault


@guarded_run
def no_spelling_of_an_amount_gets_past_the_limit(stage: Stage) -> None:
    """The shop pays at most 100, whatever the model writes; a sync tool and an async one alike."""
    for spelling, text in OVER_LIMIT.items():
        for awaited in (False, True):
            shop = Shop()
            arguments = text if stage.written else json.loads(text)
            stage.run(guard_of(stage.folder, LIMIT), shop, [("refund", arguments)], "done", awaited=awaited)
            assert shop.most <= 100, spelling


@guarded_run
def a_run_without_a_conversation_is_denied(stage: Stage) -> None:
    """The denial explains what to configure."""
    shop = Shop()
    ran = stage.run(guard_of(stage.folder, LIMIT), shop, refund(5), "sorry", named=None)
    assert shop.refunds == []
    assert "names no conversation" in ran.read[1]


@guarded_run
def only_a_successful_login_counts(stage: Stage) -> None:
    """A refund is denied before a login and after a failed one, and paid after a successful one."""
    shop, guard = Shop(), guard_of(stage.folder, AUTHENTICATED)
    stage.run(guard, shop, refund(5), login("0"), refund(6), login("1234"), refund(7), "done")
    assert (shop.logins, shop.refunds) == (["a@b.c"], [("W1", 7)])
    history = [(event.tool, event.status) for event in guard.session("c1").history]
    assert history == [("authenticate", "failed"), ("authenticate", "ok"), ("refund", "ok")]


@guarded_run
def a_run_ends_no_conversation(stage: Stage) -> None:
    """A later run can do what one owes; `guard.end` says what is missing, and the next run begins from nothing."""
    shop, guard = Shop(), guard_of(stage.folder, PENDING)
    stage.run(guard, shop, refund(5), "later")
    stage.run(guard, shop, [("wire", {"amount": 5})], "done")
    assert guard.end("c1").label == 0
    for amount in (6, 7):  # a refund while another one is owed is denied
        stage.run(guard, shop, refund(amount), "done")
        assert guard.end("c1").reasons == ("at the end: Wire what you refund.",)
    assert (shop.refunds, shop.wired) == ([("W1", 5), ("W1", 6), ("W1", 7)], [5])


@guarded_run
def of_two_equal_refunds_one_is_paid(stage: Stage) -> None:
    """They are in one message with another; two conversations pay one each, by functions and by coroutines."""
    for awaited in (False, True):
        shop, guard = Shop(), guard_of(stage.folder, AT_MOST_ONE)
        for named in ("c1", "c2"):
            calls = [*refund(5), *refund(5), *refund(7, "W2")]
            ran = stage.run(guard, shop, calls, "done", named=named, awaited=awaited)
            assert ran.failed is None or sum(ran.failed) == 1
        assert sorted(shop.refunds) == [("W1", 5), ("W1", 5), ("W2", 7), ("W2", 7)]


@guarded_run
def an_approver_decides_and_edits(stage: Stage) -> None:
    """An approval pays once, an edit what the rules allow; a rejection and an approver that fails pay nothing."""
    for decision, paid in (
        (True, [("W1", 500)]),
        (Approval("edit", {"order_id": "W1", "amount": 60}), [("W1", 60)]),
        (Approval("edit", {"order_id": "W1", "amount": 5000}), []),
        (Approval("edit", {"order_id": "W1", "amount": 60, "more": 1}), [] if stage.strict else [("W1", 60)]),
        (Approval("edit", {"order_id": "W1", "amount": "much"}), []),
        (Approval("reject", reason="too much"), []),
        ("gibberish", []),
        (RuntimeError("the phone is dead"), []),
    ):
        shop, shown = Shop(), list[Any]()

        def approve(request: ApprovalRequest, decision: Any = decision, shown: list[Any] = shown) -> Any:
            shown.append(dict(request.args))
            if isinstance(decision, Exception):
                raise decision
            return decision

        ran = stage.run(guard_of(stage.folder, APPROVED, approver=approve), shop, refund(500), "done")
        assert (shop.refunds, ran.answer) == (paid, "done"), decision
        assert shown == [{"order_id": "W1", "amount": 500}]


@guarded_run
def a_misspelt_tool_is_found(stage: Stage) -> None:
    """Nothing runs under rules for a tool that the agent lacks, and the error names it."""
    shop = Shop()
    with pytest.raises((InputError, RuntimeError), match=r"names the tool 'refnud'.* did you mean 'refund'"):
        stage.run(guard_of(stage.folder, MISSPELT), shop, refund(50), "paid")
    assert shop.refunds == []
