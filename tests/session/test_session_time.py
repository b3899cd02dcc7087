"""The time in a session: now, times of calls and windows, over restarts, forks, approvals and clocks that go back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from guardagent import Decision, Event, InputError, Session, ToolDenied, load_policies
from guardagent.policy.load import compile_rules

KEY = b"0123456789abcdef"
TWICE = "forall(pay(), count(f:pay(), within 24h) < 2)"
DAY = 86_400
BERLIN = ZoneInfo("Europe/Berlin")


class SetClock:
    """A clock that is set by hand."""

    def __init__(self, now: Any = 1_000_000) -> None:
        self.now, self.readings = now, 0

    def __call__(self) -> Any:
        self.readings += 1
        return self.now


def session_of(clock: Any, *rules: str, **options: Any) -> Session:
    return compile_rules(rules).session(clock=clock, **options)


def done(session: Session, tool: str, **args: Any) -> int:
    """Makes a call if it is allowed; returns the label."""
    verdict = session.check(tool, args)
    if not verdict.label:
        session.record({}, permit=verdict.permit)
    return verdict.label


# --- windows


@pytest.mark.parametrize(
    ("later", "label"), [(DAY - 1, 1), (DAY, 1), (DAY + 1e-6, 0), (dt.timedelta(days=1, microseconds=1), 0)]
)
def test_a_window_includes_its_boundary(later: Any, label: int) -> None:
    """A call exactly 24 hours ago still counts; one microsecond more and it does not."""
    clock = SetClock(dt.datetime(2026, 1, 31, tzinfo=dt.UTC))
    session = session_of(clock, TWICE)
    assert [done(session, "pay"), done(session, "pay"), done(session, "pay")] == [0, 0, 1]
    clock.now += later if isinstance(later, dt.timedelta) else dt.timedelta(seconds=later)
    assert done(session, "pay") == label


def test_a_sum_and_an_earlier_call_have_windows() -> None:
    """Only the amounts and the approval of the window count; fractions of a second are exact."""
    clock = SetClock(0.1)
    session = session_of(
        clock,
        "forall(pay(n=n), sum(f:pay(n=m), true, m, within 1h) + n <= 1)",
        "forall(pay(), some(f:approve(), !failed(f), within 10m))",
    )
    assert done(session, "pay", n=1) == 1
    assert done(session, "approve") == 0
    assert [done(session, "pay", n=n) for n in (0.7, 0.3, 0.1)] == [0, 0, 1]
    clock.now = 600.100001
    verdict = session.check("pay", {"n": 0})
    assert verdict.reasons == ("needed: an earlier call approve() with !it failed within 10m",)
    clock.now = 3600.3
    assert [done(session, "approve"), done(session, "pay", n=1)] == [0, 0]


def test_a_window_without_calls_is_known() -> None:
    """Zero calls are in any window, even if the time is unknown."""
    session = session_of(lambda: None, TWICE)
    assert session.check("pay", reserve=False).label == 0


@pytest.mark.parametrize("time", [None, 999_990])
def test_a_call_without_a_time_makes_a_window_unknown(time: float | None) -> None:
    """It denies only where the call could match."""
    session = session_of(SetClock(), "forall(pay(to=t), count(f:pay(to=t), within 1h) < 1)")
    session.observe(Event("pay", {"to": "b"}, None, "ok", time=999_995))
    session.observe(Event("pay", {"to": "a"}, None, "ok", time=time))
    verdict = session.check("pay", {"to": "a"})
    assert verdict.errors == ("rule 1: the time of 'pay' (call 2) is unknown",)
    assert done(session, "pay", to="c") == 0


def test_the_calls_in_flight_count_with_their_times() -> None:
    """One that can still be withdrawn leaves the count open, so the next is denied; out of the window it is not."""
    clock = SetClock()
    session = session_of(clock, "forall(pay(), count(f:pay(), within 1h) < 1)")
    session.check("pay")
    assert session.check("pay").label == 1
    clock.now += 3601
    assert session.check("pay").label == 0


def test_outcomes_in_another_order_do_not_change_a_window() -> None:
    """Calls are recorded in the reverse order of their checks."""
    clock = SetClock()
    session = session_of(clock, "forall(audit(), sum(f:pay(n=m), true, m, within 1h) == 6)", permit_seconds=10**6)
    permits = []
    for n in (1, 2, 4):
        permits.append(session.check("pay", {"n": n}).permit)
        clock.now += 1800
    for permit in reversed(permits):
        session.record(permit=permit)
    assert session.check("audit", reserve=False).label == 0
    clock.now += 1
    assert "(4) == 6" in session.check("audit", reserve=False).reasons[0]


@pytest.mark.parametrize("length", ["0h", "-1h", '"1h"', "(-3)"])
def test_a_window_has_a_length(length: str) -> None:
    """A constant without a positive length is refused, and one that is found at run time is unknown."""
    with pytest.raises(InputError):
        session_of(SetClock(), f"forall(pay(), count(f:pay(), within ({length})) < 1)")
    session = session_of(SetClock(), "forall(pay(d=d), count(f:pay(), within d) < 1)")
    session.observe(Event("pay", {}, None, "ok", time=1))
    assert session.check("pay", {"d": -1}).errors == ("rule 1: a time window is negative",)
    assert session.check("pay", {"d": "1h"}).errors


# --- the clock


def test_now_is_one_value_for_a_check() -> None:
    """All rules of a check see the same time, which is also that of the call."""

    class Ticking(SetClock):
        def __call__(self) -> Any:
            self.now += 1
            return super().__call__()

    clock = Ticking()
    session = session_of(clock, "forall(pay(), now == 1000001)", "forall(pay(), now - 1 == 1000000)")
    assert done(session, "pay") == 0
    assert [event.time for event in session.history] == [1_000_001]
    assert clock.readings == 1


def test_the_clock_is_not_read_without_need() -> None:
    """A check that places nothing and a rule that does not apply do not read it."""
    clock = SetClock()
    session = session_of(clock, "forall(pay(), hour(now) < 9)", "forall(get(), true)")
    session.check("get", reserve=False)
    assert clock.readings == 0


@pytest.mark.parametrize(
    "rule",
    [
        "forall(pay(), now > 0)",
        "forall(pay(), known(time(last(note()))))",
        "forall(pay(), count(f:note(), within 1h) < 9)",
        "after(pay(), true, f:note(), time(f) > 0)",
    ],
)
def test_a_clock_that_goes_back_denies(rule: str) -> None:
    """It denies the calls that a rule with a time concerns, until the clock has caught up."""
    clock = SetClock(1000.5)
    session = session_of(clock, rule)
    assert done(session, "note") == 0
    clock.now = 1000.4
    verdict = session.check("pay")
    assert verdict.decision is Decision.DENY
    assert verdict.errors == (
        "rule 1: the clock went back: it is 0.1 seconds before the last call of the conversation",
    )
    assert done(session, "other") == 0
    assert session.history[-1].time is None
    clock.now = 1000.5
    assert done(session, "pay") == 0


def test_it_also_denies_after_a_restoration_and_in_a_fork() -> None:
    """The times of the calls are part of the snapshot."""
    clock = SetClock()
    session = session_of(clock, TWICE)
    assert [done(session, "pay"), done(session, "pay")] == [0, 0]
    fork, snapshot = session.fork(), session.snapshot(KEY)
    for now, label in ((999_999, 1), (1_000_000 + DAY, 1), (1_000_000 + DAY + 1, 0)):
        restored = session.policies.restore(snapshot, KEY, clock=SetClock(now))
        assert restored.check("pay", reserve=False).label == label
        assert bool(restored.check("pay", reserve=False).errors) is (now < 1_000_000)
    assert session.policies.restore(snapshot, KEY).check("pay").label == 0  # the clock of this machine
    assert fork.check("pay").label == 1
    clock.now = 999_999
    assert "the clock went back" in fork.check("pay").errors[0]


def test_a_rollback_takes_the_times_of_trial_calls_back() -> None:
    clock = SetClock()
    fork = session_of(clock, TWICE).fork()
    mark = fork.mark()
    clock.now += 50
    fork.check("pay")
    fork.rollback(mark)
    clock.now -= 10
    assert fork.check("pay").label == 0


def test_calls_proposed_together_are_judged_at_one_time_after_the_other() -> None:
    session = session_of(SetClock(), "forall(pay(), count(f:pay(), within 1h) < 2)")
    assert [verdict.label for verdict in session.check_all([("pay", {})] * 3)] == [0, 0, 1]


def test_an_approval_is_judged_at_its_own_time(tmp_path: Any) -> None:
    """The call has the time of the approval, and other rules must hold then."""
    (tmp_path / "p.yaml").write_text(
        "version: 1\npolicies:\n"
        "  - {id: ask, temporal: 'forall(pay(), false)', on_violation: escalate}\n"
        "  - {id: early, temporal: 'forall(pay(), hour(now) < 12)'}\n"
    )
    clock = SetClock(dt.datetime(2026, 1, 1, 11, tzinfo=dt.UTC))
    session = load_policies(tmp_path / "p.yaml").session(clock=clock)
    verdict = session.check("pay")
    assert verdict.decision is Decision.ESCALATE
    clock.now += dt.timedelta(minutes=30)
    assert session.approve(verdict).label == 0
    assert session.in_flight
    session.record()
    assert session.history[-1].time == clock.now.timestamp()
    verdict = session.check("pay")
    clock.now += dt.timedelta(hours=1)
    assert session.approve(verdict).rules == ("early",)


def test_an_obligation_is_judged_by_the_times_of_its_calls() -> None:
    """The partner came in time if its check did, however late its outcome is recorded; `now` is its time."""
    rule = "after(f:pay(), true, g:receipt(), now - time(f) <= 1h && now == time(g))"
    clock = SetClock()
    for late, pending in ((3600, False), (3601, True)):
        session = session_of(clock, rule)
        done(session, "pay")
        clock.now += late
        permit = session.check("receipt").permit
        clock.now += 9999
        session.record({}, permit=permit)
        assert bool(session.finish().label) is pending


@pytest.mark.parametrize(
    ("now", "problem"),
    [
        (dt.datetime(2026, 1, 1), "has no time zone"),  # noqa: DTZ001 - that is the case
        ("2026-01-01", "a value of type 'str' is not an instant"),
        (True, "a value of type 'bool' is not an instant"),
        (float("nan"), "nan is not a number of seconds"),
        (1_769_000_000_000, "is not a number of seconds between 1970 and 9999"),  # milliseconds
        (-1, "is not a number of seconds"),
        (None, "the clock returned no time"),
    ],
)
def test_a_reading_that_is_no_instant_denies(now: Any, problem: str) -> None:
    """With one clear error, for every call that would run."""
    verdict = session_of(lambda: now).check("pay")
    assert verdict.decision is Decision.DENY
    assert problem in verdict.errors[0]


def test_a_clock_that_raises_denies_without_its_message() -> None:
    def broken() -> float:
        raise OSError("secret")

    session = session_of(broken, "forall(pay(), now > 0)")
    for tool in ("pay", "other"):
        verdict = session.check(tool)
        assert verdict.decision is Decision.DENY
        assert "the clock raised OSError" in verdict.errors[0]
        assert "secret" not in str(verdict.reasons)


def test_a_clock_that_fails_later_denies_only() -> None:
    """The permit cannot be used, no call lapses, and the outcome can be recorded."""
    clock = SetClock()
    session = session_of(clock, TWICE)
    permit = session.check("pay").permit
    clock.now = None
    with pytest.raises(InputError, match="the clock returned no time"):
        session.use(permit)
    assert session.check("pay").label == 1
    session.finish()
    session.record({}, permit=permit)
    with pytest.raises(ToolDenied):
        session.call(dict, "pay")


def test_the_zone_is_that_of_the_clock() -> None:
    """A datetime has one, an option names one; without any, the hour is unknown."""
    noon = dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC)
    rule = "forall(pay(), hour(now) == 14)"
    assert session_of(lambda: noon.astimezone(BERLIN), rule).check("pay").label == 0
    assert session_of(noon.timestamp, rule, zone="Europe/Berlin").check("pay").label == 0
    assert session_of(lambda: noon, rule, zone=BERLIN).check("pay").label == 0
    assert session_of(lambda: noon, rule, zone=dt.timezone(dt.timedelta(hours=2))).check("pay").label == 0
    assert session_of(lambda: noon, rule).check("pay").rules == ("rule 1",)
    assert (
        'has no time zone; name the zone in the rule, as in weekday(now, "Europe/Berlin")'
        in (session_of(noon.timestamp, rule).check("pay").errors[0])
    )
    for zone in ("Europe/Atlantis", 7):
        with pytest.raises(InputError, match="there is no time zone"):
            session_of(noon.timestamp, rule, zone=zone)


# --- the language


@pytest.mark.parametrize(
    ("condition", "label", "unknown"),
    [
        ("now - time(last(get())) == 1.5", 0, False),
        ("now - time(first(get())) > 1h", 1, False),
        ("time(last(note())) < now", 1, True),
        ("known(time(last(note())))", 1, False),
        ("time(last(get())) + 1500ms == now && 90s == 1.5m && 7d == 1w", 0, False),
        ("now < time('2026-01-31T12:00:00+01:00')", 0, False),
        ("now < time('2026-01-31 12:00')", 1, True),
        ("now < time('noon')", 1, True),
        ('count(f:get(), date(time(f), "UTC") == date(now, "UTC")) == 1', 0, False),
        ('hour(now, "Mars/Olympus") >= 0', 1, True),
        ("hour(99999999999999) >= 0", 1, True),
    ],
)
def test_terms_of_time(condition: str, label: int, unknown: bool) -> None:
    """Each form with a call that it allows, one that it denies and one that is unknown."""
    clock = SetClock(10.25)
    session = session_of(clock, f"forall(pay(), {condition})", zone="UTC")
    done(session, "get")
    clock.now = Fraction("11.75")
    verdict = session.check("pay")
    assert (verdict.label, bool(verdict.errors)) == (label, unknown)


def test_the_time_of_the_proposed_call_is_now() -> None:
    with pytest.raises(InputError, match="expected 'now'"):
        session_of(SetClock(), "forall(f:pay(), time(f) > 0)")


def test_the_time_of_an_observed_event_is_now_for_it() -> None:
    """Without a time in the event, the clock gives `now`, but the time of the call is unknown."""
    session = session_of(SetClock(5), "forall(pay(), now == 3)", "exists(pay(), now == 3)")
    assert session.observe(Event("pay", {}, None, "ok", time=3)).label == 0
    assert session.finish().label == 0
    assert session.observe(Event("pay", {}, None, "ok")).rules == ("rule 1",)
    assert [event.time for event in session.history] == [3, None]
    with pytest.raises(InputError, match="the time of the event 'pay' is invalid"):
        session.observe(Event("pay", time=dt.datetime(2026, 1, 1)))  # noqa: DTZ001 - that is the case


# --- the time since the first call


def test_the_elapsed_time_begins_with_the_first_call() -> None:
    """Also in forks and restored sessions; a rolled-back trial does not begin it."""
    clock = SetClock()
    session = session_of(clock, "forall(pay(), elapsed <= 10m)")
    clock.now += 3600
    fork = session.fork()
    fork.check("pay")
    fork.rollback()
    clock.now += 3600
    assert [fork.check("pay", reserve=False).label, done(session, "pay")] == [0, 0]
    clock.now += 600
    ways: tuple[Callable[[], Session], ...] = (
        lambda: session,
        session.fork,
        lambda: session.policies.restore(session.snapshot(KEY), KEY, clock=clock),
    )
    for begin in ways:
        each = begin()
        assert each.check("pay", reserve=False).label == 0
        clock.now += 1
        assert each.check("pay", reserve=False).rules == ("rule 1",)
        clock.now -= 1


def test_the_elapsed_time_of_a_clock_without_time_is_unknown() -> None:
    """So it denies."""
    verdict = session_of(SetClock(None), "forall(pay(), elapsed <= 10m)").check("pay")
    assert (verdict.label, verdict.rules) == (1, ())


def test_the_elapsed_time_is_unknown_after_calls_of_unknown_times() -> None:
    """Nobody knows how long they were ago."""
    clock = SetClock()
    session = session_of(clock, "forall(pay(), elapsed <= 10m)")
    session.observe(Event("look", {}, None, "ok"), judge=False)
    assert session.check("pay", reserve=False).errors
    restored = session.policies.restore(session.snapshot(KEY), KEY, clock=clock)
    assert restored.check("pay", reserve=False).errors
