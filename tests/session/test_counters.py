"""Counters across conversations: what is counted, when it is given back, and what no session can spend twice."""

from __future__ import annotations

import decimal
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from guardagent import Decision, Event, InputError, Policies, Session, load_policies
from guardagent.enforcement import HostCall, SqliteLedger, ToolGuard
from guardagent.errors import CounterError
from guardagent.session.counters import STORES, CounterStore, open_counters
from guardagent.session.counters.memory import MemoryCounters
from guardagent.session.counters.tables import SqliteCounters
from tests.enforcement.guards import ran
from tests.processes import at_once
from tests.stores import SERVERS, SHARED, kinds, new_counters, store_address

KEY = b"0123456789abcdef"
DAY = 86400
POLICY = """
version: 1
counters:
  refunds: {on: refund(customer=c, amount=a), key: c, sum: a, window: 24h}
  mails: {on: 'send_mail(to=.*)'}
policies:
  - id: daily
    temporal: forall(refund(customer=c, amount=a), counter(refunds, c) + a <= 500)
  - id: quota
    on_violation: escalate
    temporal: forall(send_mail(), counter(mails) < 2)
  - id: audited
    temporal: forall(close_account(customer=c), counter(refunds, c) == 0)
"""


@pytest.fixture
def policies() -> Policies:
    return load_policies(text=POLICY)


