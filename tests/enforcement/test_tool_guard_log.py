"""The guard and its audit log: every verdict is written before the call runs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from guardagent.enforcement import HostCall, Outcome
from guardagent.errors import InputError
from guardagent.log import AuditLog, verify_log
from tests.enforcement.guards import LIMIT, MemoryLog, done, guard, ran, refund
from tests.frameworks.scenarios import APPROVED, guard_of


def test_each_verdict_and_outcome_is_written() -> None:
    """Each record has the call, the decision and the outcome."""
    log = MemoryLog()
    tool_guard = guard(LIMIT, log=log)
    ran(tool_guard, refund(id="a", agent="desk"), "paid")
    tool_guard.before(refund(500, id="b"))
    tool_guard.refuse(HostCall("nothing", {}, "c", id="d"), "unknown tool")
    tool_guard.end("c")
    verdicts = [
        (record["kind"], record["call_id"], record["decision"]) for record in log.records if "decision" in record
    ]
    assert verdicts[:3] == [("verdict", "a", "allow"), ("verdict", "b", "deny"), ("verdict", "d", "deny")]
    assert verdicts[3][::2] == ("end", "allow")
    (outcome,) = log.of("outcome")
    assert (outcome["call_id"], outcome["status"], outcome["output"]) == ("a", "ok", "paid")
    assert outcome["permit"]["nonce_hash"] == log.records[0]["permit"]["nonce_hash"]


def test_withheld_details_are_written() -> None:
    """The log keeps for the operator what the verdict withholds from the model."""
    log = MemoryLog()
    guard("forall(refund(amount=a), a <= state.most)", state={"most": 7}, log=log).before(refund(500))
    assert log.records[0]["withheld"] == ("rule 1: state.most is 7",)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome("x"), "ok"),
        (Outcome("x", failed=True), "failed"),
        (Outcome("x", failed=None), "unknown"),
        (Outcome.of_error(KeyboardInterrupt()), "unknown"),
    ],
)
def test_an_outcome_is_written_as_it_is_recorded(outcome: Outcome, status: str) -> None:
    """The outcome of an interrupted call is written as unknown."""
    log = MemoryLog()
    tool_guard = guard(LIMIT, log=log)
    call = refund()
    tool_guard.before(call)
    tool_guard.use(call)
    tool_guard.after(call, outcome)
    assert log.of("outcome")[0]["status"] == status


def test_a_failed_output_is_written_as_failed(tmp_path: Path) -> None:
    """The log has the same status that the rules use."""
    log = MemoryLog()
    tool_guard = guard_of(
        tmp_path, 'version: 1\nfailed_output: ^Error\npolicies: [{id: a, temporal: "G !tool:x"}]', log=log
    )
    ran(tool_guard, refund(), "Error: no")
    assert log.of("outcome")[0]["status"] == "failed"


def test_the_log_holds_the_reviewers_answer(tmp_path: Path) -> None:
    """The record has the reviewer, the answer and the reasons."""
    log = MemoryLog()
    reply = {"choice": "reject", "reason": "too much", "by": "ann"}
    tool_guard = guard_of(tmp_path, APPROVED, log=log, approver=lambda request: reply)
    tool_guard.before(HostCall("refund", {"amount": 500}, "c"))
    (approval,) = log.of("approval")
    assert (approval["answer"], approval["approver"], approval["reasons"]) == ("reject", "ann", ["too much"])
    assert [record["decision"] for record in log.of("verdict")] == ["escalate", "deny"]


@pytest.mark.parametrize("error", [OSError("disk full"), RuntimeError(), TypeError()])
def test_a_log_that_cannot_be_written_denies(error: Exception) -> None:
    """The call is withdrawn and has no permit."""
    log = MemoryLog()
    tool_guard = guard(LIMIT, log=log)
    log.error = error
    call = refund()
    verdict = tool_guard.before(call)
    assert (verdict.label, "the audit log cannot be written" in verdict.errors[0]) == (1, True)
    assert tool_guard.session("c").history == ()
    assert tool_guard.claimed_calls.conversations.known("c").open_permits == {}
    log.error = None
    ran(tool_guard, refund())


def test_a_log_error_can_be_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The call runs, and the host's own log has a warning."""
    log = MemoryLog()
    tool_guard = guard(LIMIT, log=log, on_log_error="warn")
    log.error = OSError("disk full")
    ran(tool_guard, refund())
    assert tool_guard.before(refund(500)).label == 1
    assert "disk full" in caplog.text


def test_a_log_that_hangs_denies() -> None:
    """The deadline of the check covers the log."""
    release = threading.Event()

    class Hangs(MemoryLog):
        def append(self, record: Any) -> int:
            release.wait(5)
            return super().append(record)

    tool_guard = guard(LIMIT, log=Hangs(), deadline=0.5)
    assert tool_guard.before(refund()).label == 1
    release.set()


def test_an_unwritten_outcome_still_counts() -> None:
    """The next verdict meets the same error and denies."""
    log = MemoryLog()
    tool_guard = guard(LIMIT, log=log)
    call = refund()
    tool_guard.before(call)
    log.error = OSError("disk full")
    done(tool_guard, call)
    assert tool_guard.session("c").history[0].status == "ok"
    assert tool_guard.before(refund()).label == 1


@pytest.mark.parametrize("name", ["audit.db", "audit.jsonl"])
def test_the_audit_log_accepts_all_records_of_a_guard(name: str, tmp_path: Path) -> None:
    """The chain of the audit log is intact."""
    with AuditLog(tmp_path / name) as log:
        tool_guard = guard(LIMIT, log=log)
        ran(tool_guard, refund(), {"nested": [1, {"a": None}]})
        tool_guard.before(refund(500))
        tool_guard.before(refund(conversation=None))
        tool_guard.end("c")
    report = verify_log(tmp_path / name)
    assert (report.status, report.entries) == ("end_unchecked", 5)


@pytest.mark.parametrize("why", ["log", "host", "expired"])
def test_a_withdrawn_call_may_be_repeated_and_is_logged(why: str) -> None:
    """A withdrawn call does not count against "at most once"; a call whose permit was used stays in flight."""
    log, now = MemoryLog(), [0.0]
    tool_guard = guard("forall(refund(), count(f:refund()) == 0)", log=log, clock=lambda: now[0])
    call = refund()
    log.error = OSError("disk full") if why == "log" else None
    tool_guard.before(call)
    log.error = None
    if why == "host":
        tool_guard.withdraw(call, "the host shut down")
    now[0] = 301.0
    again = refund()
    assert tool_guard.before(again).label == 0
    reply = [(record["status"], record["reasons"]) for record in log.of("outcome")]
    assert why == "log" or (reply[0][0], log.of("outcome")[0]["call_id"]) == ("withdrawn", call.id)
    with pytest.raises(InputError):
        tool_guard.use(call)
    tool_guard.use(again)
    now[0] = 900.0
    assert tool_guard.before(refund()).label == 1
    tool_guard.withdraw(again, "it may be running")
    assert tool_guard.before(refund()).label == 1
