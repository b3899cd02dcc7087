"""Agents of the OpenAI Agents SDK whose model follows a script."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from guardagent.enforcement import ToolGuard
from guardagent.frameworks.openai_agents import guarded
from tests.frameworks.scenarios import Shop

_numbers = itertools.count(1)
QUIET = {"tracing_disabled": True}


def calls(*proposed: tuple[str, Any] | str) -> list[Any]:
    """Returns one turn of the model: calls as (tool, arguments), or messages."""
    return [
        assistant_message(part)
        if isinstance(part, str)
        else function_call(part[0], part[1] if isinstance(part[1], str) else json.dumps(part[1]), call_id=_id())
        for part in proposed
    ]


def _id() -> str:
    return f"call_{next(_numbers)}"


def refund(amount: Any, order_id: str = "W1") -> tuple[str, Any]:
    """Returns a refund that the model proposes."""
    return "refund", {"order_id": order_id, "amount": amount}


def tool(function: Callable[..., Any], name: str | None = None, **options: Any) -> Any:
    """Returns a function tool, not strict, so that arguments may be missing."""
    return function_tool(function, name_override=name or function.__name__, strict_mode=False, **options)


def shop_tools(shop: Shop, **options: Any) -> list[Any]:
    """Returns the shop's tools."""
    functions: list[Callable[..., Any]] = [shop.authenticate, shop.refund, shop.wire, shop.break_down]
    return [tool(function, **options) for function in functions]


def agent_of(guard: ToolGuard, tools: Iterable[Any], *turns: list[Any], **options: Any) -> Any:
    """Returns a guarded agent whose model follows a script."""
    unguarded = options.pop("unguarded", ())
    agent = Agent(options.pop("name", "clerk"), tools=list(tools), model=ScriptedModel(turns), **options)
    return guarded(agent, guard, unguarded=unguarded)


def config(conversation: str = "c1", **options: Any) -> RunConfig:
    """Returns a RunConfig without tracing."""
    return RunConfig(tracing_disabled=True, group_id=conversation, **options)


def ran(agent: Any, message: Any = "please", conversation: str = "c1", **options: Any) -> Any:
    """Runs an agent and returns the result."""
    return asyncio.run(arun(agent, message, conversation, **options))


async def arun(agent: Any, message: Any = "please", conversation: str = "c1", **options: Any) -> Any:
    """As `ran`."""
    context = options.pop("context", {"conversation_id": conversation})
    return await Runner.run(agent, message, context=context, run_config=config(conversation), **options)


def outputs(result: Any) -> list[str]:
    """Returns the outputs of the tool calls, as the model sees them."""
    return [str(item.output) for item in result.new_items if item.type == "tool_call_output_item"]