@pytest.fixture(params=kinds(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CounterStore]:
    with store_address(request.param, tmp_path) as address:
        yield new_counters(address)


@pytest.fixture
def begin(policies: Policies, store: CounterStore) -> Callable[..., Session]:
    return lambda **options: policies.session(counters=store, **{"clock": lambda: 1000.0, **options})


Begin = Callable[..., Session]


def refund(session: Session, amount: Any, customer: Any = "bob", **options: Any) -> Decision:
    return session.check("refund", {"customer": customer, "amount": amount}, **options).decision


def refunded(session: Session, amount: Any, customer: Any = "bob") -> None:
    """Makes a refund that is allowed and ends well."""
    assert refund(session, amount, customer) is Decision.ALLOW
    session.record("done")


# --- what is counted --------------------------------------------------------------------------------------------------


def test_conversations_share_one_budget(begin: Begin) -> None:
    """The rule is kept up to the limit, violated beyond it, and unknown while it depends on a call in flight."""
    first, second = begin(), begin()
    assert refund(first, 300) is Decision.ALLOW
    undecided = second.check("refund", {"customer": "bob", "amount": 201})
    assert (undecided.decision, undecided.rules) == (Decision.DENY, ())
    assert undecided.errors == ('daily: counter(refunds, "bob") depends on calls that are in flight',)
    assert refund(second, 200) is Decision.ALLOW
    first.record("done")
    second.record("done")
    assert begin().check("refund", {"customer": "bob", "amount": 0.01}).rules == ("daily",)
    assert refund(begin(), 500, "eve") is Decision.ALLOW


def test_the_model_does_not_see_the_value(begin: Begin) -> None:
    """The value comes from other conversations: it is for the operator alone."""
    session = begin()
    session.observe(Event("refund", {"customer": "bob", "amount": 123}, status="ok"))
    verdict = begin().check("refund", {"customer": "bob", "amount": 400})
    assert "123" not in verdict.feedback() + str(verdict.violations)
    assert verdict.denial is not None
    assert verdict.denial.withheld == ('daily: counter(refunds, "bob") + 400 is 523',)


@pytest.mark.parametrize(
    ("status", "counts"), [("ok", True), ("unknown", True), ("failed", False)], ids=["ok", "unknown", "failed"]
)
def test_only_a_failed_call_gives_back(begin: Begin, status: Any, counts: bool) -> None:
    session = begin()
    refund(session, 400)
    session.record("output", failed={"ok": False, "unknown": None, "failed": True}[status])
    assert refund(begin(), 400) is (Decision.DENY if counts else Decision.ALLOW)


def test_a_call_that_never_runs_gives_back(begin: Begin, store: CounterStore) -> None:
    """A withdrawn call, a lapsed permit and a denied call leave nothing behind."""
    now = [0.0]
    session = begin(clock=lambda: now[0])
    session.withdraw(session.check("refund", {"customer": "bob", "amount": 500}).permit)
    assert store.pending() == []
    assert session.check("refund", {"customer": "bob", "amount": 500}).permit is not None
    now[0] += 301
    assert refund(session, 500) is Decision.ALLOW  # the first permit has expired
    assert refund(session, 1) is Decision.DENY
    assert len(store.pending()) == 1


def test_a_lapsed_call_that_ran_counts(begin: Begin, store: CounterStore) -> None:
    now = [0.0]
    session = begin(clock=lambda: now[0])
    permit = session.check("refund", {"customer": "bob", "amount": 500}).permit
    now[0] += 301
    session.check("close_account", {"customer": "eve"}, reserve=False)
    assert store.pending() == []
    session.record("done", permit=permit)
    assert refund(begin(), 1) is Decision.DENY


def test_the_window_slides_and_includes_its_end(begin: Begin) -> None:
    now = [0.0]
    session = begin(clock=lambda: now[0])
    refunded(session, 300)
    now[0] = 10.0
    refunded(session, 200)
    for moment, most in ((DAY, 0), (DAY + 1, 300), (DAY + 10, 300), (DAY + 11, 500)):
        now[0] = float(moment)
        assert refund(session, most, reserve=False) is Decision.ALLOW
        assert refund(session, most + 1, reserve=False) is Decision.DENY


def test_without_a_window_calls_count_for_ever(begin: Begin) -> None:
    session = begin()
    for _ in range(2):
        assert session.check("send_mail", {"to": "x"}).label == 0
        session.record("sent")
    later = begin(clock=lambda: 9e10)
    verdict = later.check("send_mail", {"to": "x"})
    assert verdict.decision is Decision.ESCALATE
    assert later.approve(verdict).label == 0


def test_a_rule_on_another_tool_reads_it(begin: Begin) -> None:
    assert begin().check("close_account", {"customer": "bob"}).label == 0
    refund(begin(), 1)
    assert begin().check("close_account", {"customer": "bob"}).label == 1


def test_an_approved_call_counts_once_it_is_approved(begin: Begin, store: CounterStore) -> None:
    """An escalated call takes nothing up before, and an approval that is denied takes nothing up either."""
    for _ in range(2):
        session = begin()
        session.check("send_mail", {"to": "x"})
        session.record("sent")
    session = begin()
    verdict = session.check("send_mail", {"to": "x"})
    assert (verdict.decision, store.pending()) == (Decision.ESCALATE, [])
    session.approve(verdict)
    assert len(store.pending()) == 1


# --- worst inputs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "amount",
    [-100, -0.01, float("nan"), float("inf"), 10**31, 1e-19, None, "100", True, [1], decimal.Decimal("-1e5")],
    ids=str,
)
def test_an_amount_that_cannot_be_added_is_denied(begin: Begin, store: CounterStore, amount: Any) -> None:
    """A negative amount would raise the budget."""
    verdict = begin().check("refund", {"customer": "bob", "amount": amount})
    assert verdict.label == 1
    assert any("counter 'refunds'" in error for error in verdict.errors)
    assert store.pending() == []
    assert begin().check("refund", {"customer": "bob"}).label == 1


FULL_WIDTH = "\N{FULLWIDTH LATIN SMALL LETTER B}ob"


