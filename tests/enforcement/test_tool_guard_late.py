"""Checks that exceed the deadline deny, and calls that they allow later do not run."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from guardagent import InputError
from guardagent.enforcement import HostCall, Outcome, SqliteLedger, ToolGuard
from guardagent.enforcement.tool_guard import gave_up
from tests.enforcement.guards import MemoryLog, guard, ran, refund
from tests.processes import at_once

OPEN = "forall(refund(), state.open == true)"
LOOK = HostCall("look", {}, "c")


class Slow:
    """A state function that blocks until the test releases it."""

    def __init__(self) -> None:
        self.waits = True
        self.requests, self.release = threading.Event(), threading.Event()

    def __call__(self, conversation: str) -> dict[str, Any]:
        if self.waits and conversation == "c":
            self.requests.set()
            self.release.wait(10)
        return {"open": True}


@pytest.fixture
def slow() -> Iterator[Slow]:
    state = Slow()
    yield state
    state.release.set()


def until(true: Callable[[], bool]) -> None:
    """Waits until a condition holds; the test's own time limit ends the wait."""
    while not true():
        threading.Event().wait(0.001)


def open_checks(tool_guard: ToolGuard) -> int:
    return tool_guard.claimed_calls.conversations.known("c").hung_checks


def test_a_late_check_denies_and_is_withdrawn(slow: Slow) -> None:
    """If the check finally allows the call, the call is withdrawn because it never ran."""
    tool_guard = guard(OPEN, state=slow, deadline=0.5)
    call = refund()
    assert "took more than 0.5 s" in tool_guard.before(call).errors[0]
    slow.release.set()
    until(lambda: open_checks(tool_guard) == 0)
    assert tool_guard.session("c").history == ()
    with pytest.raises(InputError):
        tool_guard.use(call)


def test_a_ledger_that_hangs_holds_no_caller(tmp_path: Path) -> None:
    """The denial comes in time, as other conversations may run in the caller's thread."""
    tool_guard = guard(OPEN, state={"open": True}, deadline=0.2, ledger=SqliteLedger(tmp_path / "ledger.db"))
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    verdict = tool_guard.before(refund())
    assert tool_guard._pool._idle == 0  # the check still waits for the ledger; no public name says so
    other.execute("ROLLBACK")
    assert "took more than 0.2 s" in verdict.errors[0]
    other.close()


def test_a_principal_that_hangs_holds_no_caller() -> None:
    """Neither at the first check of a conversation nor at a later one; what a late check allows does not run."""
    release = threading.Event()
    release.set()
    principal = {"id": "ann"}
    few = "forall(refund(), count(f:refund()) < 2)"
    tool_guard = guard(few, deadline=0.2, principal=lambda _: principal if release.wait(10) else None)
    ran(tool_guard, refund(id="0"))
    release.clear()
    begun = time.monotonic()
    for conversation in ("c", "new"):
        tool_guard.turn(conversation)
        assert "took more than 0.2 s" in tool_guard.before(refund(conversation=conversation, id="1")).errors[0]
    assert time.monotonic() - begun < 5
    release.set()
    for conversation in ("c", "new"):  # it knows the id of the call that it denied
        seen = refund(conversation=conversation, id="2", seen=["1"])
        until(lambda call=seen: tool_guard.preview(call).label == 0)  # type: ignore[misc]
    until(lambda: tool_guard.session("new").history == ())
    assert len(tool_guard.session("c").history) == 1


def test_a_conversation_is_closed_until_its_late_check_ends(slow: Slow) -> None:
    """Afterwards the conversation is open again; other conversations continue throughout."""
    tool_guard = guard(OPEN, state=slow, deadline=0.5)
    tool_guard.before(refund())
    assert "still running" in tool_guard.before(LOOK).errors[0]
    ran(tool_guard, refund(conversation="other"))
    slow.waits = False
    slow.release.set()
    until(lambda: open_checks(tool_guard) == 0)
    ran(tool_guard, refund())


@pytest.mark.slow
def test_waiting_for_a_permit_has_a_limit(slow: Slow) -> None:
    """While another check hangs, `use` of an allowed call fails instead of hanging, too."""
    slow.waits = False
    tool_guard = guard(OPEN, state=slow, deadline=0.5)
    allowed = refund()
    tool_guard.before(allowed)
    slow.waits = True
    tool_guard.before(refund())
    with pytest.raises(InputError, match="another check of the conversation"):
        tool_guard.use(allowed)
    with pytest.raises(InputError, match="another check of the conversation"):
        asyncio.run(tool_guard.ause(allowed))


@pytest.mark.slow
def test_an_outcome_that_has_to_wait_is_recorded_later(slow: Slow) -> None:
    """It is recorded once the hung check has ended."""
    slow.waits = False
    tool_guard = guard(OPEN, state=slow, deadline=0.5)
    call = refund()
    tool_guard.before(call)
    tool_guard.use(call)
    slow.waits = True
    tool_guard.before(refund())
    tool_guard.after(call, Outcome("paid"))
    slow.release.set()
    until(lambda: open_checks(tool_guard) == 0)
    assert [event.output for event in tool_guard.session("c").history][:1] == ["paid"]


