"""Conversations in a ledger: a restart, a crash or another process does not change which calls may run.

Every ledger that outlives its process passes these tests.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from guardagent import Decision, InputError
from guardagent.enforcement import HostCall, Outcome, ToolGuard
from tests.enforcement.guards import AUTHENTICATED, ONCE, done, guard, ran, refund
from tests.frameworks.scenarios import HALTED, guard_of
from tests.processes import at_once, is_true_in_child
from tests.stores import content, new_ledger, unavailable

LOGIN = HostCall("authenticate", {}, "c")
TOTAL = "forall(refund(amount=a), sum(f:refund(amount=b), true, b) + a <= 100)"
RECEIPT = "after(refund(order=o), true, f:receipt(order=o), true)"


def begun(address: str, *rules: str, **options: Any) -> ToolGuard:
    """Returns a guard as a process creates it when it starts."""
    return guard(*rules, ledger=new_ledger(address), **options)


# --- restarts


def test_a_restart_continues_the_conversation(address: str) -> None:
    """Rules on order, number and sum count the calls before the restart; other conversations are separate."""
    rules = (AUTHENTICATED, ONCE, TOTAL)
    ran(begun(address, *rules), LOGIN)
    ran(begun(address, *rules), refund(60))
    tool_guard = begun(address, *rules)
    assert tool_guard.before(refund(1)).label == 1
    other = HostCall("refund", {"amount": 41, "order": "W2"}, "c")
    assert tool_guard.before(other).label == 1
    ran(tool_guard, HostCall("refund", {"amount": 40, "order": "W2"}, "c"))
    assert tool_guard.before(refund(1, conversation="d")).label == 1
    assert [(event.tool, event.status) for event in begun(address, *rules).session("c").history] == [
        ("authenticate", "ok"), ("refund", "ok"), ("refund", "ok"),
    ]  # fmt: skip


def test_outcomes_survive_a_restart(address: str) -> None:
    """A failed login does not count, and an obligation stays pending until the obliged call succeeds."""
    tool_guard = begun(address, AUTHENTICATED, RECEIPT)
    ran(tool_guard, LOGIN, "no", failed=True)
    assert begun(address, AUTHENTICATED, RECEIPT).before(refund()).label == 1
    ran(begun(address, AUTHENTICATED, RECEIPT), LOGIN)
    ran(begun(address, AUTHENTICATED, RECEIPT), refund())
    assert begun(address, AUTHENTICATED, RECEIPT).session("c").obligations
    ran(begun(address, AUTHENTICATED, RECEIPT), HostCall("receipt", {"order": "W1"}, "c"))
    assert begun(address, AUTHENTICATED, RECEIPT).session("c").obligations == {}


@pytest.mark.parametrize("used", [False, True])
def test_a_crash_leaves_the_call_in_flight(address: str, used: bool) -> None:
    """A call that may have run when the process crashed does not run again and satisfies no rule."""
    for call in (LOGIN, refund()):
        tool_guard = begun(address, ONCE)
        tool_guard.before(call)
        if used:
            tool_guard.use(call)
    again = begun(address, ONCE, AUTHENTICATED)
    with pytest.raises(InputError, match="another policy"):
        again.session("c")
    again = begun(address, ONCE)
    assert again.before(refund()).label == 1
    with pytest.raises(InputError, match="in flight"):
        again.use(refund(id="1"))
    for permit in (session := again.session("c")).in_flight:
        with pytest.raises(InputError, match="already used"):
            session.use(permit)
    assert [event.status for event in session.history] == [None, None]


def test_a_login_with_an_unknown_outcome_allows_nothing(address: str) -> None:
    begun(address, AUTHENTICATED).before(LOGIN)
    assert begun(address, AUTHENTICATED).before(refund()).label == 1


def test_a_call_that_failed_may_run_again(address: str) -> None:
    """After a restart, a rule that counts only calls that did not fail ignores the failed one."""
    rule = "forall(refund(order=o), count(f:refund(order=o), !failed(f)) == 0)"
    ran(begun(address, rule), refund(), "no", failed=True)
    ran(begun(address, rule), refund())
    assert begun(address, rule).before(refund()).label == 1


def test_an_outcome_can_be_recorded_after_a_restart(address: str) -> None:
    begun(address, AUTHENTICATED).before(LOGIN)
    again = begun(address, AUTHENTICATED)
    (permit,) = again.session("c").in_flight
    again.session("c").record("done", permit=permit)
    assert begun(address, AUTHENTICATED).before(refund()).label == 0


def test_a_halted_conversation_stays_halted(address: str, tmp_path: Path) -> None:
    def opened() -> ToolGuard:
        return guard_of(tmp_path, HALTED, ledger=new_ledger(address))

    other = opened()
    assert other.before(HostCall("look", {}, "c")).label == 0
    assert opened().before(HostCall("wire", {}, "c")).decision is Decision.HALT
    assert [each.before(HostCall("look", {}, "c")).label for each in (other, opened())] == [1, 1]
    assert opened().before(HostCall("look", {}, "d")).label == 0


def test_an_ended_conversation_restarts_in_all_processes(address: str) -> None:
    """Other processes see the end, too, and the open calls of the ended conversation do not run there."""
    first, other = begun(address, ONCE), begun(address, ONCE)
    ran(first, refund())
    assert other.before(refund()).label == 1
    open_call = HostCall("look", {}, "c")
    other.before(open_call)
    first.end("c")
    assert other.before(refund(id="new")).label == 0
    with pytest.raises(InputError):
        other.use(open_call)
    other.after(open_call, Outcome())
    assert begun(address, ONCE).before(refund()).label == 1
    assert [event.id for event in begun(address, ONCE).session("c").history] == ["new"]
    with pytest.raises(InputError, match="has begun"):
        first.end("never")


def test_an_ended_conversation_leaves_no_content_behind(address: str) -> None:
    tool_guard = begun(address, ONCE)
    ran(tool_guard, HostCall("look", {"secret": "s3cret-value"}, "c"), "s3cret-value")
    tool_guard.end("c")
    assert "s3cret-value" not in content(address)


def test_messages_may_show_calls_proposed_before_a_restart(address: str) -> None:
    """They may show calls that ran or were denied, but not calls that bypassed the guard."""
    tool_guard = begun(address, ONCE)
    ran(tool_guard, refund(id="a"))
    tool_guard.before(refund(id="b"))
    again = begun(address, ONCE)
    look = HostCall("look", {}, "c", seen=("a", "b"))
    assert again.before(look).label == 0
    other = HostCall("refund", {"order": "W2"}, "c", seen=("a", "b", "x"))
    assert "never saw" in again.before(other).errors[0]


def test_another_policy_does_not_continue_a_conversation(address: str) -> None:
    """Its rules have not checked the earlier calls; the conversation can be ended."""
    ran(begun(address, ONCE), refund())
    other = begun(address, TOTAL)
    assert "began under another policy" in other.before(refund(1)).errors[0]
    assert other.before(refund(1)).label == 1
    assert other.end("c").label == 1
    assert other.before(refund(1)).label == 0


# --- concurrency


def test_a_call_recorded_by_another_process_in_between_counts(address: str) -> None:
    """If two processes judge the same refund, the second to record it judges again."""
    rule = f"{ONCE[:-1]} && state.open == true)"
    other = begun(address, rule, state={"open": True})
    paid: list[Any] = []

    def meanwhile(_: str) -> dict[str, bool]:
        if not paid:
            paid.append(other.before(first := refund()))
            done(other, first)
        return {"open": True}

    verdict = begun(address, rule, state=meanwhile).before(refund())
    assert ([verdict_of_other.label for verdict_of_other in paid], verdict.label, verdict.decision) == (
        [0],
        1,
        Decision.DENY,
    )


def test_concurrent_outcomes_are_all_kept(address: str) -> None:
    """Two guards record outcomes of one conversation from several threads."""
    guards = [begun(address, RECEIPT), begun(address, RECEIPT)]

    def work(number: int) -> None:
        tool_guard = guards[number % 2]
        for tool in ("refund", "receipt"):
            ran(tool_guard, HostCall(tool, {"order": f"W{number}"}, "c"), f"{tool} {number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(24)))
    histories = [tool_guard.session("c").history for tool_guard in (*guards, begun(address, RECEIPT))]
    assert histories[0] == histories[1] == histories[2]
    assert {(event.status, event.output) for event in histories[0]} == {
        ("ok", f"{tool} {number}") for tool in ("refund", "receipt") for number in range(24)
    }
    assert [tool_guard.session("c").obligations for tool_guard in guards] == [{}, {}]


def _pays(address: str, paid: str) -> Callable[[], None]:
    tool_guard = begun(address, ONCE)

    def pay() -> None:
        for order in range(20):
            call = HostCall("refund", {"order": f"W{order}"}, "c")
            if tool_guard.before(call).label == 0:
                tool_guard.use(call)
                with Path(paid).open("a", encoding="utf-8") as file:
                    file.write(f"W{order}\n")
                tool_guard.after(call, Outcome("done"))

    return pay


@pytest.mark.slow
def test_processes_that_pay_at_once_pay_each_order_once(address: str, tmp_path: Path) -> None:
    """Three processes share one ledger."""
    paid = tmp_path / "paid"
    new_ledger(address)
    at_once(_pays, [(address, str(paid))] * 3)
    assert sorted(paid.read_text().split()) == sorted(f"W{order}" for order in range(20))


def test_a_fork_continues_the_conversation(address: str) -> None:
    tool_guard = begun(address, ONCE)
    ran(tool_guard, refund())
    other = HostCall("refund", {"order": "W2"}, "c")

    def continues() -> bool:
        is_denied = tool_guard.before(refund()).label == 1
        ran(tool_guard, other)
        return is_denied

    assert is_true_in_child(continues)
    assert tool_guard.before(other).label == 1


# --- write errors


def test_calls_that_cannot_be_written_do_not_run(address: str) -> None:
    """If the ledger is missing or an argument is not JSON, the call is denied and not in flight."""
    tool_guard = begun(address, ONCE)
    assert tool_guard.before(HostCall("look", {"at": object()}, "c")).label == 1
    assert tool_guard.session("c").history == ()
    with unavailable(address):
        assert tool_guard.before(refund()).label == 1


def test_a_non_json_outcome_is_unknown_to_other_processes(address: str) -> None:
    rule = "forall(refund(), count(f:look(), output(f) == 1) == 0)"
    ran(tool_guard := begun(address, rule), HostCall("look", {}, "c"), object())
    ran(tool_guard, HostCall("look", {}, "c"), {"n": decimal.Decimal("1.50")})
    history = begun(address, rule).session("c").history
    assert [(event.status, event.output) for event in history] == [("ok", None), ("ok", {"n": decimal.Decimal("1.50")})]
    assert begun(address, rule).before(refund()).label == 1


def test_an_unwritten_outcome_is_unknown(address: str) -> None:
    """The call stays in flight in every process; once the ledger is available again, the outcome can be recorded."""
    tool_guard = begun(address, AUTHENTICATED)
    tool_guard.before(LOGIN)
    tool_guard.use(LOGIN)
    with unavailable(address):
        tool_guard.after(LOGIN, Outcome("done"))
        assert tool_guard.before(refund()).label == 1
    assert tool_guard.before(refund()).label == 1
    tool_guard.after(LOGIN, Outcome("done"))
    assert tool_guard.before(refund()).label == 0


def test_snapshots_do_not_bypass_the_ledger(address: str) -> None:
    key = b"0123456789abcdef"
    other = guard(ONCE)
    ran(other, refund())
    with pytest.raises(InputError, match="of its ledger"):
        begun(address, ONCE).restore(other.session("c").snapshot(key), key)


def test_a_withdrawal_holds_in_all_processes(address: str) -> None:
    """Any process may make the call again, now and after a restart; a call that ran elsewhere stays recorded."""
    first, other = begun(address, ONCE, RECEIPT), begun(address, ONCE, RECEIPT)
    call = refund()
    assert first.before(call).label == 0
    assert other.before(refund()).label == 1
    first.withdraw(call, "the host shut down")
    assert other.session("c").obligations == {}
    ran(other, refund())
    assert first.before(refund()).label == 1
    again = begun(address, ONCE, RECEIPT)
    assert [event.status for event in again.session("c").history] == ["ok"]
    assert len(again.session("c").obligations) == 1