@pytest.mark.parametrize(
    ("key", "spelling"),
    [
        *(("bob", other) for other in ("BOB", " bob ", FULL_WIDTH, "bob\n")),
        *(("bob", other) for other in ("b\u200bob", "bob\ufe0f", "b\u034fob", "bob\u3164")),
        *((key, key) for key in ("x" * 100_000, "\ud800", "a\x00b")),
        (7, "7"),
        (7, 7.0),
        (decimal.Decimal("7.0"), 7),
        (True, "true"),
        (-1.5, "-1.5"),
        (7, "\u0667"),
        ("\u0390", "\u0390".upper()),
        *(
            (1, other)
            for other in ("01", "+1", "1.0", "1.", "1e0", "10E-1", "0_1", " 1 ", "\uff0b\u0661", "0" * 500 + "1")
        ),
        *((1000, other) for other in ("1_000", "1 000", "1\u00a0000", "1e3", "+1_0_0_0.00", "100000e-2")),
        *(("0.5", other) for other in (".5", "0.50", "5e-1", decimal.Decimal("0.50"))),
        *((0, other) for other in ("-0", "00", "0e5", ".0")),
        *(
            ("ann lee", other)
            for other in ("annlee", "ann  lee", "ann\u2800lee", "ann\u2003lee", "ann\u00adlee", "ann\x00lee")
        ),
        ("1e400", "10e399"),
        ("inf", "+Infinity"),
        ("1e" + "9" * 30, "1E" + "9" * 30),
    ],
)
def test_another_spelling_of_a_key_is_no_other_budget(begin: Begin, key: Any, spelling: Any) -> None:
    """Also of a number, and of a long or broken string."""
    refunded(begin(), 500, key)
    assert refund(begin(), 1, spelling) is Decision.DENY


@pytest.mark.parametrize(
    ("key", "other"),
    [
        *((7, other) for other in ("70", "-7", "7x", "0x7", "7.01", "1/7", "7-0", "7.0.0", "__7", "seven")),
        *(("ann-lee", other) for other in ("ann_lee", "annlee", "ann.lee")),
        ("1" * 40, "1" * 41),
        ("1e400", "1e401"),
        ("0" * 300 + "1", "0" * 300 + "2"),
    ],
)
def test_another_key_is_another_budget(begin: Begin, key: Any, other: Any) -> None:
    refunded(begin(), 500, key)
    assert refund(begin(), 1, other) is Decision.ALLOW


@pytest.mark.parametrize("key", [None, ["bob"], {"id": 1}, float("nan"), 10**31], ids=str)
def test_what_cannot_be_a_key_is_denied(begin: Begin, key: Any) -> None:
    assert refund(begin(), 1, key) is Decision.DENY


def test_sums_are_exact(begin: Begin) -> None:
    for _ in range(10):
        refunded(begin(), 0.1)
    assert refund(begin(), 499.00, reserve=False) is Decision.ALLOW
    assert refund(begin(), 499.01, reserve=False) is Decision.DENY


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_clock_without_time_denies(begin: Begin, wrong: float) -> None:
    assert refund(begin(clock=lambda: wrong), 1) is Decision.DENY


def test_a_clock_that_goes_back_frees_nothing(begin: Begin) -> None:
    now = [2.0 * DAY]
    session = begin(clock=lambda: now[0])
    refunded(session, 500)
    for back in (1.5 * DAY, DAY, 0.0):
        now[0] = back
        assert refund(session, 1) is Decision.DENY
    now[0] = 3.0 * DAY
    assert refund(session, 1) is Decision.DENY


# --- together, in trial and again -------------------------------------------------------------------------------------


def test_calls_that_are_proposed_together_count_each_other(begin: Begin, store: CounterStore) -> None:
    calls = [("refund", {"customer": "bob", "amount": amount}) for amount in (300, 300, 200)]
    assert [verdict.label for verdict in begin().check_all(calls)] == [0, 1, 0]
    assert sum(entry.amount for entry in store.pending()) == 500


def test_a_trial_changes_nothing(begin: Begin, store: CounterStore) -> None:
    session = begin()
    fork = session.fork()
    mark = fork.mark()
    assert refund(fork, 300) is Decision.ALLOW
    assert refund(fork.fork(), 300) is Decision.DENY
    assert refund(fork, 300) is Decision.DENY
    fork.rollback(mark)
    assert refund(fork, 500) is Decision.ALLOW
    assert (store.pending(), refund(session, 500, reserve=False)) == ([], Decision.ALLOW)
    assert store.pending() == []


