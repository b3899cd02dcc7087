"""Processes that are stopped or cut off: they deny within a stated time, and write nothing late."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guardagent._support.stores import PAUSE
from guardagent.enforcement import HostCall, Outcome
from guardagent.errors import InputError, LedgerError
from tests.enforcement.guards import ONCE, done, guard, ran, refund
from tests.relay import Relay, relayed
from tests.stores import POSTGRES, SERVERS, new_ledger, postgres, store_address

pytestmark = pytest.mark.slow
STOPPED = f"{ONCE[:-1]} && state.open == true)"


@pytest.fixture(params=SERVERS)
def cuttable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Relay]]:
    with store_address(request.param, tmp_path) as address, relayed(address) as found:
        yield found


def stop() -> None:
    """Stops this process."""
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(0.5)  # the signal may reach another thread first


def stop_while_judging(address: str) -> None:
    """Judges a refund, and stops when the rule looks at the state. Prints the label, and whether the call may run."""
    stops = [1]

    def state(_: str) -> dict[str, bool]:
        if stops:
            stops.clear()
            stop()
        return {"open": True}

    one = guard(STOPPED, ledger=new_ledger(address), state=state)
    sys.stdout.write(f"{one.before(refund()).label}\n")


def stop_in_transaction(address: str) -> None:
    """Records an approval request, and stops before the end of the transaction."""
    ledger: Any = new_ledger(address)
    try:
        with ledger._tables.transaction("c") as db:
            db.execute("INSERT INTO used VALUES (?)", (refund(id="1").digest,))
            stop()
    except LedgerError as error:
        sys.stdout.write(f"{error}\n")
    else:
        sys.stdout.write("written\n")


@contextlib.contextmanager
def stopped(name: str, address: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a function of this module in a process until it stops itself; continues it at the end."""
    code = f"import sys; from {__name__} import {name}; {name}(sys.argv[1])"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", code, address], env=env, stdout=subprocess.PIPE, text=True)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)


def test_a_process_that_was_stopped_writes_nothing_late(address: str) -> None:
    """Meanwhile another one has made the call: the first one judges again, and denies."""
    with stopped("stop_while_judging", address) as process:
        ran(guard(STOPPED, ledger=new_ledger(address), state={"open": True}), refund())
    assert process.communicate(timeout=30)[0] == "1\n"
    assert len(guard(STOPPED, ledger=new_ledger(address), state={}).session("c").history) == 1


def test_a_process_that_was_stopped_alone_goes_on(address: str) -> None:
    with stopped("stop_while_judging", address) as process:
        pass
    assert process.communicate(timeout=30)[0] == "0\n"


@pytest.mark.parametrize("address", [SERVERS[0]], indirect=True)
def test_a_process_that_was_stopped_in_a_transaction_neither_blocks_nor_commits(address: str) -> None:
    with stopped("stop_in_transaction", address) as process:
        started = time.monotonic()
        new_ledger(address).use(refund(id="1"))
        assert time.monotonic() - started < 5
    assert "cannot be used" in process.communicate(timeout=30)[0]


@pytest.mark.parametrize("address", [SERVERS[0]], indirect=True)
def test_a_transaction_of_a_terminated_connection_is_lost(address: str) -> None:
    ledger: Any = new_ledger(f"{address}&application_name=terminated")

    def terminated() -> None:
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
    one = guard(ONCE, ledger=new_ledger(address))
    ran(one, refund())
    relay.cut()
    time.sleep(0.1)
    ran(one, HostCall("refund", {"order": "W2"}, "c"))
    call = HostCall("refund", {"order": "W3"}, "c")
    assert one.before(call).label == 0
    relay.cut()
    time.sleep(0.1)
    done(one, call)
    assert [event.status for event in one.session("c").history] == ["ok"] * 3


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
    one = guard(ONCE, ledger=new_ledger(address), deadline=30)
    ran(one, refund())
    relay.mode, started = "hung", time.monotonic()
    verdict = one.before(HostCall("refund", {"order": "W2"}, "c"))
    assert (verdict.label, time.monotonic() - started < 7) == (1, True)
    assert "cannot be used" in str(verdict.errors)
    relay.mode = "open"
    time.sleep(PAUSE)
    assert one.before(HostCall("refund", {"order": "W3"}, "c")).label == 0


def test_an_outcome_can_be_recorded_when_the_server_is_back(cuttable: tuple[str, Relay]) -> None:
    address, relay = cuttable
    one = guard(ONCE, ledger=new_ledger(address))
    call = refund()
    one.before(call)
    one.use(call)
    relay.mode = "hung"
    one.after(call, Outcome("done"))
    relay.mode = "open"
    relay.cut()
    time.sleep(PAUSE)
    one.after(call, Outcome("done"))
    assert [event.status for event in guard(ONCE, ledger=new_ledger(address)).session("c").history] == ["ok"]
