"""Auditing a policy with counters: all traces of a file, in the order of time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from guardagent import InputError, Policies, load_policies
from guardagent.batch.audit import TraceJudge, judge_together
from guardagent.batch.cases import judge_case
from guardagent.batch.records import Trace, read_case, read_trace
from tests.conftest import CommandResult

POLICY = """
version: 1
counters:
  refunds: {on: refund(customer=c, amount=a), key: c, sum: a, window: 1h}
policies:
  - {id: hourly, temporal: 'forall(refund(customer=c, amount=a), counter(refunds, c) + a <= 500)'}
"""


def step(time: Any, amount: Any, customer: str = "bob", *, failed: bool = False) -> dict[str, Any]:
    return {"tool": "refund", "args": {"customer": customer, "amount": amount}, "failed": failed, "time": time}


def trace_line(name: str, *steps: dict[str, Any]) -> str:
    return json.dumps({"id": name, "events": steps})


def trace(name: str, *steps: dict[str, Any]) -> Trace:
    return read_trace(trace_line(name, *steps), "t.jsonl", 1)


@pytest.fixture
def policies() -> Policies:
    return load_policies(text=POLICY)


def labels(policies: Policies, *traces: Trace) -> list[int]:
    return [verdict.label for verdict in judge_together(policies, traces)]


def test_events_count_in_the_order_of_their_times(policies: Policies) -> None:
    """The later call exceeds the limit, whatever the order of the traces."""
    late, early = trace("late", step(200, 300)), trace("early", step(100, 300))
    assert labels(policies, late, early) == [1, 0]
    assert labels(policies, early, late) == [0, 1]


def test_interleaved_events_count_each_other(policies: Policies) -> None:
    first = trace("first", step(100, 200), step(300, 200))
    assert labels(policies, first, trace("second", step(200, 200))) == [1, 0]
    assert labels(policies, first, trace("second", step(200, 200, failed=True))) == [0, 0]
    assert labels(policies, first, trace("second", step(200, 200, "eve"))) == [0, 0]
    assert labels(policies, first, trace("second", step(4000, 200))) == [0, 0]


def test_a_violating_call_ran_and_counts(policies: Policies) -> None:
    assert labels(policies, trace("a", step(1, 600)), trace("b", step(2, 1))) == [1, 1]
    assert labels(policies, trace("empty"), trace("unknown", step(1, None))) == [0, 1]


def test_a_trace_keeps_its_principal() -> None:
    """Rules about it are judged as in a policy without counters."""
    scoped = load_policies(
        text=f"{POLICY}  - {{id: clerks, temporal: 'forall(refund(), \"clerk\" in principal.roles)'}}\n"
    )
    text = json.dumps({"id": "t", "principal": {"id": "a", "roles": ["clerk"]}, "events": [step(1, 5)]})
    assert labels(scoped, read_trace(text, "t.jsonl", 1), trace("nobody", step(2, 5))) == [0, 1]


def test_times_can_be_strings(policies: Policies) -> None:
    early, late = step("2026-01-31T09:30:00Z", 300), step("2026-01-31T10:45:00+01:00", 300)
    assert labels(policies, trace("late", late), trace("early", early)) == [1, 0]
    with pytest.raises(InputError, match=r"t.jsonl:1: events\[0\].time"):
        trace("a", step("yesterday", 1))
    with pytest.raises(InputError, match="seconds since the epoch"):
        trace("a", step("2026-01-31T09:30:00", 1))


Audit = Callable[..., CommandResult]


@pytest.fixture
def audit(cli: Callable[..., CommandResult], tmp_path: Path) -> Audit:
    """Runs the command on some lines."""
    (tmp_path / "policy.yaml").write_text(POLICY)

    def command(lines: Sequence[str], *options: str) -> CommandResult:
        (tmp_path / "t.jsonl").write_text("\n".join(lines))
        return cli("audit", tmp_path / "t.jsonl", "--policies", tmp_path / "policy.yaml", *options)

    return command


def test_the_command_keeps_the_order_of_the_lines(audit: Audit) -> None:
    """An unreadable line is reported, and the others are judged."""
    ran = audit([trace_line("late", step(200, 300)), "{", trace_line("early", step(100, 300))], "--json")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.status == 2
    assert [(row["id"], row["label"]) for row in rows if "label" in row] == [("late", 1), ("early", 0)]


@pytest.mark.parametrize(
    ("lines", "options", "says"),
    [
        ([trace_line("a", step(None, 1))], (), r"t.jsonl:1: events[0] has no 'time'; the policy has counters"),
        ([trace_line("a", step(2, 1), step(1, 1))], (), r"the 'time' of events[1] is earlier than that"),
        ([trace_line("a", step(2, 1))], ("--workers", "2"), "run it without '--workers'"),
        ([trace_line("a", step(2, 1))], ("--resume", "--out", "o.jsonl"), "run it without '--resume'"),
    ],
)
def test_the_command_says_what_it_cannot_replay(
    audit: Audit, lines: Sequence[str], options: Sequence[str], says: str
) -> None:
    ran = audit(lines, *options)
    assert ran.status == 2
    assert says in " ".join(ran.err.split())


def test_a_judge_without_counters_needs_no_times() -> None:
    policies = load_policies(text="version: 1\npolicies: [{id: a, temporal: 'G !tool:x'}]")
    judge = TraceJudge("missing.jsonl")
    judge.prepare(policies, workers=2)
    assert judge(policies, trace("a", step(None, 1))).label == 0


def test_counters_of_a_case_begin_at_zero(policies: Policies) -> None:
    """Its history counts."""
    history = [{"tool": "refund", "args": {"customer": "bob", "amount": 300}, "failed": False, "time": 1000}]
    for amount, label in ((200, 0), (201, 1), (200, 0)):
        proposed = {"tool": "refund", "args": {"customer": "bob", "amount": amount}}
        case = read_case(json.dumps({"id": 1, "history": history, "proposed": proposed, "now": 2000}), "c", 1)
        assert judge_case(policies, case).label == label