def test_a_restored_session_settles_its_calls(begin: Begin, policies: Policies, store: CounterStore) -> None:
    """A call in flight counts until then, and no second record counts twice."""
    session = begin()
    refund(session, 300)
    snapshot = session.snapshot(KEY)
    assert refund(begin(), 201) is Decision.DENY
    restored = policies.restore(snapshot, KEY, counters=store)
    restored.record("failed", failed=True)
    assert store.pending() == []
    with pytest.raises(InputError, match="nothing to record"):
        restored.record("failed", failed=True)
    assert refund(begin(), 500) is Decision.ALLOW


def test_settling_twice_counts_once(begin: Begin, store: CounterStore) -> None:
    session = begin()
    refund(session, 200)
    (reserved,) = store.pending()
    for close in (store.settle, store.settle, store.release, store.release):
        close(reserved.id)
    assert refund(begin(), 300, reserve=False) is Decision.ALLOW
    assert refund(begin(), 301, reserve=False) is Decision.DENY


def test_the_operator_can_release(begin: Begin, store: CounterStore) -> None:
    """For calls of a process that ended and can never be resolved."""
    session = begin(id="lost")
    refund(session, 500)
    (reserved,) = store.pending()
    assert (reserved.id.partition(":")[0], reserved.amount, reserved.time) == ("lost", 500, 1000.0)
    store.release(reserved.id)
    assert refund(begin(), 500) is Decision.ALLOW


def test_old_keys_are_forgotten(policies: Policies, tmp_path: Path) -> None:
    store = SqliteCounters(str(tmp_path / "counters.db"))
    refund_for_days(policies, store, 60)
    with sqlite3.connect(tmp_path / "counters.db") as db:
        assert db.execute("SELECT count(*) FROM keys").fetchone()[0] <= 4
        assert db.execute("SELECT count(*) FROM amounts").fetchone()[0] <= 4


def refund_for_days(policies: Policies, store: CounterStore, days: int) -> None:
    """Makes a refund for a new customer each day; its outcome is never recorded."""
    for day in range(1, days + 1):
        session = policies.session(counters=store, clock=lambda now=DAY * day: float(now))
        assert refund(session, 1, f"customer {day}") is Decision.ALLOW


@pytest.mark.parametrize("store", SERVERS, indirect=True)
def test_old_keys_are_forgotten_on_a_server(policies: Policies, store: CounterStore) -> None:
    refund_for_days(policies, store, 12)
    assert len(store.pending()) <= 4


# --- stores -----------------------------------------------------------------------------------------------------------


def test_a_policy_with_counters_needs_a_store(policies: Policies) -> None:
    """A store of each process alone would not keep the limit, so nothing is assumed."""
    for open_session in (policies.session, lambda: ToolGuard(policies)):
        with pytest.raises(InputError, match=r"'refunds', 'mails'.*expected counters='sqlite:PATH'"):
            open_session()
    with pytest.raises(InputError, match="unknown store of counters 'mysql'"):
        policies.session(counters="mysql://host")
    with pytest.raises(InputError, match=r"'counters' is 'counters.db'; expected an address"):
        policies.session(counters="counters.db")
    with pytest.raises(InputError, match="has the type 'int'"):
        policies.session(counters=3)
    assert open_counters("memory:a") is open_counters("memory:a") is not open_counters("memory:b")
    load_policies(text="version: 1\npolicies: [{id: a, temporal: 'G !tool:x'}]").session(counters="memory:")


def test_an_edited_limit_keeps_the_count(tmp_path: Path) -> None:
    """Another key, sum, pattern or window is another counter."""
    address = f"sqlite:{tmp_path / 'counters.db'}"
    refunded(load_policies(text=POLICY).session(counters=address), 500)
    for old, new, label in (("<= 500", "<= 600", 1), ("24h", "25h", 0), ("sum: a", "sum: a * 2", 0)):
        edited = load_policies(text=POLICY.replace(old, new)).session(counters=address)
        assert edited.check("refund", {"customer": "bob", "amount": 101}, reserve=False).label == label


