"""The guard and its audit log: every verdict is written before the call runs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from guardagent.enforcement import HostCall, Outcome, ToolGuard
from guardagent.enforcement.conversations import Conversation
from guardagent.errors import InputError
from guardagent.log import AuditLog, verify_log
from guardagent.policy.load import compile_rules
from tests.enforcement.guards import LIMIT, MemoryLog, done, guard, ran, refund
from tests.frameworks.scenarios import APPROVED, guard_of


def test_each_verdict_and_outcome_is_written() -> None:
    """Each record has the call, the decision and the outcome."""
    log = MemoryLog()
    one = guard(LIMIT, log=log)
    ran(one, refund(id="a", agent="desk"), "paid")
    one.before(refund(500, id="b"))
    one.refuse(HostCall("nothing", {}, "c", id="d"), "unknown tool")
    one.end("c")
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
    one = guard(LIMIT, log=log)
    call = refund()
    one.before(call)
    one.use(call)
    one.after(call, outcome)
    assert log.of("outcome")[0]["status"] == status


def test_a_failed_output_is_written_as_failed(tmp_path: Path) -> None:
    """The log has the same status that the rules use."""
    log = MemoryLog()
    one = guard_of(tmp_path, 'version: 1\nfailed_output: ^Error\npolicies: [{id: a, temporal: "G !tool:x"}]', log=log)
    ran(one, refund(), "Error: no")
    assert log.of("outcome")[0]["status"] == "failed"


def test_the_log_holds_the_reviewers_answer(tmp_path: Path) -> None:
    """The record has the reviewer, the answer and the reasons."""
    log = MemoryLog()
    reply = {"choice": "reject", "reason": "too much", "by": "ann"}
    one = guard_of(tmp_path, APPROVED, log=log, approver=lambda request: reply)
    one.before(HostCall("refund", {"amount": 500}, "c"))
    (approval,) = log.of("approval")
    assert (approval["answer"], approval["approver"], approval["reasons"]) == ("reject", "ann", ["too much"])
    assert [record["decision"] for record in log.of("verdict")] == ["escalate", "deny"]


@pytest.mark.parametrize("error", [OSError("disk full"), RuntimeError(), TypeError()])
def test_a_log_that_cannot_be_written_denies(error: Exception) -> None:
    """The call is withdrawn and has no permit."""
    log = MemoryLog()
    one = guard(LIMIT, log=log)
    log.error = error
    call = refund()
    verdict = one.before(call)
    assert (verdict.label, "the audit log cannot be written" in verdict.errors[0]) == (1, True)
    assert one.session("c").history == ()
    assert one._conversations.known("c").open_permits == {}
    log.error = None
    ran(one, refund())


def test_a_log_error_can_be_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The call runs, and the host's own log has a warning."""
    log = MemoryLog()
    one = guard(LIMIT, log=log, on_log_error="warn")
    log.error = OSError("disk full")
    ran(one, refund())
    assert one.before(refund(500)).label == 1
    assert "disk full" in caplog.text


def test_a_log_that_hangs_denies() -> None:
    """The deadline of the check covers the log."""
    release = threading.Event()

    class Hangs(MemoryLog):
        def append(self, record: Any) -> int:
            release.wait(5)
            return super().append(record)

    one = guard(LIMIT, log=Hangs(), deadline=0.5)
    assert one.before(refund()).label == 1
    release.set()


def test_an_unwritten_outcome_still_counts() -> None:
    """The next verdict meets the same error and denies."""
    log = MemoryLog()
    one = guard(LIMIT, log=log)
    call = refund()
    one.before(call)
    log.error = OSError("disk full")
    done(one, call)
    assert one.session("c").history[0].status == "ok"
    assert one.before(refund()).label == 1


@pytest.mark.parametrize("name", ["audit.db", "audit.jsonl"])
def test_the_audit_log_accepts_all_records_of_a_guard(name: str, tmp_path: Path) -> None:
    """The chain of the audit log is intact."""
    with AuditLog(tmp_path / name) as log:
        one = guard(LIMIT, log=log)
        ran(one, refund(), {"nested": [1, {"a": None}]})
        one.before(refund(500))
        one.before(refund(conversation=None))
        one.end("c")
    found = verify_log(tmp_path / name)
    assert (found.status, found.entries) == ("end_unchecked", 5)


@pytest.mark.parametrize("why", ["log", "host", "expired"])
def test_a_withdrawn_call_may_be_repeated_and_is_logged(why: str) -> None:
    """A withdrawn call does not count against "at most once"; a call whose permit was used stays in flight."""
    log, now = MemoryLog(), [0.0]
    one = ToolGuard(compile_rules(["forall(refund(), count(f:refund()) == 0)"]), log=log)
    one._conversations.put(Conversation("c", one.policies.session(id="c", clock=lambda: now[0])))
    call = refund()
    log.error = OSError("disk full") if why == "log" else None
    one.before(call)
    log.error = None
    if why == "host":
        one.withdraw(call, "the host shut down")
    now[0] = 301.0
    again = refund()
    assert one.before(again).label == 0
    reply = [(record["status"], record["reasons"]) for record in log.of("outcome")]
    assert why == "log" or (reply[0][0], log.of("outcome")[0]["call_id"]) == ("withdrawn", call.id)
    with pytest.raises(InputError):
        one.use(call)
    one.use(again)
    now[0] = 900.0
    assert one.before(refund()).label == 1
    one.withdraw(again, "it may be running")
    assert one.before(refund()).label == 1
