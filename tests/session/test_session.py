"""Sessions: history, calls in flight, permits, decisions, forks and snapshots."""

from __future__ import annotations

import asyncio
import hmac
import json
import random
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardagent import Decision, Event, InputError, Policies, Session, ToolDenied, load_policies
from guardagent.policy.load import compile_rules
from tests.tiers import examples

KEY = b"0123456789abcdef"
ONE_REFUND = "forall(refund(), count(f:refund(), !failed(f)) < 1)"


def session_of(*rules: str, state: Any = None, facts: Mapping[str, Any] | None = None, **names: Any) -> Session:
    return compile_rules(rules, **names).session(state=state, facts=facts or {})


def policies_of(text: str) -> Policies:
    return load_policies(text=f"version: 1\n{text}")


# --- what is in flight ------------------------------------------------------------------------------------------------


def test_a_second_refund_is_denied_before_the_first_is_recorded() -> None:
    """The first refund may still succeed; a note reminds the host to record it."""
    session = session_of(ONE_REFUND)
    assert session.check("refund").label == 0
    verdict = session.check("refund")
    assert (verdict.label, verdict.rules) == (1, ("rule 1",))
    assert "'refund' (call 1) is in flight: record its outcome" in verdict.reasons
    assert verdict.details["in_flight"] == [{"call": 1, "tool": "refund", "args": {}}]


@pytest.mark.parametrize(("failed", "label"), [(False, 1), (True, 0), (None, 1)])
def test_recording_settles_it(failed: bool | None, label: int) -> None:
    """If the first refund failed, another one is allowed."""
    session = session_of(ONE_REFUND)
    session.check("refund")
    session.record("done", failed=failed)
    assert session.check("refund").label == label


@pytest.mark.parametrize(
    "rule", ["!(tool:refund && X F tool:refund) && G(tool:refund -> !X F tool:refund)", ONE_REFUND]
)
def test_only_one_of_two_refunds_that_are_proposed_together_is_allowed(rule: str) -> None:
    """This holds for every order in which they could run."""
    session = session_of(rule)
    verdicts = session.check_all([("refund", {"order": 1}), ("refund", {"order": 2})])
    assert [verdict.label for verdict in verdicts] == [0, 1]
    assert len(session.in_flight) == 1


def test_calls_proposed_together_must_comply_in_every_order() -> None:
    """The given order complies, but the other one does not."""
    session = session_of("G(tool:wipe -> !O tool:send)")
    together: list[tuple[str, Any]] = [("wipe", {}), ("send", {})]
    assert [verdict.label for verdict in session.check_all(together)] == [0, 1]
    assert [verdict.label for verdict in session_of("G !tool:x").check_all(together)] == [0, 0]


def test_a_call_halts_or_escalates_among_others_too() -> None:
    """The halt takes effect, and the escalated call can be approved."""
    policies = policies_of("""policies:
- {id: never, temporal: "G !tool:delete", on_violation: halt}
- {id: ask, temporal: "G !tool:refund", on_violation: escalate}
""")
    halted = policies.session()
    assert [str(verdict.decision) for verdict in halted.check_all([("find", {}), ("delete", {})])] == ["allow", "halt"]
    assert halted.halted
    escalated = policies.session()
    _, verdict = escalated.check_all([("find", {}), ("refund", {})])
    assert escalated.approve(verdict).label == 0


def test_many_calls_are_judged_in_one_order_only() -> None:
    """Seven calls have too many orders, so only the proposed one is judged."""
    session = session_of("forall(refund(), count(f:refund()) < 5)")
    assert [verdict.label for verdict in session.check_all([("refund", {})] * 7)] == [0] * 5 + [1] * 2


