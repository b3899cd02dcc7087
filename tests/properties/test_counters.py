"""Counters agree with a list of every call: whatever is checked, recorded, lost, restored or done at the wrong time."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardagent import Session, load_policies
from guardagent.session.counters import CounterStore
from guardagent.session.counters.memory import MemoryCounters
from guardagent.session.counters.tables import SqliteCounters
from tests.stores import new_counters, store_address
from tests.tiers import examples

KEY = b"0123456789abcdef"
WINDOW, LIMIT = 100, 10
POLICIES = load_policies(
    text=f"""
version: 1
counters:
  spent: {{on: pay(to=k, amount=a), key: k, sum: a, window: {WINDOW}s}}
  calls: {{on: pay()}}
policies:
  - {{id: most, temporal: "forall(pay(to=k, amount=a), counter(spent, k) + a <= {LIMIT})"}}
  - {{id: number, temporal: "forall(pay(), counter(calls) < 8)"}}
"""
)


@dataclass
class Paid:
    """A call as the model keeps it: never removed."""

    key: str
    amount: Fraction
    time: int
    status: str | None = None


@dataclass
class Model:
    """Every call that was allowed, and the latest time that each key has seen."""

    paid: list[Paid] = field(default_factory=list)
    clocks: dict[str, int] = field(default_factory=dict)

    def allows(self, key: str, amount: Fraction, now: int) -> bool:
        latest = max(now, self.clocks.get(key, now))
        counted = [payment for payment in self.paid if payment.status not in ("failed", "withdrawn")]
        spent = sum(payment.amount for payment in counted if payment.key == key and latest - payment.time <= WINDOW)
        return spent + amount <= LIMIT and len(counted) < 8

    def pay(self, key: str, amount: Fraction, now: int) -> Paid:
        self.clocks[key] = max(now, self.clocks.get(key, now))
        self.paid.append(Paid(key, amount, self.clocks[key]))
        return self.paid[-1]


amounts = st.sampled_from([0, 1, 2.5, 4, 9, 10, 11])
actions = st.lists(
    st.one_of(
        st.tuples(st.just("pay"), st.integers(0, 1), st.sampled_from("xyX"), amounts),
        st.tuples(st.just("close"), st.integers(0, 1), st.integers(0, 3), st.sampled_from(["ok", "failed", "unknown"])),
        st.tuples(st.just("withdraw"), st.integers(0, 1), st.integers(0, 3)),
        st.tuples(st.just("restart"), st.integers(0, 1)),
        st.tuples(st.just("lose"), st.integers(0, 1)),
        st.tuples(st.just("fork"), st.integers(0, 1)),
        st.tuples(st.just("wait"), st.sampled_from([1, 49, 50, 51, 99, 100, 101, -1, -30])),
    ),
    max_size=30,
)


class Bench:
    """Two sessions over one store, beside the model."""

    def __init__(self, store: CounterStore) -> None:
        self.store, self.model, self.now = store, Model(), 1000
        self.sessions = [self.begin(), self.begin()]
        self.open: list[list[Paid]] = [[], []]

    def begin(self) -> Session:
        return POLICIES.session(counters=self.store, clock=lambda: float(self.now), permit_seconds=1e9)

    def pay(self, at: int, key: str, amount: float) -> None:
        exact, folded = Fraction(amount), key.lower()
        expected = self.model.allows(folded, exact, self.now)
        args = {"to": key, "amount": amount}
        assert (self.sessions[at].check("pay", args, reserve=False).label == 0) is expected
        assert (self.sessions[at].check("pay", args).label == 0) is expected
        if expected:
            self.open[at].append(self.model.pay(folded, exact, self.now))

    def close(self, at: int, which: int, status: str) -> None:
        if self.open[at]:
            place = which % len(self.open[at])
            permit = self.sessions[at].in_flight[place]
            self.open[at].pop(place).status = status
            self.sessions[at].record("x", failed={"ok": False, "failed": True, "unknown": None}[status], permit=permit)

    def withdraw(self, at: int, which: int) -> None:
        if self.open[at]:
            place = which % len(self.open[at])
            self.open[at].pop(place).status = "withdrawn"
            self.sessions[at].withdraw(self.sessions[at].in_flight[place])

    def restart(self, at: int) -> None:
        self.sessions[at] = Session.restore(
            POLICIES, self.sessions[at].snapshot(KEY), KEY, counters=self.store, clock=lambda: float(self.now)
        )

    def lose(self, at: int) -> None:
        """The process of a session is killed: its calls in flight stay counted until they leave the window."""
        self.sessions[at], self.open[at] = self.begin(), []

    def fork(self, at: int) -> None:
        fork = self.sessions[at].fork()
        mark = fork.mark()
        for _ in range(3):
            fork.check("pay", {"to": "x", "amount": 4})
        fork.rollback(mark)
        assert (fork.check("pay", {"to": "x", "amount": 4}).label == 0) is self.model.allows("x", Fraction(4), self.now)

    def wait(self, seconds: int) -> None:
        self.now += seconds


def play(store: CounterStore, moves: list[tuple[object, ...]]) -> None:
    bench = Bench(store)
    for name, *operands in moves:
        getattr(bench, str(name))(*operands)


@given(actions)
def test_counters_in_memory_agree_with_the_model(moves: list[tuple[object, ...]]) -> None:
    play(MemoryCounters(), moves)


@given(actions)
def test_counters_in_a_file_agree_with_the_model(moves: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteCounters(str(Path(folder) / "counters.db"))
        try:
            play(store, moves)
        finally:
            store.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgresql", "redis"])
@settings(max_examples=examples(30), deadline=None)
@given(moves=actions)
def test_counters_on_a_server_agree_with_the_model(kind: str, moves: list[tuple[object, ...]]) -> None:
    with store_address(kind, Path()) as address:
        play(new_counters(address), moves)