def test_counters_in_memory_are_of_one_process(policies: Policies) -> None:
    store = MemoryCounters()
    if child := os.fork():
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        return
    try:
        verdict = policies.session(counters=store).check("refund", {"customer": "bob", "amount": 1})
        os._exit(7 if verdict.label else 0)
    finally:
        os._exit(1)


def test_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / "counters.db"
    SqliteCounters(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def _other_trigger(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TRIGGER free AFTER INSERT ON amounts BEGIN UPDATE keys SET pending = '0'; END")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: path.write_bytes(b"no database" * 100), "cannot be opened as a file of counters"),
        (lambda path: (path.unlink(), SqliteLedger(path)), "is not a file of counters"),
        (_other_trigger, "has other tables, indexes or triggers"),
    ],
)
def test_a_foreign_or_changed_file_is_refused(tmp_path: Path, spoil: Callable[[Path], Any], says: str) -> None:
    path = tmp_path / "counters.db"
    SqliteCounters(str(path)).close()
    spoil(path)
    with pytest.raises(InputError, match=says):
        SqliteCounters(str(path))
    with pytest.raises(InputError):
        SqliteCounters(str(tmp_path / "no folder" / "counters.db"))
    with pytest.raises(InputError, match="has no path"):
        SqliteCounters("")


@pytest.mark.parametrize("total", ["-5", "much", "1/0"])
def test_a_changed_total_denies(policies: Policies, tmp_path: Path, total: str) -> None:
    store = SqliteCounters(str(tmp_path / "counters.db"))
    session = policies.session(counters=store)
    refunded(session, 1)
    with sqlite3.connect(tmp_path / "counters.db") as db:
        db.execute("UPDATE keys SET settled = ?", (total,))
    assert refund(session, 1) is Decision.DENY