def test_a_call_that_is_interrupted_stays_in_flight() -> None:
    """Its effect is unknown."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    session = session_of(ONE_REFUND)
    with pytest.raises(KeyboardInterrupt):
        session.call(interrupted, "refund")
    assert session.check("refund").label == 1
    session.record(failed=True, permit=session.in_flight[0])
    assert session.check("refund").label == 0


def test_a_cancelled_task_stays_in_flight() -> None:
    """The same holds for a coroutine."""
    session = session_of(ONE_REFUND)

    async def run() -> None:
        task = asyncio.create_task(session.acall(lambda: asyncio.sleep(60), "refund"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert session.check("refund").label == 1


def test_two_threads_cannot_both_reserve_the_only_call() -> None:
    """Checking and reserving is one atomic step."""
    session = session_of(ONE_REFUND)
    barrier, labels = threading.Barrier(8), []

    def propose() -> None:
        barrier.wait()
        labels.append(session.check("refund").label)

    threads = [threading.Thread(target=propose) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(labels) == [0] + [1] * 7


RULES = (
    "before(read(id=x), True, f:login(user=x), !failed(f))",
    "forall(pay(amount=a), sum(f:pay(), !failed(f), args(f).amount) + a <= 100)",
    "tool:draft -> F tool:send",
    "after(pay(), True, f:receipt(), True)",
)
STEPS: list[tuple[str, dict[str, int]]] = [
    *(("read", {"id": 1}), ("login", {"user": 1}), ("pay", {"amount": 40})),
    *((tool, {}) for tool in ("draft", "send", "receipt")),
]


def play(session: Session, step: tuple[int, int]) -> Any:
    tool, args = STEPS[step[0]]
    verdict = session.check(tool, args)
    if verdict.label == 0 and step[1] < 3:
        session.record("x", failed=step[1] == 0, permit=verdict.permit)
    return verdict.decision, verdict.violations, verdict.errors


def plans(most: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Steps, each with how it ends."""
    return st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=most)


@settings(max_examples=examples(25))
@given(st.lists(plans(6), min_size=50, max_size=50), st.randoms())
def test_sessions_never_see_each_other(steps: list[list[tuple[int, int]]], order: random.Random) -> None:
    """Fifty sessions, interleaved at random, give the same verdicts as each one alone."""
    policies = compile_rules(RULES)
    together: list[Session] = [policies.session() for _ in steps]
    verdicts: list[list[Any]] = [[] for _ in steps]
    turns = [number for number, plan in enumerate(steps) for _ in plan]
    order.shuffle(turns)
    for turn in turns:
        verdicts[turn].append(play(together[turn], steps[turn][len(verdicts[turn])]))
    for plan, expected, session in zip(steps, verdicts, together, strict=True):
        alone = policies.session()
        assert [play(alone, step) for step in plan] == expected
        assert alone.finish().violations == session.finish().violations


# --- what has happened ------------------------------------------------------------------------------------------------

AUTHENTICATED = ["before(read(), True, f:authenticate(), True)", "G(tool:read -> O tool:authenticate)"]


@pytest.mark.parametrize("rule", AUTHENTICATED)
@pytest.mark.parametrize(("outcome", "failed", "label"), [("ok", False, 0), ("no", True, 1), ("?", None, 1)])
def test_only_a_successful_call_is_a_precondition(rule: str, outcome: str, failed: bool | None, label: int) -> None:
    """A failed or unknown authentication does not count."""
    session = session_of(rule)
    session.check("authenticate")
    assert session.check("read", reserve=False).label == 1
    session.record(outcome, failed=failed)
    assert session.check("read").label == label


@pytest.mark.parametrize("rule", AUTHENTICATED)
def test_a_denied_call_is_not_in_the_history(rule: str) -> None:
    """A denied authentication does not count."""
    session = session_of(rule, "G !tool:authenticate")
    assert session.check("authenticate").label == 1
    assert session.history == ()
    assert "rule 1" in session.check("read").rules


@pytest.mark.parametrize("rule", AUTHENTICATED)
@pytest.mark.parametrize("answer", ["No such user", {"error": "No such user"}])
def test_an_output_can_mark_a_call_as_failed(rule: str, answer: Any) -> None:
    """The policy's pattern overrides the host."""
    session = policies_of(f"failed_output: 'No such user'\npolicies: [{{id: a, temporal: {rule!r}}}]").session()
    session.check("authenticate")
    session.record(answer, failed=False)
    assert session.check("read").rules == ("a",)


LIMIT = "forall(refund(amount=a), a <= 100)"


