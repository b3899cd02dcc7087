"""LangChain and LangGraph: what the tools really do under a guard."""

from __future__ import annotations

import asyncio
import functools
import gc
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langgraph")

from langchain_core.tools import StructuredTool, tool

from guardagent.enforcement import ToolGuard
from guardagent.errors import InputError
from guardagent.frameworks.langgraph import GuardMiddleware, RunStopped, approve, edit, guarded_tool_node, reject
from tests.frameworks.guarded_runs import Ran, guarded_run_test
from tests.frameworks.langgraph.agents import agent, awaited_tools, graph, results, says, thread, tools_of_shop, user
from tests.frameworks.scenarios import (
    APPROVED,
    AT_MOST_ONE,
    AUTHENTICATED,
    HALTED,
    LIMIT,
    MISSPELT,
    TOKENS,
    Shop,
    guard_of,
)

BOTH = pytest.mark.parametrize("build", [agent, graph], ids=["agent", "graph"])


def refund(amount: Any = 50, order: str = "W1") -> tuple[str, dict[str, Any]]:
    return ("refund", {"order_id": order, "amount": amount})


def run(guard: ToolGuard, shop: Shop, *turns: Any, named: str = "c1", awaited: bool = False, build: Any = agent) -> Ran:
    """Runs a guarded agent or graph, as a coroutine if its tool is one."""
    model = says(*turns)
    made = build(guard, model, (awaited_tools if awaited else tools_of_shop)(shop))
    invoke = asyncio.run(made.ainvoke(user(), thread(named))) if awaited else made.invoke(user(), thread(named))
    at_last = invoke["messages"][len(invoke["messages"]) - 1]
    return Ran(at_last.content, model.read, [result.status == "error" for result in results(invoke)])


UNNAMED, TIRED = "a run without a conversation is denied", "after three replans control returns to the user"
test_guarded_run = guarded_run_test({"agent": run}, RunStopped, without=[UNNAMED])
GRAPH = {"graph": functools.partial(run, build=graph)}
test_guarded_run_of_a_graph = guarded_run_test(GRAPH, RunStopped, without=[UNNAMED, TIRED])


def test_after_three_replans_a_graph_ends(tmp_path: Path) -> None:
    """The fourth consecutive denial ends the run; a new user turn resets the count."""
    shop = Shop()
    made = graph(
        guard_of(tmp_path, LIMIT), says(*[[refund(500 + n)] for n in range(4)], [refund(50)]), tools_of_shop(shop)
    )
    assert (len(results(made.invoke(user(), thread()))), shop.refunds) == (4, [])
    made.invoke(user("50 then"), thread())
    assert shop.refunds == [("W1", 50)]


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
    invoke = made.invoke(reject(shown, "too much"), thread())
    assert "too much" in results(invoke)[0].content
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
    invoke = made.invoke(edit(shown, {"order_id": "W1", "amount": 2000}), thread())
    assert "Nobody refunds more" in results(invoke)[-1].content
    assert shop.refunds == [("W1", 400)]


@BOTH
def test_without_a_checkpointer_an_escalation_is_a_denial(build: Any, tmp_path: Path) -> None:
    """The denial has the rule's reason, and explains what to configure; no reviewer has rejected anything."""
    shop = Shop()
    made = build(guard_of(tmp_path, APPROVED), says([refund(500)]), tools_of_shop(shop), checkpointer=None)
    text = results(made.invoke(user(), thread()))[0].content
    assert "- large: More than 100 needs a person's approval." in text
    assert "compile it with checkpointer=..." in text
    assert "rejected" not in text
    assert shop.refunds == []


@BOTH
@pytest.mark.parametrize(
    ("rules", "options", "warnings"),
    [(APPROVED, {}, 1), (APPROVED, {"approver": lambda _: True}, 0), (LIMIT, {}, 0)],
    ids=["asks", "approver", "never asks"],
)
def test_a_missing_checkpointer_is_reported_before_a_call_needs_it(
    build: Any, rules: str, options: Any, warnings: int, tmp_path: Path, caplog: Any
) -> None:
    """Once for each guard, in the first run: the host shows it no earlier."""
    guard, shop = guard_of(tmp_path, rules, **options), Shop()
    for name in ("first", "second"):
        model = says([refund(50)], "done")
        build(guard, model, tools_of_shop(shop), checkpointer=None).invoke(user(), thread(name))
    assert len([line for line in caplog.messages if "no checkpointer" in line]) == warnings
    assert shop.refunds == [("W1", 50)] * 2


def test_a_middleware_reports_a_missing_checkpointer_before_any_model_request(tmp_path: Path, caplog: Any) -> None:
    """The run makes no call at all."""
    agent(guard_of(tmp_path, APPROVED), says("hello"), [], checkpointer=None).invoke(user(), thread())
    assert "no checkpointer" in caplog.text


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
def test_a_run_without_a_thread_id_is_an_error(build: Any, tmp_path: Path) -> None:
    """The error explains what to configure, and no tool runs."""
    shop = Shop()
    made = build(guard_of(tmp_path, LIMIT), says([refund()]), tools_of_shop(shop), checkpointer=None)
    with pytest.raises(InputError, match="thread_id"):
        made.invoke(user())
    assert shop.refunds == []


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
    tools = [tool for tool in tools_of_shop(shop) if tool.name != "authenticate"]
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
    return sum(type(item) is StructuredTool for item in gc.get_objects())


# --- the usage of models


def metered(*turns: Any) -> Any:
    """Returns a model each of whose messages uses 100 tokens."""
    model = says(*turns)
    usage = {"input_tokens": 60, "output_tokens": 40, "total_tokens": 100}
    model.messages = (message.model_copy(update={"usage_metadata": usage}) for message in model.messages)
    return model


@BOTH
def test_the_tokens_of_a_conversation_are_limited(build: Any, tmp_path: Path) -> None:
    """They add up over runs of a thread, and a message counts once. Messages that do not state them deny."""
    guard, shop = guard_of(tmp_path, TOKENS), Shop()
    made = build(
        guard, metered([refund(50), refund(20)], "done", [refund(30)], "done", [refund(40)]), tools_of_shop(shop)
    )
    for name in ("c1", "c1", "c2"):
        made.invoke(user(), thread(name))
    assert sorted(shop.refunds) == [("W1", 20), ("W1", 40), ("W1", 50)]
    run(guard, shop, [refund(60)], named="c3", build=build)
    assert len(shop.refunds) == 3


@BOTH
def test_parallel_calls_both_know_the_tokens(build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while another call notes what their message used."""
    guard, shop = guard_of(tmp_path, TOKENS), Shop()
    spent = guard.spent

    def slow(*args: Any, **options: Any) -> None:
        time.sleep(0.1)
        spent(*args, **options)

    monkeypatch.setattr(guard, "spent", slow)
    build(guard, metered([refund(50), refund(20)], "done"), tools_of_shop(shop)).invoke(user(), thread("c"))
    assert sorted(shop.refunds) == [("W1", 20), ("W1", 50)]
