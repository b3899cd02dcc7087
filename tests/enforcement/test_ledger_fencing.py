"""Processes that are stopped or cut off: they deny within a stated time, and write nothing late."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guardagent._support.stores import PAUSE
from guardagent.enforcement import HostCall, Outcome
from guardagent.errors import InputError, LedgerError
from tests.enforcement.guards import ONCE, STOPPED, done, guard, ran, refund
from tests.processes import stop, stopped
from tests.relay import Relay, relayed
from tests.stores import POSTGRES, SERVERS, new_ledger, postgres, store_address

pytestmark = pytest.mark.slow


@pytest.fixture(params=SERVERS)
def cuttable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Relay]]:
    with store_address(request.param, tmp_path) as address, relayed(address) as pair:
        yield pair


def stop_while_judging(address: str) -> None:
    """Judges a refund, and stops when the rule looks at the state. Prints the label, and whether the call may run."""
    stops = [1]

    def state(_: str) -> dict[str, bool]:
        if stops:
            stops.clear()
            stop()
        return {"open": True}

    tool_guard = guard(STOPPED, ledger=new_ledger(address), state=state)
    sys.stdout.write(f"{tool_guard.before(refund()).label}\n")


def stop_in_transaction(address: str) -> None:
    """Records an approval request, and stops before the end of the transaction."""
    ledger: Any = new_ledger(address)
    try:
        with ledger._tables.transaction("c") as db:  # an open transaction is not public
            db.execute("INSERT INTO used VALUES (?)", (refund(id="1").digest,))
            stop()
    except LedgerError as error:
        sys.stdout.write(f"{error}\n")
    else:
        sys.stdout.write("written\n")


def test_a_process_that_was_stopped_writes_nothing_late(address: str) -> None:
    """Meanwhile another one has made the call: the first one judges again, and denies."""
    with stopped(stop_while_judging, address) as process:
        ran(guard(STOPPED, ledger=new_ledger(address), state={"open": True}), refund())
    assert process.communicate(timeout=30)[0] == "1\n"
    assert len(guard(STOPPED, ledger=new_ledger(address), state={}).session("c").history) == 1


def test_a_process_that_was_stopped_alone_goes_on(address: str) -> None:
    with stopped(stop_while_judging, address) as process:
        pass
    assert process.communicate(timeout=30)[0] == "0\n"


@pytest.mark.parametrize("address", [SERVERS[0]], indirect=True)
def test_a_process_that_was_stopped_in_a_transaction_neither_blocks_nor_commits(address: str) -> None:
    with stopped(stop_in_transaction, address) as process:
        new_ledger(address).use(refund(id="1"))
    assert "cannot be used" in process.communicate(timeout=30)[0]


@pytest.mark.parametrize("address", [SERVERS[0]], indirect=True)
def test_a_transaction_of_a_terminated_connection_is_lost(address: str) -> None:
    ledger: Any = new_ledger(f"{address}&application_name=terminated")

    def terminated() -> None:
        # an open transaction is not public
        with ledger._tables.transaction("c") as db, contextlib.closing(postgres(POSTGRES)) as other:
            db.execute("INSERT INTO used VALUES (?)", (refund(id="1").digest,))
            query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'terminated'"
            assert other.execute(query).fetchall() == [(True,)]

    with pytest.raises(LedgerError, match="cannot be used"):
        terminated()
    ledger.use(refund(id="1"))


# --- connections


def test_connections_that_were_cut_are_opened_again(cuttable: tuple[str, Relay]) -> None:
    """As after a restart of the server: no call is denied, and the history goes on."""
    address, relay = cuttable
    tool_guard = guard(ONCE, ledger=new_ledger(address))
    ran(tool_guard, refund())
    relay.cut()
    time.sleep(0.1)
    ran(tool_guard, HostCall("refund", {"order": "W2"}, "c"))
    call = HostCall("refund", {"order": "W3"}, "c")
    assert tool_guard.before(call).label == 0
    relay.cut()
    time.sleep(0.1)
    done(tool_guard, call)
    assert [event.status for event in tool_guard.session("c").history] == ["ok"] * 3


def test_an_answer_that_was_lost_adds_one_entry(cuttable: tuple[str, Relay]) -> None:
    """The writer repeats itself and finds its own entry."""
    address, relay = cuttable
    ledger: Any = new_ledger(address)
    ledger.append("c", 1, "p", '"1"', "a")
    for place in range(2, 6):
        relay.mode = "deaf"
        ledger.append("c", place, "p", f'"{place}"', "a")
    assert [place for place, *_ in ledger.entries("c", 0)] == [1, 2, 3, 4, 5]


def test_an_approval_whose_answer_was_lost_is_not_used_twice(cuttable: tuple[str, Relay]) -> None:
    address, relay = cuttable
    ledger, call = new_ledger(address), refund(id="1")
    ledger.record_request(call, ["rule"])
    relay.mode = "deaf"
    with pytest.raises(LedgerError):
        ledger.use(call)
    with contextlib.suppress(InputError):  # used, or not
        ledger.use(call)
    with pytest.raises(InputError, match="used already"):
        ledger.use(call)


def test_a_server_that_hangs_denies_in_time(cuttable: tuple[str, Relay]) -> None:
    """The call is denied within seconds, and judged again once the server answers."""
    address, relay = cuttable
    tool_guard = guard(ONCE, ledger=new_ledger(address), deadline=30)
    ran(tool_guard, refund())
    relay.mode = "hung"
    verdict = tool_guard.before(HostCall("refund", {"order": "W2"}, "c"))
    assert verdict.label == 1
    assert "cannot be used" in str(verdict.errors)
    relay.mode = "open"
    time.sleep(PAUSE)
    assert tool_guard.before(HostCall("refund", {"order": "W3"}, "c")).label == 0


def test_an_outcome_can_be_recorded_when_the_server_is_back(cuttable: tuple[str, Relay]) -> None:
    address, relay = cuttable
    tool_guard = guard(ONCE, ledger=new_ledger(address))
    call = refund()
    tool_guard.before(call)
    tool_guard.use(call)
    relay.mode = "hung"
    tool_guard.after(call, Outcome("done"))
    relay.mode = "open"
    relay.cut()
    time.sleep(PAUSE)
    tool_guard.after(call, Outcome("done"))
    assert [event.status for event in guard(ONCE, ledger=new_ledger(address)).session("c").history] == ["ok"]
