"""The conversations of a guard: which one a call belongs to, and what is in flight there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent import InputError
from guardagent.enforcement import HostCall, Outcome
from guardagent.enforcement.conversations import key_of
from tests.enforcement.guards import AUTHENTICATED, LIMIT, ONCE, done, guard, ran, refund
from tests.frameworks.scenarios import HALTED, guard_of


@pytest.mark.parametrize("name", [None, "", 7, b"c", ["c"], {}, float("nan"), object()])
def test_a_conversation_has_a_text_as_its_id(name: Any) -> None:
    """All else is denied, and says what is expected; `after` and `turn` do no harm either."""
    one = guard(LIMIT)
    verdict = one.before(refund(conversation=name))
    assert verdict.label == 1
    assert "the host must name the conversation" in verdict.errors[0]
    one.after(refund(conversation=name), Outcome())
    with pytest.raises(InputError):
        one.turn(name)


def test_conversations_have_histories_of_their_own() -> None:
    """What was done in one is unknown in the other."""
    one = guard(AUTHENTICATED)
    ran(one, HostCall("authenticate", {}, "a"))
    assert one.before(refund(conversation="a")).label == 0
    assert one.before(refund(conversation="b")).label == 1


def test_agents_of_one_conversation_share_its_history() -> None:
    """The planner authenticates, and the worker refunds."""
    one = guard(AUTHENTICATED)
    ran(one, HostCall("authenticate", {}, "c", agent="planner"))
    assert one.before(refund(agent="worker")).label == 0
    assert [event.agent for event in one.session("c").history] == ["planner", "worker"]


@pytest.mark.parametrize("call_id", [None, 7, ["a"], {}])
def test_a_call_has_a_text_as_its_id(call_id: Any) -> None:
    """All else is denied, before it could be mistaken for another call."""
    verdict = guard(LIMIT).before(refund(id=call_id))
    assert verdict.label == 1
    assert "the call's id" in verdict.errors[0]


def test_an_id_that_is_used_again_names_both_calls() -> None:
    """Some hosts number the calls of each message anew: each gets what was judged of it."""
    one = guard(LIMIT)
    small, large = refund(5, id="1"), refund(90, id="1")
    assert [one.before(small).label, one.before(large).label] == [0, 0]
    assert [one.use(small)["amount"], one.use(large)["amount"]] == [5, 90]
    one.after(small, Outcome("small"))
    assert [(event.args["amount"], event.output) for event in one.session("c").history] == [(5, "small"), (90, None)]


def test_a_call_that_is_retried_with_its_id_has_a_permit_of_its_own() -> None:
    """The one that was cancelled stays in flight; the outcome is that of the second."""
    one = guard(LIMIT)
    call = refund(id="1")
    one.before(call)
    one.use(call)
    one.after(call, Outcome.of_error(KeyboardInterrupt()))
    assert one.before(call).label == 0
    done(one, call)
    assert [event.status for event in one.session("c").history] == [None, "ok"]


def test_two_tools_with_one_id_are_not_mixed_up() -> None:
    """The permit that is taken is that of the tool."""
    one = guard(LIMIT)
    other = HostCall("refund_all", {"amount": 50, "order": "W1"}, "c", id="1")
    for call in (first := refund(id="1"), other):
        one.before(call)
    one.use(first)
    one.use(other)
    one.after(first, Outcome("first"))
    assert [(event.tool, event.output) for event in one.session("c").history] == [
        ("refund", "first"),
        ("refund_all", None),
    ]


def test_a_call_runs_once() -> None:
    """Its permit is used up, and of a call that was denied there is none."""
    one = guard(LIMIT)
    call, denied = refund(), refund(500)
    one.before(call)
    one.before(denied)
    one.use(call)
    with pytest.raises(InputError, match="already used"):
        one.use(call)
    with pytest.raises(InputError, match="is in flight"):
        one.use(denied)
    with pytest.raises(InputError):
        one.use(refund(conversation="never begun"))


def test_a_call_runs_with_what_was_judged() -> None:
    """The host may compare what it is about to hand over; and who changes the arguments afterwards changes nothing."""
    one = guard(LIMIT)
    args = {"amount": 50, "order": "W1", "lines": [1]}
    call = HostCall("refund", args, "c")
    one.before(call)
    args["amount"], args["lines"] = 500, [2]
    with pytest.raises(InputError, match="another call"):
        one.use(call, {"amount": 500, "order": "W1", "lines": [1]})
    assert one.use(call) == {"amount": 50, "order": "W1", "lines": [1]}


def test_a_history_that_the_guard_did_not_record_is_not_believed() -> None:
    """The host's messages show a call that never came here: something went around the guard."""
    one = guard("forall(refund(order=o), count(f:refund(order=o)) < 9)")
    assert one.before(refund(id="a", seen=())).label == 0
    assert one.before(refund(id="b", seen=("a",))).label == 0
    verdict = one.before(refund(id="c", seen=("a", "elsewhere")))
    assert (verdict.label, "'elsewhere', which this guard never saw" in verdict.errors[0]) == (1, True)
    assert "ToolGuard(ledger=SqliteLedger(...)), or restore this one with guard.restore" in verdict.errors[0]


