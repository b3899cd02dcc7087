"""The conversations of a guard: the assignment of calls to them, and the calls in flight."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent import InputError
from guardagent.enforcement import HostCall, Outcome
from guardagent.enforcement.calls import hashable
from tests.enforcement.guards import AUTHENTICATED, LIMIT, ONCE, done, guard, ran, refund
from tests.frameworks.scenarios import HALTED, guard_of
from tests.processes import is_true_in_child


@pytest.mark.parametrize("name", [None, "", 7, b"c", ["c"], {}, float("nan"), object()])
def test_a_conversation_id_is_a_string(name: Any) -> None:
    """Any other id is denied with an error that states what is expected; `after` and `turn` cause no harm."""
    tool_guard = guard(LIMIT)
    verdict = tool_guard.before(refund(conversation=name))
    assert verdict.label == 1
    assert "the host must name the conversation" in verdict.errors[0]
    tool_guard.after(refund(conversation=name), Outcome())
    with pytest.raises(InputError):
        tool_guard.turn(name)


def test_conversations_have_histories_of_their_own() -> None:
    """A conversation does not see the calls of another one."""
    tool_guard = guard(AUTHENTICATED)
    ran(tool_guard, HostCall("authenticate", {}, "a"))
    assert tool_guard.before(refund(conversation="a")).label == 0
    assert tool_guard.before(refund(conversation="b")).label == 1


def test_agents_of_one_conversation_share_its_history() -> None:
    """A worker may refund after the planner has authenticated."""
    tool_guard = guard(AUTHENTICATED)
    ran(tool_guard, HostCall("authenticate", {}, "c", agent="planner"))
    assert tool_guard.before(refund(agent="worker")).label == 0
    assert [event.agent for event in tool_guard.session("c").history] == ["planner", "worker"]


@pytest.mark.parametrize("call_id", [None, 7, ["a"], {}])
def test_a_call_id_is_a_string(call_id: Any) -> None:
    """Any other id is denied, so that it cannot be confused with another call."""
    verdict = guard(LIMIT).before(refund(id=call_id))
    assert verdict.label == 1
    assert "the call's id" in verdict.errors[0]


def test_a_reused_call_id_refers_to_both_calls() -> None:
    """Some hosts number the calls of each message from one; each call runs with its own judged arguments."""
    tool_guard = guard(LIMIT)
    small, large = refund(5, id="1"), refund(90, id="1")
    assert [tool_guard.before(small).label, tool_guard.before(large).label] == [0, 0]
    assert [tool_guard.use(small)["amount"], tool_guard.use(large)["amount"]] == [5, 90]
    tool_guard.after(small, Outcome("small"))
    assert [(event.args["amount"], event.output) for event in tool_guard.session("c").history] == [
        (5, "small"),
        (90, None),
    ]


def test_a_retry_with_the_same_id_has_its_own_permit() -> None:
    """The cancelled call stays in flight; the outcome is recorded for the second one."""
    tool_guard = guard(LIMIT)
    call = refund(id="1")
    tool_guard.before(call)
    tool_guard.use(call)
    tool_guard.after(call, Outcome.of_error(KeyboardInterrupt()))
    assert tool_guard.before(call).label == 0
    done(tool_guard, call)
    assert [event.status for event in tool_guard.session("c").history] == [None, "ok"]


def test_two_tools_with_one_id_are_not_mixed_up() -> None:
    """An outcome is recorded for the call of the same tool."""
    tool_guard = guard(LIMIT)
    other = HostCall("refund_all", {"amount": 50, "order": "W1"}, "c", id="1")
    for call in (first := refund(id="1"), other):
        tool_guard.before(call)
    tool_guard.use(first)
    tool_guard.use(other)
    tool_guard.after(first, Outcome("first"))
    assert [(event.tool, event.output) for event in tool_guard.session("c").history] == [
        ("refund", "first"),
        ("refund_all", None),
    ]


def test_a_history_that_the_guard_did_not_record_is_not_believed() -> None:
    """If the host's messages show a call that the guard never saw, the next call is denied."""
    tool_guard = guard("forall(refund(order=o), count(f:refund(order=o)) < 9)")
    assert tool_guard.before(refund(id="a", seen=())).label == 0
    assert tool_guard.before(refund(id="b", seen=("a",))).label == 0
    verdict = tool_guard.before(refund(id="c", seen=("a", "elsewhere")))
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
    """After a restart the messages show unknown calls; only rules that depend on earlier calls deny."""
    assert guard(rule).before(replace(call, seen=("before",))).label == (0 if decides else 1)
    assert guard(rule, LIMIT).before(refund(500, seen=("before",))).label == 1