def test_late_checks_are_replans(slow: Slow) -> None:
    """An agent whose checks always time out is given up on, too."""
    tool_guard = guard(OPEN, state=slow, deadline=0.5)
    assert [gave_up(tool_guard.before(refund())) for _ in range(4)] == [False, False, False, True]


def test_a_late_denial_is_in_the_log(slow: Slow) -> None:
    """The log has the denial and the later withdrawal, but no allowed call."""
    log = MemoryLog()
    tool_guard = guard(OPEN, state=slow, deadline=0.5, log=log)
    tool_guard.before(refund())
    slow.release.set()
    until(lambda: open_checks(tool_guard) == 0 and len(log.records) == 2)
    assert sorted(record.get("decision", record.get("status")) for record in log.records) == ["deny", "withdrawn"]


def test_a_late_denial_is_in_the_log_if_its_conversation_cannot_begin() -> None:
    release, log = threading.Event(), MemoryLog()

    def extra(_: str) -> None:
        release.wait(10)
        raise RuntimeError

    tool_guard = guard(OPEN, extra=extra, deadline=0.2, log=log)
    assert "took more than 0.2 s" in tool_guard.before(refund()).errors[0]
    release.set()
    until(lambda: len(log.records) == 1)
    assert log.records[0]["decision"] == "deny"


def test_a_task_that_is_cancelled_during_its_check_leaves_nothing(slow: Slow) -> None:
    """The check ends, and the call that it allowed is withdrawn."""
    tool_guard = guard(OPEN, state=slow, deadline=10)

    async def main() -> None:
        task = asyncio.create_task(tool_guard.abefore(refund()))
        await asyncio.to_thread(slow.requests.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    slow.release.set()
    until(lambda: open_checks(tool_guard) == 0)
    assert tool_guard.session("c").history == ()


def test_when_all_threads_hang_calls_are_denied_and_known(slow: Slow) -> None:
    """Calls are denied at once, and their ids are known when the host's messages show them, also before the first."""
    tool_guard = guard("forall(refund(), state.open == true && count(f:refund()) < 2)", state=slow, deadline=0.5)
    tool_guard._pool._most = 1  # no option of a guard sets it
    tool_guard.before(refund(id="a"))
    assert "none ends" in tool_guard.before(refund(id="b", conversation="other")).errors[0]
    slow.release.set()
    slow.waits = False
    until(lambda: open_checks(tool_guard) == 0 and tool_guard._pool._idle == 1)  # the thread is free just after it
    assert tool_guard.before(refund(conversation="other", seen=("b",))).label == 0


def test_a_check_does_not_block_the_event_loop(slow: Slow) -> None:
    """So do the other conversations of the process."""
    tool_guard = guard(OPEN, state=slow)

    async def main() -> int:
        rounds = 0
        task = asyncio.create_task(tool_guard.abefore(refund()))
        while rounds < 100:
            await asyncio.sleep(0)
            rounds += 1
        slow.release.set()
        return (await task).label

    assert asyncio.run(main()) == 0


# --- the clock and the zone of a guard reach all of its conversations, and the times of calls reach all processes


DAILY = "forall(refund(), count(f:refund(), within 24h) < 2)"
KEY = b"0123456789abcdef"


def at(now: float, path: Path | None, *rules: str, **options: Any) -> ToolGuard:
    ledger = None if path is None else SqliteLedger(path)
    return guard(*rules, clock=lambda: now, ledger=ledger, **options)


def test_each_process_continues_with_the_times_of_the_others(tmp_path: Path) -> None:
    """The window counts the calls of the others, and a process whose clock is behind denies."""
    path = tmp_path / "ledger.db"
    for now in (1000, 1001):
        ran(at(now, path, DAILY), refund())
    assert at(1001 + 86_399, path, DAILY).before(refund()).label == 1
    behind = at(1000.5, path, DAILY).before(refund())
    assert "the clock went back" in behind.reasons[0]
    ran(at(1001 + 86_400, path, DAILY), refund())


def _refunds(path: str, paid: str) -> Callable[[], None]:
    tool_guard = guard(DAILY, ledger=SqliteLedger(path))

    def work() -> None:
        for _ in range(5):
            if tool_guard.before(refund()).label == 0:
                with Path(paid).open("a") as file:
                    file.write("refund\n")
                return
            time.sleep(0.01)

    return work


@pytest.mark.slow
def test_processes_at_once_keep_the_limit_of_a_window(tmp_path: Path) -> None:
    """Four processes, two refunds a day; a clock that another process is ahead of only denies."""
    paid = tmp_path / "paid"
    at_once(_refunds, [(str(tmp_path / "ledger.db"), str(paid))] * 4)
    assert 1 <= len(paid.read_text().split()) <= 2


def test_a_restored_conversation_has_the_clock_and_the_zone_of_the_guard() -> None:
    rule = "forall(refund(), hour(now) == 1)"
    first, other = (at(0, None, rule, zone="Europe/Berlin") for _ in range(2))
    ran(first, refund())
    assert other.restore(first.session("c").snapshot(KEY), KEY).check("refund").label == 0
    assert "no time zone" in at(0, None, rule).before(refund()).reasons[0]


@pytest.mark.parametrize("options", [{"clock": 5}, {"zone": "Europe/Berlim"}, {"zone": 1}])
def test_options_are_checked_when_the_guard_is_built(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"^{next(iter(options))} is .*; expected a"):
        guard(DAILY, **options)