OTHER_KINDS: list[Any] = ["500", "50", None, [50], {"value": 50}, True, float("nan"), object()]


@pytest.mark.parametrize(
    ("rule", "tool", "args"),
    [
        *((LIMIT, "refund", {"amount": amount}) for amount in OTHER_KINDS),
        *(("forall(refund(amount=50), False)", "refund", {"amount": amount}) for amount in OTHER_KINDS),
        *(("before(refund(amount=50), True, f:x(), True)", "refund", {"amount": amount}) for amount in OTHER_KINDS),
        (LIMIT, "refund", {}),
        (LIMIT, "refund", {"Amount": 50}),
        (LIMIT, "Refund", {"amount": 50}),
        ("G !tool:refund", " refund", {}),
        ("forall(refund(method='crypto'), False)", "refund", {"method": "Crypto"}),
        ("forall(refund(fast=true), False)", "refund", {"fast": 1}),
        ("forall(refund(count=1), False)", "refund", {"count": True}),
        ("forall(refund(to=/[a-z]+/), False)", "refund", {"to": 5}),
    ],
)
def test_a_slip_is_never_a_silent_mismatch(rule: str, tool: str, args: dict[str, Any]) -> None:
    """A missing argument, one of another kind, another case and 1 for true are unknown, so the call is denied."""
    verdict = session_of(rule).check(tool, args)
    assert (verdict.decision, verdict.rules) == (Decision.DENY, ())
    assert verdict.errors


@pytest.mark.parametrize(
    ("option", "label"), [("action", "Deploy"), ("decision", "GO"), ("tags", {"Secret"}), ("tags", {"secret "})]
)
def test_labels_in_another_case_are_refused(option: str, label: Any) -> None:
    """They are refused like names of tools."""
    session = session_of("G !action:deploy", "G !decision:go", "G !secret")
    verdict = session.check("x", **{option: label})
    assert "only in case or space" in verdict.errors[0]
    assert session.check("x", action="other", decision="other", tags={"other"}).label == 0


LOOK_ALIKES = (
    *("re\u200bfund", "re\u00adfund", "refund\x00", "\x00refund", "re\u2060fund", "refund\ufeff", "re\ufe0ffund"),
    *(
        "\uff32\uff25fund",
        "\U0001d42b\U0001d41efund",
        "r\u0435fund",
        "refu\u0578d".replace("\u0578", "\u200dn"),
        "Refund",
        " refund",
    ),
    *("re fund", "re\u2800fund", "re\u3164fund", "re\tfund", "refund\n", "re\u034ffund"),
)


@pytest.mark.parametrize("name", LOOK_ALIKES, ids=ascii)
def test_a_name_that_looks_like_one_of_a_rule_is_refused(name: str) -> None:
    """Also where calls that no rule lists are allowed; with a label, too."""
    session = session_of("forall(refund(), false)", "G !action:refund")
    for verdict in (session.check(name), session.check(name, tags={"x"}), session.check("x", action=name)):
        assert "'refund' only in case or space" in verdict.errors[0]


@pytest.mark.parametrize(
    "name",
    ["refunds", "re_fund", "re-fund", "re.fund", "refund2", "fund", "r\u00e9fund", "\u8fd4\u91d1", "prerefund", "find"],
)
def test_a_name_that_looks_different_is_another_tool(name: str) -> None:
    assert session_of("forall(refund(), false)").check(name).decision is Decision.ALLOW


def test_a_regular_expression_takes_linear_time() -> None:
    """Other engines would backtrack exponentially on it."""
    session = session_of("forall(send(to=/(a+)+b/), False)", "forall(send(to=t), !(t matches /(x*)*y/))")
    started = time.process_time()
    assert session.check("send", {"to": "a" * 50_000 + "x" * 50_000}).label == 0
    assert time.process_time() - started < 5