def test_a_process_may_change_its_folder(policies: Policies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file stays the one that was opened."""
    monkeypatch.chdir(tmp_path)
    session = policies.session(counters=SqliteCounters("counters.db"))
    monkeypatch.chdir("/")
    assert refund(session, 500) is Decision.ALLOW


def test_a_changed_time_is_an_error_of_the_store(policies: Policies, tmp_path: Path) -> None:
    """Also outside of a check, where nothing turns a crash into a denial."""
    session = policies.session(counters=SqliteCounters(str(tmp_path / "counters.db")))
    refunded(session, 1)
    with sqlite3.connect(tmp_path / "counters.db") as db:
        db.execute("UPDATE keys SET clock = 'now'")
    with pytest.raises(CounterError, match="changed or is damaged"):
        session.observe(Event("refund", {"customer": "bob", "amount": 1}, status="ok"))


def test_a_store_that_cannot_be_written_denies(policies: Policies, tmp_path: Path) -> None:
    """Such as on a full disk. The model sees no path, and the operator the cause."""
    store = SqliteCounters(str(tmp_path / "counters.db"))
    with store._tables.connected() as db:  # the limit of pages holds for one connection
        db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
    verdicts = [
        policies.session(counters=store).check("refund", {"customer": f"{n:0199}", "amount": 1}) for n in range(99)
    ]
    last = next(verdict for verdict in verdicts if verdict.label)
    assert last.errors == ("the counters cannot be written, so the call may not run",)
    assert last.denial is not None
    assert "counters.db" not in last.feedback()
    assert "database or disk is full" in last.denial.withheld[0]
    assert len(store.pending()) == sum(verdict.label == 0 for verdict in verdicts)


def test_a_file_that_was_replaced_denies(policies: Policies, tmp_path: Path) -> None:
    path = tmp_path / "counters.db"
    session = policies.session(counters=SqliteCounters(str(path)))
    path.rename(tmp_path / "old.db")
    SqliteCounters(str(path))
    assert refund(session, 1) is Decision.DENY


class Failing(MemoryCounters):
    """Fails to release until it is mended."""

    broken = True

    def release(self, reservation: str) -> None:
        if self.broken:
            raise CounterError("the disk is full")
        super().release(reservation)


def test_a_release_that_fails_is_tried_again(policies: Policies) -> None:
    """Until then the amount counts."""
    store = Failing()
    session = policies.session(counters=store)
    refund(session, 500)
    session.record("no", failed=True)
    assert refund(session, 1) is Decision.DENY
    store.broken = False
    assert refund(session, 500) is Decision.ALLOW


# --- threads and processes --------------------------------------------------------------------------------------------


def test_threads_stay_within_the_limit(policies: Policies, store: CounterStore) -> None:
    begun = threading.Barrier(8)

    def spend(_: int) -> int:
        begun.wait()
        ran = 0
        for number in range(30):
            session = policies.session(counters=store)
            if refund(session, 10) is Decision.ALLOW:
                failed = number % 3 == 0
                session.record("output", failed=failed)
                ran += 0 if failed else 10
        return ran

    with ThreadPoolExecutor(8) as pool:
        spent = sum(pool.map(spend, range(8)))
    assert (spent, store.pending()) == (500, [])
    assert refund(policies.session(counters=store), 1) is Decision.DENY


def spending(address: str, output: str) -> Callable[[], None]:
    """Spends as much as it may of one budget, and writes how much that was."""
    policies = load_policies(text=POLICY)

    def work() -> None:
        spent = 0
        for _ in range(100):
            session = policies.session(counters=address)
            if refund(session, 5) is Decision.ALLOW:
                session.record("done")
                spent += 5
        Path(output).write_text(str(spent))

    return work


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHARED)
def test_processes_spend_exactly_the_limit(tmp_path: Path, kind: str) -> None:
    outputs = [tmp_path / f"{number}" for number in range(3)]
    with store_address(kind, tmp_path) as address:
        at_once(spending, [(address, str(output)) for output in outputs])
    assert sum(int(output.read_text()) for output in outputs) == 500


class Killed(SqliteCounters):
    """Never releases, as if its process was killed before it did."""

    def release(self, reservation: str) -> None:
        raise CounterError(f"{reservation} is not released")


def guard_of(tmp_path: Path, store: Callable[[str], CounterStore] = SqliteCounters) -> ToolGuard:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return ToolGuard(path, ledger=SqliteLedger(tmp_path / "ledger.db"), counters=store(str(tmp_path / "counters.db")))


def refund_of(conversation: str, amount: int, name: str) -> HostCall:
    return HostCall("refund", {"customer": "bob", "amount": amount}, conversation, name)


def test_another_process_continues_the_conversation(tmp_path: Path) -> None:
    """A second guard records the call of a first one, and a third gives back what the second could not."""
    first, second, third = guard_of(tmp_path), guard_of(tmp_path, Killed), guard_of(tmp_path)
    call = refund_of("conversation", 500, "1")
    assert first.before(call).label == 0
    first.use(call)
    assert second.before(refund_of("other", 1, "1")).label == 1
    second.session("conversation").record("no", failed=True)
    assert second.before(refund_of("other", 1, "2")).label == 1
    third.session("conversation")
    assert third.before(refund_of("other", 500, "3")).label == 0


def test_a_guard_gives_back_what_failed(tmp_path: Path) -> None:
    guard = guard_of(tmp_path)
    for number in range(3):
        ran(guard, refund_of("conversation", 500, f"{number}"), "no", failed=True)


@pytest.mark.slow
def test_killed_processes_stay_within_the_limit() -> None:
    """Their calls in flight are resolved later, and each failed amount is given back."""
    script = Path(__file__).parents[2] / "benchmarks" / "counters.py"
    ran = subprocess.run([sys.executable, script, "600", "3"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " 0 kills" not in ran.stdout