def test_a_policy_that_can_halt_denies_after_a_restart(tmp_path: Path) -> None:
    """If a rule can halt, an earlier process may have halted the conversation, so calls are denied."""
    halts = guard_of(tmp_path, HALTED)
    assert halts.before(HostCall("look", {}, "c", seen=("before",))).label == 1
    assert halts.before(HostCall("look", {}, "d", seen=())).label == 0


def test_messages_may_show_denied_calls() -> None:
    """The host's messages may show denied calls, including calls that could not be parsed."""
    tool_guard = guard(ONCE, LIMIT)
    tool_guard.before(refund(500, id="a"))
    tool_guard.refuse(HostCall("nothing", {}, "c", id="b"), "unknown tool")
    assert tool_guard.before(refund(id="c", seen=("a", "b"))).label == 0


@pytest.mark.parametrize("seen", [7, [["a"]], [{}]])
def test_seen_ids_of_the_wrong_type_deny(seen: Any) -> None:
    """Seen ids of the wrong type cause a denial, not an exception."""
    assert guard(LIMIT).before(refund(seen=seen)).label == 1


def test_a_user_message_resets_the_replans() -> None:
    """`turn` resets the count of denials."""
    tool_guard = guard(LIMIT, max_replans=1)
    tool_guard.before(refund(500))
    tool_guard.turn("c")
    assert "gave_up" not in tool_guard.before(refund(500)).details
    assert tool_guard.before(refund(500)).details["gave_up"]


def test_an_ended_conversation_is_forgotten() -> None:
    """Its permits are void, `end` reports pending obligations, and a late outcome begins no new conversation."""
    tool_guard = guard("tool:refund -> F tool:receipt")
    call = refund()
    tool_guard.before(call)
    assert tool_guard.end("c").label == 1
    with pytest.raises(InputError):
        tool_guard.session("c")
    tool_guard.after(call, Outcome())
    with pytest.raises(InputError):
        tool_guard.session("c")
    with pytest.raises(InputError):
        tool_guard.use(call)


def test_ended_conversations_leave_no_state() -> None:
    """A finished call leaves only its event in the history; an ended conversation leaves nothing."""
    tool_guard = guard(LIMIT)
    for number in range(50):
        ran(tool_guard, refund(conversation=f"c{number}"))
        kept = tool_guard.claimed_calls.conversations.known(f"c{number}")
        assert (kept.open_permits, kept.used_nonces) == ({}, set())
        tool_guard.end(f"c{number}")
    assert tool_guard._conversations._known == {}  # nothing public lists the conversations


def test_a_snapshot_continues_a_conversation() -> None:
    """In another process the history counts; the first messages show which calls it contains."""
    key = b"0123456789abcdef"
    tool_guard = guard(ONCE)
    ran(tool_guard, refund(id="a", conversation="restored"))
    snapshot = tool_guard.session("restored").snapshot(key)
    other = guard(ONCE)
    other.restore(snapshot, key)
    assert other.before(refund(conversation="restored", id="b", seen=("a",))).label == 1
    assert "never saw" in other.before(refund(conversation="restored", seen=("a", "b", "c"))).errors[0]
    assert tool_guard.before(HostCall("look", {}, "restored")).label == 1
    with pytest.raises(InputError, match="has begun here"):
        other.restore(other.session("restored").snapshot(key), key)


def test_a_fork_does_not_continue_a_conversation() -> None:
    """Parent and child would each know half of the history; a new conversation works in both."""
    tool_guard = guard(ONCE, facts=lambda call: {})
    ran(tool_guard, refund())
    assert is_true_in_child(lambda: "another process" in tool_guard.before(refund()).errors[0])
    assert is_true_in_child(lambda: tool_guard.before(refund(conversation="new")).label == 0)


def test_keys_distinguish_arguments() -> None:
    """Keys differ by every argument with its type, but not by the order of the arguments."""

    def key(args: Any) -> Any:
        return hashable(HostCall("t", args, "c", id="1").args)

    assert key({"a": 1, "b": 2}) == key({"b": 2, "a": 1})
    odd: list[Any] = [1, True, 1.0, "1", None, [1], [[1]], {"a": 1}, {1: 1, "a": {2}}, {"1": 1}, [], {}]
    assert len({key({"x": value}) for value in odd}) == len(odd)
