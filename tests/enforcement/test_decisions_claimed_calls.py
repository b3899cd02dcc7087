"""Calls that another program runs: any process answers and settles them, and each has one place."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent.enforcement import HostCall, Outcome, ToolGuard
from guardagent.enforcement.conversations import NotBegunError
from guardagent.enforcement.ledger.history import FinalLedger
from guardagent.session.calls import ClaimConflictError, NotClaimedError, SessionEndedError
from guardagent.types import Decision
from tests.enforcement.guards import LIMIT, ONCE, STOPPED, MemoryLog, guard, refund, yes
from tests.processes import stop, stopped
from tests.stores import new_counters, new_ledger, store_address

TWICE = "forall(refund(), count(f:refund()) < 2)"


def server(address: str, *rules: str, **options: Any) -> ToolGuard:
    """Returns a guard as a process of its own opens it."""
    return guard(*(rules or (LIMIT,)), ledger=FinalLedger(new_ledger(address)), **options)


def file_server(address: str, folder: Path, on_violation: str) -> ToolGuard:
    """As `server`, with a rule that does not deny."""
    (folder / "policy.yaml").write_text(
        f"version: 1\npolicies:\n  - id: dear\n    on_violation: {on_violation}\n"
        "    temporal: forall(refund(amount=a), a <= 10)\n"
    )
    return ToolGuard(folder / "policy.yaml", ledger=FinalLedger(new_ledger(address)))


def claimed(claim: str = "request 1", name: str = "call 1", amount: Any = 50) -> HostCall:
    return refund(amount, id=name, claim=claim)


def test_any_process_repeats_the_verdict_and_settles_the_call_once(address: str) -> None:
    first, second = server(address), server(address)
    verdict = first.before(claimed())
    again = second.before(claimed())
    assert (verdict.label, again.to_dict()) == (0, verdict.to_dict())
    assert len(second.session("c").history) == 1

    settled = second.claimed_calls.record("c", "call 1", Outcome({"paid": 50}))
    repeated = first.claimed_calls.record("c", "call 1", Outcome({"paid": 50}))
    assert (settled and settled.repeated, repeated and repeated.repeated) == (False, True)
    with pytest.raises(ClaimConflictError, match="nothing was recorded again"):
        first.claimed_calls.record("c", "call 1", Outcome({"paid": 50.0}))
    with pytest.raises(ClaimConflictError):
        first.claimed_calls.withdraw("c", "call 1", "it never ran")
    assert [event.output for event in server(address).session("c").history] == [{"paid": 50}]


@pytest.mark.parametrize(
    ("other", "problem"),
    [(claimed("request 2"), "in flight for another request"), (claimed(amount=51), "belongs to another call")],
)
def test_an_id_is_claimed_once(other: HostCall, problem: str, tmp_path: Path) -> None:
    first, second = (server(f"sqlite:{tmp_path}/ledger.db") for _ in range(2))
    assert first.before(claimed()).label == 0
    for tool_guard in (first, second):
        assert problem in tool_guard.before(other).reasons[0]
    second.claimed_calls.record("c", "call 1", Outcome())
    for tool_guard in (first, second):
        assert "has ended already" in tool_guard.before(claimed()).reasons[0]


def test_a_warning_is_repeated_with_its_violations(tmp_path: Path) -> None:
    first, second = (file_server(f"sqlite:{tmp_path}/ledger.db", tmp_path, "warn") for _ in range(2))
    verdict = first.before(claimed())
    assert (verdict.decision, second.before(claimed()).to_dict()) == (Decision.WARN, verdict.to_dict())


def test_a_call_that_was_withdrawn_before_its_check_never_runs(address: str) -> None:
    first, second = server(address), server(address)
    first.before(claimed(name="other"))
    assert second.claimed_calls.withdraw("c", "call 1", "the client gave up") is None
    assert "was withdrawn before" in first.before(claimed()).reasons[0]
    withdrawn = second.claimed_calls.withdraw("c", "other", "it never ran")
    assert withdrawn is not None
    assert first.session("c").history == ()
    with pytest.raises(ClaimConflictError):
        first.claimed_calls.record("c", "other", Outcome())


def test_unknown_calls_and_conversations_are_not_settled(address: str) -> None:
    tool_guard = server(address)
    with pytest.raises(NotBegunError):
        tool_guard.claimed_calls.record("c", "call 1", Outcome())
    tool_guard.before(claimed())
    with pytest.raises(NotClaimedError):
        tool_guard.claimed_calls.record("c", "call 2", Outcome())
    assert tool_guard.claimed_calls.record("c", "call 1", Outcome(ended=False)) is None
    assert tool_guard.claimed_calls.record("c", "call 1", Outcome()) is not None


def test_a_conversation_that_ended_does_not_begin_anew(address: str) -> None:
    first, second = server(address), server(address)
    first.before(claimed())
    assert first.claimed_calls.finish("c").label == 0
    assert "halted" in second.before(claimed(name="call 2")).reasons[0]
    first.claimed_calls.recorder.conversations.drop("c")
    new_ledger(address).end("c")
    for tool_guard in (first, second, server(address)):
        assert "was ended" in tool_guard.before(claimed(name="call 3")).reasons[0]
        with pytest.raises(SessionEndedError):
            tool_guard.claimed_calls.record("c", "call 1", Outcome())


def test_a_counter_counts_what_another_process_settles(address: str, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        "version: 1\ncounters:\n  paid: {on: refund(amount=a), sum: a, window: 24h}\n"
        "policies:\n  - id: cap\n    temporal: forall(refund(amount=a), counter(paid) + a <= 100)\n"
    )
    with store_address(address.partition(":")[0], tmp_path) as counters:

        def new() -> ToolGuard:
            ledger = FinalLedger(new_ledger(address))
            return ToolGuard(tmp_path / "policy.yaml", ledger=ledger, counters=new_counters(counters))

        first, second = new(), new()
        assert first.before(claimed()).label == 0
        assert second.before(claimed()).label == 0
        second.claimed_calls.record("c", "call 1", Outcome(failed=True))
        assert second.before(claimed("request 2", "call 2", 100)).label == 0
        first.claimed_calls.record("c", "call 2", Outcome())
        assert second.before(claimed("request 3", "call 3", 1)).label == 1


def test_an_approval_lets_a_call_run_once_whatever_process_gets_it(address: str, tmp_path: Path) -> None:
    first, second = (file_server(address, tmp_path, "escalate") for _ in range(2))
    call = claimed(amount=500)
    assert first.before(call).decision is Decision.ESCALATE
    allowed = second.resolve(call, yes(call))
    assert (allowed.label, first.resolve(call, yes(call)).to_dict()) == (0, allowed.to_dict())
    other = replace(call, claim="request 2")
    assert first.resolve(other, yes(other)).label == 1
    first.claimed_calls.record("c", "call 1", Outcome())
    assert second.resolve(call, yes(call)).label == 1
    assert len(second.session("c").history) == 1


def test_a_call_whose_verdict_was_not_logged_waits_for_its_program(tmp_path: Path) -> None:
    log = MemoryLog()
    tool_guard = server(f"sqlite:{tmp_path}/ledger.db", log=log)
    log.error = OSError("the disk is full")
    assert "cannot be written" in tool_guard.before(claimed()).reasons[-1]
    log.error = None
    assert tool_guard.before(claimed()).label == 0  # the same request, now in the log
    tool_guard.claimed_calls.withdraw("c", "call 1", "it never ran")
    assert [record["kind"] for record in log.records] == ["verdict", "outcome"]


def test_a_check_that_ends_late_leaves_a_call_that_its_program_withdraws(tmp_path: Path) -> None:
    def state(_: str) -> dict[str, bool]:
        time.sleep(0.4)
        return {"open": True}

    tool_guard = server(f"sqlite:{tmp_path}/ledger.db", STOPPED, state=state, deadline=0.1)
    assert tool_guard.before(claimed()).label == 1
    assert tool_guard.claimed_calls.may_hold(claimed())
    assert tool_guard.claimed_calls.withdraw("c", "call 1", "no answer") is not None  # once the check has ended
    for _ in range(100):  # its thread is about to say so
        if not tool_guard.claimed_calls.may_hold(claimed()):
            break
        time.sleep(0.05)
    assert not tool_guard.claimed_calls.may_hold(claimed())
    assert tool_guard.session("c").history == ()


def test_a_claimed_call_does_not_expire(tmp_path: Path) -> None:
    times = [1000.0]
    tool_guard = server(f"sqlite:{tmp_path}/ledger.db", clock=lambda: times[0])
    assert tool_guard.before(claimed()).label == 0
    times[0] += 10_000
    assert tool_guard.before(claimed("request 2", "call 2")).label == 0
    settled = tool_guard.claimed_calls.record("c", "call 1", Outcome("done"))
    assert settled is not None
    assert not settled.repeated


def stop_while_judging(address: str) -> None:
    """Judges a claimed call, and stops when the rule looks at the state. Prints the label and the reasons."""
    stops = [1]

    def state(_: str) -> dict[str, bool]:
        if stops:
            stops.clear()
            stop()
        return {"open": True}

    verdict = server(address, STOPPED, state=state).before(claimed())
    sys.stdout.write(f"{verdict.label} {verdict.reasons}\n")


@pytest.mark.slow
@pytest.mark.parametrize("action", ["repeat", "settle", "withdraw", "end"])
def test_a_process_that_was_stopped_adds_nothing_late(action: str, address: str) -> None:
    with stopped(stop_while_judging, address) as process:
        other = server(address, STOPPED, state={"open": True})
        if action == "withdraw":
            other.claimed_calls.withdraw("c", "call 1", "the client gave up")
        else:
            verdict = other.before(claimed())
            assert verdict.label == 0
        if action == "settle":
            other.claimed_calls.record("c", "call 1", Outcome("done"))
        if action == "end":
            other.claimed_calls.finish("c")
            new_ledger(address).end("c")
        os.kill(process.pid, signal.SIGCONT)
        answer = process.communicate(timeout=30)[0]
        expected = {"repeat": "0 ()", "settle": "has ended already", "withdraw": "was withdrawn before"}
        assert expected.get(action, "was ended") in answer
        if action != "end":
            assert len(server(address, STOPPED, state={"open": True}).claimed_calls.session("c").history) == (
                0 if action == "withdraw" else 1
            )


def test_a_released_conversation_is_freed_without_a_collection_of_garbage(tmp_path: Path) -> None:
    """A server keeps many of them; a full collection would hold up all others."""
    held = server(f"sqlite:{tmp_path / 'ledger.db'}", ONCE, "before(refund(order=o), True, f:find(order=o), True)")
    gc.collect()
    gc.disable()
    try:
        for tool in ("find", "refund"):
            call = HostCall(tool, {"order": "a", "amount": 1}, "c", tool, claim=tool)
            assert held.before(call).label == 0
            held.claimed_calls.record("c", tool, Outcome("done"))
        session = weakref.ref(held.claimed_calls.session("c"))
        held.release("c")
        held.before(replace(call, conversation="d"))  # the thread of the last check lets go of it
        assert session() is None
    finally:
        gc.enable()
