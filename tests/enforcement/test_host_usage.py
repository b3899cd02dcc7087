"""The usage of models: limits over the tokens and the cost of a conversation, and counters over them."""

from __future__ import annotations

import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from guardagent import Policies, RemoteGuard, load_policies
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome, SqliteLedger, ToolGuard
from guardagent.enforcement.host_adapter import HostAdapter
from guardagent.enforcement.host_runs import HostScope, HostSurroundings
from guardagent.enforcement.host_usage import ModelUsage
from guardagent.enforcement.wire import read_call, write_call
from guardagent.errors import InputError
from guardagent.policy.load import compile_rules
from guardagent.types import Decision
from tests.enforcement.guards import MemoryLog, guard, ran, refund, yes
from tests.enforcement.remote.scripted_server import TOKEN, scripted_server

TOKENS = "forall(*(), usage.tokens <= 1000)"
COST = "forall(*(), usage.cost <= 0.5)"
A_DAY = """
version: 1
counters:
  spent: {on: '*()', key: principal.tenant, sum: usage.tokens, window: 24h}
policies:
  - {id: a_day, temporal: "forall(*(), counter(spent, principal.tenant) <= 500)"}
"""


def a_day() -> Policies:
    return load_policies(text=A_DAY)


def of_a_tenant(**options: Any) -> ToolGuard:
    return ToolGuard(a_day(), counters="memory:", principal={"id": "ann", "tenant": "shop"}, **options)


def label(tool_guard: ToolGuard, conversation: str = "c") -> int:
    """The label of a call, which runs if it is allowed."""
    call = refund(conversation=conversation)
    verdict = tool_guard.before(call)
    if not verdict.label:
        tool_guard.use(call)
        tool_guard.after(call, Outcome("done"))
    return verdict.label


def test_unknown_usage_denies() -> None:
    """Without a report, and if one of the reports lacks the number; the reason says who should state it."""
    counting = guard(TOKENS, COST)
    errors = counting.before(refund()).errors
    assert "usage.tokens is unknown: the host does not state what models have used" in errors[0]
    counting.spent("c", tokens=10)
    assert [error.partition(" is unknown")[0] for error in counting.before(refund()).errors] == ["rule 2: usage.cost"]


def test_reports_add_up_and_one_of_the_same_name_replaces_its_earlier_one() -> None:
    """So a run can report its total again and again. Amounts are exact."""
    counting = guard(TOKENS, COST)
    counting.spent("c", tokens=400, cost=0.1, of="run 1")
    counting.spent("c", tokens=600, cost=0.3, of="run 1")
    counting.spent("c", tokens=400, cost=Decimal("0.2"))
    assert counting.before(refund()).label == 0
    counting.spent("c", tokens=1, cost=0)
    assert counting.before(refund()).rules == ("rule 1",)
    counting.spent("d", tokens=1, cost=0)
    assert counting.before(refund(conversation="d")).label == 0

    counting.spent("e", tokens=900, cost=0, of="response 1")
    counting.spent("e", tokens=900, cost=0)
    counting.spent("e", tokens=1, cost=0)
    assert counting.before(refund(conversation="e")).label == 1


def test_no_report_of_a_thread_is_lost() -> None:
    """Lost tokens would be a limit that nobody set."""
    counting = guard(TOKENS, COST)

    def report() -> None:
        for _ in range(1000):
            counting.spent("c", tokens=1, cost=0)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(4):
                pool.submit(report)
    finally:
        sys.setswitchinterval(interval)
    assert counting.notes("c")[ModelUsage].total(None)["tokens"] == 4000


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens": -1},
        {"tokens": 1.5},
        {"tokens": True},
        {"tokens": 10**5000},
        {"tokens": 1, "of": ["x"]},
        {"cost": float("nan")},
        {"cost": Decimal("NaN")},
    ],
)
def test_what_is_no_amount_is_an_error(wrong: dict[str, Any]) -> None:
    """A negative report would raise the budget. The usage is unknown from then on."""
    counting = guard(TOKENS)
    counting.spent("c", tokens=1)
    with pytest.raises(InputError, match=r"expected a (number from 0|string)"):
        counting.spent("c", **wrong)
    counting.spent("c", tokens=1)
    assert "usage.tokens is unknown" in counting.before(refund()).errors[0]


def test_a_negative_usage_among_the_facts_is_unknown() -> None:
    session = compile_rules([TOKENS]).session(facts={"usage": {"tokens": -5}})
    assert "negative" in session.check("refund", {"amount": 1}).errors[0]


