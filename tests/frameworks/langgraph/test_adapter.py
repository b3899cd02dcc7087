"""LangChain and LangGraph: what the tools really do under a guard."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langgraph")

from langchain_core.tools import StructuredTool, tool

from guardagent.errors import InputError
from guardagent.frameworks.langgraph import (
    GuardMiddleware,
    RunStopped,
    approve,
    edit,
    guarded_tool_node,
    reject,
)
from tests.frameworks.langgraph.agents import (
    agent,
    awaited_tools,
    graph,
    results,
    says,
    thread,
    tools_of_shop,
    user,
)
from tests.frameworks.scenarios import (
    APPROVED,
    ASKS,
    AT_MOST_ONE,
    AUTHENTICATED,
    HALTED,
    LIMIT,
    MISSPELT,
    OVER_LIMIT,
    REPLAN,
    Shop,
    broken_rules,
    guard_of,
)

BOTH = pytest.mark.parametrize("build", [agent, graph], ids=["agent", "graph"])


def refund(amount: Any = 50, order: str = "W1") -> tuple[str, dict[str, Any]]:
    return ("refund", {"order_id": order, "amount": amount})


@BOTH
def test_a_denied_refund_is_replanned(build: Any, tmp_path: Path) -> None:
    """500 is denied with a reason and a remedy; then the model proposes 50, which is paid."""
    shop = Shop()
    made = build(guard_of(tmp_path, LIMIT), says(*[[("refund", args)] for args in REPLAN]), tools_of_shop(shop))
    found = made.invoke(user(), thread())
    assert shop.refunds == [("W1", 50)]
    denied, paid = results(found)
    assert denied.status == "error"
    assert "refund 100 or less" in denied.content
    assert paid.status == "success"


@BOTH
def test_a_denied_refund_is_replanned_with_await(build: Any, tmp_path: Path) -> None:
    """The same holds for an asynchronous host and a coroutine tool."""
    shop = Shop()
    made = build(guard_of(tmp_path, LIMIT), says(*[[("refund", args)] for args in REPLAN]), awaited_tools(shop))
    asyncio.run(made.ainvoke(user(), thread()))
    assert shop.refunds == [("W1", 50)]


@BOTH
def test_a_rule_over_history_counts_only_successes(build: Any, tmp_path: Path) -> None:
    """A refund is denied before authentication and after a failed one, and allowed after a successful one."""
    shop = Shop()
    model = says(
        [refund()],
        [("authenticate", {"email": "a@b", "code": "0"})],
        [refund()],
        [("authenticate", {"email": "a@b"})],
        [refund()],
    )
    made = build(guard_of(tmp_path, AUTHENTICATED), model, tools_of_shop(shop))
    found = made.invoke(user(), thread())
    assert shop.refunds == [("W1", 50)]
    assert [one.status for one in results(found)] == ["error", "success", "error", "success", "success"]


@BOTH
@pytest.mark.parametrize("written", OVER_LIMIT.values(), ids=OVER_LIMIT)
def test_no_spelling_of_the_arguments_gets_past_the_limit(build: Any, written: str, tmp_path: Path) -> None:
    """Whatever the model writes, the shop never pays more than 100."""
    shop = Shop()
    made = build(guard_of(tmp_path, LIMIT), says([("refund", json.loads(written))]), tools_of_shop(shop))
    made.invoke(user(), thread())
    assert shop.most <= 100


@BOTH
def test_an_escalated_call_is_approved_once(build: Any, tmp_path: Path) -> None:
    """Nothing is paid before the approval, and the approval does not cover a second identical call."""
    shop = Shop()
    made = build(guard_of(tmp_path, APPROVED), says([refund(500)], [refund(500)]), tools_of_shop(shop))
    (shown,) = made.invoke(user(), thread())["__interrupt__"]
    assert shop.refunds == []
    assert shown.value["args"] == {"order_id": "W1", "amount": 500}
    (again,) = made.invoke(approve(shown), thread())["__interrupt__"]
    assert shop.refunds == [("W1", 500)]
    made.invoke(reject(again, "enough"), thread())
    assert shop.refunds == [("W1", 500)]


@BOTH
def test_an_escalated_call_is_rejected(build: Any, tmp_path: Path) -> None:
    """The model gets the reason and continues."""
    shop = Shop()
    made = build(guard_of(tmp_path, APPROVED), says([refund(500)], [refund(50)]), tools_of_shop(shop))
    shown = made.invoke(user(), thread())["__interrupt__"]
    found = made.invoke(reject(shown, "too much"), thread())
    assert "too much" in results(found)[0].content
    assert shop.refunds == [("W1", 50)]


@BOTH
def test_an_edited_call_is_judged_again(build: Any, tmp_path: Path) -> None:
    """An edited call may run, need another approval, or be denied."""
    shop = Shop()
    model = says([refund(500)], [refund(500)])
    made = build(guard_of(tmp_path, APPROVED), model, tools_of_shop(shop))
    shown = made.invoke(user(), thread())["__interrupt__"]
    (again,) = made.invoke(edit(shown, {"order_id": "W1", "amount": "400"}), thread())["__interrupt__"]
    assert again.value["args"]["amount"] == 400
    assert shop.refunds == []
    shown = made.invoke(approve(again), thread())["__interrupt__"]
    assert shop.refunds == [("W1", 400)]
    found = made.invoke(edit(shown, {"order_id": "W1", "amount": 2000}), thread())
    assert "Nobody refunds more" in results(found)[-1].content
    assert shop.refunds == [("W1", 400)]


def test_an_approval_with_await(tmp_path: Path) -> None:
    """The same holds for an asynchronous host."""

    async def run() -> None:
        made = agent(guard_of(tmp_path, APPROVED), says([refund(500)]), awaited_tools(shop))
        shown = (await made.ainvoke(user(), thread()))["__interrupt__"]
        assert shop.refunds == []
        await made.ainvoke(approve(shown), thread())

    shop = Shop()
    asyncio.run(run())
    assert shop.refunds == [("W1", 500)]


@BOTH
def test_without_a_checkpointer_an_escalation_is_a_denial(build: Any, tmp_path: Path) -> None:
    """The denial explains what to configure."""
    shop = Shop()
    made = build(guard_of(tmp_path, APPROVED), says([refund(500)]), tools_of_shop(shop), checkpointer=None)
    found = made.invoke(user(), thread())
    assert "checkpointer" in results(found)[0].content
    assert shop.refunds == []


def test_the_guards_own_approver_replaces_the_interrupt(tmp_path: Path) -> None:
    """The run is not interrupted, and the tool gets the arguments as the approver edited them."""
    from guardagent.enforcement import Approval

    shop = Shop()
    guard = guard_of(tmp_path, APPROVED, approver=lambda request: Approval("edit", {"order_id": "W1", "amount": 60}))
    agent(guard, says([refund(500)]), tools_of_shop(shop), checkpointer=None).invoke(user(), thread())
    assert shop.refunds == [("W1", 60)]


@BOTH
def test_a_halt_stops_the_run(build: Any, tmp_path: Path) -> None:
    """The error carries the verdict, and the conversation stays halted."""
    shop = Shop()
    guard = guard_of(tmp_path, HALTED)
    made = build(guard, says([("wire", {"amount": 1})], [refund()]), tools_of_shop(shop))
    with pytest.raises(RunStopped) as stopped:
        made.invoke(user(), thread())
    assert stopped.value.verdict.decision == "halt"
    assert guard.session("t").halted
    assert (shop.wired, shop.refunds) == ([], [])


def test_a_halt_stops_a_node_that_handles_all_errors(tmp_path: Path) -> None:
    """A ToolNode does not convert the halt into a message."""
    shop = Shop()
    made = graph(
        guard_of(tmp_path, HALTED), says([("wire", {"amount": 1})]), tools_of_shop(shop), handle_tool_errors=True
    )
    with pytest.raises(RunStopped):
        made.invoke(user(), thread())
    assert shop.wired == []


@BOTH
def test_two_identical_parallel_refunds_are_one(build: Any, tmp_path: Path) -> None:
    """Under "at most one", only the first is paid."""
    shop = Shop()
    build(guard_of(tmp_path, AT_MOST_ONE), says([refund(), refund()]), tools_of_shop(shop)).invoke(user(), thread())
    assert shop.refunds == [("W1", 50)]


@BOTH
def test_two_identical_parallel_refunds_are_one_with_await(build: Any, tmp_path: Path) -> None:
    """The same holds for an asynchronous host."""
    shop = Shop()
    made = build(guard_of(tmp_path, AT_MOST_ONE), says([refund(), refund()]), awaited_tools(shop))
    asyncio.run(made.ainvoke(user(), thread()))
    assert shop.refunds == [("W1", 50)]


@BOTH
def test_a_cancelled_call_stays_in_flight(build: Any, tmp_path: Path) -> None:
    """It was paid before it was cancelled; the refund is not paid again when the run is resumed."""
    shop = Shop(waits=True)

    async def run() -> None:
        made = build(guard_of(tmp_path, AT_MOST_ONE), says([refund()], [refund()]), awaited_tools(shop))
        running = asyncio.ensure_future(made.ainvoke(user(), thread()))
        await shop.started.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        shop.waits = False
        await made.ainvoke(None, thread())  # resumes from the checkpoint, so the task runs again
        await made.ainvoke(user("again"), thread())

    asyncio.run(run())
    assert shop.refunds == [("W1", 50)]


@BOTH
@pytest.mark.parametrize("kind", broken_rules())
def test_a_rule_set_that_does_not_work_denies(build: Any, kind: str, tmp_path: Path) -> None:
    """Nothing is paid if a rule raises, hangs or returns an invalid result."""
    shop = Shop()
    guard = guard_of(tmp_path, ASKS, **broken_rules()[kind])
    found = build(guard, says([refund()]), tools_of_shop(shop)).invoke(user(), thread())
    assert shop.refunds == []
    assert results(found)[0].status == "error"


@BOTH
def test_after_three_replans_control_returns_to_the_user(build: Any, tmp_path: Path) -> None:
    """The fourth consecutive denial ends the run with the reason; a new user turn resets the count."""
    shop = Shop()
    model = says(*[[refund(500 + one)] for one in range(4)], [refund(50)])
    made = build(guard_of(tmp_path, LIMIT), model, tools_of_shop(shop))
    found = made.invoke(user(), thread())
    assert len(results(found)) == 4
    assert not shop.refunds
    made.invoke(user("50 then"), thread())
    assert shop.refunds == [("W1", 50)]


@BOTH
def test_a_run_without_a_thread_id_is_an_error(build: Any, tmp_path: Path) -> None:
    """The error explains what to configure, and no tool runs."""
    shop = Shop()
    made = build(guard_of(tmp_path, LIMIT), says([refund()]), tools_of_shop(shop), checkpointer=None)
    with pytest.raises(InputError, match="thread_id"):
        made.invoke(user())
    assert shop.refunds == []


@BOTH
def test_conversations_do_not_mix(build: Any, tmp_path: Path) -> None:
    """A login in one conversation does not count in another one, even if their turns alternate."""
    shop = Shop()
    guard = guard_of(tmp_path, AUTHENTICATED)
    login = ("authenticate", {"email": "a@b"})
    first = build(guard, says([login], "hello", [refund(50, "A")]), tools_of_shop(shop))
    second = build(guard, says([refund(50, "B")], "no", [refund(50, "C")]), tools_of_shop(shop))
    first.invoke(user(), thread("one"))
    second.invoke(user(), thread("two"))
    first.invoke(user("go on"), thread("one"))
    second.invoke(user("go on"), thread("two"))
    assert shop.refunds == [("A", 50)]


def test_a_misspelt_tool_is_found_at_attach(tmp_path: Path) -> None:
    """It is found at once if the tools are known, otherwise before the first call of the model."""
    tools = tools_of_shop(Shop())
    with pytest.raises(InputError, match="refnud"):
        GuardMiddleware(guard_of(tmp_path, MISSPELT), tools)
    with pytest.raises(InputError, match="refnud"):
        guarded_tool_node(guard_of(tmp_path, MISSPELT), tools)
    with pytest.raises(InputError, match="refnud"):
        agent(guard_of(tmp_path, MISSPELT), says([refund()]), tools).invoke(user(), thread())


@BOTH
@pytest.mark.parametrize("beside", ["another text", "an image"])
def test_an_error_in_any_block_is_a_failure(build: Any, tmp_path: Path, beside: str) -> None:
    """A failure is found in any block of the tool's output."""
    shop = Shop()
    image = {"type": "image", "source_type": "base64", "data": "aGk=", "mime_type": "image/png"}
    first = {"type": "text", "text": "looked"} if beside == "another text" else image

    def authenticate(email: str) -> list[dict[str, str]]:
        """Looks up a user."""
        return [first, {"type": "text", "text": f"Error: no user {email}"}]

    login = ("authenticate", {"email": "a@b"})
    tools = [one for one in tools_of_shop(shop) if one.name != "authenticate"]
    made = build(guard_of(tmp_path, AUTHENTICATED), says([login], [refund()]), [tool(authenticate), *tools])
    made.invoke(user(), thread())
    assert shop.refunds == []


@BOTH
@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "await"])
def test_a_call_is_freed_when_it_ends(build: Any, awaited: bool, tmp_path: Path) -> None:
    """The guarded copy of a tool, and the host's run that it holds, does not wait for the garbage collector."""
    tools = (awaited_tools if awaited else tools_of_shop)(Shop())
    made = build(guard_of(tmp_path, LIMIT), says([refund()]), tools, checkpointer=None)
    gc.collect()
    gc.disable()
    try:
        before = _tools_in_memory()
        asyncio.run(made.ainvoke(user(), thread())) if awaited else made.invoke(user(), thread())
        assert _tools_in_memory() == before
    finally:
        gc.enable()


def _tools_in_memory() -> int:
    return sum(type(one) is StructuredTool for one in gc.get_objects())
