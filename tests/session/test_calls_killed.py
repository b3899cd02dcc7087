"""A process that is killed between two stores: the budget is whole afterwards, and no amount is spent twice."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from guardagent.enforcement import HostCall, Outcome, ToolGuard
from guardagent.enforcement.ledger.history import ConversationJournal, FinalLedger
from tests.processes import stop, stopped
from tests.stores import SHARED, new_counters, new_ledger, store_address

LIMIT = 100
POLICY = f"""
version: 1
counters:
  paid: {{on: refund(amount=a), sum: a}}
policies:
  - id: cap
    temporal: forall(refund(amount=a), counter(paid) + a <= {LIMIT})
"""


class Interrupted:
    """A store before or after one of whose methods something happens."""

    def __init__(self, store: Any, place: str, happens: Callable[[], None]) -> None:
        self._store, self._happens = store, happens
        self._when, self._method = place.split()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name != self._method:
            return method

        def interrupted(*args: Any) -> Any:
            if self._when == "before":
                self._happens()
            result = method(*args)
            if self._when == "after":
                self._happens()
            return result

        return interrupted

    def journal(self, conversation: str, policy: str) -> ConversationJournal:
        return ConversationJournal(self, conversation, policy)


class Stores:
    """A ledger and a store of counters, which processes share."""

    def __init__(self, ledger: str, counters: str, folder: Path) -> None:
        self.ledger, self.counters, self.policy = ledger, counters, folder / "policy.yaml"
        self.policy.write_text(POLICY)
        self._opened: list[Any] = []

    def server(self, place: str = "", happens: Callable[[], None] = lambda: None) -> ToolGuard:
        """Returns a guard as a process of its own opens it; `place` is that of an interruption."""
        ledger, counters = self.new_ledger(), self.new_counters()
        if "append" in place:
            ledger = Interrupted(ledger, place, happens)
        elif place:
            counters = Interrupted(counters, place, happens)
        return ToolGuard(self.policy, ledger=FinalLedger(ledger), counters=counters)

    def killed(self, place: str, work: Callable[[ToolGuard], object]) -> None:
        """Does work in a process that is killed at a place."""
        if (child := os.fork()) == 0:
            try:
                work(self.server(place, lambda: os.kill(os.getpid(), signal.SIGKILL)))
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    def new_ledger(self) -> Any:
        self._opened.append(new_ledger(self.ledger))
        return self._opened[-1]

    def new_counters(self) -> Any:
        self._opened.append(new_counters(self.counters))
        return self._opened[-1]

    def close(self) -> None:
        for store in self._opened:
            store.close()

    def reserved(self) -> list[Any]:
        return [reservation.amount for reservation in self.new_counters().pending()]

    def free(self) -> bool:
        """Whether another conversation may spend the whole budget; it gives that back."""
        server, name = self.server(), f"call {os.urandom(4).hex()}"
        if server.before(call("other", name)).label:
            return False
        server.claimed_calls.withdraw("other", name, "a test")
        return True


@pytest.fixture(params=SHARED)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    kind = request.param
    with store_address(kind, tmp_path) as ledger, store_address(kind, tmp_path) as counters:
        stores = Stores(ledger, counters, tmp_path)
        yield stores
        stores.close()


def call(conversation: str = "c", name: str = "call 1", amount: int = LIMIT, claim: str = "request 1") -> HostCall:
    return HostCall("refund", {"amount": amount}, conversation, name, claim=claim)


def check(server: ToolGuard) -> object:
    return server.before(call())


def failed(server: ToolGuard) -> object:
    return server.claimed_calls.record("c", "call 1", Outcome("no", failed=True))


def withdrawn(server: ToolGuard) -> object:
    return server.claimed_calls.withdraw("c", "call 1", "it never ran")


def finished(server: ToolGuard) -> object:
    return server.claimed_calls.finish("c")


def loaded(server: ToolGuard) -> object:
    return server.claimed_calls.session("c")


CHECK_PLACES = ["before reserve", "after reserve", "before append", "after append"]


@pytest.mark.parametrize("place", CHECK_PLACES)
@pytest.mark.parametrize("knows", [False, True], ids=["new process", "process that knows the conversation"])
def test_a_repeated_request_takes_over_what_a_killed_process_reserved(place: str, knows: bool, stores: Stores) -> None:
    server = stores.server()
    if knows:
        server.before(call(name="small", amount=1))
        server.claimed_calls.withdraw("c", "small", "it never ran")
    stores.killed(place, check)
    assert server.before(call()).label == 0
    assert stores.reserved() == [LIMIT]
    assert not stores.free()
    failed(server)
    assert stores.reserved() == []
    assert stores.free()


@pytest.mark.parametrize("place", CHECK_PLACES)
@pytest.mark.parametrize("action", [withdrawn, finished, loaded])
def test_amounts_that_the_history_lacks_are_released(
    place: str, action: Callable[[ToolGuard], object], stores: Stores
) -> None:
    stores.killed(place, check)
    action(stores.server())
    may_run = place == "after append" and action is not withdrawn  # whether it ran is not known
    assert stores.reserved() == ([LIMIT] if may_run else [])
    assert stores.free() is not may_run


@pytest.mark.parametrize("place", ["before append", "after append", "before release", "after release"])
@pytest.mark.parametrize("action", [failed, withdrawn])
def test_an_outcome_that_was_cut_off_is_settled_by_its_repetition(
    place: str, action: Callable[[ToolGuard], object], stores: Stores
) -> None:
    check(stores.server())
    stores.killed(place, action)
    action(stores.server())
    assert stores.reserved() == []
    assert stores.free()


@pytest.mark.parametrize("place", ["before append", "after append", "before settle", "after settle"])
def test_an_amount_that_was_spent_stays_spent(place: str, stores: Stores) -> None:
    def record(server: ToolGuard) -> object:
        return server.claimed_calls.record("c", "call 1", Outcome("paid"))

    check(stores.server())
    stores.killed(place, record)
    record(stores.server())
    assert stores.reserved() == []
    assert not stores.free()


@pytest.mark.parametrize("name", ["c", "c:d", "c.d", "cc", "d"])
def test_other_conversations_and_ledgers_keep_theirs(name: str, stores: Stores, tmp_path: Path) -> None:
    """A store of counters may have calls of the same name from another ledger, or of a name that begins alike."""
    other = Stores(f"sqlite:{tmp_path}/other.db", stores.counters, tmp_path) if name == "c" else stores
    assert other.server().before(call(name, amount=60)).label == 0
    stores.killed("after reserve", lambda server: server.before(call(amount=40)))
    assert sorted(stores.reserved()) == [40, 60]
    loaded(stores.server())
    finished(stores.server())
    assert stores.reserved() == [60]


def test_a_call_in_flight_at_the_end_of_an_earlier_conversation_stays_reserved(stores: Stores) -> None:
    """Its outcome is not known; a new conversation of the same name does not free it."""

    def guard() -> ToolGuard:
        return ToolGuard(stores.policy, ledger=stores.new_ledger(), counters=stores.new_counters())

    first = guard()
    assert first.before(call(amount=60)).label == 0
    first.end("c")
    assert guard().before(call(name="call 2", amount=10)).label == 0
    assert sorted(stores.reserved()) == [10, 60]


def stop_after_reservation(addresses: str) -> None:
    """Judges a call, and stops when its amount is first reserved. Prints the label."""
    ledger, counters, folder = addresses.split()
    stops = [stop]
    guard = Stores(ledger, counters, Path(folder)).server("after reserve", lambda: stops.pop()() if stops else None)
    verdict = guard.before(call())
    sys.stdout.write(f"{verdict.label}\n")


@pytest.mark.slow
@pytest.mark.parametrize("action", [check, withdrawn, finished, loaded])
def test_a_process_that_goes_on_late_frees_nothing_of_others(
    action: Callable[[ToolGuard], object], stores: Stores, tmp_path: Path
) -> None:
    with stopped(stop_after_reservation, f"{stores.ledger} {stores.counters} {tmp_path}") as process:
        action(stores.server())
        assert stores.reserved() == ([LIMIT] if action is check else [])
        os.kill(process.pid, signal.SIGCONT)
        label = process.communicate(timeout=30)[0].strip()
    runs = action in (check, loaded)  # it judges again: the same request, or a free budget
    assert label == ("0" if runs else "1")
    assert stores.reserved() == ([LIMIT] if runs else [])
    assert stores.free() is not runs
