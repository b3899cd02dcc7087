"""The clock and the zone of a guard reach all of its conversations, and the times of calls reach all processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guardagent import InputError
from guardagent.enforcement import SqliteLedger, ToolGuard
from tests.enforcement.guards import guard, ran, refund
from tests.enforcement.processes import at_once

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
    one = guard(DAILY, ledger=SqliteLedger(path))

    def work() -> None:
        for _ in range(5):
            if one.before(refund()).label == 0:
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
    one, other = (at(0, None, rule, zone="Europe/Berlin") for _ in range(2))
    ran(one, refund())
    assert other.restore(one.session("c").snapshot(KEY), KEY).check("refund").label == 0
    assert "no time zone" in at(0, None, rule).before(refund()).reasons[0]


@pytest.mark.parametrize("options", [{"clock": 5}, {"zone": "Europe/Berlim"}, {"zone": 1}])
def test_options_are_checked_when_the_guard_is_built(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"^{next(iter(options))} is .*; expected a"):
        guard(DAILY, **options)