@pytest.mark.parametrize(
    ("rule", "call", "decides"),
    [
        (LIMIT, refund(), True),
        (ONCE, refund(), False),
        (ONCE, HostCall("look", {}, "c"), True),
        (AUTHENTICATED, refund(), False),
        (AUTHENTICATED, HostCall("authenticate", {}, "c"), True),
        ("after(refund(order=o), true, f:receipt(order=o), true)", refund(), True),
        ("G !tool:wire", refund(), True),
        ("tool:refund -> F tool:receipt", refund(), False),
        ("tool:refund -> F tool:receipt", HostCall("receipt", {}, "c"), True),
        (f"{LIMIT} OR {LIMIT}", refund(), False),
        ("before(refund(order=o), true, f:find(order=o), true)", refund(), False),
        ("forall(refund(amount=a), !known(output(last(f:look(), true))) || a > 0)", refund(), False),
    ],
)
def test_rules_that_look_at_no_earlier_call_decide_after_a_restart(rule: str, call: HostCall, decides: bool) -> None:
    """The messages of a thread that was kept show calls of before."""
    assert guard(rule).before(replace(call, seen=("before",))).label == (0 if decides else 1)
    assert guard(rule, LIMIT).before(refund(500, seen=("before",))).label == 1


def test_after_a_restart_nobody_knows_of_a_halt(tmp_path: Path) -> None:
    """Where a rule can halt, a conversation of before may have been halted."""
    halts = guard_of(tmp_path, HALTED)
    assert halts.before(HostCall("look", {}, "c", seen=("before",))).label == 1
    assert halts.before(HostCall("look", {}, "d", seen=())).label == 0


def test_a_call_that_was_denied_may_be_seen() -> None:
    """Its denial stands in the host's messages, also where it could not be read at all."""
    one = guard(ONCE, LIMIT)
    one.before(refund(500, id="a"))
    one.refuse(HostCall("nothing", {}, "c", id="b"), "unknown tool")
    assert one.before(refund(id="c", seen=("a", "b"))).label == 0


@pytest.mark.parametrize("seen", [7, [["a"]], [{}]])
def test_what_was_seen_of_the_wrong_type_denies(seen: Any) -> None:
    """It never raises."""
    assert guard(LIMIT).before(refund(seen=seen)).label == 1


def test_the_user_speaks_and_the_agent_may_replan_anew() -> None:
    """`turn` forgets the denials, and nothing else."""
    one = guard(LIMIT, max_replans=1)
    one.before(refund(500))
    one.turn("c")
    assert "gave_up" not in one.before(refund(500)).details
    assert one.before(refund(500)).details["gave_up"]


def test_a_conversation_that_has_ended_is_forgotten() -> None:
    """Who keeps a permit of it cannot use it; what is still owed is said; an outcome begins no new one."""
    one = guard("tool:refund -> F tool:receipt")
    call = refund()
    one.before(call)
    assert one.end("c").label == 1
    with pytest.raises(InputError):
        one.session("c")
    one.after(call, Outcome())
    with pytest.raises(InputError):
        one.session("c")
    with pytest.raises(InputError):
        one.use(call)


def test_nothing_is_kept_of_conversations_that_have_ended() -> None:
    """Nor of calls whose outcome is known, but for their places in the history."""
    one = guard(LIMIT)
    for number in range(50):
        ran(one, refund(conversation=f"c{number}"))
        kept = one._conversations.known(f"c{number}")
        assert (kept.open_permits, kept.used_nonces) == ({}, set())
        one.end(f"c{number}")
    assert one._conversations._known == {}


def test_it_goes_on_from_a_snapshot() -> None:
    """In another process the history counts; the first messages tell which calls it holds."""
    key = b"0123456789abcdef"
    one = guard(ONCE)
    ran(one, refund(id="a", conversation="restored"))
    snapshot = one.session("restored").snapshot(key)
    other = guard(ONCE)
    other.restore(snapshot, key)
    assert other.before(refund(conversation="restored", id="b", seen=("a",))).label == 1
    assert "never saw" in other.before(refund(conversation="restored", seen=("a", "b", "c"))).errors[0]
    assert one.before(HostCall("look", {}, "restored")).label == 1
    with pytest.raises(InputError, match="has begun here"):
        other.restore(other.session("restored").snapshot(key), key)


def test_a_fork_does_not_go_on_with_a_conversation() -> None:
    """Two processes would each know half of it; one that begins in the fork is as good as any."""
    one = guard(ONCE, facts=lambda call: {})
    ran(one, refund())
    child = os.fork()
    if child == 0:
        try:
            old, new = one.before(refund()), one.before(refund(conversation="new"))
            os._exit(0 if "another process" in old.errors[0] and new.label == 0 else 1)
        except BaseException:  # noqa: BLE001 - the child must never go on with the tests
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_key_tells_calls_apart() -> None:
    """By id, tool and every argument with its type, whatever the order; of any value there is one."""

    def key(args: Any) -> Any:
        return key_of(HostCall("t", args, "c", id="1"))

    assert key({"a": 1, "b": 2}) == key({"b": 2, "a": 1})
    odd: list[Any] = [1, True, 1.0, "1", None, [1], [[1]], {"a": 1}, {1: 1, "a": {2}}, {"1": 1}, [], {}]
    assert len({key({"x": value}) for value in odd}) == len(odd)
