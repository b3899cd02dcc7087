"""LangChain and LangGraph: an agent that a tool runs belongs to the tool's conversation, in any thread."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langgraph")

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ContextThreadPoolExecutor
from langchain_core.tools import tool

from guardagent.enforcement import ToolGuard
from tests.frameworks.langgraph.agents import agent, graph, says, thread, tools_of_shop, user
from tests.frameworks.scenarios import AT_MOST_ONE, Shop, guard_of

REFUND = ("refund", {"order_id": "W1", "amount": 50})
Starts = Callable[[Callable[[Any], Any], Any], Any]


def in_copied_context(work: Callable[[Any], Any], config: Any) -> None:
    """Runs work in a thread with a copy of the tool's context."""
    at_work = threading.Thread(target=contextvars.copy_context().run, args=(work, thread("other")))
    at_work.start()
    at_work.join()


def in_hosts_pool(work: Callable[[Any], Any], config: Any) -> None:
    """Runs work in the host's own pool, which copies the context."""
    with ContextThreadPoolExecutor() as pool:
        pool.submit(work, thread("other")).result()


def in_loop(work: Callable[[Any], Any], config: Any) -> None:
    """Runs work in a thread of an event loop, which copies the context."""
    asyncio.run(asyncio.to_thread(work, thread("other")))


def with_config(work: Callable[[Any], Any], config: Any) -> None:
    """Runs work in a new thread that gets the tool's configuration with another id."""
    own = {**config, "configurable": {**config["configurable"], "thread_id": "other"}}
    with ThreadPoolExecutor() as pool:
        pool.submit(work, own).result()


def bare(work: Callable[[Any], Any], config: Any) -> None:
    """Runs work in a new thread that gets neither context nor configuration."""
    with ThreadPoolExecutor() as pool:
        pool.submit(work, thread("other")).result()


def runs(guard: ToolGuard, shop: Shop, start: Starts, **options: Any) -> None:
    """Runs an agent that pays, and then its sub-agent, which tries to pay the same again."""
    inner = agent(guard, says([REFUND]), [tool(shop.refund)], **options)

    @tool
    def delegate(task: str, config: RunnableConfig) -> str:
        """Hands a task to another agent."""
        start(lambda its: inner.invoke(user(task), its), config)
        return "ok"

    turns = [REFUND], [("delegate", {"task": "refund it"})]
    agent(guard, says(*turns), [*tools_of_shop(shop), delegate]).invoke(user(), thread("root"))


@pytest.mark.parametrize("start", [in_copied_context, in_hosts_pool, in_loop, with_config])
@pytest.mark.parametrize("nested", [False, True])
def test_a_sub_agent_in_a_thread_shares_the_history(start: Starts, *, nested: bool, tmp_path: Path) -> None:
    """The order is refunded once, whatever thread id the sub-agent uses."""
    shop = Shop()
    guard = guard_of(tmp_path, AT_MOST_ONE)
    runs(guard, shop, start, nested=nested)
    assert shop.refunds == [("W1", 50)]
    assert [event.tool for event in guard.session("root").history] == ["refund", "delegate"]


def test_a_nested_agent_without_a_context_is_refused(tmp_path: Path) -> None:
    """Its thread has neither the tool's context nor its configuration. A nested agent cannot run alone either."""
    shop = Shop()
    guard = guard_of(tmp_path, AT_MOST_ONE)
    with pytest.raises(Exception, match="nested=True"):
        runs(guard, shop, bare, nested=True)
    assert shop.refunds == [("W1", 50)]
    for build in (agent, graph):
        with pytest.raises(Exception, match="nested=True"):
            build(guard, says([REFUND]), tools_of_shop(shop), nested=True).invoke(user(), thread("alone"))
    assert shop.refunds == [("W1", 50)]