def test_a_state_function_that_raises_denies() -> None:
    """The error has the call and the type; the rest is withheld, since it may come from the state."""

    def owner(state: Any, order: str) -> Any:
        return state["orders"][order]["owner"]

    session = session_of(
        "forall(read(order=o), state(owner(o)) == 'bob')", state={"orders": {}}, functions={"owner": owner}
    )
    verdict = session.check("read", {"order": "7"})
    assert verdict.label == 1
    assert verdict.errors == ('rule 1: state(owner("7")) raised KeyError',)
    assert verdict.withheld == ("rule 1: state(owner(\"7\")) raised KeyError: '7'",)


def test_a_state_function_must_return_a_value() -> None:
    """A set is not a JSON value; None is unknown."""
    functions = {"odd": lambda state: {1}, "none": lambda state: None}
    session = session_of(
        "forall(a(), state(odd()) == 1)", "forall(b(), state(none()) == 1)", state={}, functions=functions
    )
    assert "returned a value of type 'set'" in session.check("a").errors[0]
    assert "has no result" in session.check("b").errors[0]


def test_the_state_is_read_when_it_is_needed() -> None:
    """A callable is read at most once per check."""
    reads: list[int] = []

    def state() -> dict[str, Any]:
        reads.append(1)
        return {"open": len(reads) < 2}

    session = session_of("forall(a(), state.open == true && state.open == true)", state=state)
    assert session.check("b").label == 0
    assert not reads
    assert [session.check("a", reserve=False).label for _ in range(2)] == [0, 1]


# --- permits ----------------------------------------------------------------------------------------------------------


def test_a_permit_is_for_one_call_once() -> None:
    """It needs the judged arguments, and expires."""
    now = [0.0]
    session = compile_rules([LIMIT]).session(clock=lambda: now[0], permit_seconds=60)
    args = {"amount": 50, "to": ["a"]}
    permit = session.check("refund", args).permit
    args["to"].append("b")  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="another call"):
        session.use(permit, "refund", args)
    assert session.use(permit, "refund", {"amount": 50, "to": ["a"]}) == {"amount": 50, "to": ["a"]}
    with pytest.raises(InputError, match="already used"):
        session.use(permit)
    late = session.check("refund", {"amount": 1}).permit
    now[0] = 61
    with pytest.raises(InputError, match="expired"):
        session.use(late)


def test_nothing_else_can_be_recorded() -> None:
    """Recording fails without a call, with the permit of another session, and twice."""
    session, other = session_of(LIMIT), session_of(LIMIT)
    with pytest.raises(InputError, match="nothing to record"):
        session.record("x")
    permit = session.check("refund", {"amount": 1}).permit
    with pytest.raises(InputError, match="does not belong to a call"):
        other.record("x", permit=permit)
    session.check("refund", {"amount": 2})
    with pytest.raises(InputError, match=r"several calls are in flight: 'refund' \(call 1\), 'refund' \(call 2\)"):
        session.record("x")
    session.record("x", permit=permit)
    with pytest.raises(InputError, match="does not belong to a call"):
        session.record("x", permit=permit)
    assert [event.status for event in session.history] == ["ok", None]


def test_a_check_without_reserve_records_nothing() -> None:
    """It has no permit."""
    session = session_of(ONE_REFUND)
    assert [session.check("refund", reserve=False).permit for _ in range(3)] == [None] * 3
    assert session.check("refund").permit is not None


def test_the_tool_receives_the_judged_arguments() -> None:
    """They include the defaults of the function, and are a copy."""
    seen = []

    def refund(amount: int, to: str = "card", **more: Any) -> str:
        seen.append((amount, to, more))
        return "done"

    session = session_of("forall(refund(amount=a, to=t), a <= 100 && t == 'card')")
    assert session.call(refund, "refund", {"amount": 5, "note": "x"}) == "done"
    assert seen == [(5, "card", {"note": "x"})]
    with pytest.raises(ToolDenied, match="This is not allowed"):
        session.call(refund, "refund", {"amount": 500})
    with pytest.raises(ToolDenied, match="missing a required argument: 'amount'"):
        session.call(refund, "refund", {})
    assert len(seen) == 1


def test_an_error_of_a_tool_is_a_failure() -> None:
    """The error propagates."""

    def broken() -> None:
        raise OSError("down")

    session = session_of(LIMIT)
    with pytest.raises(OSError, match="down"):
        session.call(broken, "x")
    assert (session.history[0].status, session.history[0].output) == ("failed", "OSError: down")


