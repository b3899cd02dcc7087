"""A PostgreSQL schema: who creates it, which one is refused, and what a hostile search path or a lock does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from guardagent import InputError
from guardagent.errors import LedgerError
from tests.enforcement.guards import refund
from tests.processes import at_once
from tests.stores import POSTGRES, new_counters, new_ledger, postgres, store_address

pytestmark = pytest.mark.slow


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with store_address("postgresql", tmp_path) as address:
        yield address


def _opens(address: str) -> Callable[[], None]:
    return lambda: new_ledger(address).use(refund())


def test_processes_that_open_a_new_schema_at_once_create_it_once(address: str) -> None:
    at_once(_opens, [(address,)] * 3)
    assert new_ledger(address).name == new_ledger(address).name


def test_a_schema_with_other_tables_is_refused(address: str) -> None:
    new_ledger(address)
    with pytest.raises(InputError, match=r"has the tables of \('ledger', 1\), and this release reads \('store of"):
        new_counters(address)
    with contextlib.closing(postgres(POSTGRES)) as db:
        db.execute(f"UPDATE {address.rpartition('=')[2]}.format SET version = 9")  # noqa: S608 - of this test
    with pytest.raises(InputError, match="continue with the release that created it"):
        new_ledger(address)


def test_a_standby_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="a standby, or read-only; expected the primary"):
        new_ledger(f"{address}&options=-cdefault_transaction_read_only%3Don")


def test_acknowledged_writes_are_on_the_disk_whatever_the_address_says(address: str) -> None:
    ledger: Any = new_ledger(f"{address}&options=-csynchronous_commit%3Doff%20-cstatement_timeout%3D0")
    with ledger._tables.connected() as db:  # the settings are those of its own connection
        settings = [db.execute(f"SHOW {name}").fetchone()[0] for name in ("synchronous_commit", "statement_timeout")]
    assert settings == ["on", "4s"]


def test_a_lock_that_somebody_holds_denies_in_time(address: str) -> None:
    ledger: Any = new_ledger(address)
    with contextlib.closing(postgres(POSTGRES)) as db, db.transaction():
        db.execute(f"LOCK TABLE {address.rpartition('=')[2]}.used")
        with pytest.raises(LedgerError, match="held its lock for 4 seconds"):
            ledger.use(refund())
    ledger.use(refund())


def test_connections_are_reused(address: str) -> None:
    ledger: Any = new_ledger(f"{address}&application_name=reused")
    for number in range(20):
        ledger.use(refund(id=f"{number}"))
    with contextlib.closing(postgres(POSTGRES)) as db:
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'reused'"
        assert db.execute(query).fetchone()[0] == 1
        ledger.close()
