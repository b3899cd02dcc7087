"""The entries of a ledger: their order, their fence, and what a ledger does with odd names."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from guardagent.enforcement.ledger.tables import TableLedger
from guardagent.errors import InputError, LedgerError
from guardagent.session.calls import HistoryChangedError, SessionEndedError
from tests.enforcement.guards import refund
from tests.processes import at_once
from tests.stores import new_ledger

ODD = ["", "a\x00b", "\ud800", "x" * 100_000, "sha256:c", "Ünïcode", "a:b", "*", "%s ?", "c'; DROP TABLE entries; --"]


@pytest.fixture
def ledger(address: str) -> Any:
    return new_ledger(address)


def test_entries_are_in_order(ledger: TableLedger) -> None:
    for place in range(1, 13):
        ledger.append("c", place, "p", f'"{place}"', f"id {place}")
    assert ledger.entries("c", 0) == [(place, "p", f'"{place}"') for place in range(1, 13)]
    assert [place for place, *_ in ledger.entries("c", 9)] == [10, 11, 12]
    assert ledger.entries("c", 12) == ledger.entries("d", 0) == []
    assert (ledger.policy_of("c"), ledger.policy_of("d")) == ("p", None)


def test_a_place_is_taken_once(ledger: TableLedger) -> None:
    """A writer that was stopped or cut off is late: its entry is refused, also after the conversation ended."""
    ledger.append("c", 1, "p", '"first"', "a")
    for _ in range(2):
        with pytest.raises(HistoryChangedError):
            ledger.append("c", 1, "p", '"late"', "b")
    ledger.end("c")
    for place in (1, 2):
        with pytest.raises(HistoryChangedError):
            ledger.append("c", place, "p", '"late"', "b")
    assert [(place, entry) for place, _, entry in ledger.entries("c", 0)] == [(2, None)]
    assert not ledger.has_call_id("c", "b")


def test_an_entry_that_is_added_again_is_one(ledger: TableLedger) -> None:
    """So a writer that did not hear the answer can repeat itself."""
    for _ in range(2):
        ledger.append("c", 1, "p", '"unique"', "a")
    assert ledger.entries("c", 0) == [(1, "p", '"unique"')]


def test_a_history_that_lost_entries_is_refused(ledger: TableLedger) -> None:
    """Such as after a restore from an older backup: histories never go back."""
    ledger.append("c", 1, "p", '"1"', None)
    with pytest.raises(LedgerError, match="lost entries of conversation 'c': it has 1 of 4"):
        ledger.append("c", 5, "p", '"5"', None)


def test_an_ended_conversation_begins_anew(address: str) -> None:
    """Places go on, so that nobody mistakes the new conversation for the old one; its policy may be another."""
    journal, other = (new_ledger(address).journal("c", policy) for policy in ("p", "p"))
    assert journal is not None
    assert other is not None
    journal.append({"halted": "no"})
    assert len(other.news()) == 1
    ledger: Any = new_ledger(address)
    ledger.end("c")
    ledger.end("never begun")
    assert ledger.policy_of("c") is None
    with pytest.raises(SessionEndedError):
        other.news()
    begun = ledger.journal("c", "q")
    assert begun.news() == []
    begun.append({"halted": "again"})
    assert (ledger.policy_of("c"), [place for place, *_ in ledger.entries("c", 0)]) == ("q", [2, 3])
    assert ledger.entries("never begun", 0) == []


def test_ids_of_calls_are_of_their_conversation(ledger: TableLedger) -> None:
    ledger.append("c", 1, "p", '"1"', "a")
    for _ in range(2):
        ledger.add_call_id("c", "b")
    assert [call_id for call_id in "abd" if ledger.has_call_id("c", call_id)] == ["a", "b"]
    assert not ledger.has_call_id("d", "a")


def test_names_are_kept_apart(ledger: TableLedger) -> None:
    for number, name in enumerate(ODD):
        ledger.append(name, 1, "p", f'"{number}"', name)
        ledger.record_request(refund(conversation=name, id="1"), ["rule"])
    for number, name in enumerate(ODD):
        assert ledger.entries(name, 0) == [(1, "p", f'"{number}"')]
        assert [ledger.has_call_id(name, other) for other in ODD] == [other == name for other in ODD]
        ledger.use(refund(conversation=name, id="1"))
        with pytest.raises(InputError, match="used already"):
            ledger.recorded_request(refund(conversation=name, id="1"))


def test_one_of_many_writers_gets_a_place(address: str) -> None:
    ledgers = [new_ledger(address) for _ in range(8)]

    def write(number: int) -> int:
        added = 0
        for place in range(1, 21):
            try:
                ledgers[number].append("c", place, "p", f'"{number} {place}"', None)  # type: ignore[attr-defined]
            except HistoryChangedError:
                continue
            except LedgerError:  # nobody has written the place before
                return added
            added += 1
        return added

    with ThreadPoolExecutor(8) as pool:
        added = sum(pool.map(write, range(8)))
    assert [place for place, *_ in ledgers[0].entries("c", 0)] == [*range(1, added + 1)]  # type: ignore[attr-defined]
    assert added >= 1


def _ends(address: str, number: str) -> Callable[[], None]:
    ledger: Any = new_ledger(address)

    def work() -> None:
        for _ in range(30):
            if number == "0":
                ledger.end("c")
                continue
            known = max((place for place, *_ in ledger.entries("c", 0)), default=0)
            try:
                ledger.append("c", known + 1, "p", f'"{number} {known}"', None)
            except HistoryChangedError:
                continue

    return work


@pytest.mark.slow
def test_an_end_and_entries_at_once(address: str) -> None:
    """Nothing precedes the end of a conversation, and places have no gap after it."""
    new_ledger(address)
    at_once(_ends, [(address, str(number)) for number in range(3)])
    entries = new_ledger(address).entries("c", 0)  # type: ignore[attr-defined]
    places = [place for place, *_ in entries]
    assert places == [*range(places[0], places[0] + len(places))]
    assert [entry for _, _, entry in entries[1:] if entry is None] == []