@pytest.mark.parametrize(
    ("tool", "args", "problem"),
    [
        ("", {}, "the tool is ''"),
        (5, {}, "the tool is 5"),
        ("x", [1], "are a list"),
        ("x", {1: 2}, "argument name of 'x' is 1"),
    ],
)
def test_an_invalid_call_is_denied(tool: Any, args: Any, problem: str) -> None:
    """The error says what is wrong."""
    verdict = session_of(LIMIT).check(tool, args)
    assert (verdict.label, problem in verdict.errors[0]) == (1, True)


def test_values_that_are_nested_too_deeply_are_refused() -> None:
    """Such arguments and facts deny; such an output raises, and the call stays in flight."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    session = session_of("forall(pay(x=v), v == [1])")
    for verdict in (session.check("pay", {"x": deep}), session.check("pay", {"x": [1]}, facts={"deep": deep})):
        assert (verdict.label, "nested too deep" in verdict.errors[0]) == (1, True)
    session.check("pay", {"x": [1]})
    with pytest.raises(InputError, match="nested too deeply; record it as a string"):
        session.record(deep)
    assert len(session.in_flight) == 1


# --- handling ---------------------------------------------------------------------------------------------------------

LEVELS = "".join(
    f"  - {{id: {level}, temporal: 'G !tool:{level}', on_violation: {level}}}\n"
    for level in ("warn", "block", "escalate", "halt")
)


def test_each_response_gives_its_decision() -> None:
    """After a halt every call is denied."""
    session = policies_of(f"policies:\n{LEVELS}").session()
    decisions = [str(session.check(tool).decision) for tool in ("warn", "block", "escalate", "halt")]
    assert decisions == ["warn", "deny", "escalate", "halt"]
    verdict = session.check("anything")
    assert (session.halted, verdict.decision) == (True, Decision.DENY)
    assert verdict.errors == ("the session was halted by 'halt'",)


def test_an_approval_lifts_what_was_escalated_and_nothing_else() -> None:
    """It counts once, and only without later calls."""
    text = f"policies:\n{LEVELS}  - {{id: cap, temporal: 'forall(escalate(n=n), n < 5)'}}\n"
    session = policies_of(text).session()
    verdict = session.check("escalate", {"n": 1})
    approved = session.approve(verdict)
    assert (approved.decision, approved.rules, approved.details) == (Decision.ALLOW, (), {"approved": ["escalate"]})
    session.record("x", permit=approved.permit)
    with pytest.raises(InputError, match="void"):
        session.approve(verdict)
    assert session.approve(session.check("escalate", {"n": 9})).decision is Decision.DENY
    old = session.check("escalate", {"n": 1})
    session.check("other")
    with pytest.raises(InputError, match="void"):
        session.approve(old)
    with pytest.raises(InputError, match="nothing to approve"):
        session.approve(session.check("block"))


@pytest.mark.parametrize(
    "rule",
    [
        "before(refund(), true, login(), true)",
        "after(login(), refund())",
        "seq(login(), refund())",
        "forall(refund(), some(login()))",
        "forall(refund(), count(login()) > 0)",
        "forall(refund(), output(last(login())) != 1)",
        "G(tool:refund -> O tool:login)",
        "G(tool:refund -> (!tool:logout S tool:login))",
        "tool:login -> F tool:refund",
    ],
)
def test_a_tool_that_a_rule_names_anywhere_is_listed(rule: str) -> None:
    """What a rule demands before or after another call is allowed, and nothing else."""
    session = policies_of(f"unlisted: deny\npolicies: [{{id: a, temporal: '{rule}'}}]").session()
    assert session.check("login").label == 0
    assert "no rule covers" in session.check("wipe").errors[0]


def test_unlisted_calls_can_be_denied() -> None:
    """Undeclared tools are always denied."""
    rule = "policies: [{id: a, temporal: 'tool:a -> F[<=3] tool:b'}]"
    assert policies_of(f"unlisted: deny\n{rule}").session().check("c").errors == (
        "no rule covers the tool 'c', and the policy denies unlisted calls ('unlisted: deny')",
    )
    assert policies_of(rule).session().check("c").label == 0
    verdict = policies_of(f"tools: [a, b]\n{rule}").session().check("bb")
    assert verdict.errors == ("unknown tool 'bb'; did you mean 'b'? known: a, b",)


def test_a_denial_has_a_remedy() -> None:
    """The feedback for the model contains it."""
    session = session_of("before(read(id=x), True, f:find_user_id_by_email(), True)")
    verdict = session.check("read", {"id": 1})
    assert verdict.violations[0].remedy == "call 'find_user_id_by_email' first"
    assert verdict.feedback().startswith("This is not allowed: read(id=1)\n- rule 1: ")
    assert "To comply: call 'find_user_id_by_email' first" in verdict.feedback()


@pytest.mark.parametrize(
    ("rule", "remedy"),
    [
        ("G(tool:c -> O tool:b) && G(tool:b -> O tool:a)", "call 'a', then 'b' first"),
        ("tool:c -> F tool:b -> F tool:a", "call 'b', then 'a' first"),
        ("G !tool:c", None),
    ],
)
def test_the_remedy_of_a_temporal_rule_is_the_shortest_sequence(rule: str, remedy: str | None) -> None:
    """Without such a sequence there is no remedy."""
    session = session_of(rule)
    session.check("c")
    if session.in_flight:
        session.record("x")
    assert session.check("c").violations[0].remedy == remedy


def test_a_session_reports_pending_obligations_and_calls() -> None:
    """It reports the obligations and the call without an outcome."""
    session = session_of("tool:draft -> F tool:review", "after(pay(), True, f:receipt(), True)", "F tool:log")
    session.check("draft")
    session.record("x")
    session.check("pay")
    assert session.obligations == {"rule 1": "call 'review'", "rule 2": "call 'receipt'", "rule 3": "call 'log'"}
    verdict = session.finish()
    assert verdict.rules == ("rule 1", "rule 2", "rule 3")
    assert verdict.reasons[-1] == "'pay' (call 2) is in flight: record its outcome"


def test_rules_are_satisfied_violated_or_open() -> None:
    """The status has three values, as in runtime verification."""
    session = session_of("tool:a U tool:b", "exists(b())", "G !tool:c")
    assert set(session.status.values()) == {"open"}
    session.observe(Event("b", status="ok"))
    session.observe(Event("c", status="ok"))
    assert session.status == {"rule 1": "satisfied", "rule 2": "satisfied", "rule 3": "violated"}


@pytest.mark.parametrize(
    ("rule", "past", "label"),
    [
        ("G !tool:p", ["p"], 0),
        ("tool:p -> F tool:q", ["p", "p"], 0),
        ("tool:p -> F[<=2] tool:q", ["p", "x", "x"], 0),
        ("tool:p U tool:q", ["x"], 1),
        ("forall(p(), False)", ["p"], 0),
        ("before(p(), True, f:q(), True)", ["p"], 0),
    ],
)
def test_an_older_violation_is_not_reported_again(rule: str, past: list[str], label: int) -> None:
    """Only the proposed call is judged; a new violation is reported."""
    session = session_of(rule)
    verdicts = [session.observe(Event(tool, status="ok")).label for tool in past]
    assert verdicts[-1] == 1
    assert session.check("y", reserve=False).label == label
    if rule != "tool:p -> F[<=2] tool:q":
        assert session.check(past[-1]).label == 1


# --- forks and snapshots ----------------------------------------------------------------------------------------------


def test_a_condition_with_one_value_for_all_outcomes_is_known() -> None:
    """It is known that the failure will be known, but not its value."""
    session = compile_rules(["forall(pay(), known(failed(last(get()))))"]).session()
    permit = session.check("get").permit
    assert session.check("pay", reserve=False).label == 1  # it may never run
    session.use(permit)
    assert session.check("pay", reserve=False).label == 0
    session = compile_rules(["forall(pay(), !failed(last(get())))"]).session()
    session.check("get")
    assert session.check("pay", reserve=False).label == 1


def test_a_fork_changes_nothing() -> None:
    """A fork has the history of its session, and its calls do not affect the session."""
    session = session_of(ONE_REFUND, "after(pay(), True, f:receipt(), True)")
    session.check("pay")
    fork = session.fork()
    assert fork.check("refund").permit is None
    assert fork.check("refund").label == 1
    assert session.check("refund").label == 0
    assert session.obligations == {"rule 2": "call 'receipt'"}


def test_a_fork_is_rolled_back_to_the_history() -> None:
    """The rollback stops at the call in flight of the session itself."""
    session = session_of(ONE_REFUND, "tool:draft -> F tool:send")
    session.check("pay")
    fork = session.fork()
    mark = fork.mark()
    assert [fork.check(tool).label for tool in ("refund", "draft", "refund")] == [0, 0, 1]
    assert fork.rollback(mark) == 1
    assert fork.check("refund", reserve=False).label == 0
    assert (fork.rollback(), len(fork.history), session.rollback()) == (1, 1, 1)
    assert fork.finish().label == 0


@settings(max_examples=examples(60))
@given(plans(8), plans(5))
def test_a_restored_session_behaves_as_the_original(
    before: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    """It has the same verdicts, calls in flight and obligations."""
    policies = compile_rules(RULES)
    plain, kept = policies.session(), policies.session()
    for step in before:
        play(plain, step)
        play(kept, step)
    restored = policies.restore(kept.snapshot(KEY), KEY)
    assert restored.history == plain.history
    assert [play(restored, step) for step in after] == [play(plain, step) for step in after]
    assert restored.finish().violations == plain.finish().violations
    assert kept.check("login", {"user": 1}).errors == ("the session was halted by the restoration of its snapshot",)


def test_a_snapshot_contains_its_format() -> None:
    """The older format is read; an unknown format is refused with a remedy."""
    policies = compile_rules(["forall(refund(), count(f:refund()) < 2)"])
    session = policies.session(id="formats")
    session.check("refund")
    session.record()
    _, body = session.snapshot(KEY).split(b"\n", 1)
    content = {name: value for name, value in json.loads(body).items() if name != "format"}

    def written(number: int, **more: Any) -> bytes:
        body = json.dumps({**content, **more}).encode()
        return b"guardagent snapshot %d %s\n%s" % (number, hmac.new(KEY, body, "sha256").hexdigest().encode(), body)

    with pytest.raises(InputError, match=r"format 3, but this release reads 1 and 2; restore it with the release that"):
        policies.restore(written(3, format=3), KEY)
    for number, more in ((1, {"format": 2}), (2, {}), (2, {"format": 1})):
        with pytest.raises(InputError, match="changed since"):
            policies.restore(written(number, **more), KEY)
    restored = policies.restore(written(1), KEY)
    assert restored.check("refund").label == 0
    assert restored.check("refund").label == 1


def test_a_refused_snapshot_does_not_retire_the_session() -> None:
    """A restore under another policy is refused, and the session continues."""
    session = compile_rules(["G !tool:wire"]).session(id="goes-on")
    with pytest.raises(InputError, match="another policy"):
        compile_rules(["G !tool:pay"]).restore(session.snapshot(KEY), KEY)
    assert session.check("look").label == 0


def test_a_snapshot_is_authentic_and_not_outdated() -> None:
    """Changed and outdated snapshots, and those of another key, are refused."""
    policies = compile_rules([ONE_REFUND])
    session = policies.session()
    old = session.snapshot(KEY)
    session.check("refund")
    new = session.snapshot(KEY)
    for snapshot, key, problem in (
        (old.replace(b'"calls":[]', b'"calls":[1]'), KEY, "changed"),
        (new, b"another key 1234", "changed"),
        (b"", KEY, "not a snapshot"),
        (new, b"short", "at least 16"),
        (old, KEY, "is outdated"),
    ):
        with pytest.raises(InputError, match=problem):
            policies.restore(snapshot, key)
    with pytest.raises(InputError, match="outdated"):
        policies.restore(new, KEY, newest=session.sequence + 1)
    assert policies.restore(new, KEY).check("refund").label == 1
