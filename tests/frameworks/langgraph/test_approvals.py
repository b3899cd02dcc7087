"""LangChain and LangGraph: one approval covers one execution of the shown call, in any deployment."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langgraph")

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, RetryPolicy, Send, interrupt

from guardagent.enforcement import SqliteLedger, ToolGuard
from guardagent.errors import InputError
from guardagent.frameworks.langgraph import approve, edit, guarded_tool_node, reject
from tests.frameworks.langgraph.agents import State, agent, awaited_tools, graph, results, says, thread, tools_of_shop
from tests.frameworks.langgraph.agents import user as asks
from tests.frameworks.scenarios import APPROVED, Shop, guard_of

BOTH = pytest.mark.parametrize("build", [agent, graph], ids=["agent", "graph"])
PAID = [("W1", 500)]


def refund(amount: Any = 500, order: str = "W1") -> tuple[str, dict[str, Any]]:
    return ("refund", {"order_id": order, "amount": amount})


class Service:
    """A web service that builds its agent for each request; checkpointer, guard and shop are kept."""

    def __init__(self, build: Any, guard: ToolGuard, *turns: Any, tools: Callable[[Shop], Any] = tools_of_shop) -> None:
        self.shop, self.saver, self.model = Shop(), InMemorySaver(), says(*turns)
        self.build, self.guard, self.tools = build, guard, tools

    def agent(self, guard: ToolGuard | None = None) -> Any:
        return self.build(guard or self.guard, self.model, self.tools(self.shop), checkpointer=self.saver)

    def requests(self) -> Any:
        """Returns the approval requests of the first run."""
        return self.agent().invoke(asks(), thread())["__interrupt__"]

    def go_on(self, command: Any, config: Any = None, guard: ToolGuard | None = None) -> Any:
        return self.agent(guard).invoke(command, config or thread())


@pytest.fixture
def guard(tmp_path: Path) -> ToolGuard:
    return guard_of(tmp_path, APPROVED)


def at_once(shown: Any, agents: list[Any]) -> None:
    """Gives all agents the same answer at the same time."""
    start = threading.Barrier(len(agents), timeout=10)

    def click(made: Any) -> None:
        start.wait()
        made.invoke(approve(shown), thread())

    with ThreadPoolExecutor(len(agents)) as pool:
        list(pool.map(click, agents))


# --- repeated answers


@BOTH
def test_two_clicks_at_once_pay_once(build: Any, guard: ToolGuard) -> None:
    """All requests find the run interrupted."""
    service = Service(build, guard, [refund()], *["done"] * 4)
    at_once(service.requests(), [service.agent() for _ in range(4)])
    assert service.shop.refunds == PAID


@BOTH
@pytest.mark.parametrize("fork", [False, True])
def test_an_old_checkpoint_pays_nothing_again(build: Any, guard: ToolGuard, *, fork: bool) -> None:
    """This holds with and without the old answer, on the old checkpoint and on a fork of it."""
    service = Service(build, guard, [refund()], *["done"] * 9)
    shown = service.requests()
    old = service.agent().get_state(thread()).config
    service.go_on(approve(shown))
    if fork:
        old = service.agent().update_state(old, {"messages": [HumanMessage("as before")]}, as_node="model")
    for command in (approve(shown), None, approve(shown), Command(resume=True)):
        go = service.go_on(command, old)
        while again := go.get("__interrupt__"):
            go = service.go_on(approve(again), old)
    assert service.shop.refunds == PAID


# --- several processes: each guard stands for one; they share only the checkpoints and a file


@BOTH
def test_processes_with_one_ledger_pay_once(build: Any, tmp_path: Path) -> None:
    """All processes get the answer at the same time."""
    guards = [guard_of(tmp_path, APPROVED, ledger=SqliteLedger(tmp_path / "ledger")) for _ in range(3)]
    service = Service(build, guards[0], [refund()], *["done"] * 9)
    at_once(service.requests(), [service.agent(guard) for guard in guards])
    assert service.shop.refunds == PAID


@BOTH
def test_processes_without_a_ledger_refuse_approvals_of_other_processes(build: Any, tmp_path: Path) -> None:
    """The error explains how to share a ledger. The process of the request resumes once."""
    guards = [guard_of(tmp_path, APPROVED) for _ in range(3)]
    service = Service(build, guards[0], [refund()], *["done"] * 9)
    shown, old = service.requests(), service.agent().get_state(thread()).config
    refused = [service.go_on(approve(shown), old, guard) for guard in guards[1:]]
    assert service.shop.refunds == []
    assert all("SqliteLedger" in results(state)[-1].content for state in refused)
    service.go_on(approve(shown), old)
    assert service.shop.refunds == PAID


@BOTH
def test_the_hosts_own_approvals_count_once_in_each_process(build: Any, tmp_path: Path) -> None:
    """Without a shared ledger, this option permits one execution per process."""
    guards = [guard_of(tmp_path, APPROVED, approvals="this host's") for _ in range(3)]
    service = Service(build, guards[0], [refund()], *["done"] * 9)
    shown, old = service.requests(), service.agent().get_state(thread()).config
    for guard in [*guards, *guards]:
        service.go_on(approve(shown), old, guard)
    assert service.shop.refunds == PAID * 3


# --- the call that was shown


@BOTH
@pytest.mark.parametrize("answer", [True, "approve", {"choice": "approve"}, {"choice": "edit", "args": refund(500)[1]}])
def test_an_answer_that_names_no_call_runs_none(build: Any, answer: Any, guard: ToolGuard) -> None:
    """The error explains how to answer."""
    service = Service(build, guard, [refund()], "done")
    service.requests()
    go = service.go_on(Command(resume=answer))
    assert service.shop.refunds == []
    assert '"of"' in results(go)[-1].content


def forged(amount: int) -> dict[str, Any]:
    call = {"name": "refund", "args": refund(amount)[1], "id": "forged"}
    return {"messages": [HumanMessage("x"), AIMessage("", tool_calls=[call])]}


@BOTH
def test_a_call_that_was_never_shown_is_not_approved(build: Any, guard: ToolGuard) -> None:
    """The call was written into the state; no answer without a digest, or for another call, approves it."""
    service = Service(build, guard, [refund()], *["done"] * 9)
    shown = service.requests()
    for answer in (Command(resume=True), approve(shown), Command(resume=next(iter(approve(shown).resume.values())))):
        service.agent().update_state(thread(), forged(900), as_node="model")
        service.go_on(answer)
    assert service.shop.refunds == []


@BOTH
def test_an_answer_to_an_older_request_approves_nothing(build: Any, guard: ToolGuard) -> None:
    """A request for 500 stays unanswered, 900 is requested next, and then the first answer arrives."""
    service = Service(build, guard, [refund()], [refund(900)], "done")
    (shown,) = service.requests()
    (later,) = service.go_on(asks("or rather 900"))["__interrupt__"]
    assert later.value["args"]["amount"] == 900
    old = approve(shown).resume[shown.id]
    go = service.go_on(Command(resume={later.id: old}))
    assert service.shop.refunds == []
    assert go["__interrupt__"][0].value["args"]["amount"] == 900


@BOTH
def test_a_call_that_changed_after_it_was_shown_needs_a_new_approval(build: Any, guard: ToolGuard) -> None:
    """The reviewer approves 500, but the state has changed to 900."""
    service = Service(build, guard, [refund()], "done")
    shown = service.requests()
    reply = service.agent().get_state(thread()).values["messages"][-1]
    changed = AIMessage("", id=reply.id, tool_calls=[{**reply.tool_calls[0], "args": refund(900)[1]}])
    service.agent().update_state(thread(), {"messages": [changed]}, as_node="model")
    answer = approve(shown).resume[shown[0].id]
    again = service.go_on(Command(resume=answer))["__interrupt__"]
    assert service.shop.refunds == []
    assert again[0].value["args"]["amount"] == 900
    service.go_on(approve(again))
    assert service.shop.refunds == [("W1", 900)]


def test_an_answer_that_changes_the_state_at_once_approves_nothing(guard: ToolGuard) -> None:
    """A Command can both resume the run and update the state."""
    service = Service(agent, guard, [refund()], "done")
    shown = service.requests()
    reply = service.agent().get_state(thread()).values["messages"][-1]
    changed = AIMessage("", id=reply.id, tool_calls=[{**reply.tool_calls[0], "args": refund(900)[1]}])
    service.go_on(Command(resume=approve(shown).resume, update={"messages": [changed]}))
    assert ("W1", 900) not in service.shop.refunds


# --- several calls


@BOTH
def test_all_calls_of_a_step_are_approved_together(build: Any, guard: ToolGuard) -> None:
    """In a stream, `approve` answers all requests of the step, and each call runs once."""
    service = Service(build, guard, [refund(500, "A"), refund(600, "B"), refund(70, "C")], "done", tools=awaited_tools)

    async def run() -> None:
        command: Any = asks()
        while command is not None:
            stream = service.agent().astream(command, thread(), stream_mode="updates")
            shown = [part["__interrupt__"] async for part in stream if "__interrupt__" in part]
            command = approve([question for part in shown for question in part]) if shown else None

    asyncio.run(run())
    assert sorted(service.shop.refunds) == [("A", 500), ("B", 600), ("C", 70)]


def test_each_request_is_answered_separately(guard: ToolGuard) -> None:
    """One call is approved; the other is requested again and then edited."""
    service = Service(agent, guard, [refund(500, "A"), refund(600, "B")], "done")
    first, second = sorted(service.requests(), key=lambda request: request.value["args"]["amount"])
    (left,) = service.go_on(approve(first))["__interrupt__"]
    assert left.value["digest"] == second.value["digest"]
    service.go_on(edit(left, {"order_id": "B", "amount": 60}, by="Ann"))
    assert sorted(service.shop.refunds) == [("A", 500), ("B", 60)]


def spread(guard: ToolGuard, shop: Shop, times: int, **options: Any) -> Any:
    """Returns a graph that sends the same call to its tools several times."""
    builder = StateGraph(State)
    builder.add_node("tools", guarded_tool_node(guard, tools_of_shop(shop)), **options)
    builder.add_conditional_edges(START, lambda state: [Send("tools", state)] * times, ["tools"])
    return builder.compile(checkpointer=InMemorySaver())


def test_one_call_that_is_sent_several_times_pays_once(guard: ToolGuard) -> None:
    """However often it was shown, it is one call."""
    shop = Shop()
    made = spread(guard, shop, 3)
    invoke = made.invoke(forged(500), thread())
    while shown := invoke.get("__interrupt__"):
        invoke = made.invoke(approve(shown), thread())
    assert shop.refunds == PAID


def test_a_node_that_is_retried_after_the_tool_has_paid_pays_once(guard: ToolGuard) -> None:
    """The tool pays and then raises, and the host runs the node again."""
    shop = Shop()

    def pay(order_id: str, amount: int) -> str:
        """Pays."""
        shop.refund(order_id, amount)
        raise ConnectionError("no answer")

    builder = StateGraph(State)
    node = guarded_tool_node(guard, [tool("refund")(pay)], handle_tool_errors=False)
    builder.add_node("tools", node, retry_policy=RetryPolicy(initial_interval=0.01, max_attempts=4))
    builder.add_edge(START, "tools")
    made = builder.compile(checkpointer=InMemorySaver())
    shown = made.invoke(forged(500), thread())["__interrupt__"]
    for command in (approve(shown), None, approve(shown)):
        made.invoke(command, thread())
    assert shop.refunds == PAID


# --- the helpers


def test_interrupts_of_tools_are_not_approval_requests(guard: ToolGuard) -> None:
    """`approve` refuses an interrupt of a tool, and `edit` refuses several requests."""
    builder = StateGraph(State)
    builder.add_node("ask", lambda _: {"messages": [interrupt("which account?")]})
    builder.add_edge(START, "ask")
    shown = builder.compile(checkpointer=InMemorySaver()).invoke(asks(), thread())["__interrupt__"]
    with pytest.raises(InputError, match="not an approval request of the guard"):
        approve(shown)
    with pytest.raises(InputError, match="nothing was shown"):
        reject([])
    service = Service(agent, guard, [refund(500, "A"), refund(600, "B")])
    with pytest.raises(InputError, match="2 calls were shown"):
        edit(service.requests(), {})