def test_processes_that_serve_a_conversation_in_turn_add_up(tmp_path: Path) -> None:
    """Each knows what the others have stated with calls that were allowed."""
    first, second = (guard(TOKENS, ledger=SqliteLedger(tmp_path / "ledger.sqlite")) for _ in range(2))
    for counting, tokens in ((first, 300), (second, 300), (first, 300)):
        counting.spent("c", tokens=tokens)
        assert label(counting) == 0
    second.spent("c", tokens=200)
    assert second.before(refund()).rules == ("rule 1",)
    third = guard(TOKENS, ledger=SqliteLedger(tmp_path / "ledger.sqlite"))
    third.spent("c", tokens=150)
    assert third.before(refund()).rules == ("rule 1",)


def test_a_counter_counts_each_token_once() -> None:
    """Also after calls that failed, whose amounts are given back and counted with the next call."""
    counting = of_a_tenant()
    counting.spent("c", tokens=300, of="run")
    ran(counting, refund(), failed=True)
    assert label(counting) == 0
    counting.spent("d", tokens=150)
    assert [label(counting, "d"), label(counting, "d")] == [0, 0]
    counting.spent("c", tokens=400, of="run")
    assert [label(counting), label(counting)] == [0, 1]


def test_a_restored_session_counts_no_token_twice() -> None:
    """Its calls keep what they counted."""
    facts = {"usage": {"tokens": 300}}
    options: dict[str, Any] = {"counters": "memory:", "principal": {"id": "ann", "tenant": "restored"}}
    policies, key = a_day(), b"k" * 32
    session = policies.session(**{**options, "facts": facts})
    session.record("done", permit=session.check("pay").permit)
    restored = policies.restore(session.snapshot(key), key, counters="memory:")
    restored.record("done", permit=restored.check("pay").permit)
    more = restored.check("pay", facts={"usage": {"tokens": 501}})
    restored.record("done", permit=more.permit)
    assert [more.label, restored.check("pay").label] == [0, 1]


@pytest.mark.parametrize(("whole", "reports"), [(False, [200]), (True, [800, 200])])
def test_another_process_goes_on_from_the_last_call(whole: bool, reports: list[int], tmp_path: Path) -> None:
    """It adds what it learns; a host that shows all responses again is not counted twice."""
    first, second = (guard(TOKENS, ledger=SqliteLedger(tmp_path / "ledger.db")) for _ in range(2))
    first.spent("c", tokens=800, whole=whole)
    ran(first, refund(id="1"))
    for tokens in reports:
        second.spent("c", tokens=tokens, whole=whole)
    assert second.before(refund(id="2")).label == 0
    second.spent("c", tokens=1, whole=whole)
    assert second.before(refund(id="3")).label == 1


def test_an_approval_outlives_more_usage_and_the_log_has_it() -> None:
    """A reviewer approves the call, not its tokens."""
    log = MemoryLog()
    counting = ToolGuard(
        load_policies(
            data={
                "version": 1,
                "policies": [
                    {"id": "asks", "temporal": "forall(refund(amount=a), a <= 10)", "on_violation": "escalate"},
                    {"id": "tokens", "temporal": TOKENS},
                ],
            }
        ),
        log=log,
    )
    counting.spent("c", tokens=5)
    call = refund()
    assert counting.before(call).decision is Decision.ESCALATE
    counting.spent("c", tokens=5)
    assert counting.resolve(call, yes(call)).label == 0
    assert [record["facts"]["usage"]["tokens"] for record in log.of("verdict")] == [5, 10]


def test_a_server_gets_the_totals() -> None:
    """In each call; what the host does not know is left out."""
    with scripted_server() as server:
        counting = RemoteGuard(server.url, token=TOKEN, timeout=2.0)
        counting.spent("c", tokens=7)
        counting.spent("c", tokens=5)
        counting.before(refund())
        (sent,) = [body["call"] for operation, body in server.requests if operation == "check"]
    assert sent["usage"] == {"tokens": 12}
    assert read_call(sent, "c").usage == {"tokens": 12}


@pytest.mark.parametrize("wrong", [{"tokens": -1}, {"tokens": "5"}, {"token": 5}])
def test_a_server_refuses_other_usage(wrong: dict[str, Any]) -> None:
    """The error names what it expected."""
    with pytest.raises(InputError, match="'tokens' and 'cost', numbers from 0"):
        read_call({**write_call(HostCall("t", {}, "c")), "usage": wrong}, "c")


@pytest.mark.parametrize(
    ("rule", "states", "warns"), [(TOKENS, False, True), (TOKENS, True, False), ("G !x", False, False)]
)
def test_attaching_to_a_host_that_does_not_state_usage_warns(
    rule: str, states: bool, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """If a rule or a counter reads it."""
    counting: EnforcementPoint = guard(rule)
    with caplog.at_level(logging.WARNING):
        HostAdapter(counting, HostSurroundings("some_host", HostScope, states_usage=states), None, "")
    assert ("some_host does not state what models have used" in caplog.text) is warns
    assert of_a_tenant().reads_usage
