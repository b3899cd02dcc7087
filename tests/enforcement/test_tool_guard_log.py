"""The guard and its audit log: every verdict stands there before the call runs."""

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
    """With the call, the decision and how it ended."""
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


def test_what_the_verdict_withholds_is_written() -> None:
    """For the operator: the model reads the verdict alone."""
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
    """A call that was interrupted is unknown."""
    log = MemoryLog()
    one = guard(LIMIT, log=log)
    call = refund()
    one.before(call)
    one.use(call)
    one.after(call, outcome)
    assert log.of("outcome")[0]["status"] == status


def test_an_output_that_means_failure_is_written_as_one(tmp_path: Path) -> None:
    """The log says what the rules go by."""
    log = MemoryLog()
    one = guard_of(tmp_path, 'version: 1\nfailed_output: ^Error\npolicies: [{id: a, temporal: "G !tool:x"}]', log=log)
    ran(one, refund(), "Error: no")
    assert log.of("outcome")[0]["status"] == "failed"


def test_the_log_holds_the_reviewers_answer(tmp_path: Path) -> None:
    """Who, what, and about which arguments."""
    log = MemoryLog()
    reply = {"choice": "reject", "reason": "too much", "by": "ann"}
    one = guard_of(tmp_path, APPROVED, log=log, approver=lambda request: reply)
    one.before(HostCall("refund", {"amount": 500}, "c"))
    (approval,) = log.of("approval")
    assert (approval["answer"], approval["approver"], approval["reasons"]) == ("reject", "ann", ["too much"])
    assert [record["decision"] for record in log.of("verdict")] == ["escalate", "deny"]


@pytest.mark.parametrize("error", [OSError("disk full"), RuntimeError(), TypeError()])
def test_a_log_that_cannot_be_written_denies(error: Exception) -> None:
    """The call takes no effect: it is withdrawn, and has no permit."""
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


def test_a_log_that_cannot_be_written_warns_where_that_is_wanted(caplog: pytest.LogCaptureFixture) -> None:
    """The call runs, and the host's own log says what is missing."""
    log = MemoryLog()
    one = guard(LIMIT, log=log, on_log_error="warn")
    log.error = OSError("disk full")
    ran(one, refund())
    assert one.before(refund(500)).label == 1
    assert "disk full" in caplog.text


def test_a_log_that_hangs_denies() -> None:
    """As everything that does not end in time."""
    release = threading.Event()

    class Hangs(MemoryLog):
        def append(self, record: Any) -> int:
            release.wait(5)
            return super().append(record)

    one = guard(LIMIT, log=Hangs(), deadline=0.5)
    assert one.before(refund()).label == 1
    release.set()


def test_an_outcome_that_is_not_written_counts_all_the_same() -> None:
    """The next verdict meets the same fault."""
    log = MemoryLog()
    one = guard(LIMIT, log=log)
    call = refund()
    one.before(call)
    log.error = OSError("disk full")
    done(one, call)
    assert one.session("c").history[0].status == "ok"
    assert one.before(refund()).label == 1


@pytest.mark.parametrize("name", ["audit.db", "audit.jsonl"])
def test_the_audit_log_takes_what_a_guard_writes(name: str, tmp_path: Path) -> None:
    """And its chain is whole."""
    with AuditLog(tmp_path / name) as log:
        one = guard(LIMIT, log=log)
        ran(one, refund(), {"nested": [1, {"a": None}]})
        one.before(refund(500))
        one.before(refund(conversation=None))
        one.end("c")
    found = verify_log(tmp_path / name)
    assert (found.status, found.entries) == ("whole", 5)


@pytest.mark.parametrize("why", ["log", "host", "expired"])
def test_a_call_that_never_ran_may_be_made_again_and_the_log_says_so(why: str) -> None:
    """What may be done once may be done until it ran; a call whose permit was used stays in flight."""
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
